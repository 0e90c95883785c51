//! `chain status`.

use serde::Serialize;
use utxokeep_core::Height;
use utxokeep_index::{IndexSettings, IndexStatus};

use super::{
    digest::coins,
    exit::Exit,
    open::Session,
    output::{self, Human, Lines},
    wallet::utc::utc,
};
use crate::json::{Partial, epoch_of};

#[derive(Debug, Serialize)]
struct PrintedChainStatus {
    chain: &'static str,
    network: &'static str,
    height: Option<u32>,
    best_hash: Option<String>,
    block_time: Option<u64>,
    /// Where `serve` and `chain follow` take blocks from, as the configuration says.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    txouts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Partial>,
    #[serde(flatten)]
    facts: Facts,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter_entries: Option<usize>,
    rollback_floor: Option<u32>,
    undo_base: Option<u32>,
    format_version: u64,
    index_enabled: bool,
    address_index: bool,
    muhash: bool,
    tables: Vec<Table>,
}

/// What only one of the chains has.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Facts {
    Bitcoin {
        total_amount: Option<String>,
        total_amount_sat: Option<String>,
    },
    Cardano {
        slot: Option<u64>,
        epoch: Option<u32>,
        lovelace: Option<String>,
        started_mid_chain_at: Option<u32>,
        missing_inputs: u64,
        payment_index: bool,
        stake_index: bool,
    },
}

impl Facts {
    fn new(status: &IndexStatus, settings: &IndexSettings) -> Self {
        let amount = status.totals.map(|totals| totals.total_amount);
        let exact = amount.map(|amount| amount.to_string());
        if !status.network.is_cardano() {
            return Self::Bitcoin { total_amount: amount.map(coins), total_amount_sat: exact };
        }
        Self::Cardano {
            slot: status.tip.map(|tip| tip.slot),
            epoch: status.tip.and_then(|tip| epoch_of(tip.slot, settings)),
            lovelace: exact,
            started_mid_chain_at: status.started_mid_chain_at.map(Height::get),
            missing_inputs: status.missing_inputs,
            payment_index: settings.enabled && settings.payment_index,
            stake_index: settings.enabled && settings.stake_index,
        }
    }
}

#[derive(Debug, Serialize)]
struct Table {
    name: &'static str,
    disk_bytes: u64,
    rows_estimate: u64,
}

fn time(seconds: u64) -> String {
    utc(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000))
}

/// Prints what the database is and where it stands.
pub(super) fn status(session: &Session) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let settings = index.settings();
    let status = index.status()?;
    let network = status.network;
    let tables = status.tables.iter().map(|table| Table {
        name: table.name,
        disk_bytes: table.disk_bytes,
        rows_estimate: table.rows_estimate,
    });
    let status = PrintedChainStatus {
        chain: network.chain(),
        network: network.name(),
        height: status.tip.map(|tip| tip.height.get()),
        best_hash: status.tip.map(|tip| network.hash_text(tip.hash.as_bytes())),
        block_time: status.tip_time,
        source: session.config().chain.source.as_ref().map(ToString::to_string),
        txouts: status.totals.map(|totals| totals.txouts),
        partial: Partial::new(status.partial),
        facts: Facts::new(&status, settings),
        filter_entries: Some(status.filter_entries).filter(|&n| network.is_cardano() || n > 0),
        rollback_floor: status.rollback_floor.map(Height::get),
        undo_base: status.undo_base.map(Height::get),
        format_version: status.format_version,
        index_enabled: settings.enabled,
        address_index: settings.enabled && settings.address_index,
        muhash: settings.enabled && settings.muhash,
        tables: tables.collect(),
    };
    output::result(session.json(), &status)?;
    Ok(Exit::Success)
}

impl Human for PrintedChainStatus {
    fn describe(&self, lines: &mut Lines) {
        let on = |is_on: bool| if is_on { "on" } else { "off" };
        lines
            .field("network", format_args!("{}/{}", self.chain, self.network))
            .optional("height", self.height)
            .optional("best hash", self.best_hash.as_ref())
            .optional("block time", self.block_time.map(time))
            .optional("outputs", self.txouts);
        if let Some(source) = &self.source {
            lines.field("source", source);
        }
        output::partial(lines, self.partial.as_ref());
        match &self.facts {
            Facts::Bitcoin { total_amount, .. } => {
                lines.optional("total amount", total_amount.as_ref());
            }
            Facts::Cardano { slot, epoch, lovelace, started_mid_chain_at, .. } => {
                lines
                    .optional("slot", *slot)
                    .optional("epoch", *epoch)
                    .optional("lovelace", lovelace.as_ref());
                if let Some(height) = started_mid_chain_at {
                    lines.field("first block", format_args!("{height}: blocks before are missing"));
                }
            }
        }
        if let Facts::Cardano { missing_inputs, .. } = self.facts {
            lines.field("missing inputs", missing_inputs);
        }
        match self.filter_entries {
            Some(0) => lines.field("filter", "none"),
            Some(entries) => lines.field("filter", format_args!("{entries} owners")),
            None => lines,
        };
        lines
            .optional("rollback floor", self.rollback_floor)
            .optional("undo base", self.undo_base)
            .field("format", self.format_version)
            .field("index", on(self.index_enabled))
            .field("address index", on(self.address_index));
        if let Facts::Cardano { payment_index, stake_index, .. } = self.facts {
            lines.field("payment index", on(payment_index)).field("stake index", on(stake_index));
        }
        lines
            .field("muhash", on(self.muhash))
            .row("")
            .row(format!("{:<20} {:>16} {:>16}", "table", "bytes on disk", "rows (about)"));
        for Table { name, disk_bytes, rows_estimate } in &self.tables {
            lines.row(format!("{name:<20} {disk_bytes:>16} {rows_estimate:>16}"));
        }
    }
}
