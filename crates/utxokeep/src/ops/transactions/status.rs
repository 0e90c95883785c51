//! About how much a node store holds, and what it knows of its chain.

use serde::Serialize;
use utxokeep_core::Height;
use utxokeep_pruner::ChainState as _;
use utxokeep_txstore::{Amount, Sample, TxStore as _};

use super::{TAG, TransactionReadError, Transactions};
use crate::ops::{About, Answer, Answered, Known, Lines, Operation, chain::NoRequest};

/// A number, and whether it was counted or estimated.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Counted {
    /// How many.
    count: u64,
    /// Whether there are exactly so many.
    is_exact: bool,
}

impl From<Amount> for Counted {
    fn from(Amount { count, is_exact }: Amount) -> Self {
        Self { count, is_exact }
    }
}

impl Counted {
    fn shown(&self, inexact: &str) -> String {
        if self.is_exact { self.count.to_string() } else { format!("{inexact} {}", self.count) }
    }
}

/// What a store holds and knows.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeStoreStatus {
    /// Engine of the store.
    #[cfg_attr(feature = "schema", schema(example = "rocksdb"))]
    engine: String,
    /// Transactions.
    records: Counted,
    /// Transactions whose height of deletion has come.
    due_records: Counted,
    /// Bodies in files of the blob store.
    body_files: Counted,
    /// Bytes on disk, where the engine says so.
    disk_bytes: Option<u64>,
    /// Height of the chain, as two witnesses agree.
    newest_height: Option<u32>,
    /// A height that only one witness reported.
    held_height: Option<u32>,
    /// Height up to which a persister has written everything.
    persisted_height: Option<u32>,
    /// Height up to which the pruner is complete.
    completed_height: Option<u32>,
}

impl Answer for NodeStoreStatus {
    fn show(&self, lines: &mut Lines) {
        lines
            .field("engine", &self.engine)
            .field("transactions", self.records.shown("about"))
            .field("past due", self.due_records.shown("at least"))
            .field("bodies in files", self.body_files.shown("about"))
            .optional("bytes on disk", self.disk_bytes)
            .optional("newest height", self.newest_height)
            .optional("held height", self.held_height)
            .optional("persisted height", self.persisted_height)
            .optional("pruned up to", self.completed_height);
    }
}

/// The state of the store.
#[derive(Debug)]
pub enum ShowStatus {}

impl Operation for ShowStatus {
    type Part = Transactions;
    type Request = NoRequest;
    type Answer = NodeStoreStatus;

    const ABOUT: About = About {
        command: "tx status",
        path: "/api/v1/node-store",
        tag: TAG,
        summary: "Say about how much a node store holds, and what it knows of its chain",
        description: "The work is the same however large the store is.",
        ..About::READ
    };

    fn run(
        transactions: &Transactions,
        _: NoRequest,
        _: Known<'_>,
    ) -> Result<Answered<NodeStoreStatus>, TransactionReadError> {
        let store = &transactions.store;
        let heights = store.heights()?;
        let sample = store.sample()?;
        let of = |take: fn(&Sample) -> Amount| {
            sample.as_ref().map(|sample| take(sample).into()).unwrap_or_default()
        };
        let status = NodeStoreStatus {
            engine: transactions.engine.clone(),
            records: of(|sample| sample.records),
            due_records: of(|sample| sample.due),
            body_files: of(|sample| sample.files),
            disk_bytes: sample.as_ref().and_then(|sample| sample.bytes),
            newest_height: heights.newest().map(Height::get),
            held_height: heights.held().map(|held| held.height.get()),
            persisted_height: heights.persisted().map(Height::get),
            completed_height: heights.completed().map(Height::get),
        };
        Ok(status.into())
    }
}
