//! Where a coin counts: classes of coins and the balance they add up to.

use crate::types::Height;

use super::{
    depth::{ConfirmationRange, Maturity, confirmations},
    status::TxState,
    types::Amount,
};

/// What an unspent output is worth, told by the transaction that made it. The numbers are part of
/// the database, where they stand beside each output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CoinClass {
    /// Nothing: the transaction is not live, or waits to replace another one.
    Dead = 0,
    /// Its transaction was made here and not sent yet.
    Pending = 1,
    /// Its transaction is in no block, and somebody else's coins pay for it or for one of its
    /// ancestors in no block.
    Untrusted = 2,
    /// Its transaction is in no block, and only our own coins pay for it, all the way back to
    /// blocks.
    Trusted = 3,
    /// Its transaction is in a block.
    Confirmed = 4,
}

impl CoinClass {
    /// Every class, in the order of the numbers.
    pub const ALL: [Self; 5] =
        [Self::Dead, Self::Pending, Self::Untrusted, Self::Trusted, Self::Confirmed];

    /// The class of what a transaction in `state` pays.
    ///
    /// `waiting` is a pending replacement that does not hold its inputs yet; `trusted` means that
    /// all its inputs are outputs of the same wallet, and that each of them
    /// [passes trust on](CoinClass::passes_trust).
    #[must_use]
    pub const fn of(state: TxState, waiting: bool, trusted: bool) -> Self {
        match state {
            TxState::Pending if waiting => Self::Dead,
            TxState::Pending => Self::Pending,
            TxState::Unconfirmed if trusted => Self::Trusted,
            TxState::Unconfirmed => Self::Untrusted,
            TxState::Confirmed(_) => Self::Confirmed,
            TxState::Replaced | TxState::Failed | TxState::Orphaned => Self::Dead,
        }
    }

    /// Whether what spends such a coin may be trusted. What is not sent yet does not count: nobody
    /// else has seen it.
    #[must_use]
    pub const fn passes_trust(self) -> bool {
        matches!(self, Self::Trusted | Self::Confirmed)
    }

    /// The number in the database.
    #[must_use]
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// Inverse of [`CoinClass::code`].
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.code() == code)
    }

    /// The name for people and interfaces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Pending => "pending",
            Self::Untrusted => "untrusted",
            Self::Trusted => "trusted",
            Self::Confirmed => "confirmed",
        }
    }
}

/// One unspent output, as far as a balance cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoinFacts {
    /// See [`CoinClass`].
    pub class: CoinClass,
    /// Block of the transaction.
    pub height: Option<Height>,
    /// Whether a coinbase made it.
    pub coinbase: bool,
}

/// The line of a balance that a coin belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// In a block, and mature.
    Confirmed,
    /// A coinbase output that may not be spent yet.
    Immature,
    /// In no block, paid by ourselves.
    Trusted,
    /// In no block, paid by somebody else.
    Untrusted,
    /// Not sent yet.
    Pending,
}

/// From where a balance looks at coins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoinView {
    /// Where the chain ends.
    pub tip: Option<Height>,
    /// Which numbers of confirmations count.
    pub range: ConfirmationRange,
    /// When a coinbase output counts as spendable.
    pub maturity: Maturity,
}

impl CoinView {
    /// Where `coin` counts, or `None` when it does not.
    #[must_use]
    pub fn bucket(&self, coin: &CoinFacts) -> Option<Bucket> {
        let unconfirmed = |bucket| self.range.wants_unconfirmed().then_some(bucket);
        match coin.class {
            CoinClass::Dead => None,
            CoinClass::Pending => unconfirmed(Bucket::Pending),
            CoinClass::Untrusted => unconfirmed(Bucket::Untrusted),
            CoinClass::Trusted => unconfirmed(Bucket::Trusted),
            CoinClass::Confirmed => {
                let height = coin.height?;
                let count = confirmations(Some(height), self.tip);
                if count == 0 || !self.range.contains(count) {
                    None
                } else if coin.coinbase && !self.maturity.is_mature(height, self.tip) {
                    Some(Bucket::Immature)
                } else {
                    Some(Bucket::Confirmed)
                }
            }
        }
    }
}

/// What a wallet has. Outputs that a live transaction spends never count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Balance {
    /// In a block, and mature.
    pub confirmed: u64,
    /// In no block, paid by ourselves, as are all ancestors in no block.
    pub trusted_unconfirmed: u64,
    /// In no block, and somebody else paid for it or for one of its ancestors in no block.
    pub untrusted_unconfirmed: u64,
    /// Of transactions that were not sent yet.
    pub pending: u64,
    /// Coinbase outputs that may not be spent yet.
    pub immature: u64,
    /// The part of [`Balance::total`] that is under an active lease.
    pub leased: u64,
    /// The part of [`Balance::leased`] that is confirmed or trusted.
    pub leased_spendable: u64,
    /// Confirmed or trusted, not leased, and held back because a label says so.
    pub held_back: u64,
    /// Confirmed or trusted, not leased and not held back, but locked: the `older()` or `after()` of
    /// its descriptor keeps it out of the next block.
    pub locked: u64,
}

