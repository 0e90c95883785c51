//! `tx status`: about how much a node store holds, and what it knows of its chain.

use serde::Serialize;
use utxokeep_core::Height;
use utxokeep_pruner::ChainState as _;
use utxokeep_txstore::{Amount, Sample, TxStore as _};

use super::{
    args::TxStatus,
    exit::Exit,
    open::Session,
    output::{self, Human, Lines},
    tx,
};

#[derive(Debug, Serialize)]
struct Counted {
    count: u64,
    exact: bool,
}

impl From<Amount> for Counted {
    fn from(Amount { count, is_exact: exact }: Amount) -> Self {
        Self { count, exact }
    }
}

impl Counted {
    fn shown(&self, inexact: &str) -> String {
        if self.exact { self.count.to_string() } else { format!("{inexact} {}", self.count) }
    }
}

/// What a store holds and knows.
#[derive(Debug, Serialize)]
struct PrintedStoreStatus {
    engine: String,
    records: Counted,
    due_records: Counted,
    body_files: Counted,
    disk_bytes: Option<u64>,
    newest_height: Option<u32>,
    held_height: Option<u32>,
    persisted_height: Option<u32>,
    completed_height: Option<u32>,
}

impl Human for PrintedStoreStatus {
    fn describe(&self, lines: &mut Lines) {
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

/// Says about how much a store holds. The work is the same however large it is.
pub(super) fn run(session: &Session, args: &TxStatus) -> anyhow::Result<Exit> {
    let url = tx::url_of(session, args.store.store.as_deref())?;
    let store = tx::open(session, Some(url))?;
    let heights = store.heights()?;
    let Sample { records, due, files, bytes } =
        store.sample()?.expect("a store that this program opens says what it holds");
    let status = PrintedStoreStatus {
        engine: url.split(':').next().unwrap_or_default().to_owned(),
        records: records.into(),
        due_records: due.into(),
        body_files: files.into(),
        disk_bytes: bytes,
        newest_height: heights.newest().map(Height::get),
        held_height: heights.held().map(|held| held.height.get()),
        persisted_height: heights.persisted().map(Height::get),
        completed_height: heights.completed().map(Height::get),
    };
    output::result(session.json(), &status)?;
    Ok(Exit::Success)
}
