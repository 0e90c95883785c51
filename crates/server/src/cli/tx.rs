//! `tx verify` and `tx adopt-blobs`, and how commands open the node store.

use std::sync::Arc;

use serde::Serialize;
use utxokeep_txstore::{Agreement, NodeStore};

use super::{
    args::{TxAdoptBlobs, TxVerify},
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
