//! `tx show`, `tx explain` and `tx verify`: the node store, transaction by transaction.

use std::sync::Arc;

use serde::Serialize;
use utxokeep_core::{
    Height, Txid, hex_encode,
    node::{NodeTx, OutputRecord, OutputState, PruneRules},
};
use utxokeep_txstore::{
    Agreement, CreationLock, Fields, NodeStore, PruneStore as _, StoredTx, TxStore as _,
};

use super::{
    args::{TxAdoptBlobs, TxExplain, TxLock, TxShow, TxVerify},
    error::CliError,
    exit::Exit,
    open::Session,
    output::{self, Human, Lines},
    progress::Progress,
};
use crate::{clock::now_s, node_store};

/// Opens the node store that the configuration or the command line names.
pub(super) fn open(session: &Session, url: Option<&str>) -> anyhow::Result<Arc<NodeStore>> {
    open_with(session, url, Agreement::Compare)
}

/// The same, which says what to do where the store has other numbers than the configuration.
pub(super) fn open_with(
    session: &Session,
    url: Option<&str>,
    agreement: Agreement,
) -> anyhow::Result<Arc<NodeStore>> {
    let url = url_of(session, url)?;
    Ok(node_store::open_with(url, &session.config().txstore, session.mode(), agreement)?)
}

pub(super) fn url_of<'u>(session: &'u Session, url: Option<&'u str>) -> Result<&'u str, CliError> {
    let url = url.unwrap_or(&session.config().txstore.url);
    if url.is_empty() { Err(CliError::NoNodeStore) } else { Ok(url) }
}

#[derive(Debug, Serialize)]
struct Adopted<'c> {
    blobs: &'c str,
}

impl Human for Adopted<'_> {
    fn describe(&self, lines: &mut Lines) {
        lines.field("blob store", self.blobs);
    }
}

/// Takes the place for large bodies as it is.
pub(super) fn adopt_blobs(session: &Session, args: &TxAdoptBlobs) -> anyhow::Result<Exit> {
    let config = &session.config().txstore;
    let url = url_of(session, args.store.store.as_deref())?;
    if config.blobs.is_empty() {
        return Err(CliError::NoBlobStore.into());
    }
    node_store::adopt_blobs(url, config, session.mode())?;
    output::result(session.json(), &Adopted { blobs: &config.blobs })?;
    Ok(Exit::Success)
}

fn find(store: &NodeStore, txid: Txid, fields: Fields) -> anyhow::Result<StoredTx> {
    let found = store.get(&[txid], fields)?.pop().flatten();
    Ok(found.ok_or(CliError::UnknownTransaction { txid })?)
}

/// One output as it stands.
#[derive(Debug, Serialize)]
struct Output {
    index: u32,
    satoshis: Option<u64>,
    state: &'static str,
    utxo_hash: Option<String>,
    spent_by: Option<String>,
    spent_by_input: Option<u32>,
    spendable_from_height: Option<u32>,
}

impl Output {
    fn new(index: u32, slot: Option<&OutputRecord>, body: Option<&NodeTx>) -> Self {
        let state = match slot.map(|slot| slot.state) {
            None => "unspendable",
            Some(OutputState::Unspent) => "unspent",
            Some(OutputState::Frozen) => "frozen",
            Some(OutputState::Spent(_)) => "spent",
        };
        let by = slot.and_then(OutputRecord::spent_by);
        let output = body.and_then(|body| body.outputs.get(index as usize));
        Self {
            index,
            satoshis: output.map(|output| output.satoshis),
            state,
            utxo_hash: slot.map(|slot| hex_encode(&slot.hash)),
            spent_by: by.map(|by| by.txid.to_string()),
            spent_by_input: by.map(|by| by.vin),
            spendable_from_height: slot.and_then(|slot| slot.spendable_at),
        }
    }
}

#[derive(Debug, Serialize)]
struct Block {
    id: u32,
    height: u32,
    subtree: u32,
}

/// A transaction with everything the store knows of it.
#[derive(Debug, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Shown {
    txid: String,
    is_coinbase: bool,
    is_conflicting: bool,
    is_locked: bool,
    is_mined: bool,
    fee: Option<u64>,
    inputs: Option<usize>,
    outputs_total: u32,
    outputs_spendable: u32,
    outputs_spent: u32,
    blocks: Vec<Block>,
    unmined_since_height: Option<u32>,
    spent_at_height: Option<u32>,
    spendable_from_height: Option<u32>,
    delete_at_height: Option<u32>,
    preserve_until_height: Option<u32>,
    kept_for_child_until_height: Option<u32>,
    conflicting_children: Vec<String>,
    deleted_children: u32,
    body: &'static str,
    outputs: Vec<Output>,
}

