//! Answers for people: wallets, what they watch and what they have.
//!
//! Names and labels are text of somebody else; they are printed with their control characters
//! written out, so that they cannot steer a terminal.

mod events;
mod payments;

use serde::Serialize;
use utxokeep_core::ErrorKind;

use super::{
    Abandoned, AddressInfo, Archived, BalanceInfo, BlockApplied, BroadcastInfo, ChainCompared,
    CoinInfo, CoinWish, DescriptorAdded, DescriptorInfo, LabelLines, Labelled, LabelsImported,
    LedgerTip, Listed, NewAddressInfo, OfWallet, PrunedAcknowledged, PrunedInfo, PrunedNow,
    RecordedInfo, Removed, ReplacementInfo, RescanInfo, Restored, SetAsideInfo, TipAnswer,
    TxDetails, TxInfo, Verified, VerifiedWallet, WalletInfo, WalletStatus, Watched,
};
use crate::{
    ops::{Answer, Described, Lines},
    times::utc,
};

/// One line of a list.
trait Row {
    fn row(&self) -> String;
}

impl<T: Row + Serialize + Described + Send + 'static> Answer for Listed<T>
where
    Self: Described,
{
    fn show(&self, lines: &mut Lines) {
        for item in &self.items {
            lines.row(item.row());
        }
        describe_set_aside(lines, self.set_aside.as_ref());
        lines.field("rows", self.items.len());
        if let Some(cursor) = &self.next_cursor {
            lines.field("more", format_args!("yes; raise --page-size, or add --cursor {cursor}"));
        }
        if self.is_cut {
            lines.field("more", "perhaps; raise --page-size");
        }
    }
}

const fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn describe_tip(lines: &mut Lines, tip: Option<&LedgerTip>) {
    match tip {
        Some(tip) => lines.field("as of", format_args!("height {} block {}", tip.height, tip.hash)),
        None => lines.field("as of", "before the first block"),
    };
}

/// Says how to find what was paid before to what is watched from now on.
fn scan_advice(wallet: &str, scan_from_height: Option<u32>) -> Option<String> {
    let (wallet, height) = (shell_word(wallet), scan_from_height?);
    Some(format!(
        "the ledger has passed blocks that it does not look at again by itself; to find earlier \
         payments run: utxokeep wallet scan {wallet} --from {height}"
    ))
}

/// A name as a shell takes it.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.chars().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.escape_debug().to_string().replace('\'', "'\\''"))
}

/// Says that an answer may be out of date.
fn describe_set_aside(lines: &mut Lines, aside: Option<&SetAsideInfo>) {
    let Some(aside) = aside else { return };
    let reason = aside.reason.escape_debug();
    lines
        .field(
            "set aside",
            format_args!("since block {}, {}: {reason}", aside.height, utc(aside.at_us)),
        )
        .field("to do", "its coins may be spent since; run wallet scan, or ask serve to rescan it");
}

fn describe_rescan(lines: &mut Lines, rescan: Option<&RescanInfo>) {
    if let Some(RescanInfo { from_height, next_height }) = rescan {
        lines.field("rescan", format_args!("from block {from_height}, next is {next_height}"));
    }
}

impl Row for WalletInfo {
    fn row(&self) -> String {
        let network = format!("{}/{}", self.chain, self.network);
        let name = self.name.escape_debug();
        let standing = match (&self.set_aside, self.rescan) {
            (Some(aside), None) => format!(" (set aside since block {})", aside.height),
            (_, Some(rescan)) => format!(" (rescan at block {})", rescan.next_height),
            (None, None) => String::new(),
        };
        let archived = if self.archived_at_us.is_some() { " (archived)" } else { "" };
        format!("{network:<20} {} {name}{standing}{archived}", utc(self.created_at_us))
    }
}

impl Answer for WalletInfo {
    fn advice(&self) -> Option<String> {
        let text = "the ledger has no block yet, so that the birthday could not be checked";
        self.is_birthday_unchecked.then(|| text.to_owned())
    }

    fn show(&self, lines: &mut Lines) {
        lines
            .field("wallet", self.name.escape_debug())
            .field("network", format_args!("{}/{}", self.chain, self.network))
            .field("made", utc(self.created_at_us))
            .optional("archived", self.archived_at_us.map(utc));
        describe_set_aside(lines, self.set_aside.as_ref());
        describe_rescan(lines, self.rescan.as_ref());
    }
}

impl Answer for WalletStatus {
    fn show(&self, lines: &mut Lines) {
        self.wallet.show(lines);
        describe_tip(lines, self.tip.as_ref());
        lines.optional("birthday", self.birthday_height);
        for id in &self.descriptors_near_edge {
            lines.field("near the edge", format_args!("keychain {id}; see `descriptor list`"));
        }
    }
}

impl Row for AddressInfo {
    fn row(&self) -> String {
        let used = if self.used { "used  " } else { "unused" };
        let address = self.address.clone().unwrap_or_else(|| self.script.to_string());
        format!("{:>8} {used} {address}", self.id)
    }
}

