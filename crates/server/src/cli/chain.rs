//! `chain rollback`, `verify` and `prune`.

use serde::Serialize;
use utxokeep_core::{Height, hex_encode};
use utxokeep_index::{
    ChainWriter, IndexError, PruneReport, QueryError, RollbackError, VerifyReport,
};

use super::{
    args,
    exit::Exit,
    interrupt::Interrupt,
    open::{Index, Session},
    output::{self, Human, Lines},
    progress::Progress,
};
use crate::json::Partial;

#[derive(Debug, Serialize)]
struct RolledBack {
    from_height: u32,
    height: u32,
    best_hash: String,
    blocks_undone: u32,
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Partial>,
}

/// Undoes the blocks above a height.
pub(super) fn rollback(session: &Session, args: &args::Rollback) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let (from, _) = index.view()?.tip().ok_or(RollbackError::Empty)?;
    let undone = if args.dry_run {
        depth(&index, args.to)?
    } else {
        ChainWriter::new(index.clone())?.rollback(args.to)?
    };
    let target = index.view()?.block(args.to)?.ok_or(QueryError::Empty)?;
    let report = RolledBack {
        from_height: from.get(),
        height: args.to.get(),
        best_hash: index.settings().network().hash_text(target.hash.as_bytes()),
        blocks_undone: undone,
        dry_run: args.dry_run,
        partial: partial(&index)?,
    };
    output::result(session.json(), &report)?;
    Ok(Exit::Success)
}

/// How many blocks a rollback to `target` undoes, or why it would be refused.
fn depth(index: &Index, target: Height) -> Result<u32, RollbackError> {
    let view = index.view()?;
    let (tip, _) = view.tip().ok_or(RollbackError::Empty)?;
    let depth = target.depth_below(tip).ok_or(RollbackError::AboveTip { target, tip })?;
    match view.rollback_floor()?.filter(|&safe| target < safe) {
        Some(safe) if view.set_standing().stands_at().is_some() => {
            Err(RollbackError::BelowTables { target, safe })
        }
        Some(safe) => Err(RollbackError::TooDeep { target, safe }),
        None => Ok(depth),
    }
}

impl Human for RolledBack {
    fn describe(&self, lines: &mut Lines) {
        let label = if self.dry_run { "would undo" } else { "undone" };
        lines
            .field(label, format_args!("{} blocks", self.blocks_undone))
            .field("height", format_args!("{} (was {})", self.height, self.from_height))
            .field("best hash", &self.best_hash);
        output::partial(lines, self.partial.as_ref());
    }
}

#[derive(Debug, Serialize)]
struct Verified {
    clean: bool,
    findings_total: u64,
    findings: Vec<Finding>,
    blocks_checked: u64,
    outputs_checked: u64,
    spent_checked: u64,
    deltas_checked: u64,
    /// The root that the tables give once more; absent where it is not the one that is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    mmr_root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Partial>,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    detail: String,
}

/// Recounts everything.
pub(super) fn verify(session: &Session) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let mut progress = Progress::start("verifying", false);
    let report = index.verify(&mut |stage, done| progress.update(done, 0, || stage.to_owned()));
    progress.finish();
    let report = report?;
    let standing = report.is_clean().then(|| index.view()?.mmr_standing()).transpose()?.flatten();
    let mmr_root = standing.map(|mmr| hex_encode(&mmr.root));
    let report = Verified { partial: partial(&index)?, mmr_root, ..Verified::from(report) };
    output::result(session.json(), &report)?;
    Ok(if report.clean { Exit::Success } else { Exit::Unsound })
}

impl From<VerifyReport> for Verified {
    fn from(report: VerifyReport) -> Self {
        Self {
            clean: report.is_clean(),
            findings_total: report.findings_total,
            blocks_checked: report.blocks_checked,
            outputs_checked: report.outputs_checked,
            spent_checked: report.spent_checked,
            deltas_checked: report.deltas_checked,
            mmr_root: None,
            partial: None,
            findings: report
                .findings
                .into_iter()
                .map(|finding| Finding { check: finding.check, detail: finding.detail })
                .collect(),
        }
    }
}

impl Human for Verified {
    fn describe(&self, lines: &mut Lines) {
        for Finding { check, detail } in &self.findings {
            lines.row(format!("{check}: {detail}"));
        }
        let unnamed = self.findings_total.saturating_sub(self.findings.len() as u64);
        if unnamed > 0 {
            lines.row(format!("and {unnamed} more"));
        }
        let verdict = if self.clean { "nothing wrong" } else { "the database is damaged" };
        lines
            .field("verdict", verdict)
            .field("findings", self.findings_total)
            .field("blocks", self.blocks_checked)
            .field("live outputs", self.outputs_checked)
            .field("spent outputs", self.spent_checked)
            .field("deltas", self.deltas_checked);
        if let Some(root) = &self.mmr_root {
            lines.field("mmr root", root);
        }
        output::partial(lines, self.partial.as_ref());
    }
}

#[derive(Debug, Default, Serialize)]
struct Pruned {
    passes: u64,
    spent_deleted: u64,
    deltas_deleted: u64,
    side_blocks_deleted: u64,
    compacted: bool,
    disk_bytes_before: u64,
    disk_bytes_after: u64,
    interrupted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Partial>,
}

/// Prunes until nothing is due.
pub(super) fn prune(session: &Session, args: &args::ChainPrune) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::watch()?;
    let index = session.open()?;
    let mut writer = ChainWriter::new(index.clone())?;
    let mut report = Pruned { disk_bytes_before: disk_bytes(&index)?, ..Pruned::default() };
    let mut progress = Progress::start("pruning", false);
    loop {
        let pass = writer.prune_pass()?;
        report.count(&pass);
        progress.update(report.spent_deleted, 0, || "spent outputs deleted".to_owned());
        report.interrupted = interrupt.is_asked();
        if !pass.more || report.interrupted {
            break;
        }
    }
    progress.finish();
    if args.compact && !report.interrupted {
        index.compact()?;
        report.compacted = true;
    }
    report.disk_bytes_after = disk_bytes(&index)?;
    report.partial = partial(&index)?;
    output::result(session.json(), &report)?;
    Ok(if report.interrupted { Exit::Interrupted } else { Exit::Success })
}

/// What the database keeps, when that is not everything.
fn partial(index: &Index) -> Result<Option<Partial>, IndexError> {
    Ok(Partial::new(index.view()?.partial()))
}

fn disk_bytes(index: &Index) -> anyhow::Result<u64> {
    Ok(index.status()?.tables.iter().map(|table| table.disk_bytes).sum())
}

impl Pruned {
    const fn count(&mut self, pass: &PruneReport) {
        self.passes += 1;
        self.spent_deleted += pass.spent_deleted as u64;
        self.deltas_deleted += pass.deltas_deleted as u64;
        self.side_blocks_deleted += pass.side_deleted as u64;
    }
}

impl Human for Pruned {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("spent outputs deleted", self.spent_deleted)
            .field("deltas deleted", self.deltas_deleted)
            .field("side blocks deleted", self.side_blocks_deleted)
            .field("passes", self.passes)
            .field("compacted", if self.compacted { "yes" } else { "no" })
            .field(
                "bytes on disk",
                format_args!("{} (before {})", self.disk_bytes_after, self.disk_bytes_before),
            );
        if self.interrupted {
            lines.row("stopped before the end");
        }
        output::partial(lines, self.partial.as_ref());
    }
}