impl Shown {
    fn new(txid: Txid, stored: &StoredTx) -> Self {
        let record = &stored.record;
        let slots = stored.slots.as_deref().unwrap_or_default();
        let body = stored.body.as_ref();
        let blocks = record.blocks.iter().map(|block| Block {
            id: block.id,
            height: block.height.get(),
            subtree: block.subtree,
        });
        let outputs = (0u32..).zip(slots).map(|(at, slot)| Output::new(at, slot.as_ref(), body));
        Self {
            txid: txid.to_string(),
            is_coinbase: record.is_coinbase,
            is_conflicting: record.is_conflicting,
            is_locked: record.is_locked,
            is_mined: record.is_mined(),
            fee: body.and_then(NodeTx::fee),
            inputs: body.map(|body| body.inputs.len()),
            outputs_total: record.outputs,
            outputs_spendable: record.utxos,
            outputs_spent: record.spent,
            blocks: blocks.collect(),
            unmined_since_height: record.unmined_since.map(Height::get),
            spent_at_height: record.spent_at.map(Height::get),
            spendable_from_height: record.spendable_at.map(Height::get),
            delete_at_height: record.delete_at.map(Height::get),
            preserve_until_height: record.preserve_until.map(Height::get),
            kept_for_child_until_height: record.kept_for_child_until.map(Height::get),
            conflicting_children: record.conflicting_children.iter().map(Txid::to_string).collect(),
            deleted_children: record.deleted_children,
            body: record.blob.map_or("beside its record", |_| "in the blob store"),
            outputs: outputs.collect(),
        }
    }

    fn state(&self) -> String {
        let mut words = vec![if self.is_mined { "mined" } else { "unmined" }];
        words.extend(self.is_coinbase.then_some("coinbase"));
        words.extend(self.is_conflicting.then_some("conflicting"));
        words.extend(self.is_locked.then_some("locked"));
        words.join(", ")
    }
}

impl Human for Shown {
    fn describe(&self, lines: &mut Lines) {
        lines.field("transaction", &self.txid).field("state", self.state());
        for block in &self.blocks {
            lines.field("block", format_args!("{} at height {}", block.id, block.height));
        }
        let heights = [
            ("unmined since", self.unmined_since_height),
            ("spent at", self.spent_at_height),
            ("spendable from", self.spendable_from_height),
            ("delete at", self.delete_at_height),
            ("preserved until", self.preserve_until_height),
            ("kept for a child until", self.kept_for_child_until_height),
        ];
        for (label, height) in heights {
            if let Some(height) = height {
                lines.field(label, format_args!("height {height}"));
            }
        }
        lines.optional("fee", self.fee).field("body", self.body);
        let (spent, of, all) = (self.outputs_spent, self.outputs_spendable, self.outputs_total);
        lines.field("outputs", format_args!("{all}, of which {of} can be spent and {spent} are"));
        for child in &self.conflicting_children {
            lines.field("conflicts with", child);
        }
        for output in &self.outputs {
            let amount = output.satoshis.map_or_else(|| "?".to_owned(), |sats| sats.to_string());
            let by = output.spent_by.as_ref().zip(output.spent_by_input);
            let by = by.map_or_else(String::new, |(txid, vin)| format!(" by {txid} input {vin}"));
            lines.row(format!("  {:>5}  {amount:>16} sat  {}{by}", output.index, output.state));
        }
    }
}

/// Shows one transaction.
pub(super) fn show(session: &Session, args: &TxShow) -> anyhow::Result<Exit> {
    let store = open(session, args.store.store.as_deref())?;
    let stored = find(&store, args.txid, Fields { body: true, slots: true })?;
    output::result(session.json(), &Shown::new(args.txid, &stored))?;
    Ok(Exit::Success)
}

/// Who creates a transaction.
#[derive(Debug, Serialize)]
struct Creating {
    txid: String,
    is_locked: bool,
    created_at: Option<u64>,
    expires_at: Option<u64>,
    process_id: Option<u32>,
    hostname: Option<String>,
    expected_recs: Option<u32>,
}

impl Human for Creating {
    fn describe(&self, lines: &mut Lines) {
        lines.field("transaction", &self.txid);
        let (Some(since), Some(until)) = (self.created_at, self.expires_at) else {
            lines.field("creation lock", "nobody holds it");
            return;
        };
        let (host, process) =
            (self.hostname.as_deref().unwrap_or(""), self.process_id.unwrap_or(0));
        lines
            .field("creation lock", format_args!("process {process} on {host}"))
            .field("records", self.expected_recs.unwrap_or(0))
            .field("since", format_args!("{since} s since 1970"))
            .field("until", format_args!("{until} s since 1970"));
    }
}

pub(super) fn lock(session: &Session, args: &TxLock) -> anyhow::Result<Exit> {
    let store = open(session, args.store.store.as_deref())?;
    let lock = store.creation_lock(&args.txid)?;
    if lock.is_none() {
        // Of one that nobody stored and nobody creates there is nothing to say.
        find(&store, args.txid, Fields::default())?;
    }
    let shown = Creating {
        txid: args.txid.to_string(),
        is_locked: lock.is_some(),
        created_at: lock.as_ref().map(|lock| lock.created_at),
        expires_at: lock.as_ref().map(CreationLock::expires_at),
        process_id: lock.as_ref().map(|lock| lock.process_id),
        expected_recs: lock.as_ref().map(|lock| lock.expected_recs),
        hostname: lock.map(|lock| lock.hostname),
    };
    output::result(session.json(), &shown)?;
    Ok(Exit::Success)
}

