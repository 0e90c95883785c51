//! Every method of the contract does what it says.

use std::time::{Duration, Instant};

use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use utxokeep::config::PrunerConfig;
use utxokeep_server::grpc::proto::{
    self, PrunerBacklogState, PrunerJobState, PrunerTriggerMode, pruner_restore_request::What,
};

use utxokeep_testkit::pruner::reach;

use crate::pruner::{
    program::until,
    served::{Served, block},
    world::{CHILD_STABLE, HEIGHT},
};

fn id(txid: utxokeep_core::Txid) -> Vec<u8> {
    txid.as_bytes().to_vec()
}

#[test]
fn a_block_starts_a_run_that_deletes_what_is_due_and_nothing_else() {
    let served = Served::start(5, &PrunerConfig::default());
    served.block(297);
    let early = served.wait_for(297);
    assert_eq!((early.state(), early.report.unwrap().deleted), (PrunerJobState::Completed, 0));
    served.block(HEIGHT);
    let job = served.wait_for(HEIGHT);
    let report = job.report.unwrap();
    assert_eq!((report.examined, report.deleted, report.is_complete), (6, 5, true));
    let kept = vec![proto::PrunerKept { reason: "child_young".to_owned(), records: 1 }];
    assert_eq!(report.kept, kept);
    let phases: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(phases, ["preserve_parents", "expire_preservations", "delete"]);
    assert_eq!(served.world.due_left(served.store.as_ref()), 0);

    let jobs = served.jobs();
    let heights: Vec<u32> = jobs.iter().map(|job| job.height).collect();
    assert_eq!(heights, [HEIGHT, 297], "newest first");
    assert!(jobs[0].started_ms > 1_600_000_000_000, "times are those of the wall");
    let one = served.ok(served.pruner().jobs(proto::PrunerJobsRequest { limit: 1 })).jobs;
    assert_eq!(one.len(), 1);
    let status = served.ok(served.pruner().status(proto::PrunerStatusRequest {}));
    assert_eq!(status.completed_height, Some(HEIGHT));
    assert_eq!((status.examined, status.deleted), (6, 5));
    assert_eq!(status.trigger(), PrunerTriggerMode::Auto);
    assert_eq!(status.backlog_state(), PrunerBacklogState::Ok);
}

#[test]
fn a_paused_pruner_skips_and_goes_on_with_the_newest_height() {
    let served = Served::start(3, &PrunerConfig::default());
    served.ok(served.pruner().pause(proto::PrunerPauseRequest {}));
    served.block(HEIGHT);
    let job = served.wait_for(HEIGHT);
    assert_eq!(
        (job.state(), job.skip_reason.as_deref()),
        (PrunerJobState::Skipped, Some("paused"))
    );
    assert_eq!(served.world.due_left(served.store.as_ref()), 3);
    assert!(served.ok(served.pruner().status(proto::PrunerStatusRequest {})).is_paused);
    served.ok(served.pruner().resume(proto::PrunerResumeRequest {}));
    until("the run follows", || served.world.due_left(served.store.as_ref()) == 0);
}

#[test]
fn explain_backlog_and_dry_run_agree_with_the_run() {
    let served = Served::start(4, &PrunerConfig::default());
    let height = Some(HEIGHT);
    let explained = served.ok(served
        .pruner()
        .explain(proto::PrunerExplainRequest { txid: id(served.world.parent), height }));
    assert_eq!((explained.height, explained.can_be_deleted), (HEIGHT, false));
    let expected = proto::PrunerBlocking {
        reason: "child_young".to_owned(),
        child: Some(id(served.world.child)),
        until_height: Some(CHILD_STABLE),
    };
    assert_eq!(explained.blocking, [expected]);
    let missing = proto::PrunerExplainRequest { txid: vec![9; 32], height };
    let missing = served.ok(served.pruner().explain(missing));
    assert_eq!(missing.blocking[0].reason, "missing");

    let backlog = served.ok(served.pruner().backlog(proto::PrunerBacklogRequest { height }));
    assert_eq!((backlog.records, backlog.oldest_height), (5, Some(298)));
    assert_eq!(backlog.ages.iter().map(|age| age.records).sum::<u64>(), 5);

    let said = served.ok(served.pruner().dry_run(proto::PrunerDryRunRequest { height }));
    let said = said.report.unwrap();
    assert!(said.bytes > 0);
    assert_eq!(served.world.due_left(served.store.as_ref()), 4);
    served.block(HEIGHT);
    let did = served.wait_for(HEIGHT).report.unwrap();
    assert_eq!((said.examined, said.deleted, &said.kept), (did.examined, did.deleted, &did.kept));
}

