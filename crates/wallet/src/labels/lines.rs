//! Labels as lines of BIP-329: one JSON object each.
//!
//! A file comes from another program. A line that cannot be used is left out and reported; the
//! lines around it count. Lines are applied in their order, each changing only what it says, so
//! that of two lines about one thing the later one wins, field by field.

use serde::{Deserialize, Serialize};
use utxokeep_core::{
    Network,
    wallet::{LabelChange, LabelKind, Micros, WalletId},
};

use super::{Label, LabelCursor, OwnOrigins};
use crate::{Ledger, LedgerError};

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// Records that were carried out.
    pub imported: usize,
    /// Records of a type that is not known; the format asks to ignore them.
    pub ignored: usize,
    /// Lines that cannot be used.
    pub skipped: usize,
    /// Labels that were cut to the longest one that is stored.
    pub truncated: usize,
    /// Why lines were skipped or not used whole: the first of them, up to
    /// [`crate::Limits::label_notes_max`].
    pub notes: Vec<ImportNote>,
}

/// A remark about a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it, and what was done.
    pub what: String,
}

/// The form of a record.
#[derive(Serialize)]
struct WrittenLine<'l> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "ref")]
    reference: &'l str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spendable: Option<bool>,
}

/// The type alone: a record of another type may have any other form.
#[derive(Deserialize)]
struct TypedLine {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct ReadLine {
    #[serde(rename = "ref")]
    reference: String,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    origin: Option<String>,
    #[serde(default)]
    spendable: Option<bool>,
}

/// A record that can be carried out.
struct Record {
    kind: LabelKind,
    reference: String,
    change: LabelChange,
}

impl Ledger {
    /// A page of labels as lines of BIP-329, and the last label, to go on behind it.
    pub fn export_labels(
        &self,
        wallet: WalletId,
        after: Option<&LabelCursor>,
        limit: usize,
    ) -> Result<(String, Option<LabelCursor>), LedgerError> {
        let labels = self.labels(wallet, after, limit)?;
        let mut lines = String::new();
        for label in &labels {
            let Label { kind, reference, label, origin, spendable } = label;
            let line = serde_json::to_string(&WrittenLine {
                kind: kind.name(),
                reference,
                label: label.as_deref(),
                origin: origin.as_deref(),
                spendable: *spendable,
            });
            lines.push_str(&line.map_err(|error| LedgerError::damaged(error.to_string()))?);
            lines.push('\n');
        }
        Ok((lines, labels.last().map(LabelCursor::of)))
    }

    /// Sets labels from lines of BIP-329. Lines that cannot be used are skipped and reported; the
    /// others are set together.
    pub fn import_labels(
        &self,
        wallet: WalletId,
        lines: impl AsRef<[u8]>,
        now: Micros,
    ) -> Result<Imported, LedgerError> {
        let network = self.read_wallet(wallet, |session| Ok(session.network))?;
        let mut reader = Reader {
            network,
            label_chars_max: self.limits.label_chars_max,
            notes_max: self.limits.label_notes_max,
            done: Imported::default(),
        };
        let records = reader.read(lines.as_ref());
        self.write_wallet_even_archived(wallet, now, |session| {
            let mut own = OwnOrigins::default();
            for Record { kind, reference, change } in &records {
                session.put_label(*kind, reference, change, &mut own)?;
            }
            Ok::<(), LedgerError>(())
        })?;
        Ok(Imported { imported: records.len(), ..reader.done })
    }
}

/// Reads a file and remembers what was wrong with it.
struct Reader {
    network: Network,
    label_chars_max: usize,
    notes_max: usize,
    done: Imported,
}

impl Reader {
    fn read(&mut self, bytes: &[u8]) -> Vec<Record> {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let mut records = Vec::new();
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            match self.record(number, line) {
                Ok(Some(record)) => records.push(record),
                Ok(None) => self.done.ignored += 1,
                Err(what) => {
                    self.done.skipped += 1;
                    self.note(number, format!("skipped: {what}"));
                }
            }
        }
        records
    }

    fn note(&mut self, line: usize, what: String) {
        if self.done.notes.len() < self.notes_max {
            self.done.notes.push(ImportNote { line, what });
        }
    }

    /// What a line says; `None` for a type that is not known.
    fn record(&mut self, number: usize, line: &[u8]) -> Result<Option<Record>, String> {
        let line = std::str::from_utf8(line).map_err(|_| "it is not text in UTF-8".to_owned())?;
        let TypedLine { kind } =
            serde_json::from_str(line).map_err(|error| without_place(&error))?;
        let Some(kind) = LabelKind::from_name(&kind) else {
            return Ok(None);
        };
        let ReadLine { reference, label, origin, spendable } =
            serde_json::from_str(line).map_err(|error| without_place(&error))?;
        let reference = kind.reference(self.network, &reference).map_err(|bad| bad.to_string())?;
        let mut change = LabelChange { text: label, origin, spendable };
        if spendable.is_some() && kind != LabelKind::Output {
            change.spendable = None;
            self.note(number, "`spendable` is for outputs only and was not used".to_owned());
        }
        change.check(kind).map_err(|bad| bad.to_string())?;
        let long = change.text.as_mut().and_then(|text| {
            let (end, _) = text.char_indices().nth(self.label_chars_max)?;
            text.truncate(end);
            Some(())
        });
        if long.is_some() {
            self.done.truncated += 1;
            let what = format!("the label was cut to {} characters", self.label_chars_max);
            self.note(number, what);
        }
        Ok(Some(Record { kind, reference, change }))
    }
}

/// What is wrong, without the place inside the line, which reads like another line number.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}
