//! `chain status`, `digest`, `rollback`, `verify` and `prune`.

use serde::Serialize;
use utxokeep_core::{BlockHash, Height};
use utxokeep_index::{ChainWriter, PruneReport, QueryError, RollbackError, VerifyReport};

use super::{
    args,
    exit::Exit,
    interrupt::Interrupt,
    open::{Index, Session, view_at},
    output::{self, Human, Lines},
    progress::Progress,
};

/// An amount in whole coins with eight decimals, as Bitcoin Core prints it.
fn coins(amount: u64) -> String {
    format!("{}.{:08}", amount / 100_000_000, amount % 100_000_000)
}

#[derive(Debug, Serialize)]
struct Status {
    chain: &'static str,
    network: &'static str,
    height: Option<u32>,
    best_hash: Option<String>,
    txouts: Option<u64>,
    total_amount: Option<String>,
    total_amount_sat: Option<String>,
    rollback_floor: Option<u32>,
    format_version: u64,
    index_enabled: bool,
    address_index: bool,
    muhash: bool,
    tables: Vec<Table>,
}

#[derive(Debug, Serialize)]
struct Table {
    name: &'static str,
    disk_bytes: u64,
    rows_estimate: u64,
}

/// Prints what the database is and where it stands.
pub(super) fn status(session: &Session) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let settings = index.settings();
    let status = index.status()?;
    let tables = status.tables.iter().map(|table| Table {
        name: table.name,
        disk_bytes: table.disk_bytes,
        rows_estimate: table.rows_estimate,
    });
    let status = Status {
        chain: status.network.chain(),
        network: status.network.name(),
        height: status.tip.map(|tip| tip.height.get()),
        best_hash: status.tip.map(|tip| tip.hash.to_reversed_hex()),
        txouts: status.totals.map(|totals| totals.txouts),
        total_amount: status.totals.map(|totals| coins(totals.total_amount)),
        total_amount_sat: status.totals.map(|totals| totals.total_amount.to_string()),
        rollback_floor: status.rollback_floor.map(Height::get),
        format_version: status.format_version,
        index_enabled: settings.enabled,
        address_index: settings.enabled && settings.address_index,
        muhash: settings.enabled && settings.muhash,
        tables: tables.collect(),
    };
    output::result(session.json(), &status)?;
    Ok(Exit::Success)
}

impl Human for Status {
    fn describe(&self, lines: &mut Lines) {
        let on = |is_on: bool| if is_on { "on" } else { "off" };
        lines
            .field("network", format_args!("{}/{}", self.chain, self.network))
            .optional("height", self.height)
            .optional("best hash", self.best_hash.as_ref())
            .optional("outputs", self.txouts)
            .optional("total amount", self.total_amount.as_ref())
            .optional("rollback floor", self.rollback_floor)
            .field("format", self.format_version)
            .field("index", on(self.index_enabled))
            .field("address index", on(self.address_index))
            .field("muhash", on(self.muhash))
            .row("")
            .row(format!("{:<20} {:>16} {:>16}", "table", "bytes on disk", "rows (about)"));
        for Table { name, disk_bytes, rows_estimate } in &self.tables {
            lines.row(format!("{name:<20} {disk_bytes:>16} {rows_estimate:>16}"));
        }
    }
}

#[derive(Debug, Serialize)]
struct Digest {
    height: u32,
    best_hash: String,
    txouts: u64,
    total_amount: String,
    bogosize: u64,
    muhash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_serialized_3: Option<String>,
    scanned: bool,
}

/// Prints the digests of the set.
pub(super) fn digest(session: &Session, args: &args::Digest) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let digest = view_at(&index, args.at.height)?.digest(args.audit)?;
    let reversed = |hash| BlockHash::from_bytes(hash).to_reversed_hex();
    let digest = Digest {
        height: digest.point.height.get(),
        best_hash: digest.point.hash.to_reversed_hex(),
        txouts: digest.totals.txouts,
        total_amount: coins(digest.totals.total_amount),
        bogosize: digest.totals.bogosize,
        muhash: reversed(digest.muhash),
        hash_serialized_3: digest.hash_serialized.map(reversed),
        scanned: digest.scanned,
    };
    output::result(session.json(), &digest)?;
    Ok(Exit::Success)
}

impl Human for Digest {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("height", self.height)
            .field("best hash", &self.best_hash)
            .field("outputs", self.txouts)
            .field("total amount", &self.total_amount)
            .field("bogosize", self.bogosize)
            .field("muhash", &self.muhash);
        if let Some(hash) = &self.hash_serialized_3 {
            lines.field("hash_serialized_3", hash);
        }
        lines.field("source", if self.scanned { "scan of the set" } else { "kept accumulator" });
    }
}

#[derive(Debug, Serialize)]
struct RolledBack {
    from_height: u32,
    height: u32,
    best_hash: String,
    blocks_undone: u32,
    dry_run: bool,
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
        best_hash: target.hash.to_reversed_hex(),
        blocks_undone: undone,
        dry_run: args.dry_run,
    };
    output::result(session.json(), &report)?;
    Ok(Exit::Success)
}

/// How many blocks a rollback to `target` undoes, or why it would be refused.
fn depth(index: &Index, target: Height) -> Result<u32, RollbackError> {
    let view = index.view()?;
    let (tip, _) = view.tip().ok_or(RollbackError::Empty)?;
    let depth = target.depth_below(tip).ok_or(RollbackError::AboveTip { target, tip })?;
    match view.floor()? {
        Some(safe) if index.settings().enabled && target < safe => {
            Err(RollbackError::TooDeep { target, safe })
        }
        _ => Ok(depth),
    }
}

impl Human for RolledBack {
    fn describe(&self, lines: &mut Lines) {
        let label = if self.dry_run { "would undo" } else { "undone" };
        lines
            .field(label, format_args!("{} blocks", self.blocks_undone))
            .field("height", format_args!("{} (was {})", self.height, self.from_height))
            .field("best hash", &self.best_hash);
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
    let report = Verified::from(report?);
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
}

/// Prunes until nothing is due.
pub(super) fn prune(session: &Session, args: &args::Prune) -> anyhow::Result<Exit> {
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
    output::result(session.json(), &report)?;
    Ok(if report.interrupted { Exit::Interrupted } else { Exit::Success })
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
    }
}

#[cfg(test)]
mod tests {
    use super::coins;

    #[test]
    fn amounts_have_eight_decimals() {
        assert_eq!(coins(313_560_806_831), "3135.60806831");
        assert_eq!(coins(1), "0.00000001");
        assert_eq!(coins(u64::MAX), "184467440737.09551615");
    }
}
