//! `utxokeep pruner serve`: the pruner without the node store's own server.

use utxokeep_server::grpc::proto::{
    self, chain_events_client::ChainEventsClient, tx_store_client::TxStoreClient,
};

use crate::pruner::{
    program::{Program, User, until},
    world::{HEIGHT, World},
};

fn serve(user: &User) -> Program {
    let args = ["pruner", "serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"];
    let mut command = user.command(&args);
    command.args(["--store", &user.url]);
    Program::start(command)
}

#[test]
fn it_prunes_a_store_and_serves_only_its_own_services() {
    let user = User::new("sqlite", "trigger = \"block_persisted\"");
    let world = World::make(&user.url, 3, None);
    let program = serve(&user);
    program.block(HEIGHT);
    let mut events = ChainEventsClient::new(program.channel());
    let request = proto::ChainEventsBlockPersistedRequest { height: HEIGHT };
    program.runtime.block_on(events.block_persisted(request)).unwrap();
    program.wait_for(HEIGHT);
    assert_eq!(world.due_left_at(&user.url), 0);

    let mut store = TxStoreClient::new(program.channel());
    let status = program.runtime.block_on(store.get_block_state(proto::GetBlockStateRequest {}));
    assert_eq!(status.unwrap_err().code(), tonic::Code::Unimplemented);
    assert!(program.get("/metrics").contains("utxokeep_pruner_records_deleted_total 3"));
    assert!(program.get("/health").contains(" 200 OK"));
    program.terminate();
}

#[test]
fn being_behind_fails_readiness_and_never_liveness() {
    let user = User::new("sqlite", "");
    World::make(&user.url, 0, None);
    let program = serve(&user);
    assert!(program.get("/health/ready").contains("\"status\":\"ready\""));
    let mut events = ChainEventsClient::new(program.channel());
    let stands = proto::ChainEventsAssemblyStateRequest { is_running: false, height: 0 };
    program.runtime.block_on(events.assembly_state(stands)).unwrap();
    for height in 300..310 {
        program.block(height);
    }
    until("it is not ready", || program.get("/health/ready").contains(" 503 "));
    let ready = program.get("/health/ready");
    for name in ["store", "chain state", "block assembly", "backlog"] {
        assert!(ready.contains(&format!("\"name\":\"{name}\"")), "{ready}");
    }
    assert!(ready.contains("blocks behind"), "{ready}");
    assert!(program.get("/health/live").contains(" 200 OK"));
    program.terminate();
}

#[test]
fn it_needs_a_store_that_nobody_else_has() {
    let user = User::new("rocksdb", "");
    let _open = utxokeep::node_store::open(
        &user.url,
        &crate::pruner::world::config(),
        utxokeep_core::OpenMode::Create,
    )
    .unwrap();
    let (code, _, told) = user.run(&["pruner", "serve"]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("in use"), "{told}");
}
