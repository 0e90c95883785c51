//! Wallet events: what a change of the ledger means to a program that watches a wallet.
//!
//! The ledger compares a transaction before and after one database transaction and asks here
//! which events that is. Only the net effect is told, so an event is never about a state that no
//! reader could have seen.
//!
//! # Invariants
//!
//! * Replaying the events of a transaction ([`TxNotice::state`]) ends in its state in the ledger.
//! * While a transaction stays in its block, each depth is told once.

use super::{TxState, TxStatus, confirmations};
use crate::types::Height;

/// Depths that may be told, at most.
const DEPTHS_MAX: usize = 8;
/// The deepest that may be told. A wallet that was set aside looks this far back.
const DEPTH_MAX: u32 = 1_000;

/// What a wallet event is about. The numbers are part of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WalletEventKind {
    /// A payment was created here and not broadcast yet.
    Created = 1,
    /// A transaction was broadcast or seen in a mempool, for the first time or again.
    Seen = 2,
    /// A transaction has reached one of the depths that are told; 1 is its own block.
    Confirmed = 3,
    /// A transaction left its block: it is unconfirmed again, a coinbase is orphaned.
    Reorganised = 4,
    /// A transaction gave way to a declared replacement.
    Replaced = 5,
    /// A transaction lost its inputs or a parent, or was abandoned.
    Failed = 6,
    /// The ledger forgot a transaction that was in no block.
    Removed = 7,
    /// A lease ended by the clock.
    LeaseExpired = 8,
}

impl WalletEventKind {
    /// Every kind, in the order of the numbers.
    pub const ALL: [Self; 8] = [
        Self::Created,
        Self::Seen,
        Self::Confirmed,
        Self::Reorganised,
        Self::Replaced,
        Self::Failed,
        Self::Removed,
        Self::LeaseExpired,
    ];

    /// The number in the database.
    #[must_use]
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// Inverse of [`WalletEventKind::code`].
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The name for people and interfaces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Seen => "seen",
            Self::Confirmed => "confirmed",
            Self::Reorganised => "reorganised",
            Self::Replaced => "replaced",
            Self::Failed => "failed",
            Self::Removed => "removed",
            Self::LeaseExpired => "lease_expired",
        }
    }
}

/// Why depths cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadDepths {
    /// The first depth is the block itself.
    #[error("the first depth is 1, the block that holds the transaction")]
    NotFromOne,
    /// Depths are told in order.
    #[error("depths ascend, and none is named twice")]
    NotAscending,
    /// Each depth costs a query for every block.
    #[error("at most {DEPTHS_MAX} depths are told")]
    TooMany,
    /// A wallet that was set aside looks this far back.
    #[error("{0} is too deep, at most {DEPTH_MAX} confirmations are told")]
    TooDeep(u32),
}

/// Numbers of confirmations that are told, ascending from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventDepths {
    depths: [u32; DEPTHS_MAX],
    len: usize,
}

impl EventDepths {
    /// Checks a list: it ascends from 1.
    pub const fn new(list: &[u32]) -> Result<Self, BadDepths> {
        if list.is_empty() || list[0] != 1 {
            return Err(BadDepths::NotFromOne);
        }
        if list.len() > DEPTHS_MAX {
            return Err(BadDepths::TooMany);
        }
        let mut depths = [0; DEPTHS_MAX];
        let mut at = 0;
        while at < list.len() {
            if list[at] > DEPTH_MAX {
                return Err(BadDepths::TooDeep(list[at]));
            }
            if at > 0 && list[at] <= list[at - 1] {
                return Err(BadDepths::NotAscending);
            }
            depths[at] = list[at];
            at += 1;
        }
        Ok(Self { depths, len: list.len() })
    }

    /// The depths, ascending from 1.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.depths[..self.len]
    }

    /// The deepest.
    #[must_use]
    pub fn deepest(&self) -> u32 {
        self.as_slice().last().copied().unwrap_or(1)
    }

    /// Depths above `told` up to `count` confirmations. A transaction in a block that lies above
    /// the tip, as a claim may say, has reached depth 1 and no other.
    fn reached(&self, told: u32, count: u32) -> impl Iterator<Item = u32> {
        let count = count.max(1);
        self.as_slice().iter().copied().filter(move |depth| (told + 1..=count).contains(depth))
    }

    /// The deepest depth that a transaction in the block at `height` has reached.
    #[must_use]
    pub fn deepest_reached(&self, height: Height, tip: Option<Height>) -> u32 {
        self.reached(0, confirmations(Some(height), tip)).last().unwrap_or(1)
    }
}

