//! References of labels, compared with the one form in which they are stored, and texts of addresses
//! that were added by hand, compared with their scripts. Both a page at a time.

use utxokeep_core::wallet::{ChainCodec, LabelKind};
use utxokeep_sql::Value;

use super::{Findings, rules::RESTORE};
use crate::{LedgerError, session::Session};

const SELECT_LABELS: &str = "SELECT kind, ref FROM labels
    WHERE wallet_id = $1 AND (kind > $2 OR (kind = $2 AND ref > $3))
    GROUP BY kind, ref ORDER BY kind, ref LIMIT $4";
const SELECT_OTHER: &str =
    "SELECT 1 FROM labels WHERE wallet_id = $1 AND kind = $2 AND ref = $3 LIMIT 1";
const SELECT_IMPORTED: &str = "SELECT id, script, address FROM addresses
    WHERE wallet_id = $1 AND id > $2 AND is_imported = 1 AND address IS NOT NULL
    ORDER BY id LIMIT $3";

/// Rows of a page.
const PAGE_ROWS: i64 = 500;

const UNREADABLE: &str = "a label names something that there can be";
const REMOVE_ROW: &str = "export the labels (wallet labels export), correct the line, import it \
    again, and remove the old row from the table by hand";
const OTHER_FORM: &str = "what a label names is written in one form";
const IMPORT_AGAIN: &str =
    "export the labels, import them again (wallet labels), and remove the old rows";
const OTHER_TEXT: &str = "the text of an address is that of its script";

impl Session<'_, '_> {
    /// Reads every reference of a label again.
    pub(super) fn verify_labels(&mut self, findings: &mut Findings) -> Result<(), LedgerError> {
        let (mut kind, mut reference) = (String::new(), String::new());
        loop {
            let key =
                [self.id(), Value::from(&kind), Value::from(&reference), Value::from(PAGE_ROWS)];
            let page = self.tx.query_all(SELECT_LABELS, &key, |row| {
                Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))
            })?;
            let Some((last_kind, last)) = page.last().cloned() else { return Ok(()) };
            for (kind, stored) in page {
                self.verify_reference(&kind, &stored, findings)?;
            }
            (kind, reference) = (last_kind, last);
        }
    }

    fn verify_reference(
        &mut self,
        kind: &str,
        stored: &str,
        findings: &mut Findings,
    ) -> Result<(), LedgerError> {
        let wallet = self.wallet;
        let read = LabelKind::from_name(kind).map(|kind| kind.reference(self.network, stored));
        match read {
            Some(Ok(same)) if same == stored => {}
            Some(Ok(other)) => {
                // An upgrade left both rows where each form had a label of its own.
                let key = [self.id(), Value::from(kind), Value::from(&other)];
                if self.tx.query_opt(SELECT_OTHER, &key, |_| Ok(()))?.is_none() {
                    findings.add(OTHER_FORM, IMPORT_AGAIN, wallet, format!("{kind} {stored}"));
                }
            }
            // What cannot be read may be a secret, so it is not repeated.
            Some(Err(error)) => {
                findings.add(
                    UNREADABLE,
                    REMOVE_ROW,
                    wallet,
                    format!("a label of kind {kind}: {error}"),
                );
            }
            None => findings.add(UNREADABLE, REMOVE_ROW, wallet, format!("a label of kind {kind}")),
        }
        Ok(())
    }

    /// Writes the text of every address again that was added by hand.
    pub(super) fn verify_imported(
        &mut self,
        codec: &dyn ChainCodec,
        findings: &mut Findings,
    ) -> Result<(), LedgerError> {
        let (network, mut after) = (self.network, 0);
        loop {
            let key = [self.id(), Value::from(after), Value::from(PAGE_ROWS)];
            let page = self.tx.query_all(SELECT_IMPORTED, &key, |row| {
                let (real, stored) = (codec.address(network, row.bytes(1)?), row.text(2)?);
                Ok((row.int(0)?, real.is_none_or(|real| real == stored)))
            })?;
            let Some((last, _)) = page.last().copied() else { return Ok(()) };
            for (id, _) in page.into_iter().filter(|(_, is_same)| !is_same) {
                findings.add(OTHER_TEXT, RESTORE, id, format!("address {id}"));
            }
            after = last;
        }
    }
}
