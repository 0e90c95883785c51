//! What streams are refused for, what consumers hold, and how many may read.

use serde_json::Value;

use super::{
    client::{Client, Events, Face},
    served::{Limits, World},
};
use crate::http::Reply;

fn json(answer: &str) -> (u16, Value) {
    let reply = Reply::parse(answer);
    (reply.status, reply.json())
}

fn refused(world: &World, query: &str, status: u16, code: &str) -> Value {
    let (found, body) = json(&world.get(&format!("/api/v1/stream?{query}")));
    assert_eq!((found, body["error"]["code"].as_str()), (status, Some(code)), "{query}: {body}");
    body["error"].clone()
}

fn world(window: u32, blocks: u32) -> World {
    let mut world = World::new(9, 0, Limits { window, connections_max: 2, ..Limits::default() });
    (0..blocks).for_each(|_| world.mine());
    world
}

#[test]
fn wrong_requests_are_refused_by_name() {
    let world = world(100, 5);
    refused(&world, "from=nonsense", 400, "bad_cursor");
    refused(&world, "from_height=x", 400, "bad_parameter");
    refused(&world, "from_height=-1", 400, "bad_parameter");
    refused(&world, "from_height=99", 400, "above_tip");
    refused(&world, "from_height=1&from_height=2", 400, "bad_parameter");
    refused(&world, "hight=1", 400, "bad_parameter");
    refused(&world, "address=nonsense", 400, "bad_address");
    refused(&world, "script=ab", 400, "bad_script_hash");
    refused(&world, "asset=ab", 400, "bad_asset");
    refused(&world, "consumer=stream-nobody", 404, "unknown_consumer");
    refused(&world, "consumer=pruner", 400, "bad_name");
    let tip = world.tip();
    refused(&world, &format!("from={tip}&from_height=1"), 400, "bad_parameter");
    // A block that the chain never had.
    let other = utxokeep::stream::StreamCursor::behind(
        utxokeep_core::Height::new(3),
        utxokeep_core::BlockHash::from_bytes([7; 32]),
    );
    let other = utxokeep::stream::cursor_text(&other);
    assert!(refused(&world, &format!("from={other}"), 410, "past_window")["start_from"].is_u64());
}

#[test]
fn beyond_the_window_a_stream_is_gone_and_a_consumer_holds_it() {
    let mut world = world(12, 8);
    let (status, consumer) =
        json(&world.send("PUT", "/api/v1/consumers/stream-books?from_height=5"));
    assert_eq!((status, consumer["height"].as_u64()), (200, Some(5)), "{consumer}");
    (0..60).for_each(|_| world.mine());
    let (_, list) = json(&world.get("/api/v1/consumers"));
    assert_eq!(list["items"][0]["name"], "stream-books", "{list}");
    assert!(list["items"][0]["lag_blocks"].as_u64().unwrap() > 50, "{list}");
    // What it has not read is there, for it and for everybody.
    let mut events = Events::open(world.rest(), "/api/v1/stream?consumer=stream-books", "");
    assert_eq!(events.next().unwrap()["block"]["height"], 6);
    let seventh = events.next().unwrap();
    assert_eq!(seventh["block"]["height"], 7);
    drop(events);
    // It comes back with its cursor, which says how far it has come.
    let from = seventh["cursor"].as_str().unwrap();
    let path = format!("/api/v1/stream?consumer=stream-books&from={from}");
    assert_eq!(Events::open(world.rest(), &path, "").next().unwrap()["block"]["height"], 8);
    let (_, list) = json(&world.get("/api/v1/consumers"));
    assert_eq!(list["items"][0]["height"], 7, "{list}");
    // Nobody else's row can be changed.
    assert_eq!(json(&world.send("DELETE", "/api/v1/consumers/pruner")).0, 400);
    assert_eq!(json(&world.send("DELETE", "/api/v1/consumers/stream-books")).0, 200);
    assert_eq!(json(&world.send("DELETE", "/api/v1/consumers/stream-books")).0, 404);
    (0..20).for_each(|_| world.mine());
    let gone = refused(&world, &format!("from={from}"), 410, "past_window");
    let start = u32::try_from(gone["start_from"].as_u64().unwrap()).unwrap();
    assert_eq!(refused(&world, "from_height=5", 410, "past_window")["start_from"], start);
    let put = world.send("PUT", "/api/v1/consumers/stream-books?from_height=5");
    assert_eq!(json(&put).0, 410);
    let path = format!("/api/v1/stream?from_height={start}");
    let first = Events::open(world.rest(), &path, "").next().unwrap();
    assert_eq!(first["block"]["height"], start + 1);
}

#[test]
fn more_streams_than_allowed_are_told_to_come_back() {
    let world = world(100, 5);
    let mut clients = [Client::new(Face::Rest, false, 0), Client::new(Face::Grpc, false, 0)];
    for client in &mut clients {
        client.connect(&world);
    }
    refused(&world, "", 503, "overloaded");
    clients[0].hang_up();
    crate::program::until("there is a place again", || {
        Events::try_open(world.rest(), "/api/v1/stream?from_height=0", "").is_ok()
    });
}
