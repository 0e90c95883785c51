//! The transaction of a payment: what the ledger knows about its inputs and outputs, handed to the
//! formats of the chain.

use std::collections::BTreeMap;

use utxokeep_core::{
    Txid,
    wallet::{
        AllowedGuards, LockTime, PsbtInput, PsbtOutput, PsbtRequest, ScriptKind, ScriptOrigin,
        UnsignedPsbt,
    },
};
use utxokeep_sql::{SqlError, Value};

use crate::{LedgerError, NewOutput, OpenWallet, SelectedCoin, rows, session::Session};

const SELECT_BYTES: &str = "SELECT txid, raw_tx FROM transactions
    WHERE chain_id = $1 AND wallet_id = $2 AND raw_tx IS NOT NULL AND txid IN";

/// What a transaction is built of.
pub(super) struct TxParts<'p> {
    pub(super) coins: &'p [SelectedCoin],
    /// Sequence numbers of the first inputs in a transaction that this one replaces.
    pub(super) sequences: &'p [u32],
    pub(super) outputs: &'p [NewOutput],
    pub(super) fee: u64,
    pub(super) lock_time: LockTime,
    /// Version of the transaction that this one replaces.
    pub(super) kept_version: Option<u32>,
    pub(super) allow: AllowedGuards,
}

impl OpenWallet<'_, '_, '_> {
    /// Builds a transaction. Nothing is changed.
    pub(super) fn build(&mut self, parts: &TxParts<'_>) -> Result<UnsignedPsbt, LedgerError> {
        let origins = self.session.origins(parts)?;
        let origin = |script: &Vec<u8>| origins.get(script).cloned();
        let (ages, next) = self.coin_ages(parts.coins)?;
        let mut parents = self.session.parents_of(parts.coins)?;
        let mut inputs = Vec::with_capacity(parts.coins.len());
        for (at, (coin, age)) in parts.coins.iter().zip(ages).enumerate() {
            inputs.push(PsbtInput {
                outpoint: coin.outpoint,
                value: coin.amount.get(),
                script: coin.script.clone(),
                parent: parents.take(coin.outpoint.txid()),
                origin: origin(&coin.script),
                age,
                sequence: parts.sequences.get(at).copied(),
            });
        }
        let outputs = parts.outputs.iter().map(|output| PsbtOutput {
            value: output.amount.get(),
            script: output.script.clone(),
            origin: origin(&output.script),
        });
        let request = PsbtRequest {
            network: self.session.network,
            inputs,
            outputs: outputs.collect(),
            fee: parts.fee,
            lock_time: parts.lock_time,
            kept_version: parts.kept_version,
            next,
            guards: self.session.guards(parts.allow),
        };
        Ok(self.ledger.codec()?.build(&request)?)
    }
}

/// Bytes of transactions, each with the number of inputs that still need them.
#[derive(Debug, Default)]
struct Parents(BTreeMap<Txid, (Vec<u8>, usize)>);

impl Parents {
    /// The bytes of a parent, moved out for the last input that needs them.
    fn take(&mut self, txid: &Txid) -> Option<Vec<u8>> {
        let (raw, uses) = self.0.get_mut(txid)?;
        *uses = uses.saturating_sub(1);
        Some(if *uses == 0 { std::mem::take(raw) } else { raw.clone() })
    }
}

impl Session<'_, '_> {
    /// Which descriptors the scripts come from.
    fn origins(
        &mut self,
        parts: &TxParts<'_>,
    ) -> Result<BTreeMap<Vec<u8>, ScriptOrigin>, SqlError> {
        let scripts = parts.coins.iter().map(|coin| &coin.script);
        let scripts = scripts.chain(parts.outputs.iter().map(|output| &output.script)).cloned();
        let mut origins = BTreeMap::new();
        for source in self.script_sources(&scripts.collect::<Vec<_>>())? {
            let origin = ScriptOrigin { descriptor: source.descriptor, index: source.index };
            origins.entry(source.script).or_insert(origin);
        }
        Ok(origins)
    }

    /// The transactions that made the coins, in one read. No signer needs them when all inputs are
    /// taproot, and they may be long.
    fn parents_of(&mut self, coins: &[SelectedCoin]) -> Result<Parents, SqlError> {
        let is_taproot = |coin: &SelectedCoin| ScriptKind::of(&coin.script) == ScriptKind::Taproot;
        if coins.iter().all(is_taproot) {
            return Ok(Parents::default());
        }
        let mut uses: BTreeMap<Txid, usize> = BTreeMap::new();
        for coin in coins {
            *uses.entry(*coin.outpoint.txid()).or_default() += 1;
        }
        let keys: Vec<Value<'_>> = uses.keys().map(|txid| Value::from(txid.as_bytes())).collect();
        let fixed = [Value::from(self.chain), self.id()];
        let mut parents = BTreeMap::new();
        self.tx.query_in(SELECT_BYTES, "", &fixed, 1, &keys, |row| {
            let txid = rows::txid(row, 0)?;
            let uses = uses.get(&txid).copied().unwrap_or_default();
            parents.insert(txid, (row.bytes(1)?.to_vec(), uses));
            Ok(())
        })?;
        Ok(Parents(parents))
    }
}
