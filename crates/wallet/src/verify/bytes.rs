//! Stored transactions, compared with their bytes, a page of limited size at a time.

use std::collections::BTreeSet;

use utxokeep_core::wallet::{
    ChainCodec, DecodedTx, Mismatch, StoredOutput, StoredTxFacts, mismatches,
};
use utxokeep_sql::{SqlError, Value};

use super::{
    Findings,
    rules::{RESCAN, RESTORE},
};
use crate::{LedgerError, rows, session::Session};

const SELECT_SIZES: &str = "SELECT id, length(raw_tx) FROM transactions
    WHERE wallet_id = $1 AND id > $2 AND raw_tx IS NOT NULL ORDER BY id LIMIT $3";
const SELECT_TXS: &str = "SELECT id, txid, is_coinbase, input_count, output_total, status, raw_tx
    FROM transactions WHERE wallet_id = $1 AND id BETWEEN $2 AND $3 AND raw_tx IS NOT NULL
    ORDER BY id";
const SELECT_INPUTS: &str = "SELECT tx_id, input_index, prev_txid, prev_index FROM tx_inputs
    WHERE wallet_id = $1 AND tx_id BETWEEN $2 AND $3 ORDER BY tx_id, input_index";
const SELECT_OUTPUTS: &str = "SELECT u.tx_id, u.output_index, u.amount,
        COALESCE(m.script, a.script), a.script
    FROM utxos u
    JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
    LEFT JOIN utxo_marks m ON m.wallet_id = u.wallet_id AND m.utxo_id = u.id
    WHERE u.wallet_id = $1 AND u.tx_id BETWEEN $2 AND $3 ORDER BY u.tx_id, u.output_index";
const SELECT_WATCHED: &str = "SELECT script FROM addresses
    WHERE wallet_id = $1 AND is_archived = 0 AND script IN";

/// Transactions of a page.
const PAGE_TXS_MAX: i64 = 500;
/// Bytes of a page, unless a single transaction is longer.
const PAGE_BYTES_MAX: i64 = 8 << 20;

const UNREADABLE: &str = "the stored bytes of a transaction can be read";
const RECORD_AGAIN: &str = "record the transaction again from its bytes (wallet record --raw), or \
    scan the wallet again from below its block; if it stays, restore the ledger from a copy";
const SCAN_FOR_IT: &str = "the script came to be watched after the transaction was recorded, or \
    the row was removed: scan the wallet again from below the block of the transaction (wallet scan)";

/// A stored transaction and its bytes.
struct Stored {
    id: i64,
    facts: StoredTxFacts,
    is_live: bool,
    raw: Vec<u8>,
}

impl Session<'_, '_> {
    /// Decodes every transaction whose bytes are stored; returns how many there were.
    pub(super) fn verify_bytes(
        &mut self,
        codec: &dyn ChainCodec,
        findings: &mut Findings,
    ) -> Result<u64, LedgerError> {
        let (mut after, mut decoded) = (0, 0);
        while let Some((first, last)) = self.next_page(after)? {
            after = last;
            let page = self.decode_page(codec, first, last, findings)?;
            let watched = self.watched_among(&page)?;
            for (stored, real) in page {
                decoded += 1;
                let is_watched = |script: &[u8]| stored.is_live && watched.contains(script);
                for mismatch in mismatches(&real, &stored.facts, &is_watched) {
                    self.report(&stored, mismatch, findings);
                }
            }
        }
        Ok(decoded)
    }

    /// The numbers of the next transactions that fit into a page.
    fn next_page(&mut self, after: i64) -> Result<Option<(i64, i64)>, SqlError> {
        let key = [self.id(), Value::from(after), Value::from(PAGE_TXS_MAX)];
        let sizes = self.tx.query_all(SELECT_SIZES, &key, |row| Ok((row.int(0)?, row.int(1)?)))?;
        let Some((first, mut bytes)) = sizes.first().copied() else { return Ok(None) };
        let mut last = first;
        for (id, size) in sizes.into_iter().skip(1) {
            bytes += size;
            if bytes > PAGE_BYTES_MAX {
                break;
            }
            last = id;
        }
        Ok(Some((first, last)))
    }