impl Default for EventDepths {
    /// In a block, then what merchants and exchanges commonly wait for.
    fn default() -> Self {
        const DEFAULT: EventDepths = match EventDepths::new(&[1, 3, 6]) {
            Ok(depths) => depths,
            Err(_) => panic!("the list ascends from 1"),
        };
        DEFAULT
    }
}

/// What is told about a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxNotice {
    /// It was created here.
    Created,
    /// It was broadcast or seen in a mempool.
    Seen,
    /// It is this deep in the chain.
    Confirmed {
        /// Its block.
        height: Height,
        /// One of the depths that are told.
        depth: u32,
    },
    /// It left its block.
    Reorganised {
        /// The block that it left.
        from: Height,
        /// It is a coinbase, which exists in its block only.
        orphaned: bool,
    },
    /// A declared replacement took its place.
    Replaced,
    /// It cannot confirm any more, unless it is seen again.
    Failed,
    /// The ledger forgot it.
    Removed,
}

impl TxNotice {
    /// The kind of the event.
    #[must_use]
    pub const fn kind(self) -> WalletEventKind {
        match self {
            Self::Created => WalletEventKind::Created,
            Self::Seen => WalletEventKind::Seen,
            Self::Confirmed { .. } => WalletEventKind::Confirmed,
            Self::Reorganised { .. } => WalletEventKind::Reorganised,
            Self::Replaced => WalletEventKind::Replaced,
            Self::Failed => WalletEventKind::Failed,
            Self::Removed => WalletEventKind::Removed,
        }
    }

    /// The state of the transaction after this event; `None` when the ledger forgot it.
    #[must_use]
    pub const fn state(self) -> Option<TxState> {
        Some(match self {
            Self::Created => TxState::Pending,
            Self::Seen | Self::Reorganised { orphaned: false, .. } => TxState::Unconfirmed,
            Self::Confirmed { height, .. } => TxState::Confirmed(height),
            Self::Reorganised { orphaned: true, .. } => TxState::Orphaned,
            Self::Replaced => TxState::Replaced,
            Self::Failed => TxState::Failed,
            Self::Removed => return None,
        })
    }

    /// The status of the transaction after this event.
    #[must_use]
    pub fn status(self) -> Option<TxStatus> {
        self.state().map(TxState::status)
    }
}

/// One transaction before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxChange {
    /// Its state before; `None` for one that the ledger did not have.
    pub before: Option<TxState>,
    /// The deepest depth that was told before, 0 for none.
    pub told_before: u32,
    /// Its state after; `None` when the ledger does not have it any more.
    pub after: Option<TxState>,
    /// Where the chain ends after the change.
    pub tip: Option<Height>,
}

impl TxChange {
    /// What is told, in this order.
    #[must_use]
    pub fn notices(&self, depths: &EventDepths) -> Vec<TxNotice> {
        use TxState::{Confirmed, Failed, Orphaned, Pending, Replaced, Unconfirmed};
        let mut notices = Vec::new();
        if self.before != self.after
            && let Some(Confirmed(from)) = self.before
            && let Some(Confirmed(_) | Unconfirmed | Orphaned) = self.after
        {
            let orphaned = self.after == Some(Orphaned);
            notices.push(TxNotice::Reorganised { from, orphaned });
        }
        let has_moved = self.before != self.after;
        match self.after {
            Some(Confirmed(height)) => {
                let told = if has_moved { 0 } else { self.told_before };
                let count = confirmations(Some(height), self.tip);
                let reached = depths.reached(told, count);
                notices.extend(reached.map(|depth| TxNotice::Confirmed { height, depth }));
            }
            _ if !has_moved || !notices.is_empty() => {}
            Some(Pending) => notices.push(TxNotice::Created),
            Some(Unconfirmed) => notices.push(TxNotice::Seen),
            Some(Replaced) => notices.push(TxNotice::Replaced),
            Some(Failed) => notices.push(TxNotice::Failed),
            // It was never told, or was told when its block left: a coinbase has no other way here.
            Some(Orphaned) => {}
            None => notices.push(TxNotice::Removed),
        }
        notices
    }

