//! Servers that misbehave on purpose, and what callers are told.

use std::sync::Mutex;

use super::*;
use crate::redis::{
    client::{Connection, Connector, Future, Lost},
    options::RedisOptions,
    probe::Purpose,
};

/// Answers a pipeline; the second argument tells how many came before it.
type Script = dyn Fn(&Address, usize, &[Command]) -> Result<Vec<Reply>, Lost> + Send + Sync;

/// Ports and pipelines, in order.
type Sent = Vec<(u16, Vec<Command>)>;

/// Two primaries, one replica each, that follow a script for everything but questions about the
/// cluster.
struct Scripted {
    nodes: &'static str,
    script: Arc<Script>,
    sent: Arc<Mutex<Sent>>,
}

const NODES: &str = "\
aa h:1@11 master - 0 0 1 connected 0-8191
bb h:2@12 master - 0 0 2 connected 8192-16383
cc h:3@13 slave aa 0 0 1 connected
dd h:4@14 slave bb 0 0 2 connected
";

/// The same, whose second primary has lost its replica.
const NODES_WITHOUT_ONE: &str = "\
aa h:1@11 master - 0 0 1 connected 0-8191
bb h:2@12 master - 0 0 2 connected 8192-16383
cc h:3@13 slave aa 0 0 1 connected
";

fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

struct ScriptedConnection {
    nodes: &'static str,
    address: Address,
    script: Arc<Script>,
    sent: Arc<Mutex<Sent>>,
}

impl Connection for ScriptedConnection {
    fn is_open(&self) -> bool {
        true
    }

    fn pipeline(&self, commands: Vec<Command>) -> Future<'_, Result<Vec<Reply>, Lost>> {
        let answer = match commands[0].name {
            "CLUSTER" => Ok(vec![bytes(self.nodes)]),
            "CONFIG" => Ok(vec![Reply::List(vec![bytes("appendfsync"), bytes("always")])]),
            "INFO" => Ok(vec![bytes(
                "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n",
            )]),
            _ => {
                let mut sent = self.sent.lock().unwrap();
                let answer = (self.script)(&self.address, sent.len(), &commands);
                sent.push((self.address.port, commands));
                answer
            }
        };
        Box::pin(async move { answer })
    }
}

impl Connector for Scripted {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
    ) -> Future<'a, Result<Box<dyn Connection>, Lost>> {
        let (script, sent) = (Arc::clone(&self.script), Arc::clone(&self.sent));
        let (nodes, address) = (self.nodes, address.clone());
        let connection = ScriptedConnection { nodes, address, script, sent };
        Box::pin(async move { Ok(Box::new(connection) as Box<dyn Connection>) })
    }
}

/// Sends two writes, one to each primary, and gives outcomes and what was sent.
fn run(
    parameters: &str,
    kind: Kind,
    script: impl Fn(&Address, usize, &[Command]) -> Result<Vec<Reply>, Lost> + Send + Sync + 'static,
) -> (Vec<Outcome>, Sent) {
    run_on(NODES, parameters, kind, script)
}

