//! Labels by kind and reference, and their exchange format, BIP-329.
//!
//! Labels do not hang on rows: one may exist before its transaction and survives its removal. One
//! that says that an output must not be spent holds its coin back, see [`marks`].

pub(crate) mod marks;

use serde::{Deserialize, Serialize};
use utxokeep_core::{
    Txid,
    wallet::{Micros, WalletId},
};
use utxokeep_sql::{Row, SqlError, Value};

use crate::{Ledger, LedgerError, ingest::check_label, rows, session::Session};

const SELECT_ONE: &str = "SELECT label FROM labels WHERE wallet_id = $1 AND kind = $2 AND ref = $3";
const SELECT_PAGE: &str = "SELECT kind, ref, label, origin, spendable FROM labels
    WHERE wallet_id = $1 AND (kind > $2 OR (kind = $2 AND ref > $3))
    ORDER BY kind, ref LIMIT $4";
const UPSERT: &str = "INSERT INTO labels (wallet_id, kind, ref, label, origin, spendable)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (wallet_id, kind, ref) DO UPDATE SET label = excluded.label,
        origin = COALESCE(excluded.origin, labels.origin),
        spendable = COALESCE(excluded.spendable, labels.spendable)";
const DELETE: &str = "DELETE FROM labels WHERE wallet_id = $1 AND kind = $2 AND ref = $3";

/// Characters of a reference: an extended key or an output is far below.
const REF_CHARS_MAX: usize = 1_000;

/// What a label is about. The names are those of BIP-329.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelKind {
    /// A transaction.
    Tx,
    /// An address.
    Addr,
    /// A public key.
    Pubkey,
    /// An input, as `txid:index`.
    Input,
    /// An output, as `txid:index`.
    Output,
    /// An extended public key.
    Xpub,
}

impl LabelKind {
    const ALL: [Self; 6] =
        [Self::Tx, Self::Addr, Self::Pubkey, Self::Input, Self::Output, Self::Xpub];

    /// The name in database and exchange format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Addr => "addr",
            Self::Pubkey => "pubkey",
            Self::Input => "input",
            Self::Output => "output",
            Self::Xpub => "xpub",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A label: one line of the exchange format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: LabelKind,
    /// Which one.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The text; empty clears a label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Where the key of a transaction comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Whether an output may be spent, as somebody wished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spendable: Option<bool>,
}

/// What an import did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Labels that are set now.
    pub labels: usize,
    /// Lines of a type that is not known; the format asks to ignore them.
    pub ignored: usize,
}

impl Ledger {
    /// Sets the label of a transaction, which need not exist yet; an empty text clears it.
    pub fn set_tx_label(
        &self,
        wallet: WalletId,
        txid: &Txid,
        text: &str,
        now: Micros,
    ) -> Result<(), LedgerError> {
        self.write_wallet(wallet, now, |session| {
            let reference = session.tx_text(txid);
            let (kind, label) = (LabelKind::Tx, text.to_owned());
            session.put_label(&Label { kind, reference, label, origin: None, spendable: None })
        })
    }

    /// The label of a transaction.
    pub fn tx_label(&self, wallet: WalletId, txid: &Txid) -> Result<Option<String>, LedgerError> {
        self.read_wallet(wallet, |session| {
            let reference = session.tx_text(txid);
            Ok(session.label(LabelKind::Tx, &reference)?)
        })
    }

    /// Sets any label; one without text, origin and wish clears it.
    pub fn set_label(
        &self,
        wallet: WalletId,
        label: &Label,
        now: Micros,
    ) -> Result<(), LedgerError> {
        self.write_wallet(wallet, now, |session| session.put_label(label))
    }

    /// The text of any label.
    pub fn label(
        &self,
        wallet: WalletId,
        kind: LabelKind,
        reference: &str,
    ) -> Result<Option<String>, LedgerError> {
        self.read_wallet(wallet, |session| Ok(session.label(kind, reference)?))
    }

    /// A page of all labels, behind the given one, by name of the kind and reference.
    pub fn labels(
        &self,
        wallet: WalletId,
        after: Option<(LabelKind, &str)>,
        limit: usize,
    ) -> Result<Vec<Label>, LedgerError> {
        let limit = self.page(limit);
        let (kind, reference) = after.map_or(("", ""), |(kind, text)| (kind.name(), text));
        self.read_wallet(wallet, |session| {
            let key = [session.id(), Value::from(kind), Value::from(reference), limit];
            Ok(session.tx.query_all(SELECT_PAGE, &key, read_label)?)
        })
    }

