//! Requests that break the contract, or cannot be met now, change nothing and say why.

use tonic::Code;
use utxokeep::config::{PrunerConfig, PrunerTrigger};
use utxokeep_server::grpc::proto::{self, pruner_restore_request::What};

use crate::pruner::{
    served::{ITEMS_MAX, Served, block},
    world::HEIGHT,
};

#[test]
fn requests_that_break_the_contract_name_the_field() {
    let served = Served::start(1, &PrunerConfig::default());
    let zero = Some(0);
    let restore = |what| proto::PrunerRestoreRequest { what, newest_height: None };
    let preserve = |txids, until_height| proto::PrunerPreserveRequest { txids, until_height };
    let statuses = [
        (
            "height",
            served.refused(served.pruner().trigger(proto::PrunerTriggerRequest { height: zero })),
        ),
        (
            "height",
            served.refused(served.pruner().dry_run(proto::PrunerDryRunRequest { height: zero })),
        ),
        (
            "height",
            served.refused(served.pruner().backlog(proto::PrunerBacklogRequest { height: zero })),
        ),
        (
            "txid",
            served.refused(
                served
                    .pruner()
                    .explain(proto::PrunerExplainRequest { txid: vec![1; 31], height: None }),
            ),
        ),
        (
            "height",
            served.refused(
                served
                    .pruner()
                    .explain(proto::PrunerExplainRequest { txid: vec![1; 32], height: zero }),
            ),
        ),
        ("what", served.refused(served.pruner().restore(restore(None)))),
        ("txid", served.refused(served.pruner().restore(restore(Some(What::Txid(vec![])))))),
        (
            "pruned_at_height",
            served.refused(served.pruner().restore(restore(Some(What::PrunedAtHeight(0))))),
        ),
        ("until_height", served.refused(served.pruner().preserve(preserve(vec![], 0)))),
        ("txids[0]", served.refused(served.pruner().preserve(preserve(vec![vec![1; 33]], 9)))),
        (
            "txids",
            served.refused(served.pruner().preserve(preserve(vec![vec![1; 32]; ITEMS_MAX + 1], 9))),
        ),
        ("height", served.refused(served.events().block(block(0)))),
        (
            "mined_set_height",
            served.refused(
                served
                    .events()
                    .block(proto::ChainEventsBlockRequest { mined_set_height: zero, ..block(5) }),
            ),
        ),
        (
            "height",
            served.refused(
                served
                    .events()
                    .block_persisted(proto::ChainEventsBlockPersistedRequest { height: 0 }),
            ),
        ),
        (
            "fork_height",
            served.refused(
                served
                    .events()
                    .reorganisation(proto::ChainEventsReorganisationRequest { fork_height: 0 }),
            ),
        ),
    ];
    for (field, status) in statuses {
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().starts_with(&format!("{field}: ")), "{status}");
        assert!(status.message().ends_with("nothing was changed"), "{status}");
    }
    assert!(served.jobs().is_empty(), "none of them started a run");
}

#[test]
fn without_a_height_the_pruner_asks_for_one() {
    let served = Served::start(1, &PrunerConfig::default());
    let height = None;
    let explain = proto::PrunerExplainRequest { txid: vec![1; 32], height };
    let what = Some(What::Txid(vec![1; 32]));
    let restore = proto::PrunerRestoreRequest { what, newest_height: None };
    let statuses = [
        served.refused(served.pruner().trigger(proto::PrunerTriggerRequest { height })),
        served.refused(served.pruner().dry_run(proto::PrunerDryRunRequest { height })),
        served.refused(served.pruner().backlog(proto::PrunerBacklogRequest { height })),
        served.refused(served.pruner().explain(explain)),
        served.refused(served.pruner().restore(restore)),
    ];
    for status in statuses {
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(status.message().contains("no height is known"), "{status}");
    }
}

#[test]
fn a_run_ahead_of_the_chain_is_refused() {
    let served = Served::start(1, &PrunerConfig::default());
    served.block(200);
    served.wait_for(200);
    let request = proto::PrunerTriggerRequest { height: Some(HEIGHT) };
    let status = served.refused(served.pruner().trigger(request));
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("200"), "{status}");
    assert_eq!(served.world.due_left(served.store.as_ref()), 1);
}

#[test]
fn nothing_is_restored_where_nothing_is_remembered() {
    let served = Served::start(1, &PrunerConfig::default());
    served.block(HEIGHT);
    served.wait_for(HEIGHT);
    let txid = served.world.due[0].as_bytes().to_vec();
    for what in [What::Txid(txid), What::PrunedAtHeight(HEIGHT)] {
        let request = proto::PrunerRestoreRequest { what: Some(what), newest_height: None };
        let status = served.refused(served.pruner().restore(request));
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(status.message().contains("undo_blocks"), "{status}");
    }
}

#[test]
fn with_a_persister_blocks_alone_start_nothing() {
    let trigger = PrunerTrigger::BlockPersisted;
    let served = Served::start(1, &PrunerConfig { trigger, ..PrunerConfig::default() });
    assert_eq!(served.block(400), None);
    let request = proto::PrunerTriggerRequest { height: None };
    let status = served.refused(served.pruner().trigger(request));
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("BlockPersisted"), "{status}");
    let persisted = |height| {
        served.ok(served
            .events()
            .block_persisted(proto::ChainEventsBlockPersistedRequest { height }));
    };
    persisted(297);
    served.wait_for(297);
    assert_eq!(served.world.due_left(served.store.as_ref()), 1, "the persister is not there yet");
    persisted(HEIGHT);
    served.wait_for(HEIGHT);
    assert_eq!(served.world.due_left(served.store.as_ref()), 0);
    let status = served.ok(served.pruner().status(proto::PrunerStatusRequest {}));
    assert_eq!(status.persisted_height, Some(HEIGHT));
}

#[test]
fn a_wrong_height_deletes_nothing_and_silences_nobody() {
    let served = Served::start(1, &PrunerConfig::default());
    let trigger = |height| proto::PrunerTriggerRequest { height: Some(height) };
    let status = served.refused(served.pruner().trigger(trigger(u32::MAX)));
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("no height is known"), "{status}");
    served.block(200);
    served.wait_for(200);
    let reported = served.ok(served.events().block(block(4_000_000_000)));
    assert_eq!((reported.pending_height, reported.held_height), (None, Some(4_000_000_000)));
    let status = served.ok(served.pruner().status(proto::PrunerStatusRequest {}));
    assert_eq!((status.newest_height, status.held_height), (Some(200), Some(4_000_000_000)));
    assert_eq!(status.held_source.as_deref(), Some("block"));
    let health = served.ok(served.pruner().health(proto::PrunerHealthRequest {}));
    let fault = health.dependencies[1].fault.as_ref().unwrap();
    assert!(fault.contains("4000000000") && fault.contains("pruner confirm"), "{fault}");
    served.refused(served.pruner().trigger(trigger(4_000_000_000)));
    assert_eq!(served.world.due_left(served.store.as_ref()), 1);
    assert_eq!(served.block(HEIGHT), Some(HEIGHT), "runs go on");
    served.wait_for(HEIGHT);
    assert!(served.ok(served.pruner().health(proto::PrunerHealthRequest {})).is_ready);
}

#[test]
fn a_persister_that_must_not_be_there_is_refused() {
    let trigger = PrunerTrigger::BlockMined;
    let served = Served::start(1, &PrunerConfig { trigger, ..PrunerConfig::default() });
    let request = proto::ChainEventsBlockPersistedRequest { height: 5 };
    let status = served.refused(served.events().block_persisted(request));
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("auto"), "{status}");
}
