//! The floor: the same rows in bare statements on the same tables, with nothing read and no rule
//! looked at, one database transaction for each operation.

use std::collections::BTreeMap;

use utxokeep_core::OutPoint;
use utxokeep_sql::{Database, SqlError, Transaction, Value};
use utxokeep_wallet::{Ledger, LinkedBlock, NewTx, WalletId};

use super::made::NOW;

const INSERT_BLOCK: &str =
    "INSERT INTO blocks (chain_id, height, hash, time_us) VALUES ($1, $2, $3, $4)";
const INSERT_RECENT: &str =
    "INSERT INTO recent_blocks (chain_id, height, hash) VALUES ($1, $2, $3)";
const INSERT_TXS: &str = "INSERT INTO transactions (wallet_id, id, chain_id, txid, status,
    is_waiting, is_coinbase, block_height, block_position, received_at_us, input_count,
    owned_input_count, output_total, raw_tx) VALUES";
const INSERT_INPUTS: &str = "INSERT INTO tx_inputs
    (wallet_id, tx_id, input_index, prev_txid, prev_index, claim) VALUES";
const INSERT_COINS: &str = "INSERT INTO utxos (wallet_id, id, tx_id, output_index, amount,
    address_id, parent_class, parent_height, parent_coinbase) VALUES";
const SPEND_HEAD: &str = "UPDATE utxos
    SET spent_by_tx_id = v.column2, spent_input_index = 0 FROM (VALUES";
const SPEND_TAIL: &str = ") AS v WHERE utxos.wallet_id = $1 AND utxos.id = v.column1";
const COUNT: &str = "UPDATE wallets SET next_tx_id = $2, next_utxo_id = $3 WHERE id = $1";
const MOVE_TIP: &str = "UPDATE chains SET tip_height = $2, tip_hash = $3 WHERE id = $1";
const SELECT_COUNTERS: &str =
    "SELECT chain_id, next_tx_id, next_utxo_id FROM wallets WHERE id = $1";
const SELECT_COIN: &str = "SELECT u.id FROM transactions t
    JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
    WHERE t.chain_id = $1 AND t.txid = $2 AND t.wallet_id = $3 AND u.output_index = $4";
const SELECT_SCRIPTS: &str = "SELECT script, id FROM addresses WHERE wallet_id = $1 AND script IN";
const SUM: &str = "SELECT CAST(SUM(amount) AS BIGINT) FROM utxos
    WHERE wallet_id = $1 AND spent_by_tx_id IS NULL AND parent_class > 0 AND amount >= 0";

/// A block whose rows are all known beforehand.
pub(super) struct Rows<'b> {
    wallet: i64,
    chain: i64,
    first_tx: i64,
    first_coin: i64,
    block: &'b LinkedBlock,
    txs: &'b [NewTx],
    /// Numbers of the coins that are spent.
    spent: BTreeMap<OutPoint, i64>,
    addresses: BTreeMap<Vec<u8>, i64>,
}

impl<'b> Rows<'b> {
    /// Looks everything up that the ledger would have to look up.
    pub(super) fn prepare(
        ledger: &Ledger,
        wallet: WalletId,
        block: &'b LinkedBlock,
        txs: &'b [NewTx],
    ) -> anyhow::Result<Self> {
        let wallet = wallet.get();
        let found = ledger.database().read(|tx| -> Result<Self, SqlError> {
            let (chain, first_tx, first_coin) =
                tx.query_one(SELECT_COUNTERS, &[Value::from(wallet)], |row| {
                    Ok((row.int(0)?, row.int(1)?, row.int(2)?))
                })?;
            let mut spent = BTreeMap::new();
            for input in txs.iter().flat_map(|new| &new.inputs) {
                let key = [
                    Value::from(chain),
                    Value::from(input.txid().as_bytes()),
                    Value::from(wallet),
                    Value::from(input.index()),
                ];
                let id = tx.query_opt(SELECT_COIN, &key, |row| row.int(0))?;
                spent.extend(id.map(|id| (*input, id)));
            }
            let mut addresses = BTreeMap::new();
            let scripts = txs.iter().flat_map(|new| &new.outputs);
            let scripts: Vec<Value<'_>> = scripts.map(|out| Value::from(&out.script)).collect();
            tx.query_in(SELECT_SCRIPTS, "", &[Value::from(wallet)], 1, &scripts, |row| {
                addresses.insert(row.bytes(0)?.to_vec(), row.int(1)?);
                Ok(())
            })?;
            Ok(Self { wallet, chain, first_tx, first_coin, block, txs, spent, addresses })
        });
        Ok(found?)
    }

