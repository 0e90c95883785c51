//! What the commands that change something print.

use serde::Serialize;
use utxokeep_core::{
    Height, Txid,
    node::{Heights, NodeError},
};
use utxokeep_pruner::PrunerError;
use utxokeep_txstore::RestoredHeight;

use crate::{
    cli::output::{Human, Lines},
    grpc::proto,
};

/// What is known of the chain after somebody confirmed a height.
#[derive(Debug, Serialize)]
pub(super) struct Confirmed {
    newest_height: Option<u32>,
    pub(super) held_height: Option<u32>,
}

impl From<&Heights> for Confirmed {
    fn from(heights: &Heights) -> Self {
        Self {
            newest_height: heights.newest().map(Height::get),
            held_height: heights.held().map(|held| held.height.get()),
        }
    }
}

impl From<proto::PrunerConfirmHeightResponse> for Confirmed {
    fn from(answer: proto::PrunerConfirmHeightResponse) -> Self {
        Self { newest_height: answer.newest_height, held_height: answer.held_height }
    }
}

impl Human for Confirmed {
    fn describe(&self, lines: &mut Lines) {
        lines
            .optional("newest height", self.newest_height)
            .optional("held height", self.held_height);
    }
}

/// There is no persister any more.
#[derive(Debug, Serialize)]
pub(super) struct PersisterForgotten {
    pub(super) persister: bool,
}

impl Human for PersisterForgotten {
    fn describe(&self, lines: &mut Lines) {
        lines.field("persister", "none");
    }
}

/// The node reports no marks and no block assembly any more.
#[derive(Debug, Serialize)]
pub(super) struct NodeStateForgotten {
    pub(super) mined_set: bool,
    pub(super) assembly: bool,
}

impl Human for NodeStateForgotten {
    fn describe(&self, lines: &mut Lines) {
        lines.field("marks", "none").field("block assembly", "none");
    }
}

/// What is kept.
#[derive(Debug, Serialize)]
pub(super) struct Preserved {
    pub(super) preserved: u64,
}

impl Human for Preserved {
    fn describe(&self, lines: &mut Lines) {
        lines.field("preserved", self.preserved);
    }
}

/// What came back, and what did not.
#[derive(Debug, Default, Serialize)]
#[allow(clippy::struct_field_names, reason = "the answer's words are those of the contract")]
pub(super) struct Restored {
    pub(super) restored: u64,
    pub(super) refused: u64,
    /// The first of those that were refused.
    pub(super) inputs: Vec<LostInput>,
}

/// An input that a transaction would have to share if it came back.
#[derive(Debug, Serialize)]
pub(super) struct LostInput {
    txid: String,
    vin: u32,
    reason: String,
}

impl From<&RestoredHeight> for Restored {
    fn from(done: &RestoredHeight) -> Self {
        let mut inputs = Vec::new();
        for (txid, error) in &done.named {
            let NodeError::Spend { errors, .. } = error else { continue };
            inputs.extend(errors.iter().map(|(vin, error)| LostInput {
                txid: txid.to_string(),
                vin: *vin,
                reason: error.to_string(),
            }));
        }
        Self { restored: done.restored, refused: done.refused, inputs }
    }
}

impl Restored {
    /// What became of one transaction.
    pub(super) fn one(txid: &Txid, answer: Result<bool, PrunerError>) -> Result<Self, PrunerError> {
        Ok(match answer {
            Err(PrunerError::NotRestored(error)) => {
                Self::from(&RestoredHeight { restored: 0, refused: 1, named: vec![(*txid, error)] })
            }
            answer => Self { restored: answer?.into(), ..Self::default() },
        })
    }

    pub(super) fn new(answer: proto::PrunerRestoreResponse) -> Self {
        let proto::PrunerRestoreResponse { restored, refused, errors } = answer;
        let lost = |error: proto::Error| {
            let id = Txid::from_slice(&error.txid).map(|txid| txid.to_string()).unwrap_or_default();
            error.inputs.into_iter().map(move |input| LostInput {
                txid: id.clone(),
                vin: input.vin,
                reason: input.error.map(|error| error.message).unwrap_or_default(),
            })
        };
        Self { restored, refused, inputs: errors.into_iter().flat_map(lost).collect() }
    }
}

impl Human for Restored {
    fn describe(&self, lines: &mut Lines) {
        lines.field("restored", self.restored);
        if self.refused > 0 {
            lines.field("refused", self.refused);
        }
        for LostInput { txid, vin, reason } in &self.inputs {
            lines.field("not restored", format_args!("{txid}: input {vin}: {reason}"));
        }
    }
}

/// Whether a pruner is paused.
#[derive(Debug, Serialize)]
pub(super) struct Paused {
    pub(super) is_paused: bool,
}

impl Human for Paused {
    fn describe(&self, lines: &mut Lines) {
        lines.field("paused", if self.is_paused { "yes" } else { "no" });
    }
}