    /// Loads a page. What cannot be decoded is reported and left out.
    fn decode_page(
        &mut self,
        codec: &dyn ChainCodec,
        first: i64,
        last: i64,
        findings: &mut Findings,
    ) -> Result<Vec<(Stored, DecodedTx)>, SqlError> {
        let key = [self.id(), Value::from(first), Value::from(last)];
        let mut page = self.tx.query_all(SELECT_TXS, &key, |row| {
            let facts = StoredTxFacts {
                txid: rows::txid(row, 1)?,
                is_coinbase: rows::flag(row, 2)?,
                input_count: row.int(3)?,
                output_total: row.int(4)?,
                inputs: Vec::new(),
                outputs: Vec::new(),
            };
            let (id, is_live, raw) = (row.int(0)?, row.int(5)? <= 1, row.bytes(6)?.to_vec());
            Ok(Stored { id, facts, is_live, raw })
        })?;
        let place = |page: &[Stored], id: i64| page.binary_search_by_key(&id, |tx| tx.id).ok();
        self.tx.query(SELECT_INPUTS, &key, |row| {
            if let Some(at) = place(&page, row.int(0)?) {
                page[at].facts.inputs.push((row.int(1)?, rows::outpoint(row, 2)?));
            }
            Ok(())
        })?;
        self.tx.query(SELECT_OUTPUTS, &key, |row| {
            if let Some(at) = place(&page, row.int(0)?) {
                page[at].facts.outputs.push(StoredOutput {
                    index: row.int(1)?,
                    amount: row.int(2)?,
                    script: row.bytes(3)?.to_vec(),
                    address: row.bytes(4)?.to_vec(),
                });
            }
            Ok(())
        })?;
        let mut decoded = Vec::with_capacity(page.len());
        for stored in page {
            match codec.decode_tx(self.network, &stored.raw) {
                Ok(real) => decoded.push((stored, real)),
                Err(error) => {
                    let name = format!("transaction {}", self.tx_text(&stored.facts.txid));
                    findings.add(UNREADABLE, RECORD_AGAIN, stored.id, format!("{name}: {error}"));
                }
            }
        }
        Ok(decoded)
    }

    /// Scripts of a page that the wallet watches.
    fn watched_among(
        &mut self,
        page: &[(Stored, DecodedTx)],
    ) -> Result<BTreeSet<Vec<u8>>, SqlError> {
        let outputs = page.iter().flat_map(|(_, real)| &real.outputs);
        let scripts: BTreeSet<&Vec<u8>> = outputs.map(|(_, script)| script).collect();
        let keys: Vec<Value<'_>> = scripts.into_iter().map(Value::from).collect();
        let mut watched = BTreeSet::new();
        self.tx.query_in(SELECT_WATCHED, "", &[self.id()], 1, &keys, |row| {
            watched.insert(row.bytes(0)?.to_vec());
            Ok(())
        })?;
        Ok(watched)
    }

    fn report(&self, stored: &Stored, mismatch: Mismatch, findings: &mut Findings) {
        let txid = self.tx_text(&stored.facts.txid);
        let whole = |rule, remedy| (rule, remedy, format!("transaction {txid}"));
        let output = |rule, remedy, index: i64| (rule, remedy, format!("output {txid}:{index}"));
        let (rule, remedy, example) = match mismatch {
            Mismatch::Txid => whole("the id of a transaction is that of its bytes", RESTORE),
            Mismatch::Coinbase => whole("the coinbase flag is that of the bytes", RESTORE),
            Mismatch::Inputs => whole("the stored inputs are those of the bytes", RESTORE),
            Mismatch::OutputTotal => {
                whole("the stored sum of outputs is that of the bytes", RESTORE)
            }
            Mismatch::Amount(index) => {
                output("the amount of an output is that of the bytes", RESCAN, index)
            }
            Mismatch::Script(index) => {
                output("an output is credited to the address that it pays", RESCAN, index)
            }
            Mismatch::Unrecorded(index) => {
                output("an output to a watched script is a coin of the wallet", SCAN_FOR_IT, index)
            }
        };
        findings.add(rule, remedy, stored.id, example);
    }
}
