//! Payments: coins, change, the transaction to be signed, leases and the record.
//!
//! # Invariants
//!
//! * Selection, leases, the address for change and the record are one database transaction: a
//!   payment that is refused has leased nothing, used up no address and recorded nothing.
//! * Where change goes is decided before any coin is leased.
//! * A transaction is recorded only if signing keeps its id.

mod change;
mod psbt;
mod replace;

use utxokeep_core::{
    Network,
    wallet::{AmountTooLarge, DecodedTx, Micros, UnsignedPsbt, WalletId},
};

use self::psbt::TxParts;
pub use self::replace::Replaced;
use crate::{
    Amount, Credits, LeaseTerms, Ledger, LedgerError, NewOutput, NewTx, OpenWallet, RecordOptions,
    Recorded, Seen, Selection, SelectionRequest,
};

/// A payment to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRequest {
    /// What is paid, and with which coins. The wallet sets `change` by where the change goes.
    pub selection: SelectionRequest,
    /// Where change goes; to a change keychain of the wallet if not given.
    pub change_script: Option<Vec<u8>>,
    /// Change below this amount goes to the fee; below what nodes relay it always does.
    pub change_min_value: u64,
    /// Whether the transaction is recorded as created. It is only if signing keeps its id.
    pub record: bool,
}

impl PaymentRequest {
    /// A payment with change to a keychain of the wallet, which is not recorded.
    #[must_use]
    pub const fn new(selection: SelectionRequest) -> Self {
        Self { selection, change_script: None, change_min_value: 0, record: false }
    }
}

/// A payment that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paid {
    /// The transaction to be signed.
    pub psbt: UnsignedPsbt,
    /// The coins it spends, which are leased.
    pub selection: Selection,
    /// Where its change goes, if it has any.
    pub change_script: Option<Vec<u8>>,
    /// The record, if the transaction was recorded.
    pub recorded: Option<Recorded>,
}

impl Ledger {
    /// Selects and leases coins, and builds the transaction that spends them, to be signed. All of
    /// it is one database transaction.
    pub fn pay(
        &self,
        wallet: WalletId,
        request: &PaymentRequest,
        terms: &LeaseTerms,
        now: Micros,
    ) -> Result<Paid, LedgerError> {
        self.change(wallet, now, |open| open.pay(request, terms))
    }
}

impl OpenWallet<'_, '_, '_> {
    /// The coins that a payment would spend now. Nothing is leased.
    pub fn quote(&mut self, request: &PaymentRequest) -> Result<Selection, LedgerError> {
        let (selection, _) = self.settle_change(request)?;
        self.select(&selection)
    }

    /// Selects the coins of a payment and leases them.
    pub fn reserve(
        &mut self,
        request: &PaymentRequest,
        terms: &LeaseTerms,
    ) -> Result<Selection, LedgerError> {
        let (selection, _) = self.settle_change(request)?;
        self.select_and_lease(&selection, terms)
    }

    /// See [`Ledger::pay`].
    pub fn pay(
        &mut self,
        request: &PaymentRequest,
        terms: &LeaseTerms,
    ) -> Result<Paid, LedgerError> {
        let (asked, place) = self.settle_change(request)?;
        let selection = self.select_and_lease(&asked, terms)?;
        let (mut outputs, mut change_script) = (asked.outputs, None);
        if let Some(change) = selection.change {
            let script = self.take_change_script(place.as_ref())?;
            outputs.push(NewOutput { amount: Amount::new(change)?, script: script.clone() });
            change_script = Some(script);
        }
        let psbt = self.build(&TxParts {
            coins: &selection.coins,
            sequences: &[],
            outputs: &outputs,
            fee: selection.fee,
            lock_time: asked.lock_time,
            kept_version: None,
            allow: asked.allow,
        })?;
        let mut recorded = None;
        if request.record && psbt.is_txid_final {
            let new = self.built_tx(&psbt)?;
            let owner = Some(terms.owner);
            let options = RecordOptions { owner, is_new_payment: true, ..RecordOptions::default() };
            recorded = Some(self.record(&new, Seen::Created, &options)?);
        }
        Ok(Paid { psbt, selection, change_script, recorded })
    }

    /// A transaction that was built here, as it is recorded.
    fn built_tx(&self, psbt: &UnsignedPsbt) -> Result<NewTx, LedgerError> {
        let network: Network = self.session.network;
        let decoded = self.ledger.codec()?.decode_tx(network, &psbt.unsigned_tx)?;
        Ok(NewTx::decoded(decoded, &psbt.unsigned_tx)?)
    }
}

impl NewTx {
    /// A transaction that was read from its bytes; the ledger finds out which outputs are its own.
    pub fn decoded(tx: DecodedTx, raw: &[u8]) -> Result<Self, AmountTooLarge> {
        let output = |(value, script)| Ok(NewOutput { amount: Amount::new(value)?, script });
        Ok(Self {
            txid: tx.txid,
            inputs: tx.inputs,
            outputs: tx.outputs.into_iter().map(output).collect::<Result<_, AmountTooLarge>>()?,
            coinbase: tx.is_coinbase,
            raw: Some(raw.to_vec()),
            credits: Credits::Watched,
        })
    }
}