impl Balance {
    /// Everything that counts, leased or not.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.confirmed
            + self.trusted_unconfirmed
            + self.untrusted_unconfirmed
            + self.pending
            + self.immature
    }

    /// What can be spent now without trusting others: confirmed and own change, neither leased,
    /// held back nor locked.
    #[must_use]
    pub const fn available(&self) -> u64 {
        (self.confirmed + self.trusted_unconfirmed)
            .saturating_sub(self.leased_spendable)
            .saturating_sub(self.held_back)
            .saturating_sub(self.locked)
    }

    /// Notes that of what is available only `open` may be in the next block.
    pub const fn lock_all_but(&mut self, open: u64) {
        self.locked = self.available().saturating_sub(open);
    }

    /// Counts one coin.
    pub fn add(&mut self, bucket: Bucket, amount: Amount, leased: bool) {
        let line = match bucket {
            Bucket::Confirmed => &mut self.confirmed,
            Bucket::Immature => &mut self.immature,
            Bucket::Trusted => &mut self.trusted_unconfirmed,
            Bucket::Untrusted => &mut self.untrusted_unconfirmed,
            Bucket::Pending => &mut self.pending,
        };
        *line += amount.get();
        if leased {
            self.add_lease(bucket, amount);
        }
    }

    /// Marks the amount of a coin that was counted already as leased.
    pub fn add_lease(&mut self, bucket: Bucket, amount: Amount) {
        self.leased += amount.get();
        if matches!(bucket, Bucket::Confirmed | Bucket::Trusted) {
            self.leased_spendable += amount.get();
        }
    }

    /// Marks the amount of a coin that was counted already, and is not leased, as held back.
    pub fn hold_back(&mut self, bucket: Bucket, amount: Amount) {
        if matches!(bucket, Bucket::Confirmed | Bucket::Trusted) {
            self.held_back += amount.get();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coin(class: CoinClass, height: Option<u32>, coinbase: bool) -> CoinFacts {
        CoinFacts { class, height: height.map(Height::new), coinbase }
    }

    #[test]
    fn classes_follow_the_state_of_the_parent() {
        let height = Height::new(3);
        assert_eq!(CoinClass::of(TxState::Pending, false, true), CoinClass::Pending);
        assert_eq!(CoinClass::of(TxState::Pending, true, true), CoinClass::Dead);
        assert_eq!(CoinClass::of(TxState::Unconfirmed, false, true), CoinClass::Trusted);
        assert_eq!(CoinClass::of(TxState::Unconfirmed, false, false), CoinClass::Untrusted);
        assert_eq!(CoinClass::of(TxState::Confirmed(height), false, false), CoinClass::Confirmed);
        for dead in [TxState::Replaced, TxState::Failed, TxState::Orphaned] {
            assert_eq!(CoinClass::of(dead, false, true), CoinClass::Dead);
        }
        for class in CoinClass::ALL {
            assert_eq!(CoinClass::from_code(class.code()), Some(class));
        }
    }

    #[test]
    fn trust_comes_from_blocks_and_from_what_is_trusted() {
        let trusted = CoinClass::ALL.map(CoinClass::passes_trust);
        assert_eq!(trusted, [false, false, false, true, true]);
    }

    #[test]
    fn confirmed_coins_above_the_tip_do_not_count() {
        let view = CoinView { tip: Some(Height::new(5)), ..CoinView::default() };
        assert_eq!(view.bucket(&coin(CoinClass::Confirmed, Some(6), false)), None);
        let at_tip = view.bucket(&coin(CoinClass::Confirmed, Some(5), false));
        assert_eq!(at_tip, Some(Bucket::Confirmed));
    }

    #[test]
    fn only_coinbase_outputs_wait_for_maturity() {
        let view = CoinView { tip: Some(Height::new(120)), ..CoinView::default() };
        let bucket =
            |height, coinbase| view.bucket(&coin(CoinClass::Confirmed, Some(height), coinbase));
        assert_eq!(bucket(20, true), Some(Bucket::Confirmed));
        assert_eq!(bucket(21, true), Some(Bucket::Immature));
        assert_eq!(bucket(21, false), Some(Bucket::Confirmed));
    }

    #[test]
    fn one_confirmation_leaves_the_mempool_out() {
        let range = ConfirmationRange::at_least(1);
        let view = CoinView { tip: Some(Height::new(9)), range, ..CoinView::default() };
        for class in [CoinClass::Pending, CoinClass::Untrusted, CoinClass::Trusted] {
            assert_eq!(view.bucket(&coin(class, None, false)), None);
        }
    }

    #[test]
    fn leases_are_part_of_the_total_and_not_available() {
        let mut balance = Balance::default();
        balance.add(Bucket::Confirmed, Amount::new(10).unwrap(), false);
        balance.add(Bucket::Trusted, Amount::new(5).unwrap(), true);
        balance.add(Bucket::Immature, Amount::new(7).unwrap(), true);
        assert_eq!((balance.total(), balance.leased, balance.available()), (22, 12, 10));
        balance.hold_back(Bucket::Confirmed, Amount::new(4).unwrap());
        balance.hold_back(Bucket::Untrusted, Amount::new(3).unwrap());
        assert_eq!((balance.total(), balance.held_back, balance.available()), (22, 4, 6));
    }
}