#[test]
fn preserved_transactions_stay_and_deleted_ones_come_back() {
    let served = Served::start(4, &PrunerConfig { undo_blocks: 5, ..PrunerConfig::default() });
    let txids = vec![id(served.world.due[0]), vec![9; 32]];
    let kept = proto::PrunerPreserveRequest { txids, until_height: 1_000 };
    assert_eq!(served.ok(served.pruner().preserve(kept)).preserved, 1);
    served.block(HEIGHT);
    assert_eq!(served.wait_for(HEIGHT).report.unwrap().deleted, 3);

    let restore = |what| {
        let request = proto::PrunerRestoreRequest { what: Some(what), newest_height: None };
        served.ok(served.pruner().restore(request)).restored
    };
    assert_eq!(restore(What::Txid(id(served.world.due[1]))), 1);
    assert_eq!(restore(What::Txid(id(served.world.due[1]))), 0, "it is there");
    assert_eq!(restore(What::PrunedAtHeight(HEIGHT)), 2);
    assert_eq!(restore(What::PrunedAtHeight(HEIGHT - 1)), 0);
    assert_eq!(served.world.due_left(served.store.as_ref()), 4);
}

#[test]
fn a_transaction_whose_input_another_one_has_does_not_come_back() {
    let served = Served::start(2, &PrunerConfig { undo_blocks: 5, ..PrunerConfig::default() });
    let first = served.world.spend_coin(&served.store);
    served.block(HEIGHT);
    assert_eq!(served.wait_for(HEIGHT).report.unwrap().deleted, 3);
    let taker = served.world.spend_coin_again(&served.store, first);
    let restore = |what| {
        let request = proto::PrunerRestoreRequest { what: Some(what), newest_height: None };
        served.ok(served.pruner().restore(request))
    };
    for (what, restored) in [(What::Txid(id(first)), 0), (What::PrunedAtHeight(HEIGHT), 2)] {
        let answer = restore(what);
        assert_eq!((answer.restored, answer.refused), (restored, 1));
        let error = &answer.errors[0];
        assert_eq!((&error.txid, error.code()), (&id(first), proto::ErrorCode::UtxoError));
        let input = error.inputs[0].error.as_ref().unwrap();
        assert_eq!(input.code(), proto::ErrorCode::UtxoSpent);
        assert_eq!(input.spent_by.as_ref().unwrap().txid, id(taker));
    }
    served.world.give_coin_back(&served.store, taker);
    assert_eq!(restore(What::Txid(id(first))).restored, 1, "what was refused is still remembered");
}

#[test]
fn a_run_by_hand_waits_for_its_turn_and_happens_once() {
    let served = Served::start(2, &PrunerConfig::default());
    let at = |height| proto::PrunerTriggerRequest { height };
    reach(served.store.as_ref(), HEIGHT);
    assert_eq!(served.ok(served.pruner().trigger(at(Some(HEIGHT)))).height, Some(HEIGHT));
    served.wait_for(HEIGHT);
    assert_eq!(served.world.due_left(served.store.as_ref()), 0);
    assert_eq!(served.ok(served.pruner().trigger(at(Some(HEIGHT)))).height, None, "it is done");
}

#[test]
fn the_gate_waits_for_marks_and_for_block_assembly() {
    let config = PrunerConfig { gate_poll_ms: 5.try_into().unwrap(), ..PrunerConfig::default() };
    let served = Served::start(2, &config);
    reach(served.store.as_ref(), 200);
    let assembly = |is_running, height| {
        let request = proto::ChainEventsAssemblyStateRequest { is_running, height };
        served.ok(served.events().assembly_state(request));
    };
    let marked = |height, mined_set_height| {
        let request = proto::ChainEventsBlockRequest {
            mined_set_height: Some(mined_set_height),
            ..block(height)
        };
        served.ok(served.events().block(request));
    };
    let waits = || {
        std::thread::sleep(Duration::from_millis(60));
        let running = served.ok(served.pruner().status(proto::PrunerStatusRequest {})).running;
        running.is_some_and(|job| job.state() == PrunerJobState::Waiting)
    };
    assembly(false, HEIGHT);
    marked(HEIGHT, HEIGHT - 1);
    assert!(waits(), "the block is not marked");
    marked(HEIGHT, HEIGHT + 1);
    assert!(waits(), "block assembly does not run");
    assembly(true, HEIGHT - 1);
    assert!(waits(), "block assembly has not caught up");
    assert_eq!(served.world.due_left(served.store.as_ref()), 2);
    assembly(true, HEIGHT + 1);
    served.wait_for(HEIGHT);
    assert_eq!(served.world.due_left(served.store.as_ref()), 0);

    let fork = proto::ChainEventsReorganisationRequest { fork_height: HEIGHT - 2 };
    served.ok(served.events().reorganisation(fork));
    served.block(HEIGHT + 1);
    assert!(waits(), "the chain went back, so everything has to be reported again");
    marked(HEIGHT + 1, HEIGHT + 1);
    assert!(waits(), "block assembly too");
    assembly(true, HEIGHT + 1);
    served.wait_for(HEIGHT + 1);
}

