//! Ways to make a running server delete, or lose, what is still needed. Each is tried from outside,
//! over gRPC, as a node or an operator would bring it about.

use std::fs;

use tonic::Code;
use utxokeep_core::Txid;
use utxokeep_server::grpc::proto::{self, get_result, item_result, tx_store_client::TxStoreClient};

use crate::pruner::{
    program::{Program, User, until},
    world::{CHILD_STABLE, HEIGHT, World},
};

fn client(program: &Program) -> TxStoreClient<tonic::transport::Channel> {
    TxStoreClient::new(program.channel())
}

fn get(
    program: &Program,
    txid: &[u8],
    body: bool,
) -> Result<Option<proto::StoredTransaction>, tonic::Status> {
    let fields = Some(proto::Fields { body, slots: false });
    let request = proto::GetRequest { txids: vec![txid.to_vec()], fields };
    let mut client = client(program);
    let answer = program.runtime.block_on(client.get(request))?.into_inner();
    Ok(match answer.results.into_iter().next().unwrap().result.unwrap() {
        get_result::Result::Ok(stored) => Some(stored),
        get_result::Result::Error(_) => None,
    })
}

/// A transaction whose only output has a script of this length.
fn transaction(name: u8, script_len: usize) -> proto::NewTransaction {
    let output = proto::Output { satoshis: 5, script: vec![0x51; script_len] };
    let previous = proto::Output { satoshis: 6, script: vec![0x51] };
    let outpoint = proto::OutPoint { txid: vec![0xaa; 32], vout: 0 };
    let input = proto::Input {
        outpoint: Some(outpoint),
        script: vec![name],
        sequence: 1,
        previous: Some(previous),
    };
    let transaction = proto::Transaction {
        txid: vec![name; 32],
        version: 1,
        lock_time: 7,
        is_coinbase: false,
        inputs: vec![input],
        outputs: vec![output],
        raw: Vec::new(),
    };
    proto::NewTransaction { transaction: Some(transaction), options: None }
}

fn create(program: &Program, transaction: proto::NewTransaction) -> Result<(), Box<proto::Error>> {
    let request = proto::CreateRequest { transactions: vec![transaction], height: 10 };
    let mut client = client(program);
    let answer = program.runtime.block_on(client.create(request)).unwrap().into_inner();
    match answer.results.into_iter().next().unwrap().result.unwrap() {
        item_result::Result::Ok(_) => Ok(()),
        item_result::Result::Error(error) => Err(Box::new(error)),
    }
}

/// A persister that was wrong once, and a node that is wrong once later, are not two witnesses.
#[test]
fn a_height_that_a_persister_took_back_is_no_second_witness() {
    let user = User::new("rocksdb", "");
    let world = World::make(&user.url, 3, Some(290));
    let program = user.serve();
    program.wait_for(290);
    program.persisted(1_000_000);
    assert_eq!(program.status().held_height, Some(1_000_000));
    program.persisted(290);
    assert_eq!(program.status().held_height, None);
    assert_eq!(program.one_block(1_000_000).held_height, Some(1_000_000), "one witness");
    assert_eq!(program.status().newest_height, Some(290));
    program.one_block(291);
    program.persisted(291);
    program.wait_for(291);
    program.terminate();
    assert_eq!(world.due_left_at(&user.url), 3, "they are due from 298 on");
}

/// The directory is moved away under the server, as an unmounted disk is.
#[test]
fn no_body_is_acknowledged_into_a_directory_that_was_made_anew() {
    let user = User::new("rocksdb", "");
    let files = user.home.path().join("files");
    let text = fs::read_to_string(user.home.path().join("utxokeep.toml")).unwrap();
    let blobs = format!("[txstore]\nblobs = \"file:{}\"\ninline_body_kib_max = 1", files.display());
    let text = text.replacen("[txstore]", &blobs, 1);
    fs::write(user.home.path().join("utxokeep.toml"), text).unwrap();
    let program = user.serve();
    create(&program, transaction(1, 5_000)).unwrap();
    let elsewhere = user.home.path().join("elsewhere");
    fs::rename(&files, &elsewhere).unwrap();
    fs::create_dir(&files).unwrap();
    let refused = create(&program, transaction(2, 5_000)).unwrap_err();
    assert_eq!(refused.code(), proto::ErrorCode::Storage, "{refused:?}");
    assert_eq!(fs::read_dir(&files).unwrap().count(), 0, "nothing was written there");
    assert!(get(&program, &[2; 32], false).unwrap().is_none());
    assert!(program.get("/health").contains(" 503 "));
    create(&program, transaction(3, 5)).unwrap();
    fs::remove_dir(&files).unwrap();
    fs::rename(&elsewhere, &files).unwrap();
    create(&program, transaction(2, 5_000)).unwrap();
    for name in [1, 2, 3] {
        assert!(get(&program, &[name; 32], true).unwrap().is_some(), "{name}");
    }
    program.terminate();
}

