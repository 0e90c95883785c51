//! Every operation of the pruner's contract: check the request, ask the pruner, make the answer.

#![allow(
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "every operation has the same shape, so that the services can call any of them"
)]

use utxokeep_core::{
    Height,
    node::{Assembly, ChainReport},
};
use utxokeep_pruner::PrunerError;

use super::{
    calls::CallError,
    fault::{Fault, Within, batch, required},
    from_proto as from, proto, pruner_to_proto as to,
};
use crate::pruning::{BlockEvent, Pruning};

/// An answer, or why there is none.
type Answer<T> = Result<T, CallError>;

impl From<PrunerError> for CallError {
    fn from(error: PrunerError) -> Self {
        match error {
            PrunerError::Store(error) => Self::Store(error),
            other => Self::Refused(other.to_string()),
        }
    }
}

/// A height that may be left out, but not be 0.
fn optional_height(field: &str, height: Option<u32>) -> Result<Option<Height>, Fault> {
    height.map(|height| from::height(field, height)).transpose()
}

pub(super) fn health(
    pruning: &Pruning,
    _request: proto::PrunerHealthRequest,
    _items_max: usize,
) -> Answer<proto::PrunerHealthResponse> {
    Ok(to::health(&pruning.pruner().health()))
}

pub(super) fn trigger(
    pruning: &Pruning,
    request: proto::PrunerTriggerRequest,
    _items_max: usize,
) -> Answer<proto::PrunerTriggerResponse> {
    let height = optional_height("height", request.height)?;
    let height = pruning.pruner().trigger(height)?.map(Height::get);
    Ok(proto::PrunerTriggerResponse { height })
}

pub(super) fn status(
    pruning: &Pruning,
    _request: proto::PrunerStatusRequest,
    _items_max: usize,
) -> Answer<proto::PrunerStatusResponse> {
    let pruner = pruning.pruner();
    Ok(to::status(&pruner.status()?, pruner.settings().trigger))
}

pub(super) fn jobs(
    pruning: &Pruning,
    request: proto::PrunerJobsRequest,
    _items_max: usize,
) -> Answer<proto::PrunerJobsResponse> {
    let limit = match request.limit {
        0 => usize::MAX,
        limit => usize::try_from(limit).unwrap_or(usize::MAX),
    };
    let jobs = pruning.pruner().jobs(limit)?;
    Ok(proto::PrunerJobsResponse { jobs: jobs.iter().map(to::job).collect() })
}

pub(super) fn pause(
    pruning: &Pruning,
    _request: proto::PrunerPauseRequest,
    _items_max: usize,
) -> Answer<proto::PrunerPauseResponse> {
    pruning.pruner().pause()?;
    Ok(proto::PrunerPauseResponse {})
}

pub(super) fn resume(
    pruning: &Pruning,
    _request: proto::PrunerResumeRequest,
    _items_max: usize,
) -> Answer<proto::PrunerResumeResponse> {
    pruning.pruner().resume()?;
    Ok(proto::PrunerResumeResponse {})
}

pub(super) fn preserve(
    pruning: &Pruning,
    request: proto::PrunerPreserveRequest,
    items_max: usize,
) -> Answer<proto::PrunerPreserveResponse> {
    let until = from::height("until_height", request.until_height)?;
    let txids = batch("txids", request.txids, items_max, from::txid)?;
    let preserved = pruning.pruner().preserve(&txids, until)?;
    let preserved = u64::try_from(preserved).unwrap_or(u64::MAX);
    Ok(proto::PrunerPreserveResponse { preserved })
}

pub(super) fn dry_run(
    pruning: &Pruning,
    request: proto::PrunerDryRunRequest,
    _items_max: usize,
) -> Answer<proto::PrunerDryRunResponse> {
    let height = optional_height("height", request.height)?;
    let report = pruning.pruner().dry_run(height)?;
    Ok(proto::PrunerDryRunResponse { report: Some(to::report(&report)) })
}

pub(super) fn explain(
    pruning: &Pruning,
    request: proto::PrunerExplainRequest,
    _items_max: usize,
) -> Answer<proto::PrunerExplainResponse> {
    let txid = from::txid(request.txid).within("txid")?;
    let pruner = pruning.pruner();
    let height = pruner.height(optional_height("height", request.height)?)?;
    Ok(to::explained(height, &pruner.explain(&txid, Some(height))?))
}