#[test]
fn a_node_that_catches_up_is_left_alone_if_so_configured() {
    let config = PrunerConfig { skip_during_catch_up: true, ..PrunerConfig::default() };
    let served = Served::start(2, &config);
    reach(served.store.as_ref(), 200);
    let catching_up = |height, is_catching_up| proto::ChainEventsBlockRequest {
        is_catching_up: Some(is_catching_up),
        ..block(height)
    };
    served.ok(served.events().block(catching_up(HEIGHT, true)));
    assert_eq!(served.wait_for(HEIGHT).skip_reason.as_deref(), Some("catching_up"));
    served.ok(served.events().block(catching_up(HEIGHT + 1, false)));
    assert_eq!(served.wait_for(HEIGHT + 1).report.unwrap().deleted, 2);
}

/// Blocks that nobody prunes, because block assembly stands still.
fn fall_behind(served: &Served) {
    let stands = proto::ChainEventsAssemblyStateRequest { is_running: false, height: 0 };
    served.ok(served.events().assembly_state(stands));
    for height in 300..310 {
        served.block(height);
    }
}

fn grpc_health(served: &Served, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.to_owned() };
    served.ok(HealthClient::new(served.channel()).check(request)).status()
}

#[test]
fn being_behind_fails_readiness_where_configured() {
    let served = Served::start(0, &PrunerConfig::default());
    let health = served.ok(served.pruner().health(proto::PrunerHealthRequest {}));
    assert!(health.is_ready, "{health:?}");
    let names: Vec<&str> = health.dependencies.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["store", "chain state", "block assembly", "backlog"]);
    assert_eq!(grpc_health(&served, "utxokeep.v1.Pruner"), ServingStatus::Serving);
    fall_behind(&served);
    let status = served.ok(served.pruner().status(proto::PrunerStatusRequest {}));
    assert_eq!(status.backlog_state(), PrunerBacklogState::Behind, "{status:?}");
    let health = served.ok(served.pruner().health(proto::PrunerHealthRequest {}));
    assert!(!health.is_ready);
    let fault = health.dependencies[3].fault.as_ref().unwrap();
    assert!(fault.contains("blocks behind"), "{fault}");
    until("the health service tells it", || {
        grpc_health(&served, "utxokeep.v1.Pruner") == ServingStatus::NotServing
    });
    for service in ["utxokeep.v1.ChainEvents", "utxokeep.v1.TxStore"] {
        assert_eq!(grpc_health(&served, service), ServingStatus::Serving, "{service}");
    }

    let config = PrunerConfig { backlog_fails_readiness: false, ..PrunerConfig::default() };
    let served = Served::start(0, &config);
    fall_behind(&served);
    assert!(served.ok(served.pruner().health(proto::PrunerHealthRequest {})).is_ready);
}

#[test]
fn a_run_ends_within_a_second_once_the_pruner_is_stopped() {
    let chunk = |rows: u32| rows.try_into().unwrap();
    let config =
        PrunerConfig { chunk_rows: chunk(1), parallel_chunks: chunk(1), ..Default::default() };
    let served = Served::start(50_000, &config);
    served.block(HEIGHT);
    let deleted = || served.ok(served.pruner().status(proto::PrunerStatusRequest {})).deleted;
    until("the run goes on", || deleted() > 0);
    let began = Instant::now();
    served.pruning.stop();
    let job = served.wait_for(HEIGHT);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(job.state(), PrunerJobState::Cancelled);
    let left = served.world.due_left(served.store.as_ref()) as u64;
    assert_eq!(left + job.report.unwrap().deleted, 50_000);
    assert!(left > 0);
}