    /// A page of labels as lines of BIP-329, and the last label, to go on behind it.
    pub fn export_labels(
        &self,
        wallet: WalletId,
        after: Option<(LabelKind, &str)>,
        limit: usize,
    ) -> Result<(String, Option<(LabelKind, String)>), LedgerError> {
        let labels = self.labels(wallet, after, limit)?;
        let mut lines = String::new();
        for label in &labels {
            let line = serde_json::to_string(label)
                .map_err(|error| LedgerError::damaged(error.to_string()))?;
            lines.push_str(&line);
            lines.push('\n');
        }
        Ok((lines, labels.last().map(|last| (last.kind, last.reference.clone()))))
    }

    /// Sets labels from lines of BIP-329, all or none.
    pub fn import_labels(
        &self,
        wallet: WalletId,
        lines: &str,
        now: Micros,
    ) -> Result<Imported, LedgerError> {
        let mut labels = Vec::new();
        let mut imported = Imported::default();
        for (number, line) in (1..).zip(lines.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            match parse(line) {
                Ok(Some(label)) => labels.push(label),
                Ok(None) => imported.ignored += 1,
                Err(error) => {
                    return Err(LedgerError::argument(format!("line {number}: {error}")));
                }
            }
        }
        imported.labels = labels.len();
        self.write_wallet(wallet, now, |session| {
            labels.iter().try_for_each(|label| session.put_label(label))?;
            Ok(imported)
        })
    }
}

/// A line of the format; `None` for a type that is not known.
fn parse(line: &str) -> Result<Option<Label>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        kind: String,
    }
    let typed: Typed = serde_json::from_str(line)?;
    if LabelKind::from_name(&typed.kind).is_none() {
        return Ok(None);
    }
    serde_json::from_str(line).map(Some)
}

impl Session<'_, '_> {
    pub(crate) fn label(
        &mut self,
        kind: LabelKind,
        reference: &str,
    ) -> Result<Option<String>, SqlError> {
        let key = [self.id(), Value::from(kind.name()), Value::from(reference)];
        self.tx.query_opt(SELECT_ONE, &key, |row| Ok(row.text(0)?.to_owned()))
    }

    fn put_label(&mut self, label: &Label) -> Result<(), LedgerError> {
        check_label(&label.label, &self.limits)?;
        let long = |text: &str| text.chars().count() > REF_CHARS_MAX;
        if label.reference.is_empty()
            || long(&label.reference)
            || label.origin.as_deref().is_some_and(long)
        {
            return Err(LedgerError::argument(format!(
                "reference and origin of a label have 1 to {REF_CHARS_MAX} characters"
            )));
        }
        if label.spendable.is_some() && label.kind != LabelKind::Output {
            return Err(LedgerError::argument("only outputs can be marked as spendable or not"));
        }
        let outpoint = match label.kind {
            LabelKind::Output => self.outpoint_of(&label.reference),
            _ => None,
        };
        // One output has one name, so that no two labels disagree about it.
        let reference = outpoint
            .map_or_else(|| label.reference.clone(), |outpoint| self.output_text(&outpoint));
        let key = [self.id(), Value::from(label.kind.name()), Value::from(&reference)];
        if label.label.is_empty() && label.origin.is_none() && label.spendable.is_none() {
            self.tx.execute(DELETE, &key)?;
            return self.follow_label(outpoint, &reference);
        }
        let row = [
            key[0],
            key[1],
            key[2],
            Value::from(&label.label),
            Value::from(label.origin.as_deref()),
            Value::from(label.spendable),
        ];
        self.tx.execute(UPSERT, &row)?;
        self.follow_label(outpoint, &reference)
    }
}

fn read_label(row: &Row<'_>) -> Result<Label, SqlError> {
    let kind = row.text(0)?;
    let spendable = row.opt_int(4)?.map(|_| rows::flag(row, 4)).transpose()?;
    Ok(Label {
        kind: LabelKind::from_name(kind).ok_or_else(|| rows::bad("a label of unknown kind"))?,
        reference: row.text(1)?.to_owned(),
        label: row.text(2)?.to_owned(),
        origin: row.opt_text(3)?.map(str::to_owned),
        spendable,
    })
}