#[derive(Debug, Serialize)]
struct BlockingFact {
    reason: &'static str,
    child: Option<String>,
    until_height: Option<u32>,
}

/// Why a transaction is still there.
#[derive(Debug, Serialize)]
struct Explained {
    txid: String,
    height: u32,
    window_blocks: u32,
    can_be_deleted: bool,
    delete_at_height: Option<u32>,
    blocking: Vec<BlockingFact>,
}

impl Human for Explained {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("transaction", &self.txid)
            .field("asked at", format_args!("height {}", self.height))
            .optional("delete at", self.delete_at_height.map(|height| format!("height {height}")));
        if self.can_be_deleted {
            lines.field("verdict", "can be deleted");
            return;
        }
        lines.field("verdict", "is kept, because:");
        for fact in &self.blocking {
            let child = fact.child.as_ref().map_or_else(String::new, |txid| format!(" {txid}"));
            let until = fact.until_height;
            let until = until.map_or_else(String::new, |height| format!(", until height {height}"));
            lines.row(format!("  {}{child}{until}", fact.reason));
        }
    }
}

/// Says what keeps a transaction from being deleted.
pub(super) fn explain(session: &Session, args: &TxExplain) -> anyhow::Result<Exit> {
    let store = open(session, args.store.store.as_deref())?;
    let stored = find(&store, args.txid, Fields::default())?;
    let known = store.block_state()?.map(|state| state.height);
    let height = args.height.or(known).ok_or(CliError::NoHeight)?;
    let window_blocks = session.config().pruner.safety_window_blocks;
    let facts = store.explain(&args.txid, &PruneRules::at(height, window_blocks))?;
    let blocking: Vec<_> = facts
        .iter()
        .map(|fact| BlockingFact {
            reason: fact.reason.name(),
            child: fact.child.map(|child| child.to_string()),
            until_height: fact.until.map(Height::get),
        })
        .collect();
    let explained = Explained {
        txid: args.txid.to_string(),
        height: height.get(),
        window_blocks,
        can_be_deleted: blocking.is_empty(),
        delete_at_height: stored.record.delete_at.map(Height::get),
        blocking,
    };
    output::result(session.json(), &explained)?;
    Ok(Exit::Success)
}

#[derive(Debug, Serialize)]
struct Finding {
    txid: String,
    detail: String,
}

#[derive(Debug, Serialize)]
struct BlobStore {
    files: u64,
    foreign: u64,
    young: u64,
    orphans: u64,
    orphan_bytes: u64,
    removed: u64,
}

/// What a recount found.
#[derive(Debug, Serialize)]
struct Verified {
    clean: bool,
    transactions_checked: u64,
    outputs_checked: u64,
    findings_total: u64,
    findings: Vec<Finding>,
    blobs: Option<BlobStore>,
}

impl Human for Verified {
    fn describe(&self, lines: &mut Lines) {
        for Finding { txid, detail } in &self.findings {
            lines.row(format!("{txid}: {detail}"));
        }
        let unnamed = self.findings_total.saturating_sub(self.findings.len() as u64);
        if unnamed > 0 {
            lines.row(format!("and {unnamed} more"));
        }
        lines
            .field("result", if self.clean { "clean" } else { "something is wrong" })
            .field("transactions", self.transactions_checked)
            .field("outputs", self.outputs_checked);
        if let Some(blobs) = &self.blobs {
            lines
                .field("files", blobs.files)
                .field(
                    "orphans",
                    format_args!(
                        "{} ({} bytes), {} removed",
                        blobs.orphans, blobs.orphan_bytes, blobs.removed
                    ),
                )
                .field("too young to say", blobs.young)
                .field("foreign files", blobs.foreign);
        }
    }
}

/// Recounts the node store, and looks for files that no record names.
pub(super) fn verify(session: &Session, args: &TxVerify) -> anyhow::Result<Exit> {
    let store = open(session, args.store.store.as_deref())?;
    let mut progress = Progress::start("transactions checked", false);
    let report = store.verify_telling(&mut |done| progress.update(done, 0, String::new));
    progress.finish();
    let report = report?;
    let blobs = store.check_blobs(now_s(), i64::from(args.blob_age_min_s), args.repair_blobs)?;
    let verified = Verified {
        clean: report.is_clean(),
        transactions_checked: report.transactions,
        outputs_checked: report.outputs,
        findings_total: report.findings_total,
        findings: report
            .findings
            .into_iter()
            .map(|finding| Finding { txid: finding.txid.to_string(), detail: finding.detail })
            .collect(),
        blobs: blobs.map(|blobs| BlobStore {
            files: blobs.files,
            foreign: blobs.foreign,
            young: blobs.young,
            orphans: blobs.orphans,
            orphan_bytes: blobs.orphan_bytes,
            removed: blobs.removed,
        }),
    };
    output::result(session.json(), &verified)?;
    Ok(if verified.clean { Exit::Success } else { Exit::Unsound })
}