    /// Writes all rows.
    pub(super) fn write(&self, database: &Database) -> anyhow::Result<()> {
        Ok(database.write(|tx| self.write_in(tx))?)
    }

    fn write_in(&self, tx: &mut Transaction<'_>) -> Result<(), SqlError> {
        let (wallet, chain) = (Value::from(self.wallet), Value::from(self.chain));
        let block = &self.block.block;
        let (height, hash) = (Value::from(block.height.get()), Value::from(block.hash.as_bytes()));
        tx.execute(INSERT_BLOCK, &[chain, height, hash, Value::from(block.time.get())])?;
        let (mut txs, mut inputs, mut coins) = (Vec::new(), Vec::new(), Vec::new());
        let mut spends = Vec::new();
        let mut coin = self.first_coin;
        for (position, (id, new)) in (0_u32..).zip((self.first_tx..).zip(self.txs)) {
            let total: u64 = new.outputs.iter().map(|output| output.amount.get()).sum();
            let owned = new.inputs.iter().filter(|input| self.spent.contains_key(input)).count();
            let int = |count: usize| Value::from(i64::try_from(count).unwrap_or(0));
            txs.extend([wallet, Value::from(id), chain, Value::from(new.txid.as_bytes())]);
            txs.extend([Value::from(1), Value::from(false), Value::from(new.coinbase), height]);
            txs.extend([Value::from(position), Value::from(NOW.get())]);
            txs.extend([int(new.inputs.len()), int(owned)]);
            txs.extend([
                Value::from(i64::try_from(total).unwrap_or(0)),
                Value::from(new.raw.as_deref()),
            ]);
            for input in &new.inputs {
                inputs.extend([wallet, Value::from(id), Value::from(0)]);
                inputs.extend([Value::from(input.txid().as_bytes()), Value::from(input.index())]);
                inputs.push(Value::from(1));
                if let Some(utxo) = self.spent.get(input) {
                    spends.extend([Value::from(*utxo), Value::from(id)]);
                }
            }
            for (index, output) in (0_u32..).zip(&new.outputs) {
                let amount = i64::try_from(output.amount.get()).unwrap_or(0);
                let address = self.addresses.get(&output.script).copied();
                coins.extend([wallet, Value::from(coin), Value::from(id), Value::from(index)]);
                coins.extend([Value::from(amount), Value::from(address), Value::from(4), height]);
                coins.push(Value::from(new.coinbase));
                coin += 1;
            }
        }
        tx.insert_rows(INSERT_TXS, "", 14, &txs)?;
        tx.insert_rows(INSERT_INPUTS, "", 6, &inputs)?;
        tx.insert_rows(INSERT_COINS, "", 9, &coins)?;
        tx.execute_rows(SPEND_HEAD, SPEND_TAIL, &[wallet], 2, &spends)?;
        let next_tx = self.first_tx + i64::try_from(self.txs.len()).unwrap_or(0);
        tx.execute(COUNT, &[wallet, Value::from(next_tx), Value::from(coin)])?;
        tx.execute(INSERT_RECENT, &[chain, height, hash])?;
        tx.execute(MOVE_TIP, &[chain, height, hash])?;
        Ok(())
    }
}

/// The sum of all coins, by the shortest index.
pub(super) fn sum(database: &Database, wallet: WalletId) -> anyhow::Result<i64> {
    let sum = database.read(|tx| -> Result<i64, SqlError> {
        tx.query_one(SUM, &[Value::from(wallet.get())], |row| row.int(0))
    });
    Ok(sum?)
}
