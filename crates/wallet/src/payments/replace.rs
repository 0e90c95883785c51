//! Raising the fee of a transaction, with the replacement built.

use utxokeep_core::{
    Txid,
    wallet::{Micros, UnsignedPsbt, WalletId},
};

use super::TxParts;
use crate::{BumpPlan, BumpRequest, Bumped, LeaseTerms, Ledger, LedgerError, OpenWallet};

/// A replacement that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The transaction to be signed.
    pub psbt: UnsignedPsbt,
    /// Its plan, record and leases.
    pub bumped: Bumped,
}

impl Ledger {
    /// Plans and builds the replacement of a transaction with a higher fee, leases its inputs, and
    /// records it if signing keeps its id. It waits until [`Ledger::publish`] moves the inputs over.
    pub fn replace(
        &self,
        wallet: WalletId,
        txid: &Txid,
        request: &BumpRequest,
        terms: &LeaseTerms,
        now: Micros,
    ) -> Result<Replaced, LedgerError> {
        self.change(wallet, now, |open| open.replace(txid, request, terms))
    }
}

impl OpenWallet<'_, '_, '_> {
    /// Plans and builds a replacement. Nothing is changed.
    pub fn plan_replacement(
        &mut self,
        txid: &Txid,
        request: &BumpRequest,
    ) -> Result<(BumpPlan, UnsignedPsbt), LedgerError> {
        let plan = self.plan_bump(txid, request)?;
        let psbt = self.build(&TxParts {
            coins: &plan.inputs,
            sequences: &plan.kept_sequences,
            outputs: &plan.outputs,
            fee: plan.fee,
            lock_time: plan.kept_lock_time,
            kept_version: Some(plan.kept_version),
            allow: request.allow,
        })?;
        Ok((plan, psbt))
    }

    /// See [`Ledger::replace`].
    pub fn replace(
        &mut self,
        txid: &Txid,
        request: &BumpRequest,
        terms: &LeaseTerms,
    ) -> Result<Replaced, LedgerError> {
        let owner = request.owner.or(Some(terms.owner));
        let request = &BumpRequest { owner, ..request.clone() };
        let (plan, psbt) = self.plan_replacement(txid, request)?;
        let new = psbt.is_txid_final.then(|| self.built_tx(&psbt)).transpose()?;
        let bumped = self.carry_out_bump(plan, request, terms, new.as_ref())?;
        Ok(Replaced { psbt, bumped })
    }
}
