//! The change stream: whoever keeps a set by it has the set of the index, whatever is cut off.

mod cardano;
mod chain_events;
mod client;
mod program;
mod refusals;
mod roots;
mod served;

use client::{Cause, Client, Face, Told};
use served::{Dice, Limits, World};

/// Blocks of the long run.
const BLOCKS: u32 = 1_000;

/// Which clients watch everything, and which some owners; over which face.
const CLIENTS: [(Face, bool); 4] =
    [(Face::Rest, false), (Face::Rest, true), (Face::Grpc, false), (Face::Grpc, true)];

/// Clients are cut off at random, in the middle of blocks and of events, and servers and databases are
/// closed and opened again. At every tip that a client reaches, its set is that of the index.
#[test]
fn sets_kept_by_cut_off_clients_equal_the_index_at_every_tip() {
    let mut dice = Dice(20_261_118);
    let limits = Limits { event_outputs_max: 3, ..Limits::default() };
    let mut world = World::new(7, 25, limits);
    world.mine();
    let mut clients: Vec<Client> =
        CLIENTS.map(|(face, is_filtered)| Client::new(face, is_filtered, 0)).into();
    let (mut compared, mut cuts, mut restarts) = (0u32, 0u32, 0u32);
    for _ in 0..BLOCKS {
        world.mine();
        if dice.roll(100) == 0 {
            restarts += 1;
            clients.iter_mut().for_each(Client::hang_up);
            world = world.restarted();
        }
        for client in &mut clients {
            if dice.roll(5) == 0 {
                // It is away for this block, with its connection or without.
                continue;
            }
            while dice.roll(3) == 0 {
                cuts += 1;
                client.read_some(&world, dice.roll(4));
                client.hang_up();
            }
            client.read_to_tip(&world);
            assert_eq!(client.set(), &world.set(client.watched()), "{client:?}");
            compared += 1;
        }
    }
    for client in &mut clients {
        client.read_to_tip(&world);
        assert_eq!(client.set(), &world.set(client.watched()), "{client:?}");
        assert!(client.count("undo") > 10 && client.count("apply") > 100, "{client:?}");
    }
    assert!(clients[1].count("checkpoint") > 10, "{:?}", clients[1]);
    assert!(compared > 2 * BLOCKS && cuts > 500 && restarts > 3, "{compared} {cuts} {restarts}");
}

/// The comparison is worth something: one event less, or one event twice, does not pass it.
#[test]
fn an_event_that_is_skipped_or_repeated_is_noticed() {
    let mut world = World::new(11, 30, Limits { event_outputs_max: 3, ..Limits::default() });
    world.mine();
    let mut client = Client::new(Face::Rest, false, 0);
    client.record();
    for _ in 0..140 {
        world.mine();
        client.read_to_tip(&world);
    }
    let told: Vec<Told> = client.recorded().to_vec();
    let kept = |events: &mut dyn Iterator<Item = &Told>| {
        let mut set = client::Kept::default();
        for event in events {
            set.take(event)?;
        }
        Ok::<_, String>(set.outputs)
    };
    let whole = world.set(&[]);
    assert_eq!(kept(&mut told.iter()), Ok(whole.clone()));
    assert!(told.iter().any(|event| event.name == "undo"));
    for at in 0..told.len() {
        let without = told.iter().enumerate().filter(|(place, _)| *place != at);
        let skipped = kept(&mut without.map(|(_, event)| event));
        let twice = told.iter().enumerate();
        let twice =
            twice.flat_map(|(place, one)| std::iter::repeat_n(one, 1 + usize::from(place == at)));
        let repeated = kept(&mut twice.into_iter());
        if told[at].changes() > 0 {
            assert_ne!(skipped, Ok(whole.clone()), "event {at} of {}", told.len());
            assert_ne!(repeated, Ok(whole.clone()), "event {at} of {}", told.len());
        }
    }
}

/// A client that takes nothing is cut off, is told so with its cursor, and misses nothing.
#[test]
fn a_slow_reader_is_cut_off_with_its_cursor() {
    for face in [Face::Rest, Face::Grpc] {
        let limits = Limits {
            buffer_kib_max: 64,
            slow_reader_secs_max: 1,
            window: 400,
            ..Limits::default()
        };
        let mut world = World::with_large_blocks(3, limits);
        for _ in 0..220 {
            world.mine();
        }
        let mut client = Client::new(face, false, 0);
        client.connect(&world);
        world.wait_for_cut(face, "slow_reader");
        let cut = client.read_to_cut();
        assert_eq!(cut, Cause { reason: "slow_reader".to_owned(), cursor: client.cursor() });
        client.hang_up();
        client.read_to_tip(&world);
        assert_eq!(client.set(), &world.set(&[]));
    }
}

/// A server that stops says so, and where to go on.
#[test]
fn a_server_that_stops_ends_its_streams_with_a_last_event() {
    for face in [Face::Rest, Face::Grpc] {
        let mut world = World::new(5, 10, Limits::default());
        for _ in 0..20 {
            world.mine();
        }
        let mut client = Client::new(face, false, 0);
        client.read_to_tip(&world);
        world.ask_to_stop();
        let cut = client.read_to_cut();
        assert_eq!(cut, Cause { reason: "server_stops".to_owned(), cursor: client.cursor() });
        world.ended();
    }
}