pub(super) fn backlog(
    pruning: &Pruning,
    request: proto::PrunerBacklogRequest,
    _items_max: usize,
) -> Answer<proto::PrunerBacklogResponse> {
    let pruner = pruning.pruner();
    let height = pruner.height(optional_height("height", request.height)?)?;
    Ok(to::backlog(height, &pruner.backlog(Some(height))?))
}

pub(super) fn restore(
    pruning: &Pruning,
    request: proto::PrunerRestoreRequest,
    _items_max: usize,
) -> Answer<proto::PrunerRestoreResponse> {
    use proto::pruner_restore_request::What;
    let pruner = pruning.pruner();
    Ok(match required("what", request.what)? {
        What::Txid(txid) => {
            let txid = from::txid(txid).within("txid")?;
            let newest = optional_height("newest_height", request.newest_height)?;
            to::restored_one(&txid, pruner.restore(&txid, newest))?
        }
        What::PrunedAtHeight(height) => {
            to::restored(&pruner.restore_height(from::height("pruned_at_height", height)?)?)
        }
    })
}

pub(super) fn confirm_height(
    pruning: &Pruning,
    request: proto::PrunerConfirmHeightRequest,
    _items_max: usize,
) -> Answer<proto::PrunerConfirmHeightResponse> {
    let height = from::height("height", request.height)?;
    Ok(to::confirmed(&pruning.pruner().confirm_height(height)?))
}

pub(super) fn forget_persister(
    pruning: &Pruning,
    _request: proto::PrunerForgetPersisterRequest,
    _items_max: usize,
) -> Answer<proto::PrunerForgetPersisterResponse> {
    pruning.pruner().report(&[ChainReport::NoPersister])?;
    Ok(proto::PrunerForgetPersisterResponse {})
}

pub(super) fn forget_node_state(
    pruning: &Pruning,
    _request: proto::PrunerForgetNodeStateRequest,
    _items_max: usize,
) -> Answer<proto::PrunerForgetNodeStateResponse> {
    pruning.pruner().report(&[ChainReport::NoNodeState])?;
    Ok(proto::PrunerForgetNodeStateResponse {})
}

pub(super) fn block(
    pruning: &Pruning,
    request: proto::ChainEventsBlockRequest,
    _items_max: usize,
) -> Answer<proto::ChainEventsBlockResponse> {
    let event = BlockEvent {
        height: from::height("height", request.height)?,
        mined_set: optional_height("mined_set_height", request.mined_set_height)?,
        is_catching_up: request.is_catching_up,
    };
    let reported = pruning.block(event)?;
    Ok(proto::ChainEventsBlockResponse {
        pending_height: reported.pending.map(Height::get),
        held_height: reported.held().map(Height::get),
    })
}

pub(super) fn block_persisted(
    pruning: &Pruning,
    request: proto::ChainEventsBlockPersistedRequest,
    _items_max: usize,
) -> Answer<proto::ChainEventsBlockPersistedResponse> {
    let height = from::height("height", request.height)?;
    let reported = pruning.block_persisted(height)?;
    Ok(proto::ChainEventsBlockPersistedResponse {
        pending_height: reported.pending.map(Height::get),
        held_height: reported.held().map(Height::get),
    })
}

pub(super) fn reorganisation(
    pruning: &Pruning,
    request: proto::ChainEventsReorganisationRequest,
    _items_max: usize,
) -> Answer<proto::ChainEventsReorganisationResponse> {
    pruning.reorganised(from::height("fork_height", request.fork_height)?)?;
    Ok(proto::ChainEventsReorganisationResponse {})
}

pub(super) fn assembly_state(
    pruning: &Pruning,
    request: proto::ChainEventsAssemblyStateRequest,
    _items_max: usize,
) -> Answer<proto::ChainEventsAssemblyStateResponse> {
    let height = Height::new(request.height);
    pruning.assembly_changed(Assembly { is_running: request.is_running, height })?;
    Ok(proto::ChainEventsAssemblyStateResponse {})
}