#[test]
fn the_loss_of_a_block_leaves_the_lock_of_an_operator() {
    for engine in ["rocksdb", "sqlite"] {
        let user = User::new(engine, "");
        let program = user.serve();
        create(&program, transaction(1, 5)).unwrap();
        let set_mined = |unset| {
            let request = proto::SetMinedRequest {
                txids: vec![vec![1; 32]],
                block: Some(proto::MinedBlock { id: 1, height: 11, subtree: 0 }),
                on_longest_chain: true,
                unset,
                unmined_since_height: 11,
            };
            let mut client = client(&program);
            program.runtime.block_on(client.set_mined(request)).unwrap();
        };
        let is_locked =
            || get(&program, &[1; 32], false).unwrap().unwrap().record.unwrap().is_locked;
        set_mined(false);
        let request =
            proto::SetLockedRequest { txids: vec![vec![1; 32]], is_locked: true, height: 11 };
        let mut store = client(&program);
        program.runtime.block_on(store.set_locked(request)).unwrap();
        set_mined(true);
        assert!(is_locked(), "{engine}: a reorganisation lifts no lock");
        set_mined(false);
        assert!(!is_locked(), "{engine}: a block does");
        program.terminate();
    }
}

/// A program that shares the store changes the window, while the server runs with the old one.
#[test]
fn a_service_with_a_window_that_was_replaced_deletes_nothing_and_says_so() {
    let user = User::new("sqlite", "");
    let world = World::make(&user.url, 0, None);
    let program = user.serve();
    program.block(HEIGHT);
    program.wait_for(HEIGHT);
    user.configure("safety_window_blocks = 400");
    user.json(&["tx", "settings", "--change"]);
    program.block(CHILD_STABLE);
    until("the run fails", || {
        let last = program.status().last;
        last.is_some_and(|job| job.height == CHILD_STABLE && job.error.is_some())
    });
    assert!(get(&program, world.parent.as_bytes(), false).unwrap().is_some());
    let told = program.status().waits_for;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].reason, "settings_changed");
    assert!(told[0].detail.contains("safety_window_blocks = 400"), "{told:?}");
    let ready = program.get("/health/ready");
    assert!(ready.contains(" 503 ") && ready.contains("safety_window_blocks = 400"), "{ready}");
    program.terminate();
    let program = user.serve();
    program.block(CHILD_STABLE + 112);
    program.wait_for(CHILD_STABLE + 112);
    assert!(get(&program, world.parent.as_bytes(), false).unwrap().is_none(), "by the new window");
    program.terminate();
}

/// Damage is told apart from everything that may pass, by every face.
#[test]
fn a_damaged_body_is_data_loss_over_grpc_and_code_5_on_the_command_line() {
    let user = User::new("sqlite", "");
    let program = user.serve();
    create(&program, transaction(1, 5)).unwrap();
    let whole = get(&program, &[1; 32], true).unwrap().unwrap().body.unwrap();
    assert_eq!(whole.lock_time, 7);
    let database = utxokeep_sql::Database::open(&user.url, &utxokeep_sql::Options::default());
    let changed: Result<u64, utxokeep_sql::SqlError> =
        database.unwrap().write(|tx| tx.execute("UPDATE node_transactions SET lock_time = 8", &[]));
    assert_eq!(changed.unwrap(), 1);
    let refused = get(&program, &[1; 32], true).unwrap_err();
    assert_eq!(refused.code(), Code::DataLoss, "{refused}");
    assert!(refused.message().contains("checksum is wrong"), "{refused}");
    assert!(get(&program, &[1; 32], false).unwrap().is_some(), "its record is whole");
    program.terminate();
    let txid = Txid::from_bytes([1; 32]).to_string();
    for args in [vec!["tx", "show", txid.as_str()], vec!["tx", "verify"]] {
        let (code, _, told) = user.run(&args);
        assert_eq!(code, Some(5), "{args:?}: {told}");
    }
}
