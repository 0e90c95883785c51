//! What the mempool of a node says about transactions that a wallet has in no block.

use super::{Micros, TxState};

/// A stored transaction that the mempool of the node does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absent {
    /// Where it stands.
    pub state: TxState,
    /// This ledger made the payment, so its broadcast belongs to whoever uses the ledger.
    pub is_own_payment: bool,
    /// The mempool held it when it was last listed.
    pub was_there: bool,
    /// Since when the ledger knows it.
    pub known_since: Micros,
}

/// What becomes of a transaction that the mempool does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbsentFate {
    /// The mempool says nothing about it: it was not sent, or is in a block, or is not live.
    Untouched,
    /// The ledger's own payment: it can be sent again, and its recipient may still be paid. Only a
    /// rival, a block or the user ends it.
    Kept,
    /// It became known a moment ago and may still be on its way to the node.
    OnItsWay,
    /// The node has dropped it: it expired, was replaced or paid too little.
    Evicted,
}

impl Absent {
    /// Decides, at the time `now`, for a ledger that stands at the block at which the mempool was
    /// listed. What a block has taken would look dropped otherwise.
    #[must_use]
    pub const fn fate(&self, now: Micros, grace_us: i64) -> AbsentFate {
        if !matches!(self.state, TxState::Unconfirmed) {
            return AbsentFate::Untouched;
        }
        if self.is_own_payment {
            return AbsentFate::Kept;
        }
        let known_us = now.get().saturating_sub(self.known_since.get());
        if self.was_there || known_us >= grace_us {
            AbsentFate::Evicted
        } else {
            AbsentFate::OnItsWay
        }
    }
}

/// Whether a transaction that the mempool holds pushes out what else spends the same outputs.
///
/// A mempool never holds two transactions that spend the same output, so what it holds wins over
/// what it does not hold. One that was given up or replaced here has lost to something that its
/// owner wants in its place, which may be on its way to the node: it comes back only if its inputs
/// are free.
#[must_use]
pub const fn mempool_replaces(stored: Option<TxState>) -> bool {
    !matches!(stored, Some(TxState::Replaced | TxState::Failed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Height;

    const GRACE_US: i64 = 60;

    fn fate(state: TxState, is_own_payment: bool, was_there: bool, known_us: i64) -> AbsentFate {
        let known_since = Micros::new(1_000 - known_us);
        Absent { state, is_own_payment, was_there, known_since }.fate(Micros::new(1_000), GRACE_US)
    }

    #[test]
    fn a_strangers_payment_that_left_the_mempool_is_evicted() {
        assert_eq!(fate(TxState::Unconfirmed, false, true, 0), AbsentFate::Evicted);
        // Nobody remembers the mempool from before a restart.
        assert_eq!(fate(TxState::Unconfirmed, false, false, GRACE_US), AbsentFate::Evicted);
    }

    #[test]
    fn one_that_was_never_seen_there_gets_time_to_arrive() {
        assert_eq!(fate(TxState::Unconfirmed, false, false, GRACE_US - 1), AbsentFate::OnItsWay);
        // A clock that was put back does not end anything.
        assert_eq!(fate(TxState::Unconfirmed, false, false, -5), AbsentFate::OnItsWay);
    }

    #[test]
    fn a_payment_of_this_ledger_is_never_given_up_by_absence() {
        for (was_there, known_us) in [(true, 0), (false, GRACE_US), (true, i64::MAX / 2)] {
            let kept = fate(TxState::Unconfirmed, true, was_there, known_us);
            assert_eq!(kept, AbsentFate::Kept);
        }
    }

    #[test]
    fn absence_says_nothing_about_what_was_not_sent_or_is_in_a_block() {
        let confirmed = TxState::Confirmed(Height::new(7));
        let others =
            [TxState::Pending, confirmed, TxState::Replaced, TxState::Failed, TxState::Orphaned];
        for state in others {
            assert_eq!(fate(state, false, true, GRACE_US), AbsentFate::Untouched, "{state:?}");
            assert_eq!(fate(state, true, true, GRACE_US), AbsentFate::Untouched, "{state:?}");
        }
    }

    #[test]
    fn only_what_was_not_given_up_here_pushes_rivals_out() {
        let live = [TxState::Pending, TxState::Unconfirmed, TxState::Confirmed(Height::new(7))];
        assert!(mempool_replaces(None));
        assert!(live.into_iter().all(|state| mempool_replaces(Some(state))));
        assert!(!mempool_replaces(Some(TxState::Replaced)));
        assert!(!mempool_replaces(Some(TxState::Failed)));
    }
}