/// The same on servers that are described so.
fn run_on(
    nodes: &'static str,
    parameters: &str,
    kind: Kind,
    script: impl Fn(&Address, usize, &[Command]) -> Result<Vec<Reply>, Lost> + Send + Sync + 'static,
) -> (Vec<Outcome>, Sent) {
    let options = RedisOptions::parse(&format!("redis://h:1?{parameters}")).unwrap();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let connector = Scripted { nodes, script: Arc::new(script), sent: Arc::clone(&sent) };
    let cluster = Arc::new(Cluster::new(options, Purpose::Write, Arc::new(connector)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let items = [1, 9_000].map(|slot| Item { slot, command: Command::new("FCALL").arg("k") });
    let outcomes = runtime.block_on(async {
        cluster.look_up().await.unwrap();
        cluster.send(items.to_vec(), kind).await
    });
    let sent = sent.lock().unwrap().clone();
    (outcomes, sent)
}

const SAFE: Kind = Kind::Write { has_barrier: true };

/// Done, and so many replicas.
fn done(commands: &[Command], replicas: i64) -> Vec<Reply> {
    let reply = |command: &Command| match command.name {
        "WAIT" => Reply::Number(replicas),
        "ASKING" => bytes("OK"),
        _ => bytes("D"),
    };
    commands.iter().map(reply).collect()
}

#[test]
fn a_barrier_is_asked_for_behind_its_writes_on_the_same_connection() {
    let (outcomes, sent) = run("", SAFE, |_, _, commands| Ok(done(commands, 1)));
    assert_eq!(outcomes, vec![Outcome::Answered(bytes("D")); 2]);
    for (_, commands) in &sent {
        let names: Vec<&str> = commands.iter().map(|command| command.name).collect();
        assert_eq!(names, ["FCALL", "WAIT"]);
        assert_eq!(commands[1].args[0], b"1", "the only replica of the shard");
    }
    let (_, sent) = run("ack=primary", SAFE, |_, _, commands| Ok(done(commands, 0)));
    assert!(sent.iter().all(|(_, commands)| commands.len() == 1), "nobody to wait for");
}

#[test]
fn a_primary_without_a_replica_acknowledges_nothing_that_is_to_be_on_two_servers() {
    for parameters in ["ack=replica", "ack=disk"] {
        let (outcomes, sent) =
            run_on(NODES_WITHOUT_ONE, parameters, SAFE, |address, _, commands| {
                Ok(done(commands, i64::from(address.port == 1)))
            });
        assert_eq!(outcomes[0], Outcome::Answered(bytes("D")), "{parameters}");
        let is_missed =
            matches!(&outcomes[1], Outcome::InDoubt(why) if why.contains("0 of 1 replicas"));
        assert!(is_missed, "{parameters}: {:?}", outcomes[1]);
        let waits = |(_, commands): &(u16, Vec<Command>)| commands.iter().any(|c| c.name == "WAIT");
        assert!(sent.iter().all(waits), "{parameters}: {sent:?}");
    }
}

#[test]
fn a_barrier_that_is_not_reached_leaves_its_writes_in_doubt() {
    let (outcomes, sent) =
        run("", SAFE, |address, _, commands| Ok(done(commands, i64::from(address.port == 1))));
    assert_eq!(outcomes[0], Outcome::Answered(bytes("D")));
    assert!(matches!(&outcomes[1], Outcome::InDoubt(why) if why.contains("0 of 1 replicas")));
    assert_eq!(sent.len(), 2, "what is in doubt is not sent again");
}

#[test]
fn a_connection_that_is_lost_leaves_writes_in_doubt_and_reads_tried_again() {
    let lose_first = |_: &Address, number: usize, commands: &[Command]| match number {
        0 | 1 => Err(Lost { what: "reset".to_owned() }),
        _ => Ok(done(commands, 1)),
    };
    let (outcomes, sent) = run("", SAFE, lose_first);
    assert_eq!(outcomes, vec![Outcome::InDoubt("reset".to_owned()); 2]);
    assert_eq!(sent.len(), 2);
    let (outcomes, sent) = run("", Kind::Read, lose_first);
    assert_eq!(outcomes, vec![Outcome::Answered(bytes("D")); 2]);
    assert_eq!(sent.len(), 4);
}

#[test]
fn an_answer_that_is_not_known_leaves_a_write_in_doubt() {
    let (outcomes, sent) = run("", SAFE, |_, _, commands| {
        let mut replies = done(commands, 1);
        replies[0] = Reply::Error("NEWERROR of a later version".to_owned());
        Ok(replies)
    });
    assert!(matches!(&outcomes[0], Outcome::InDoubt(why) if why.starts_with("NEWERROR")));
    assert_eq!(sent.len(), 2);
}

#[test]
fn writes_that_did_not_happen_follow_their_slot() {
    for (error, port) in [
        ("MOVED 1 h:2", 2),
        ("ASK 1 h:2", 2),
        ("TRYAGAIN later", 1),
        ("LOADING the dataset", 1),
        ("CLUSTERDOWN for now", 1),
    ] {
        let (outcomes, sent) = run("retry_base_ms=1", SAFE, move |_, number, commands| {
            let mut replies = done(commands, 1);
            if number == 0 {
                replies[0] = Reply::Error(error.to_owned());
            }
            Ok(replies)
        });
        assert_eq!(outcomes, vec![Outcome::Answered(bytes("D")); 2], "{error}");
        let (last_port, last) = sent.last().unwrap();
        assert_eq!((sent.len(), *last_port), (3, port), "{error}");
        assert_eq!(last[0].name == "ASKING", error.starts_with("ASK"), "{error}");
    }
}

#[test]
fn a_write_that_is_refused_every_time_did_not_happen() {
    let (outcomes, sent) = run("retry_base_ms=1&retry_for_ms=20", SAFE, |_, _, commands| {
        let mut replies = done(commands, 1);
        replies[0] = Reply::Error("TRYAGAIN later".to_owned());
        Ok(replies)
    });
    assert_eq!(outcomes, vec![Outcome::Unavailable("TRYAGAIN later".to_owned()); 2]);
    assert!(sent.len() > 2);
    let (outcomes, sent) = run("", SAFE, |_, _, commands| {
        let mut replies = done(commands, 1);
        replies[0] = Reply::Error("OOM command not allowed".to_owned());
        Ok(replies)
    });
    assert!(matches!(&outcomes[0], Outcome::Unavailable(why) if why.starts_with("OOM")));
    assert_eq!(sent.len(), 2, "it does not help to try again");
}

#[test]
fn pipelines_are_cut_at_their_limit_each_with_a_barrier() {
    let options = RedisOptions::parse("redis://h:1?pipeline_bytes_max=1024").unwrap();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let script: Arc<Script> = Arc::new(|_, _, commands: &[Command]| Ok(done(commands, 1)));
    let connector = Scripted { nodes: NODES, script, sent: Arc::clone(&sent) };
    let cluster = Arc::new(Cluster::new(options, Purpose::Write, Arc::new(connector)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let item = |_| Item { slot: 1, command: Command::new("FCALL").arg(vec![0; 400]) };
    let outcomes = runtime.block_on(async {
        cluster.look_up().await.unwrap();
        cluster.send((0..5).map(item).collect(), SAFE).await
    });
    assert_eq!(outcomes.len(), 5);
    let lengths: Vec<usize> = sent.lock().unwrap().iter().map(|(_, c)| c.len()).collect();
    assert_eq!(lengths, [3, 3, 2], "two writes and a barrier, then the rest");
}
