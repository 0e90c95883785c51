//! Watching further ahead when transactions pay scripts that were ahead until now.
//!
//! This runs before anything of the transactions is recorded, and in the same database
//! transaction. One block may pay a script, then one that only that payment brought into reach:
//! newly derived scripts are looked up in the block until none of them is paid.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;
use utxokeep_core::wallet::{Micros, WalletId, is_near_edge};
use utxokeep_sql::{Row, SqlError, Transaction, Value};

use crate::{Ledger, LedgerError, NewTx, WatchedDescriptor, rows, session::Session};

const ANY_OF_CHAIN: &str = "SELECT 1 FROM descriptors d
    JOIN wallets w ON w.id = d.wallet_id AND w.chain_id = $1 LIMIT 1";
const ANY_OF_WALLET: &str = "SELECT 1 FROM descriptors WHERE wallet_id = $1 LIMIT 1";
const PAID_ON_CHAIN: &str = "SELECT s.wallet_id, s.descriptor_id, s.script_index
    FROM addresses a
    JOIN wallets w ON w.id = a.wallet_id AND w.chain_id = $1 AND w.archived_at_us IS NULL
    JOIN descriptor_scripts s ON s.wallet_id = a.wallet_id AND s.address_id = a.id
    JOIN descriptors d ON d.wallet_id = s.wallet_id AND d.id = s.descriptor_id
    WHERE d.archived_at_us IS NULL AND a.script IN";
const PAID_IN_WALLET: &str = "SELECT s.wallet_id, s.descriptor_id, s.script_index
    FROM addresses a
    JOIN descriptor_scripts s ON s.wallet_id = a.wallet_id AND s.address_id = a.id
    JOIN descriptors d ON d.wallet_id = s.wallet_id AND d.id = s.descriptor_id
    WHERE a.wallet_id = $1 AND d.archived_at_us IS NULL AND a.script IN";

/// The highest script of each descriptor that was paid, by wallet.
type Paid = BTreeMap<i64, BTreeMap<i64, u32>>;

impl Ledger {
    /// Watches further ahead in all wallets of a chain whose scripts `txs` pay, except in those that
    /// are set aside. Answers the wallets that could not, as they were before.
    pub(crate) fn widen_chain(
        &self,
        tx: &mut Transaction<'_>,
        chain: i64,
        txs: &[NewTx],
        set_aside: &BTreeSet<i64>,
        now: Micros,
    ) -> Result<Vec<(WalletId, LedgerError)>, LedgerError> {
        let key = [Value::from(chain)];
        if tx.query_opt(ANY_OF_CHAIN, &key, |_| Ok(()))?.is_none() {
            return Ok(Vec::new());
        }
        let scripts = scripts_of(txs);
        let mut failed = Vec::new();
        for (wallet, paid) in paid(tx, PAID_ON_CHAIN, key[0], &scripts)? {
            if set_aside.contains(&wallet) {
                continue;
            }
            let wallet = WalletId::new(wallet);
            let widened = tx.savepoint(|tx| {
                let mut session = Session::lock(tx, self.limits, wallet, now)?;
                self.widen(&mut session, &paid, &scripts)?;
                session.finish().map_err(LedgerError::from)
            });
            failed.extend(widened.err().map(|error| (wallet, error)));
        }
        Ok(failed)
    }

    /// Watches further ahead in one wallet.
    pub(crate) fn widen_wallet<'n>(
        &self,
        session: &mut Session<'_, '_>,
        txs: impl IntoIterator<Item = &'n NewTx>,
    ) -> Result<(), LedgerError> {
        let key = [session.id()];
        if session.tx.query_opt(ANY_OF_WALLET, &key, |_| Ok(()))?.is_none() {
            return Ok(());
        }
        let scripts = scripts_of(txs);
        for paid in paid(session.tx, PAID_IN_WALLET, key[0], &scripts)?.values() {
            self.widen(session, paid, &scripts)?;
        }
        Ok(())
    }

    fn widen(
        &self,
        session: &mut Session<'_, '_>,
        paid: &BTreeMap<i64, u32>,
        scripts: &FxHashSet<&[u8]>,
    ) -> Result<(), LedgerError> {
        for (id, highest) in paid {
            let mut descriptor = session.descriptor(*id)?;
            let mut highest = Some(*highest);
            while let Some(index) = highest.filter(|index| *index >= descriptor.next_index) {
                let WatchedDescriptor { derived_count, lookahead, .. } = descriptor;
                let percent = self.limits.lookahead_edge_percent;
                if descriptor.is_ranged && is_near_edge(index, derived_count, lookahead, percent) {
                    descriptor.edge_index = Some(index);
                }
                let derived = session.derive_ahead(self.codec()?, &mut descriptor, index + 1)?;
                let found = derived.iter().filter(|new| scripts.contains(new.script.as_slice()));
                highest = found.map(|new| new.index).max();
            }
        }
        Ok(())
    }
}

fn scripts_of<'n>(txs: impl IntoIterator<Item = &'n NewTx>) -> FxHashSet<&'n [u8]> {
    txs.into_iter().flat_map(|tx| &tx.outputs).map(|output| output.script.as_slice()).collect()
}

fn paid(
    tx: &mut Transaction<'_>,
    statement: &str,
    owner: Value<'_>,
    scripts: &FxHashSet<&[u8]>,
) -> Result<Paid, SqlError> {
    let mut paid = Paid::new();
    let mut sorted: Vec<&[u8]> = scripts.iter().copied().collect();
    sorted.sort_unstable();
    let keys: Vec<Value<'_>> = sorted.into_iter().map(Value::from).collect();
    tx.query_in(statement, "", &[owner], 1, &keys, |row: &Row<'_>| {
        let highest = paid.entry(row.int(0)?).or_default().entry(row.int(1)?).or_default();
        *highest = (*highest).max(rows::u32_at(row, 2)?);
        Ok(())
    })?;
    Ok(paid)
}