impl Answer for Watched {
    fn advice(&self) -> Option<String> {
        scan_advice(&self.wallet, self.scan_from_height)
    }

    fn show(&self, lines: &mut Lines) {
        let ids: Vec<String> = self.address_ids.iter().map(ToString::to_string).collect();
        lines.field("watched", ids.len()).field("numbers", ids.join(" "));
    }
}

impl Answer for DescriptorAdded {
    fn advice(&self) -> Option<String> {
        scan_advice(&self.wallet, self.scan_from_height)
    }

    fn show(&self, lines: &mut Lines) {
        for item in &self.items {
            lines.row(item.row());
        }
        lines.field("keychains", self.items.len());
    }
}

impl Row for DescriptorInfo {
    fn row(&self) -> String {
        let purpose = match self.keychain {
            0 => "receiving".to_owned(),
            1 => "change   ".to_owned(),
            other => format!("keychain {other}"),
        };
        let range = if self.is_ranged {
            format!("next {} watched to {}", self.next_index, self.derived_count)
        } else {
            "one script".to_owned()
        };
        let near_edge = self.near_edge.as_ref().map_or_else(String::new, |near| {
            let scan = near.scan_from_height.map_or_else(String::new, |height| {
                format!(" and scan the wallet from height {height}")
            });
            let (index, raise_to) = (near.index, near.raise_lookahead_to);
            format!(
                "\n     script {index} was paid near the end of what is watched, others may be missing: \
                 add it again with --lookahead {raise_to}{scan}"
            )
        });
        let archived = if self.archived_at_us.is_some() { " (archived)" } else { "" };
        format!("{:>4} {purpose} {range} {}{archived}{near_edge}", self.id, self.descriptor)
    }
}

impl Answer for NewAddressInfo {
    fn show(&self, lines: &mut Lines) {
        lines
            .optional("address", self.address.as_ref())
            .field("script", &self.script)
            .field("index", self.index);
    }
}

impl Answer for BalanceInfo {
    fn show(&self, lines: &mut Lines) {
        lines
            .field("confirmed", self.confirmed)
            .field("trusted unconfirmed", self.trusted_unconfirmed)
            .field("untrusted unconfirmed", self.untrusted_unconfirmed)
            .field("pending", self.pending)
            .field("immature", self.immature)
            .field("leased", self.leased)
            .field("held back", self.held_back)
            .field("locked", self.locked)
            .field("available", self.available)
            .field("total", self.total);
        match self.archived_height {
            Some(height) => {
                lines.field("as of", format_args!("height {height}, when it was archived"));
            }
            None => describe_tip(lines, self.tip.as_ref()),
        }
        describe_set_aside(lines, self.set_aside.as_ref());
        describe_rescan(lines, self.rescan.as_ref());
    }
}

impl Row for CoinInfo {
    fn row(&self) -> String {
        let place = match self.height {
            Some(height) => format!("height {height} ({} confirmations)", self.confirmations),
            None => self.class.to_owned(),
        };
        let coinbase = if self.is_coinbase { " coinbase" } else { "" };
        let leased = if self.leased { " leased" } else { "" };
        let held_back = if self.is_spendable { "" } else { " held back" };
        let amount = self.amount.to_string();
        let to = self.address.clone().unwrap_or_else(|| self.script.to_string());
        format!("{:<70} {amount:>20} {place}{coinbase}{leased}{held_back} to {to}", self.outpoint)
    }
}

/// What became of a transaction.
fn state(tx: &TxInfo) -> String {
    let mut state = match tx.height {
        Some(height) => format!("height {height}"),
        None => tx.status.to_owned(),
    };
    if tx.is_waiting {
        state.push_str(", waits to be published");
    }
    if let Some(reason) = tx.invalid_reason.filter(|reason| *reason != tx.status) {
        state.push_str(", ");
        state.push_str(reason);
    }
    state
}

impl Row for TxInfo {
    fn row(&self) -> String {
        format!("{} {} {:>20} {}", self.tx_hash, utc(self.received_at_us), self.delta, state(self))
    }
}

impl<T: Answer> Answer for OfWallet<T>
where
    Self: Described,
{
    fn show(&self, lines: &mut Lines) {
        self.item.show(lines);
        describe_set_aside(lines, self.set_aside.as_ref());
    }
}

impl Answer for TxDetails {
    fn show(&self, lines: &mut Lines) {
        let tx = &self.summary;
        lines.field("transaction", tx.tx_hash).field("state", state(tx));
        if let Some(by) = &tx.invalidated_by {
            lines.field("because of", by);
        }
        if let Some(label) = &self.label {
            lines.field("label", format_args!("{label:?}"));
        }
        lines
            .field("recorded", utc(tx.received_at_us))
            .field("coinbase", yes(tx.is_coinbase))
            .field("spent", tx.spent)
            .field("received", tx.received)
            .field("delta", tx.delta)
            .optional("fee", tx.fee);
        for input in &self.inputs {
            let amount = input.amount.map_or_else(|| "-".to_owned(), |own| own.to_string());
            lines.field("input", format_args!("{:<70} {amount:>20}", input.outpoint));
        }
        for output in &self.outputs {
            lines.field("own output", format_args!("{} {}", output.index, output.amount));
        }
        lines.optional("bytes", self.raw.as_ref().map(|raw| raw.0.len()));
    }
}

