//! Labels by kind and reference.
//!
//! Labels do not hang on rows: one may exist before its transaction and survives its removal. One
//! that says that an output must not be spent holds its coin back, see [`marks`]. What a label may
//! be and what a record changes is decided in `utxokeep_core::wallet`; files are read in
//! [`lines`].
//!
//! # Invariants
//!
//! * A transaction has one label of this wallet, and at most one more for each other origin that
//!   was imported. Anything else has one label.

mod lines;
pub(crate) mod marks;

use utxokeep_core::{
    OutPoint, Txid,
    wallet::{LabelChange, LabelState, Micros, WalletId, is_own_origin},
};
use utxokeep_sql::{Row, SqlError, Value};

pub use self::lines::{ImportNote, Imported};
use crate::{Ledger, LedgerError, ingest::check_label, rows, session::Session};
pub use utxokeep_core::wallet::LabelKind;

const SELECT_ONE: &str = "SELECT origin, label, spendable FROM labels
    WHERE wallet_id = $1 AND kind = $2 AND ref = $3 ORDER BY origin";
const SELECT_PAGE: &str = "SELECT kind, ref, label, origin, spendable FROM labels
    WHERE wallet_id = $1 AND (kind > $2 OR (kind = $2 AND (ref > $3 OR (ref = $3 AND origin > $4))))
    ORDER BY kind, ref, origin LIMIT $5";
const INSERT: &str = "INSERT INTO labels (wallet_id, kind, ref, origin, label, spendable)
    VALUES ($1, $2, $3, $4, $5, $6)";
const DELETE: &str =
    "DELETE FROM labels WHERE wallet_id = $1 AND kind = $2 AND ref = $3 AND origin = $4";

/// A label: one record of BIP-329. When it is set, what is `None` is not altered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// What it is about.
    pub kind: LabelKind,
    /// Which one.
    pub reference: String,
    /// The text; an empty one clears it.
    pub label: Option<String>,
    /// The wallet it comes from, as a descriptor without keys. Keeps labels apart that several
    /// wallets have for one transaction.
    pub origin: Option<String>,
    /// Whether an output may be spent.
    pub spendable: Option<bool>,
}

impl Label {
    fn change(&self) -> LabelChange {
        LabelChange {
            text: self.label.clone(),
            origin: self.origin.clone(),
            spendable: self.spendable,
        }
    }
}

/// A place in the list of all labels, to go on behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelCursor {
    kind: LabelKind,
    reference: String,
    origin: String,
}

impl LabelCursor {
    fn of(label: &Label) -> Self {
        Self {
            kind: label.kind,
            reference: label.reference.clone(),
            origin: label.origin.clone().unwrap_or_default(),
        }
    }
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
        self.write_wallet_even_archived(wallet, now, |session| {
            let reference = session.tx_text(txid);
            let text = Some(text.to_owned());
            let change = LabelChange { text, ..LabelChange::default() };
            session.put_label(LabelKind::Tx, &reference, &change, &mut OwnOrigins::default())
        })
    }

    /// The label of a transaction.
    pub fn tx_label(&self, wallet: WalletId, txid: &Txid) -> Result<Option<String>, LedgerError> {
        self.read_wallet(wallet, |session| {
            let reference = session.tx_text(txid);
            Ok(session.label(LabelKind::Tx, &reference)?)
        })
    }

    /// Sets any label. What it leaves out stays as it is.
    pub fn set_label(
        &self,
        wallet: WalletId,
        label: &Label,
        now: Micros,
    ) -> Result<(), LedgerError> {
        let change = label.change();
        change.check(label.kind)?;
        self.write_wallet_even_archived(wallet, now, |session| {
            let reference = label.kind.reference(session.network, &label.reference)?;
            session.put_label(label.kind, &reference, &change, &mut OwnOrigins::default())
        })
    }

    /// Says whether an output of the wallet may be selected and leased. Its text stays.
    pub fn set_spendable(
        &self,
        wallet: WalletId,
        output: &OutPoint,
        spendable: bool,
        now: Micros,
    ) -> Result<(), LedgerError> {
        let change = LabelChange { spendable: Some(spendable), ..LabelChange::default() };
        self.write_wallet_even_archived(wallet, now, |session| {
            // A label may come before its output, but a mistyped command must not look obeyed.
            if session.coin_id(output)?.is_none() {
                return Err(LedgerError::UtxoNotFound(session.network.outpoint(output)));
            }
            let reference = session.output_text(output);
            session.put_label(LabelKind::Output, &reference, &change, &mut OwnOrigins::default())
        })
    }

    /// The text of any label.
    pub fn label(
        &self,
        wallet: WalletId,
        kind: LabelKind,
        reference: &str,
    ) -> Result<Option<String>, LedgerError> {
        self.read_wallet(wallet, |session| {
            let reference = kind.reference(session.network, reference)?;
            Ok(session.label(kind, &reference)?)
        })
    }

    /// A page of all labels, behind the given one, by name of the kind, reference and origin.
    pub fn labels(
        &self,
        wallet: WalletId,
        after: Option<&LabelCursor>,
        limit: usize,
    ) -> Result<Vec<Label>, LedgerError> {
        let limit = self.page(limit);
        let (kind, reference, origin) = after.map_or(("", "", ""), |last| {
            (last.kind.name(), last.reference.as_str(), last.origin.as_str())
        });
        self.read_wallet(wallet, |session| {
            let behind = [kind, reference, origin].map(Value::from);
            let key = [session.id(), behind[0], behind[1], behind[2], limit];
            Ok(session.tx.query_all(SELECT_PAGE, &key, read_label)?)
        })
    }
}

