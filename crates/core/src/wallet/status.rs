//! The status machine of a transaction, as one `match`.

use crate::types::Height;

/// What the ledger thinks of a transaction. The numbers are part of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TxStatus {
    /// Made here, not sent yet.
    Pending = 0,
    /// Valid as far as anybody knows: in the mempool or in a block, sent by us or not.
    Published = 1,
    /// Gave way to a declared replacement.
    Replaced = 2,
    /// Lost its inputs to a competitor, was given up, or depends on a transaction that failed.
    Failed = 3,
    /// A coinbase whose block left the chain.
    Orphaned = 4,
}

impl TxStatus {
    /// Every status, in the order of the numbers.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Published, Self::Replaced, Self::Failed, Self::Orphaned];

    /// The number in the database.
    #[must_use]
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// Inverse of [`TxStatus::code`].
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// The name for people and interfaces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Published => "published",
            Self::Replaced => "replaced",
            Self::Failed => "failed",
            Self::Orphaned => "orphaned",
        }
    }

    /// Whether the transaction may still confirm without being seen again.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Published)
    }
}

/// Why a transaction is not live any more. The numbers are part of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum InvalidReason {
    /// A declared replacement took its inputs.
    Replaced = 1,
    /// A competitor that nobody declared took its inputs.
    DoubleSpent = 2,
    /// The user gave it up, or the network refused it.
    Abandoned = 3,
    /// It spends from a transaction that is not live any more.
    AncestorInvalid = 4,
}

impl InvalidReason {
    /// Every reason, in the order of the numbers.
    pub const ALL: [Self; 4] =
        [Self::Replaced, Self::DoubleSpent, Self::Abandoned, Self::AncestorInvalid];

    /// The number in the database.
    #[must_use]
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// Inverse of [`InvalidReason::code`].
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// The name for people and interfaces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::DoubleSpent => "double_spent",
            Self::Abandoned => "abandoned",
            Self::AncestorInvalid => "ancestor_invalid",
        }
    }
}

/// Status and block of a stored transaction. Only pairs that may exist can be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxState {
    /// Made here, not sent yet.
    Pending,
    /// Published, in no block.
    Unconfirmed,
    /// Published, in the block at this height.
    Confirmed(Height),
    /// See [`TxStatus::Replaced`].
    Replaced,
    /// See [`TxStatus::Failed`].
    Failed,
    /// See [`TxStatus::Orphaned`].
    Orphaned,
}

impl TxState {
    /// Puts two columns together; `None` for a pair that may not exist.
    #[must_use]
    pub const fn from_columns(status: TxStatus, block: Option<Height>) -> Option<Self> {
        match (status, block) {
            (TxStatus::Published, Some(height)) => Some(Self::Confirmed(height)),
            (TxStatus::Published, None) => Some(Self::Unconfirmed),
            (TxStatus::Pending, None) => Some(Self::Pending),
            (TxStatus::Replaced, None) => Some(Self::Replaced),
            (TxStatus::Failed, None) => Some(Self::Failed),
            (TxStatus::Orphaned, None) => Some(Self::Orphaned),
            (_, Some(_)) => None,
        }
    }

    /// The status column.
    #[must_use]
    pub const fn status(self) -> TxStatus {
        match self {
            Self::Pending => TxStatus::Pending,
            Self::Unconfirmed | Self::Confirmed(_) => TxStatus::Published,
            Self::Replaced => TxStatus::Replaced,
            Self::Failed => TxStatus::Failed,
            Self::Orphaned => TxStatus::Orphaned,
        }
    }

    /// The block column.
    #[must_use]
    pub const fn block(self) -> Option<Height> {
        match self {
            Self::Confirmed(height) => Some(height),
            _ => None,
        }
    }

    /// Whether the transaction may still confirm without being seen again.
    #[must_use]
    pub const fn is_live(self) -> bool {
        self.status().is_live()
    }
}

/// What happens to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It was made here.
    Create,
    /// It was sent, or seen in a mempool.
    Publish,
    /// It was seen in the block at this height.
    Confirm(Height),
    /// Its block left the chain.
    Disconnect,
    /// The user gave it up, or the network refused it.
    Abandon,
    /// Another transaction took one of its inputs; `declared` when that one replaces it by intent.
    Lose {
        /// Whether the caller or the node's mempool said that it is a replacement.
        declared: bool,
    },
    /// A transaction it spends from is not live any more.
    LoseAncestor,
}

/// Whose word an event rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Evidence {
    /// A user or a client says so. A claim never undoes what is known of blocks.
    #[default]
    Claim,
    /// A block that the ledger follows or scans says so. It outranks every claim, and a stored
    /// confirmation that contradicts it was one.
    Block,
}