impl Row for ReplacementInfo {
    fn row(&self) -> String {
        let (new, old) = (&self.replacement, &self.replaced);
        format!("{} {new} for {old} {}", utc(self.created_at_us), self.reason)
    }
}

impl Answer for RecordedInfo {}

impl Answer for BroadcastInfo {}

impl Answer for Abandoned {}

impl Answer for LabelsImported {
    fn show(&self, lines: &mut Lines) {
        lines
            .field("imported", self.imported)
            .field("ignored", self.ignored)
            .field("skipped", self.skipped)
            .field("truncated", self.truncated);
        for note in &self.notes {
            lines.row(format!("  line {}: {}", note.line, note.what.escape_debug()));
        }
    }
}

impl Answer for CoinWish {}

impl Answer for PrunedNow {
    fn show(&self, lines: &mut Lines) {
        for tx in &self.transactions {
            lines.row(tx.summary.row());
        }
        lines.field("removed", self.transactions.len());
    }
}

/// Which blocks a wallet was not compared with, and why.
fn unseen_text(chain: &ChainCompared) -> Option<String> {
    let why = match chain.unseen_reason? {
        "archived" => "the wallet is archived",
        "set_aside" => "the wallet is set aside",
        _ => "a rescan is pending",
    };
    Some(format!("blocks from {} on: {why}", chain.unseen_from_height?))
}

impl Row for VerifiedWallet {
    fn row(&self) -> String {
        let name = self.wallet.escape_debug();
        match (&self.verified, &self.error) {
            (Some(verified), _) => {
                let mut line = format!("{name}  sound");
                if !verified.is_sound {
                    let rules = verified.violations.len();
                    line = format!("{name}  broken rules: {rules}, shown by wallet verify {name}");
                }
                if verified.definitions_compared == 0 {
                    line.push_str("; schema not compared");
                }
                if let Some(unseen) = verified.chain.as_ref().and_then(unseen_text) {
                    line.push_str("; not compared: ");
                    line.push_str(&unseen);
                }
                line
            }
            (None, Some(error)) => format!("{name}  not checked: {}", error.message),
            (None, None) => format!("{name}  not checked"),
        }
    }
}

impl Answer for Verified {
    fn fault(&self) -> Option<ErrorKind> {
        (!self.is_sound).then_some(ErrorKind::Corrupt)
    }

    fn show(&self, lines: &mut Lines) {
        lines.field("sound", yes(self.is_sound)).field(
            "decoded",
            format_args!("{} of {} transactions", self.transactions_decoded, self.transactions),
        );
        lines.field("derived", format_args!("{} scripts of keychains", self.scripts_derived));
        match self.definitions_compared {
            0 => lines
                .field("schema", "not compared: the database user may not make temporary tables"),
            count => lines.field("schema", format_args!("{count} definitions")),
        };
        if let Some(chain) = &self.chain {
            lines.field(
                "chain",
                format_args!(
                    "{} outputs to {} scripts at block {}",
                    chain.outputs, chain.scripts, chain.tip
                ),
            );
            if let Some(unseen) = unseen_text(chain) {
                lines.field("not compared", unseen);
            }
        }
        for found in &self.violations {
            lines.row(format!("  broken: {} ({} rows)", found.rule, found.rows));
            for example in &found.examples {
                lines.row(format!("    {example}"));
            }
            if found.not_named > 0 {
                lines.row(format!("    and {} more", found.not_named));
            }
            lines.row(format!("    what to do: {}", found.remedy));
        }
    }
}

impl Answer for Restored {
    fn advice(&self) -> Option<String> {
        scan_advice(&self.wallet, self.scan_from_height)
    }

    fn show(&self, lines: &mut Lines) {
        lines.field("restored", "yes").optional("scan from", self.scan_from_height);
    }
}

impl Answer for TipAnswer {
    fn show(&self, lines: &mut Lines) {
        describe_tip(lines, self.tip.as_ref());
    }
}

impl Answer for CoinInfo {}

impl Row for PrunedInfo {
    fn row(&self) -> String {
        format!("{:>8} {}", self.id, self.tx_hash)
    }
}

impl Answer for LabelLines {
    fn lines(&self) -> Option<&str> {
        Some(&self.0)
    }
}

impl Answer for Archived {}
impl Answer for Removed {}
impl Answer for Labelled {}
impl Answer for RescanInfo {}
impl Answer for PrunedAcknowledged {}
impl Answer for BlockApplied {}
