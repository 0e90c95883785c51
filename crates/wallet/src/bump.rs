//! Raising the fee of a transaction that is stuck: its replacement, planned and recorded.
//!
//! The replacement keeps all inputs and payments of the old transaction. Its fee follows the rules
//! that nodes ask of a replacement: it pays more than everything it pushes out together, by at
//! least the incremental rate for its own size (BIP125, rules 3 and 4); it adds confirmed coins
//! only (rule 2) and pushes out at most 100 transactions (rule 5). Change pays for it first; when
//! that is not enough, as few coins as possible are added, and what they bring too much is change.
//!
//! # Invariants
//!
//! * Plan, leases, the replacement and its edge are one database transaction.
//! * The fee is bounded from both sides: what is required, and that plus what change would be dust
//!   and cost. Without a place for change no coin is added.
//! * The replacement waits: the old transaction keeps its inputs until the new one is published.

mod plan;

use utxokeep_core::{
    Txid,
    wallet::{AllowedGuards, CodecError, FeeRate, LeaseId, LockTime, Maturity, Micros, WalletId},
};
use utxokeep_sql::Value;

use crate::{
    LeaseTerms, Ledger, LedgerError, NewOutput, NewTx, NextChange, RecordOptions, Recorded, Seen,
    SelectedCoin, session::Session,
};

const MOVE_LEASE: &str = "UPDATE utxo_leases SET lease_id = $4
    WHERE wallet_id = $1 AND utxo_id = $2 AND lease_id = $3";

/// How a fee is to be raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BumpRequest {
    /// What the replacement pays, at least; 0 for the least that nodes take.
    pub fee_rate: FeeRate,
    /// What nodes ask a replacement to pay on top for its own size.
    pub incremental_rate: FeeRate,
    /// Which output of the old transaction is change. When not given, the one to the change
    /// keychain of a descriptor, if there is exactly one.
    pub change: Option<u32>,
    /// Where change goes. When not given, where it went before; when there was none, to a new
    /// script of a change keychain.
    pub change_script: Option<Vec<u8>>,
    /// Below which amount change is left out; below what nodes relay it always is.
    pub change_min_value: u64,
    /// Leases of this owner on the inputs move to the new owner.
    pub lease_of: Option<LeaseId>,
    /// Who is going to lease the inputs. Coins that this owner, or the one above, leased for another
    /// replacement of the same transaction may be added, while that one waits.
    pub owner: Option<LeaseId>,
    /// More inputs than this are not taken.
    pub inputs_max: usize,
    /// When coinbase outputs may be added.
    pub maturity: Maturity,
    /// Guards that must not refuse the replacement.
    pub allow: AllowedGuards,
}

impl BumpRequest {
    /// A bump to `fee_rate`, with the usual choices for everything else.
    #[must_use]
    pub const fn new(fee_rate: FeeRate) -> Self {
        Self {
            fee_rate,
            incremental_rate: FeeRate::per_vbyte(1),
            change: None,
            change_script: None,
            change_min_value: 0,
            lease_of: None,
            owner: None,
            inputs_max: 250,
            maturity: Maturity::STANDARD,
            allow: AllowedGuards::NONE,
        }
    }
}

/// A replacement that is not built yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BumpPlan {
    /// What it replaces.
    pub replaces: Txid,
    /// What it pushes out besides: everything that depends on that.
    pub evicts: Vec<Txid>,
    /// Its inputs: all of the old one, then those that were added.
    pub inputs: Vec<SelectedCoin>,
    /// How many of them are the old one's.
    pub kept_inputs: usize,
    /// Sequence numbers of the old inputs, in order.
    pub kept_sequences: Vec<u32>,
    /// Lock time of the old transaction.
    pub kept_lock_time: LockTime,
    /// Version of the old transaction.
    pub kept_version: u32,
    /// Its outputs, in the order of the old one; new change comes last.
    pub outputs: Vec<NewOutput>,
    /// Which of them is change.
    pub change: Option<usize>,
    /// The script that change goes to, when it is handed out for this replacement.
    pub new_change: Option<NextChange>,
    /// What the old one and all it pushes out pay together.
    pub replaced_fees: u64,
    /// What it pays.
    pub fee: u64,
    /// Its weight, when it is signed.
    pub weight: u64,
}

