//! `chain recover` and `tx recover`: a database whose write-ahead log is damaged or lost.
//!
//! Opening refuses such a log, because what stands behind the damage was answered for. These
//! commands list it, and open the database without it only when they are told to accept the loss.

use std::{collections::BTreeSet, path::Path};

use serde::Serialize;
use utxokeep_core::{Height, Txid};
use utxokeep_index::tables::tables_of;
use utxokeep_kv::{KvError, LostRow, RocksKv, RocksOptions, TableSpec, Use};
use utxokeep_txstore::TABLES as STORE_TABLES;

use super::{
    args::{ChainRecover, TxRecover},
    error::CliError,
    exit::Exit,
    open::Session,
    output::{self, Human, Lines},
};
use crate::json::Partial;

/// Names that are listed; the rest is counted.
const NAMES_MAX: usize = 100_000;
/// Names that are shown to people.
const SHOWN_MAX: usize = 20;

#[derive(Debug, Serialize)]
struct Damage {
    file: String,
    offset: u64,
    what: &'static str,
}

/// What the log holds, and what became of it.
#[derive(Debug, Serialize)]
struct Recovery {
    damage: Option<Damage>,
    recovered: bool,
    good_batches: u64,
    lost_batches: u64,
    lost_rows: u64,
    unreadable_rows: u64,
    /// Acknowledged writes that are in no file any more, in bytes of the log.
    missing_bytes: u64,
    /// What the names are names of.
    #[serde(skip)]
    of: &'static str,
    names_total: usize,
    names: Vec<String>,
    /// What a chain database keeps, when that is not everything and the database can be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Partial>,
}

impl Recovery {
    /// Whether the damage is still there.
    const fn is_damaged(&self) -> bool {
        self.damage.is_some() && !self.recovered
    }

    fn finish(&self, session: &Session) -> anyhow::Result<Exit> {
        output::result(session.json(), self)?;
        Ok(if self.is_damaged() { Exit::Unsound } else { Exit::Success })
    }
}

impl Human for Recovery {
    fn describe(&self, lines: &mut Lines) {
        let Some(Damage { file, offset, what }) = &self.damage else {
            lines.field("result", "the log is sound; there is nothing to recover");
            output::partial(lines, self.partial.as_ref());
            return;
        };
        lines
            .field("damage", format_args!("{file} at byte {offset}: {what}"))
            .field("before it", format_args!("{} batches, which are kept", self.good_batches))
            .field(
                "behind it",
                format_args!(
                    "{} batches with {} writes, and at least {} writes that cannot be read",
                    self.lost_batches, self.lost_rows, self.unreadable_rows
                ),
            );
        if self.missing_bytes > 0 {
            lines.field(
                "missing",
                format_args!(
                    "{} bytes of acknowledged writes; what they held cannot be listed",
                    self.missing_bytes
                ),
            );
        }
        lines.field(self.of, self.names_total);
        for name in self.names.iter().take(SHOWN_MAX) {
            lines.row(format!("  {name}"));
        }
        if self.names_total > SHOWN_MAX {
            lines.row(format!("  and {} more: --json lists them", self.names_total - SHOWN_MAX));
        }
        let result = if self.recovered {
            "opened at the last good point; what was left of the logs is in its directory lost; run \
             `chain verify` or `tx verify` next"
        } else {
            "nothing was changed; --accept-loss opens the database without it"
        };
        lines.field("result", result);
        output::partial(lines, self.partial.as_ref());
    }
}

/// Looks at the log of the chain database, and gives up what stands behind damage if told to.
pub(super) fn chain(session: &Session, args: &ChainRecover) -> anyhow::Result<Exit> {
    let dir = session.data();
    let on_disk = RocksKv::tables_on_disk(dir)?;
    let tables = tables_of(&on_disk);
    let height = |row: &LostRow<'_>| {
        let is_block = row.table == Some("chain_blocks") && !row.is_deletion;
        is_block.then(|| Height::from_key(row.key)).flatten()
    };
    let options = session.config().rocks_options();
    let mut recovery = recover(dir, tables, options, args.accept_loss, "blocks lost", &height)?;
    // What was found in the log is the answer, also where the database cannot be opened.
    if !recovery.is_damaged() {
        let index = session.open().ok();
        let partial = index.as_ref().and_then(|index| index.view().ok()?.partial());
        recovery.partial = Partial::new(partial);
    }
    recovery.finish(session)
}

/// The same for a node store.
pub(super) fn tx(session: &Session, args: &TxRecover) -> anyhow::Result<Exit> {
    let config = &session.config().txstore;
    let url = args.store.store.as_deref().unwrap_or(&config.url);
    if url.is_empty() {
        return Err(CliError::NoNodeStore.into());
    }
    let Some(dir) = url.strip_prefix("rocksdb:") else {
        return Err(CliError::NoLogToRecover.into());
    };
    let txid = |row: &LostRow<'_>| {
        (row.table == Some("tx_records")).then(|| Txid::from_slice(row.key)).flatten()
    };
    let options = RocksOptions::within((config.cache_mib.get() as usize) << 20);
    let options = options.for_use(Use::ManyWriters);
    let of = "transactions to compare with the node";
    recover(Path::new(dir), STORE_TABLES, options, args.accept_loss, of, &txid)?.finish(session)
}

fn recover<N: Ord + ToString>(
    dir: &Path,
    tables: &'static [TableSpec],
    options: RocksOptions,
    accept_loss: bool,
    of: &'static str,
    name: &dyn Fn(&LostRow<'_>) -> Option<N>,
) -> anyhow::Result<Recovery> {
    if RocksKv::tables_on_disk(dir)?.is_empty() {
        return Err(KvError::NotFound { path: dir.to_owned() }.into());
    }
    let mut names = BTreeSet::new();
    let mut names_total = 0;
    let report = RocksKv::examine_log(dir, &mut |row| {
        let Some(name) = name(row) else { return };
        if names.contains(&name) {
            return;
        }
        names_total += 1;
        if names.len() < NAMES_MAX {
            names.insert(name);
        }
    })?;
    let recovered = accept_loss && report.damage.is_some();
    if recovered {
        drop(RocksKv::recover(dir, tables, options)?);
    }
    Ok(Recovery {
        damage: report.damage.map(|damage| Damage {
            file: damage.file,
            offset: damage.offset,
            what: damage.what,
        }),
        recovered,
        good_batches: report.good_batches,
        lost_batches: report.lost_batches,
        lost_rows: report.lost_rows,
        unreadable_rows: report.unreadable_rows,
        missing_bytes: report.missing_bytes,
        of,
        names_total,
        names: names.iter().map(ToString::to_string).collect(),
        partial: None,
    })
}