    /// The deepest depth that was told after the change, 0 for none.
    #[must_use]
    pub fn told_after(&self, depths: &EventDepths) -> u32 {
        let Some(TxState::Confirmed(height)) = self.after else { return 0 };
        let reached = depths.deepest_reached(height, self.tip);
        if self.before == self.after { reached.max(self.told_before) } else { reached }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h(raw: u32) -> Height {
        Height::new(raw)
    }

    const STATES: [Option<TxState>; 8] = [
        None,
        Some(TxState::Pending),
        Some(TxState::Unconfirmed),
        Some(TxState::Confirmed(Height::new(5))),
        Some(TxState::Confirmed(Height::new(6))),
        Some(TxState::Replaced),
        Some(TxState::Failed),
        Some(TxState::Orphaned),
    ];

    #[test]
    fn codes_and_names_are_distinct_and_read_back() {
        for kind in WalletEventKind::ALL {
            assert_eq!(WalletEventKind::from_code(kind.code()), Some(kind));
            let same = WalletEventKind::ALL.iter().filter(|other| other.name() == kind.name());
            assert_eq!(same.count(), 1);
        }
        assert_eq!(WalletEventKind::from_code(0), None);
        assert_eq!(WalletEventKind::from_code(9), None);
    }

    #[test]
    fn depths_ascend_from_the_block_itself() {
        assert_eq!(EventDepths::default().as_slice(), [1, 3, 6]);
        assert_eq!(EventDepths::new(&[1]).unwrap().deepest(), 1);
        assert_eq!(EventDepths::new(&[]), Err(BadDepths::NotFromOne));
        assert_eq!(EventDepths::new(&[3, 6]), Err(BadDepths::NotFromOne));
        assert_eq!(EventDepths::new(&[1, 6, 6]), Err(BadDepths::NotAscending));
        assert_eq!(EventDepths::new(&[1, 6, 3]), Err(BadDepths::NotAscending));
        assert_eq!(EventDepths::new(&[1, 1_001]), Err(BadDepths::TooDeep(1_001)));
        assert_eq!(EventDepths::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), Err(BadDepths::TooMany));
    }

    /// A change to any state but that of an orphan which nobody was told of ends where the ledger is.
    #[test]
    fn a_replay_of_the_notices_ends_in_the_state_after() {
        let depths = EventDepths::default();
        for before in STATES {
            for after in STATES {
                let change = TxChange { before, told_before: 0, after, tip: Some(h(6)) };
                let last = change.notices(&depths).last().map(|notice| notice.state());
                let was_in_block = before.is_some_and(|state| state.block().is_some());
                let is_untold_orphan = after == Some(TxState::Orphaned) && !was_in_block;
                let is_at_rest = before == after && after.and_then(TxState::block).is_none();
                let expected = (!is_untold_orphan && !is_at_rest).then_some(after);
                assert_eq!(last, expected, "{change:?}");
            }
        }
    }

    #[test]
    fn each_depth_is_told_once_while_the_chain_grows_whatever_the_steps() {
        let depths = EventDepths::new(&[1, 2, 5]).unwrap();
        let confirmed = Some(TxState::Confirmed(h(10)));
        for steps in [vec![10, 11, 12, 13, 14, 15], vec![10, 14], vec![15], vec![9, 13, 14, 14]] {
            let (mut before, mut told_before, mut told) = (None, 0, Vec::new());
            for tip in steps {
                let change = TxChange { before, told_before, after: confirmed, tip: Some(h(tip)) };
                told.extend(change.notices(&depths));
                told_before = change.told_after(&depths);
                before = confirmed;
            }
            let expected = [1, 2, 5].map(|depth| TxNotice::Confirmed { height: h(10), depth });
            assert_eq!(told, expected);
            assert_eq!(told_before, 5);
        }
    }

    #[test]
    fn a_chain_that_shrinks_and_grows_again_above_a_block_tells_nothing_twice() {
        let depths = EventDepths::default();
        let confirmed = Some(TxState::Confirmed(h(10)));
        let at = |told_before, tip| TxChange {
            before: confirmed,
            told_before,
            after: confirmed,
            tip: Some(h(tip)),
        };
        assert_eq!(at(6, 12).notices(&depths), []);
        assert_eq!(at(6, 12).told_after(&depths), 6);
        assert_eq!(at(6, 15).notices(&depths), []);
    }

    #[test]
    fn another_block_tells_every_depth_again() {
        let depths = EventDepths::default();
        let change = TxChange {
            before: Some(TxState::Confirmed(h(10))),
            told_before: 6,
            after: Some(TxState::Confirmed(h(12))),
            tip: Some(h(14)),
        };
        let expected = [
            TxNotice::Reorganised { from: h(10), orphaned: false },
            TxNotice::Confirmed { height: h(12), depth: 1 },
            TxNotice::Confirmed { height: h(12), depth: 3 },
        ];
        assert_eq!(change.notices(&depths), expected);
        assert_eq!(change.told_after(&depths), 3);
        let gone = TxChange { after: Some(TxState::Unconfirmed), ..change };
        assert_eq!(gone.notices(&depths), &expected[..1]);
        assert_eq!(gone.told_after(&depths), 0);
    }
}