/// What raising a fee came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bumped {
    /// The plan.
    pub plan: BumpPlan,
    /// The replacement, when it was recorded.
    pub recorded: Option<Recorded>,
    /// When the leases of its inputs end.
    pub leased_until: Micros,
}

impl Ledger {
    /// Plans a replacement without changing anything.
    pub fn plan_bump(
        &self,
        wallet: WalletId,
        txid: &Txid,
        request: &BumpRequest,
        now: Micros,
    ) -> Result<BumpPlan, LedgerError> {
        let codec = self.codec()?;
        self.read_wallet_at(wallet, now, |session| session.plan_bump(codec, txid, request))
    }

    /// Plans a replacement, leases its inputs, and records it with its edge to the old one, all or
    /// nothing. It waits until [`Ledger::publish`] moves the inputs over.
    ///
    /// `build` turns the plan into the transaction. It may be called again when the database asks
    /// for another attempt, so it must do nothing else. It answers `None` when the id will only be
    /// known after signing; then only the leases are taken, and the signed transaction is recorded
    /// as a replacement later.
    pub fn bump_fee(
        &self,
        wallet: WalletId,
        txid: &Txid,
        request: &BumpRequest,
        terms: &LeaseTerms,
        build: &mut dyn FnMut(&BumpPlan) -> Result<Option<NewTx>, CodecError>,
        now: Micros,
    ) -> Result<Bumped, LedgerError> {
        terms.check()?;
        let codec = self.codec()?;
        self.write_wallet(wallet, now, |session| {
            let owner = request.owner.or(Some(terms.owner));
            let request = &BumpRequest { owner, ..request.clone() };
            let plan = session.plan_bump(codec, txid, request)?;
            let made = build(&plan)?;
            self.carry_out_bump(session, plan, request, terms, made.as_ref())
        })
    }

    pub(crate) fn carry_out_bump(
        &self,
        session: &mut Session<'_, '_>,
        plan: BumpPlan,
        request: &BumpRequest,
        terms: &LeaseTerms,
        built: Option<&NewTx>,
    ) -> Result<Bumped, LedgerError> {
        if let Some(new) = &plan.new_change {
            session.hand_out(self.codec()?, new)?;
        }
        let leased_until = session.move_leases(&plan, request.lease_of, terms)?;
        let recorded = match built {
            None => None,
            Some(new) => {
                check_built(&plan, new)?;
                let owner = Some(terms.owner);
                let options =
                    RecordOptions { replaces: true, label: None, owner, is_new_payment: true };
                Some(self.record_in(session, new, Seen::Created, &options)?)
            }
        };
        Ok(Bumped { plan, recorded, leased_until })
    }
}

/// What was built must be what was planned.
fn check_built(plan: &BumpPlan, new: &NewTx) -> Result<(), LedgerError> {
    let inputs = plan.inputs.iter().map(|coin| coin.outpoint);
    if new.inputs.iter().copied().eq(inputs) && new.outputs == plan.outputs {
        Ok(())
    } else {
        Err(LedgerError::invalid_tx("it does not spend and pay what was planned"))
    }
}

impl Session<'_, '_> {
    /// Leases all inputs of the plan. Those that the old transaction's owner holds move over.
    fn move_leases(
        &mut self,
        plan: &BumpPlan,
        from: Option<LeaseId>,
        terms: &LeaseTerms,
    ) -> Result<Micros, LedgerError> {
        let mut coins: Vec<_> = plan.inputs.iter().map(|coin| (coin.id, coin.outpoint)).collect();
        coins.sort_unstable();
        if let Some(from) = from {
            let ids: Vec<i64> = coins.iter().map(|(id, _)| *id).collect();
            let now = self.lease_now()?;
            self.clean_expired(&ids, now)?;
            for (id, _) in &coins {
                let old = Value::from(from.as_bytes());
                let new = Value::from(terms.owner.as_bytes());
                self.tx.execute(MOVE_LEASE, &[self.id(), Value::from(*id), old, new])?;
            }
        }
        self.lease(&coins, terms)
    }
}
