//! Which transactions of a block concern which wallets: a few statements for the whole block.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use utxokeep_core::{OutPoint, Txid};
use utxokeep_sql::{SqlError, Transaction, Value};

use crate::{NewTx, rows};

const BY_SCRIPT: &str = "SELECT a.wallet_id, a.script
    FROM addresses a JOIN wallets w ON w.id = a.wallet_id AND w.chain_id = $1 
    WHERE a.is_archived = 0 AND a.script IN";
const BY_TXID: &str = "SELECT wallet_id, txid FROM transactions WHERE chain_id = $1 AND txid IN";
const SELECT_ARCHIVED: &str =
    "SELECT id FROM wallets WHERE chain_id = $1 AND archived_at_us IS NOT NULL AND id IN";
const SPENT_HEAD: &str = "SELECT u.wallet_id, v.column1, v.column2 FROM (VALUES";
const SPENT_TAIL: &str = ") AS v CROSS JOIN transactions t CROSS JOIN utxos u
    WHERE t.chain_id = $1 AND t.txid = v.column1 AND u.wallet_id = t.wallet_id
        AND u.tx_id = t.id AND u.output_index = v.column2";
const CLAIMED_HEAD: &str = "SELECT i.wallet_id, v.column1, v.column2 FROM (VALUES";
const HELD_TAIL: &str = ") AS v CROSS JOIN tx_inputs i CROSS JOIN wallets w
    WHERE i.prev_txid = v.column1 AND i.prev_index = v.column2 AND i.claim = 1
        AND w.id = i.wallet_id AND w.chain_id = $1";
const WAITING_TAIL: &str = ") AS v CROSS JOIN tx_inputs i CROSS JOIN wallets w
    WHERE i.prev_txid = v.column1 AND i.prev_index = v.column2 AND i.claim = 2
        AND w.id = i.wallet_id AND w.chain_id = $1";

/// Positions of the transactions that concern each wallet, both ascending.
///
/// A transaction concerns a wallet when it pays a watched script, spends an output of the wallet
/// or what a stored transaction spends, or is stored already. None concerns an archived wallet.
pub(super) fn by_wallet(
    tx: &mut Transaction<'_>,
    chain: i64,
    txs: &[NewTx],
) -> Result<BTreeMap<i64, Vec<usize>>, SqlError> {
    let fixed = [Value::from(chain)];
    let mut places: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();

    let mut paying: FxHashMap<&[u8], Vec<usize>> = FxHashMap::default();
    for (at, new) in txs.iter().enumerate() {
        for output in &new.outputs {
            paying.entry(&output.script).or_default().push(at);
        }
    }
    let keys = sorted(paying.keys().map(|script| Value::from(*script)));
    tx.query_in(BY_SCRIPT, "", &fixed, 1, &keys, |row| {
        let at = paying.get(row.bytes(1)?).into_iter().flatten();
        places.entry(row.int(0)?).or_default().extend(at);
        Ok(())
    })?;
    // What a block pays to a wallet it may also spend.
    let credited: Vec<(i64, BTreeSet<Txid>)> = places
        .iter()
        .map(|(wallet, at)| (*wallet, at.iter().map(|at| txs[*at].txid).collect()))
        .collect();

    let by_txid: FxHashMap<Txid, usize> =
        txs.iter().enumerate().map(|(at, new)| (new.txid, at)).collect();
    let keys = sorted(txs.iter().map(|new| Value::from(new.txid.as_bytes())));
    tx.query_in(BY_TXID, "", &fixed, 1, &keys, |row| {
        let at = by_txid.get(&rows::txid(row, 1)?);
        places.entry(row.int(0)?).or_default().extend(at);
        Ok(())
    })?;

    let spending: FxHashMap<OutPoint, usize> = txs
        .iter()
        .enumerate()
        .flat_map(|(at, new)| new.inputs.iter().map(move |input| (*input, at)))
        .collect();
    let keys: Vec<Value<'_>> = txs
        .iter()
        .flat_map(|new| &new.inputs)
        .flat_map(|input| [Value::from(input.txid().as_bytes()), Value::from(input.index())])
        .collect();
    let lookups =
        [(SPENT_HEAD, SPENT_TAIL), (CLAIMED_HEAD, HELD_TAIL), (CLAIMED_HEAD, WAITING_TAIL)];
    for (head, tail) in lookups {
        tx.query_rows(head, tail, &fixed, 2, &keys, |row| {
            let at = spending.get(&rows::outpoint(row, 1)?);
            places.entry(row.int(0)?).or_default().extend(at);
            Ok(())
        })?;
    }
    for (wallet, txids) in credited {
        let spends = |new: &NewTx| new.inputs.iter().any(|input| txids.contains(input.txid()));
        let at = txs.iter().enumerate().filter(|(_, new)| spends(new)).map(|(at, _)| at);
        places.entry(wallet).or_default().extend(at);
    }
    let keys: Vec<Value<'_>> = places.keys().map(|wallet| Value::from(*wallet)).collect();
    let mut archived = Vec::new();
    tx.query_in(SELECT_ARCHIVED, "", &fixed, 1, &keys, |row| {
        archived.push(row.int(0)?);
        Ok(())
    })?;
    places.retain(|wallet, _| !archived.contains(wallet));
    Ok(places.into_iter().map(|(wallet, at)| (wallet, at.into_iter().collect())).collect())
}

/// Keys in an order that finds neighbours in an index together, each once.
fn sorted<'v>(keys: impl Iterator<Item = Value<'v>>) -> Vec<Value<'v>> {
    let bytes = |value: &Value<'v>| match value {
        Value::Bytes(bytes) => *bytes,
        Value::Int(_) | Value::Text(_) => None,
    };
    let mut keys: Vec<Value<'v>> = keys.collect();
    keys.sort_by_key(bytes);
    keys.dedup();
    keys
}
