//! Answers for people: leases, selections, transactions to be signed.

use utxokeep_core::ChainHash;

use super::{Row, yes};
use crate::{
    ops::{Answer, Lines},
    times::utc,
    wallets::{
        BumpInfo, CleanedLeases, LeaseInfo, Leased, PsbtInfo, Released, SelectedInfo, SelectionInfo,
    },
};

impl Row for LeaseInfo {
    fn row(&self) -> String {
        let end = if self.held {
            match self.spent_height {
                Some(height) => format!("held, spent at height {height}"),
                None => "held".to_owned(),
            }
        } else {
            format!("until {}", utc(self.expires_at_us))
        };
        let amount = self.amount.to_string();
        let spent = self.spent_by.as_ref().map(|by| format!(" spent by {by}")).unwrap_or_default();
        format!("{:<70} {amount:>20} {end} owner {}{spent}", self.outpoint, self.owner)
    }
}

impl Answer for Leased {
    fn show(&self, lines: &mut Lines) {
        match &self.owner_name {
            Some(name) => lines.field("owner", format_args!("{} ({name})", self.owner)),
            None => lines.field("owner", &self.owner),
        };
        lines.field("leased until", utc(self.expires_at_us));
    }
}

impl Answer for CleanedLeases {
    fn show(&self, lines: &mut Lines) {
        lines.field("removed", self.leases);
        if self.has_more {
            lines.field("more", "yes; run the command again");
        }
    }
}

impl Answer for Released {}

fn describe_inputs(lines: &mut Lines, coins: &[SelectedInfo]) {
    for coin in coins {
        let amount = coin.amount.to_string();
        lines.field("input", format_args!("{:<70} {amount:>20}", coin.outpoint));
    }
}

impl Answer for SelectionInfo {
    fn show(&self, lines: &mut Lines) {
        describe_inputs(lines, &self.coins);
        lines
            .field("sum", self.input_total)
            .field("fee", self.fee)
            .optional("change", self.change)
            .field("chosen by", format_args!("{}, waste {}", self.algorithm, self.waste));
        if let Some(leased) = &self.leased {
            leased.show(lines);
        }
    }
}

/// The id, which people must not rely on while a signature can change it.
fn describe_txid(lines: &mut Lines, txid: &ChainHash, is_final: bool) {
    let until = if is_final { "" } else { " (changes when it is signed)" };
    lines.field("transaction", format_args!("{txid}{until}"));
}

/// Where change goes, and from when on a block may hold the transaction.
fn describe_validity(
    lines: &mut Lines,
    change_address: Option<&str>,
    height: Option<u32>,
    time: Option<u32>,
) {
    if let Some(address) = change_address {
        lines.field("change to", address);
    }
    if let Some(height) = height {
        lines.field("valid from", format_args!("height {height}"));
    }
    if let Some(time) = time {
        let time = utc(i64::from(time) * 1_000_000);
        lines.field("valid from", format_args!("{time}, by the time of the chain"));
    }
}

impl Answer for PsbtInfo {
    fn show(&self, lines: &mut Lines) {
        describe_txid(lines, &self.tx_hash, self.is_tx_hash_final);
        self.selection.show(lines);
        describe_validity(
            lines,
            self.change_address.as_deref(),
            self.valid_from_height,
            self.valid_from_time,
        );
        lines.field("recorded", yes(self.recorded.is_some()));
    }
}

impl Answer for BumpInfo {
    fn show(&self, lines: &mut Lines) {
        describe_txid(lines, &self.tx_hash, self.is_tx_hash_final);
        lines.field("replaces", self.replaces);
        for evicted in &self.evicts {
            lines.field("pushes out", evicted);
        }
        describe_inputs(lines, &self.inputs);
        lines
            .field("added inputs", self.inputs.len().saturating_sub(self.kept_inputs))
            .field("fee", self.fee)
            .field("replaced fees", self.replaced_fees)
            .field("weight", self.weight)
            .optional("change", self.change);
        describe_validity(
            lines,
            self.change_address.as_deref(),
            self.valid_from_height,
            self.valid_from_time,
        );
        if let Some(leased) = &self.leased {
            leased.show(lines);
        }
        lines.field("recorded", yes(self.recorded.is_some()));
    }
}