/// Descriptors of the wallet, read when an origin has to be compared with them.
#[derive(Debug, Default)]
pub(crate) struct OwnOrigins(Option<Vec<String>>);

impl OwnOrigins {
    fn contain(&mut self, session: &mut Session<'_, '_>, origin: &str) -> Result<bool, SqlError> {
        if self.0.is_none() {
            let all = session.descriptors()?;
            self.0 = Some(all.into_iter().map(|descriptor| descriptor.text).collect());
        }
        let texts = self.0.iter().flatten().map(String::as_str);
        Ok(origin.is_empty() || is_own_origin(origin, texts))
    }
}

impl Session<'_, '_> {
    fn label_rows(
        &mut self,
        kind: LabelKind,
        reference: &str,
    ) -> Result<Vec<LabelState>, SqlError> {
        let key = [self.id(), Value::from(kind.name()), Value::from(reference)];
        self.tx.query_all(SELECT_ONE, &key, |row| {
            let origin = Some(row.text(0)?.to_owned()).filter(|origin| !origin.is_empty());
            Ok(LabelState { text: row.text(1)?.to_owned(), origin, spendable: wish(row, 2)? })
        })
    }

    /// The label to show: this wallet's own, else that of the first other wallet.
    pub(crate) fn label(
        &mut self,
        kind: LabelKind,
        reference: &str,
    ) -> Result<Option<String>, SqlError> {
        let mut stored = self.label_rows(kind, reference)?;
        let mut shown = 0;
        if stored.len() > 1 {
            shown = self.own_row(&stored, &mut OwnOrigins::default())?.unwrap_or(0);
        }
        let text = (shown < stored.len()).then(|| stored.swap_remove(shown).text);
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// Which of the rows is this wallet's own. The one without origin comes first.
    fn own_row(
        &mut self,
        stored: &[LabelState],
        own: &mut OwnOrigins,
    ) -> Result<Option<usize>, SqlError> {
        for (at, state) in stored.iter().enumerate() {
            let origin = state.origin.as_deref().unwrap_or_default();
            if own.contain(self, origin)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Which row a record is about; `None` for a new one.
    fn row_of(
        &mut self,
        kind: LabelKind,
        stored: &[LabelState],
        origin: Option<&str>,
        own: &mut OwnOrigins,
    ) -> Result<Option<usize>, SqlError> {
        if kind != LabelKind::Tx {
            return Ok((!stored.is_empty()).then_some(0));
        }
        let same = stored.iter().position(|state| state.origin.as_deref() == origin);
        let is_own = |session: &mut Self, own: &mut OwnOrigins| match origin {
            Some(origin) => own.contain(session, origin),
            None => Ok(true),
        };
        if same.is_none() && !stored.is_empty() && is_own(self, own)? {
            return self.own_row(stored, own);
        }
        Ok(same)
    }

    /// Carries out what a record says. The reference is in its one form.
    fn put_label(
        &mut self,
        kind: LabelKind,
        reference: &str,
        change: &LabelChange,
        own: &mut OwnOrigins,
    ) -> Result<(), LedgerError> {
        if let Some(text) = &change.text {
            check_label(text, &self.limits)?;
        }
        let mut stored = self.label_rows(kind, reference)?;
        let origin = change.origin.as_deref().filter(|origin| !origin.is_empty());
        let before = self
            .row_of(kind, &stored, origin, own)?
            .map(|at| stored.swap_remove(at))
            .unwrap_or_default();
        let after = before.clone().after(change);
        if after.as_ref() == Some(&before) {
            return Ok(());
        }
        let key = [self.id(), Value::from(kind.name()), Value::from(reference)];
        let text = |origin: &Option<String>| origin.clone().unwrap_or_default();
        let old_origin = text(&before.origin);
        self.tx.execute(DELETE, &[key[0], key[1], key[2], Value::from(&old_origin)])?;
        if let Some(after) = after {
            let origin = text(&after.origin);
            let row = [
                key[0],
                key[1],
                key[2],
                Value::from(&origin),
                Value::from(&after.text),
                Value::from(after.spendable),
            ];
            self.tx.execute(INSERT, &row)?;
        }
        let outpoint = if kind == LabelKind::Output { self.outpoint_of(reference) } else { None };
        self.follow_label(outpoint, reference)
    }

    /// Labels a transaction that has no label yet.
    pub(crate) fn label_if_none(&mut self, txid: &Txid, text: &str) -> Result<(), LedgerError> {
        let reference = self.tx_text(txid);
        if self.label(LabelKind::Tx, &reference)?.is_some() {
            return Ok(());
        }
        let change = LabelChange { text: Some(text.to_owned()), ..LabelChange::default() };
        self.put_label(LabelKind::Tx, &reference, &change, &mut OwnOrigins::default())
    }
}

fn wish(row: &Row<'_>, column: usize) -> Result<Option<bool>, SqlError> {
    row.opt_int(column)?.map(|_| rows::flag(row, column)).transpose()
}

fn read_label(row: &Row<'_>) -> Result<Label, SqlError> {
    let kind = row.text(0)?;
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok(Label {
        kind: LabelKind::from_name(kind).ok_or_else(|| rows::bad("a label of unknown kind"))?,
        reference: row.text(1)?.to_owned(),
        label: given(row.text(2)?),
        origin: given(row.text(3)?),
        spendable: wish(row, 4)?,
    })
}