/// Why an event cannot happen to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A coinbase exists in its block and nowhere else.
    #[error("a coinbase transaction exists only in a block")]
    CoinbaseOutsideBlock,
    /// The transaction is in a block already.
    #[error("the transaction is confirmed at height {0}; disconnect that block first")]
    Confirmed(Height),
    /// The ledger followed the block, and found the transaction in it.
    #[error(
        "block {0}, which the ledger followed, holds the transaction; only claims can be taken back"
    )]
    InFollowedBlock(Height),
    /// The transaction is not live.
    #[error("the transaction is {}; only seeing it in a mempool or block brings it back", .0.name())]
    NotLive(TxStatus),
    /// The ledger does not know the transaction.
    #[error("the wallet does not know the transaction")]
    Unknown,
}

/// The state that a payment starts from which is made now. A twin of it, with the same id, that was
/// given up or replaced counts for nothing: the coins were chosen anew.
#[must_use]
pub fn made_anew(stored: Option<TxState>) -> Option<TxState> {
    stored.filter(|state| !matches!(state, TxState::Replaced | TxState::Failed))
}

/// The state after `event`. Staying where it is counts as an answer, so that repeating an event
/// is harmless.
///
/// A dead transaction that is published or confirmed again comes back to life. The caller has to
/// make sure that its inputs are free first (publish), or free them (confirm).
///
/// With the evidence of a block a confirmation moves to that block, and is lost with the inputs.
#[expect(clippy::match_same_arms, reason = "one line for each row of the table")]
pub fn next(
    from: Option<TxState>,
    coinbase: bool,
    event: Event,
    evidence: Evidence,
) -> Result<TxState, Refused> {
    use TxState::{Confirmed, Failed, Orphaned, Pending, Replaced, Unconfirmed};
    let from = match (from, event, evidence) {
        (
            Some(Confirmed(_)),
            Event::Confirm(_) | Event::Lose { .. } | Event::LoseAncestor,
            Evidence::Block,
        ) => Some(Unconfirmed),
        _ => from,
    };
    match (from, event) {
        (None, Event::Confirm(height)) => Ok(Confirmed(height)),
        (None, Event::Create | Event::Publish) if coinbase => Err(Refused::CoinbaseOutsideBlock),
        (None, Event::Create) => Ok(Pending),
        (None, Event::Publish) => Ok(Unconfirmed),
        (None, _) => Err(Refused::Unknown),

        (Some(Confirmed(now)), Event::Confirm(height)) if now == height => Ok(Confirmed(now)),
        (Some(Confirmed(now)), Event::Confirm(_)) => Err(Refused::Confirmed(now)),
        (Some(_), Event::Confirm(height)) => Ok(Confirmed(height)),

        (Some(Confirmed(_)), Event::Disconnect) if coinbase => Ok(Orphaned),
        (Some(Confirmed(_)), Event::Disconnect) => Ok(Unconfirmed),
        (Some(same), Event::Disconnect) => Ok(same),

        (Some(Pending), Event::Publish) => Ok(Unconfirmed),
        (Some(Replaced | Failed), Event::Publish) => Ok(Unconfirmed),
        (Some(Orphaned), Event::Publish | Event::Create) => Err(Refused::CoinbaseOutsideBlock),
        (Some(dead @ (Replaced | Failed)), Event::Create) => Err(Refused::NotLive(dead.status())),
        (Some(same), Event::Publish | Event::Create) => Ok(same),

        (Some(Confirmed(now)), Event::Abandon | Event::Lose { .. } | Event::LoseAncestor) => {
            Err(Refused::Confirmed(now))
        }
        (Some(Pending | Unconfirmed), Event::Abandon | Event::LoseAncestor) => Ok(Failed),
        (Some(Pending | Unconfirmed), Event::Lose { declared: true }) => Ok(Replaced),
        (Some(Pending | Unconfirmed), Event::Lose { declared: false }) => Ok(Failed),
        (Some(dead), Event::Abandon) => Err(Refused::NotLive(dead.status())),
        (Some(dead), Event::Lose { .. } | Event::LoseAncestor) => Ok(dead),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: Height = Height::new(7);
    const ALL: [TxState; 6] = [
        TxState::Pending,
        TxState::Unconfirmed,
        TxState::Confirmed(H),
        TxState::Replaced,
        TxState::Failed,
        TxState::Orphaned,
    ];

    fn next(from: Option<TxState>, coinbase: bool, event: Event) -> Result<TxState, Refused> {
        super::next(from, coinbase, event, Evidence::Claim)
    }

    #[test]
    fn the_evidence_of_a_block_moves_and_undoes_a_claimed_confirmation() {
        let by_block =
            |event| super::next(Some(TxState::Confirmed(H)), false, event, Evidence::Block);
        let real = Height::new(9);
        assert_eq!(by_block(Event::Confirm(real)), Ok(TxState::Confirmed(real)));
        assert_eq!(by_block(Event::Confirm(H)), Ok(TxState::Confirmed(H)));
        assert_eq!(by_block(Event::Lose { declared: false }), Ok(TxState::Failed));
        assert_eq!(by_block(Event::Lose { declared: true }), Ok(TxState::Replaced));
        assert_eq!(by_block(Event::LoseAncestor), Ok(TxState::Failed));
        // A block says nothing about what a user wants.
        assert_eq!(by_block(Event::Abandon), Err(Refused::Confirmed(H)));
        assert_eq!(by_block(Event::Disconnect), Ok(TxState::Unconfirmed));
    }

    #[test]
    fn codes_read_back_and_unknown_ones_do_not() {
        for status in TxStatus::ALL {
            assert_eq!(TxStatus::from_code(status.code()), Some(status));
        }
        for reason in InvalidReason::ALL {
            assert_eq!(InvalidReason::from_code(reason.code()), Some(reason));
        }
        assert_eq!(TxStatus::from_code(5), None);
        assert_eq!(InvalidReason::from_code(0), None);
    }

    #[test]
    fn only_published_transactions_have_a_block() {
        for state in ALL {
            assert_eq!(TxState::from_columns(state.status(), state.block()), Some(state));
        }
        assert_eq!(TxState::from_columns(TxStatus::Failed, Some(H)), None);
    }

    #[test]
    fn every_state_can_confirm_and_a_second_block_is_refused() {
        for state in ALL {
            let there = next(Some(state), false, Event::Confirm(H));
            assert_eq!(there, Ok(TxState::Confirmed(H)), "{state:?}");
        }
        let other = next(Some(TxState::Confirmed(H)), false, Event::Confirm(Height::new(8)));
        assert_eq!(other, Err(Refused::Confirmed(H)));
    }

    #[test]
    fn a_coinbase_never_leaves_its_block_alive() {
        assert_eq!(next(None, true, Event::Publish), Err(Refused::CoinbaseOutsideBlock));
        assert_eq!(next(None, true, Event::Create), Err(Refused::CoinbaseOutsideBlock));
        let orphaned = next(Some(TxState::Confirmed(H)), true, Event::Disconnect);
        assert_eq!(orphaned, Ok(TxState::Orphaned));
        let back = next(Some(TxState::Orphaned), true, Event::Publish);
        assert_eq!(back, Err(Refused::CoinbaseOutsideBlock));
    }

    #[test]
    fn a_disconnected_payment_stays_published_and_twice_is_harmless() {
        let once = next(Some(TxState::Confirmed(H)), false, Event::Disconnect);
        assert_eq!(once, Ok(TxState::Unconfirmed));
        for state in ALL.into_iter().filter(|state| state.block().is_none()) {
            assert_eq!(next(Some(state), false, Event::Disconnect), Ok(state));
        }
    }

    #[test]
    fn losing_needs_a_live_unconfirmed_transaction() {
        let declared = Event::Lose { declared: true };
        let rival = Event::Lose { declared: false };
        for state in [TxState::Pending, TxState::Unconfirmed] {
            assert_eq!(next(Some(state), false, declared), Ok(TxState::Replaced));
            assert_eq!(next(Some(state), false, rival), Ok(TxState::Failed));
            assert_eq!(next(Some(state), false, Event::LoseAncestor), Ok(TxState::Failed));
            assert_eq!(next(Some(state), false, Event::Abandon), Ok(TxState::Failed));
        }
        for event in [declared, rival, Event::LoseAncestor, Event::Abandon] {
            let confirmed = next(Some(TxState::Confirmed(H)), false, event);
            assert_eq!(confirmed, Err(Refused::Confirmed(H)));
        }
        assert_eq!(next(Some(TxState::Replaced), false, rival), Ok(TxState::Replaced));
        assert_eq!(
            next(Some(TxState::Failed), false, Event::Abandon),
            Err(Refused::NotLive(TxStatus::Failed))
        );
    }

    #[test]
    fn a_new_payment_does_not_fail_because_of_its_dead_twin() {
        for state in ALL {
            let started = made_anew(Some(state));
            let is_dead_payment = matches!(state, TxState::Replaced | TxState::Failed);
            assert_eq!(started, Some(state).filter(|_| !is_dead_payment));
        }
        assert_eq!(
            next(made_anew(Some(TxState::Failed)), false, Event::Create),
            Ok(TxState::Pending)
        );
    }

    #[test]
    fn publishing_revives_and_creating_does_not() {
        for state in [TxState::Replaced, TxState::Failed] {
            assert_eq!(next(Some(state), false, Event::Publish), Ok(TxState::Unconfirmed));
            assert_eq!(
                next(Some(state), false, Event::Create),
                Err(Refused::NotLive(state.status()))
            );
        }
        assert_eq!(
            next(Some(TxState::Unconfirmed), false, Event::Create),
            Ok(TxState::Unconfirmed)
        );
    }
}
