//! Two transactions want the same output: who gets it, and in which order a batch is taken.

use std::collections::{BTreeMap, BTreeSet};

use crate::types::Txid;

use super::status::{Evidence, InvalidReason, TxState};

/// A stored live transaction that spends an output the new one spends too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rival {
    /// Where it stands.
    pub state: TxState,
    /// Whether it waits itself: it is a pending replacement and holds none of its inputs.
    pub waiting: bool,
}

/// What becomes of a rival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The new transaction takes the input; the rival is invalid for this reason.
    RivalLoses(InvalidReason),
    /// Both stay: the new transaction is linked as a replacement and waits to be published.
    NewWaits,
    /// Both stay: the rival waits, so it holds nothing the new transaction needs.
    Ignore,
    /// Neither may win: the new transaction is refused and nothing changes.
    Refuse,
}

/// Decides about one rival of a transaction that is about to be in state `new`.
///
/// `declared` means that the caller, or the mempool of the node, said that it is a replacement.
///
/// Two blocks of one chain never spend an output twice. So what a followed block proves to be in
/// the chain wins over a rival that was claimed to be, while two claims are refused.
#[must_use]
pub const fn judge_rival(
    new: TxState,
    evidence: Evidence,
    declared: bool,
    rival: Rival,
) -> Outcome {
    match (new, rival.state) {
        _ if matches!(evidence, Evidence::Block) => Outcome::RivalLoses(if declared {
            InvalidReason::Replaced
        } else {
            InvalidReason::DoubleSpent
        }),
        (_, TxState::Confirmed(_)) => Outcome::Refuse,
        (TxState::Confirmed(_) | TxState::Unconfirmed, _) if declared => {
            Outcome::RivalLoses(InvalidReason::Replaced)
        }
        (TxState::Confirmed(_), _) => Outcome::RivalLoses(InvalidReason::DoubleSpent),
        // One that waits holds nothing; it may still be published as a replacement later.
        _ if rival.waiting => Outcome::Ignore,
        (TxState::Pending, _) if declared => Outcome::NewWaits,
        _ => Outcome::Refuse,
    }
}

/// The order in which a batch is recorded: parents before children, else as given.
///
/// `batch` lists each transaction with the ids of those it spends from. Of all transactions whose
/// parents are done, the one that was listed first comes next. Ids that are not in the batch do
/// not matter. A cycle, which no chain can have, ends in the order given.
#[must_use]
pub fn parents_first(batch: &[(Txid, Vec<Txid>)]) -> Vec<usize> {
    let mut place = BTreeMap::new();
    for (index, (txid, _)) in batch.iter().enumerate() {
        place.entry(*txid).or_insert(index);
    }
    let mut open_parents = vec![0usize; batch.len()];
    let mut children = vec![Vec::new(); batch.len()];
    for (index, (_, parents)) in batch.iter().enumerate() {
        let parents: BTreeSet<usize> =
            parents.iter().filter_map(|txid| place.get(txid).copied()).collect();
        for parent in parents.into_iter().filter(|parent| *parent != index) {
            open_parents[index] += 1;
            children[parent].push(index);
        }
    }
    let mut ready: BTreeSet<usize> =
        (0..batch.len()).filter(|index| open_parents[*index] == 0).collect();
    let mut order = Vec::with_capacity(batch.len());
    let mut done = vec![false; batch.len()];
    while let Some(index) = ready.pop_first() {
        order.push(index);
        done[index] = true;
        for child in &children[index] {
            open_parents[*child] -= 1;
            if open_parents[*child] == 0 {
                ready.insert(*child);
            }
        }
    }
    order.extend((0..batch.len()).filter(|index| !done[*index]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Height;

    const CONFIRMED: TxState = TxState::Confirmed(Height::new(1));

    fn rival(state: TxState) -> Rival {
        Rival { state, waiting: false }
    }

    fn judge_rival(new: TxState, declared: bool, rival: Rival) -> Outcome {
        super::judge_rival(new, Evidence::Claim, declared, rival)
    }

    #[test]
    fn the_evidence_of_a_block_beats_even_a_claimed_confirmation() {
        let by_block =
            |new, declared, state| super::judge_rival(new, Evidence::Block, declared, rival(state));
        let lost = Outcome::RivalLoses(InvalidReason::DoubleSpent);
        for state in [TxState::Pending, TxState::Unconfirmed, CONFIRMED] {
            assert_eq!(by_block(CONFIRMED, false, state), lost);
            // An ancestor that must be in the chain, at a height that is not known.
            assert_eq!(by_block(TxState::Unconfirmed, false, state), lost);
            let replaced = Outcome::RivalLoses(InvalidReason::Replaced);
            assert_eq!(by_block(CONFIRMED, true, state), replaced);
        }
    }

    #[test]
    fn a_claimed_block_beats_everything_but_another_block() {
        for state in [TxState::Pending, TxState::Unconfirmed] {
            assert_eq!(
                judge_rival(CONFIRMED, false, rival(state)),
                Outcome::RivalLoses(InvalidReason::DoubleSpent)
            );
            assert_eq!(
                judge_rival(CONFIRMED, true, rival(state)),
                Outcome::RivalLoses(InvalidReason::Replaced)
            );
        }
        assert_eq!(judge_rival(CONFIRMED, false, rival(CONFIRMED)), Outcome::Refuse);
    }

    #[test]
    fn without_a_block_only_a_declared_replacement_wins() {
        let open = rival(TxState::Unconfirmed);
        let published = |declared| judge_rival(TxState::Unconfirmed, declared, open);
        assert_eq!(published(false), Outcome::Refuse);
        assert_eq!(published(true), Outcome::RivalLoses(InvalidReason::Replaced));
        assert_eq!(judge_rival(TxState::Pending, true, open), Outcome::NewWaits);
        assert_eq!(judge_rival(TxState::Pending, false, open), Outcome::Refuse);
        assert_eq!(judge_rival(TxState::Unconfirmed, true, rival(CONFIRMED)), Outcome::Refuse);
    }

    #[test]
    fn one_that_waits_is_in_nobodys_way_and_loses_to_a_block() {
        let waits = Rival { state: TxState::Pending, waiting: true };
        assert_eq!(judge_rival(TxState::Unconfirmed, false, waits), Outcome::Ignore);
        assert_eq!(judge_rival(TxState::Pending, true, waits), Outcome::Ignore);
        assert_eq!(
            judge_rival(TxState::Unconfirmed, true, waits),
            Outcome::RivalLoses(InvalidReason::Replaced)
        );
        assert_eq!(
            judge_rival(CONFIRMED, false, waits),
            Outcome::RivalLoses(InvalidReason::DoubleSpent)
        );
    }

    fn id(n: u8) -> Txid {
        Txid::from_bytes([n; 32])
    }

    /// S126.
    #[test]
    fn parents_come_first_and_the_rest_keeps_its_order() {
        let batch = [
            (id(4), vec![id(3)]),
            (id(9), vec![]),
            (id(3), vec![id(1), id(2)]),
            (id(1), vec![id(77)]),
            (id(2), vec![id(1)]),
        ];
        assert_eq!(parents_first(&batch), [1, 3, 4, 2, 0]);
        let sorted = [(id(1), vec![]), (id(2), vec![id(1)]), (id(3), vec![])];
        assert_eq!(parents_first(&sorted), [0, 1, 2]);
    }

    #[test]
    fn a_cycle_ends_and_nothing_is_left_out() {
        let cycle = [(id(1), vec![id(2)]), (id(2), vec![id(1)]), (id(3), vec![id(3)])];
        assert_eq!(parents_first(&cycle), [2, 0, 1]);
    }
}
