//! Lists whose items are answered one by one, on engines that commit them one by one.
//!
//! # Invariants
//!
//! * An item that was committed is never decided again: its answer is that of the decision that was
//!   committed.
//! * Items that depend on each other are committed together, and decided in the order of the list.

use std::collections::BTreeSet;

use utxokeep_core::{
    OutPoint, Txid,
    node::{ItemGroup, NodeError},
};

use crate::{
    backend::{Touched, Uncommitted},
    engine::{Ahead, NodeStore},
    error::StoreError,
    facts::Work,
    files::{Creations, Needed, Unwritten, Written},
    store::PerItem,
};

/// How often items are decided again because others changed what they rest on, or because files have
/// to be written first. Engines wait for others by themselves, so that this is seldom more than two.
const ROUNDS_MAX: usize = 32;

/// Decides one item: refused by a rule, or failed below.
type ItemWork<'w, I, T> =
    dyn FnMut(&mut Work<'_, '_>, &I) -> Result<Result<T, NodeError>, StoreError> + 'w;

/// One attempt at the items that are not committed yet.
struct Round<T> {
    /// Numbers of items, and what was decided.
    decided: Vec<(usize, Result<T, NodeError>)>,
    /// What groups rest on: their first item, and transactions.
    reads: Vec<(usize, Vec<Txid>)>,
    /// Files that have to be there first.
    needed: Vec<Needed>,
    /// Files that the commit of the group with this first item names.
    named: Vec<(usize, Txid)>,
}

/// Items that are not committed yet.
struct Open {
    items: Vec<usize>,
    txids: Vec<Txid>,
    outpoints: Vec<OutPoint>,
}

impl NodeStore {
    /// Does `work` on each of many items, whose answers are independent. An engine that commits item by
    /// item gets groups of them, and those that it could not commit are decided again.
    pub(crate) fn each_by_item<I, T>(
        &self,
        touched: &Touched,
        items: &[I],
        (txids, outpoints): Ahead<'_>,
        work: &mut ItemWork<'_, I, T>,
    ) -> PerItem<T> {
        let mut answers: Vec<Option<Result<T, NodeError>>> = items.iter().map(|_| None).collect();
        let (txids, outpoints) = (txids.to_vec(), outpoints.to_vec());
        let mut open = Open { items: (0..items.len()).collect(), txids, outpoints };
        let (mut written, mut unwritten) = (Written::new(), Unwritten::new());
        let _locks = Creations::of(self);
        for _ in 0..ROUNDS_MAX {
            let outcome = self.round(touched, items, &open, work, (&written, &unwritten));
            let (round, left) = match outcome {
                Ok(ended) => ended,
                Err(error) => {
                    self.give_back(written);
                    return Err(error);
                }
            };
            if !round.needed.is_empty() {
                if let Err(error) = self.write_files(round.needed, &mut written, &mut unwritten) {
                    self.give_back(written);
                    return Err(error);
                }
                continue;
            }
            open.take(round, &left, &mut answers, &mut written);
            if open.items.is_empty() {
                break;
            }
        }
        self.give_back(written);
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Err(NodeError::InProgress))).collect())
    }

    fn round<I, T>(
        &self,
        touched: &Touched,
        items: &[I],
        open: &Open,
        work: &mut ItemWork<'_, I, T>,
        (written, unwritten): (&Written, &Unwritten),
    ) -> Result<(Round<T>, Uncommitted), StoreError> {
        let mut round = Round::new();
        let left = self.commit_items(touched, &mut |view| {
            round = Round::new();
            let workspace = self.facts(view).workspace().refusing(unwritten);
            let mut workspace = workspace.noting_items();
            workspace.prefetch(&open.txids, &open.outpoints)?;
            for &number in &open.items {
                let answer = workspace.item(number, |workspace| work(workspace, &items[number]))?;
                round.decided.push((number, answer));
            }
            let mut groups = workspace.into_groups();
            for ItemGroup { items, reads, changes } in &mut groups {
                let mut named = Vec::new();
                round.needed.extend(self.place(view, changes, written, &mut named)?);
                round.named.extend(named.into_iter().map(|txid| (items[0], txid)));
                round.reads.push((items[0], reads.clone()));
            }
            // Nothing of the list is committed before its files are there.
            Ok(if round.needed.is_empty() { groups } else { Vec::new() })
        })?;
        Ok((round, left))
    }
}

impl<T> Round<T> {
    fn new() -> Self {
        let (decided, reads) = (Vec::new(), Vec::new());
        Self { decided, reads, needed: Vec::new(), named: Vec::new() }
    }
}

impl Open {
    /// Takes the answers of what was committed, and keeps the rest.
    fn take<T>(
        &mut self,
        round: Round<T>,
        left: &Uncommitted,
        answers: &mut [Option<Result<T, NodeError>>],
        written: &mut Written,
    ) {
        let again: BTreeSet<usize> = left.again.iter().copied().collect();
        let in_progress: BTreeSet<usize> = left.in_progress.iter().copied().collect();
        for (number, answer) in round.decided {
            if in_progress.contains(&number) {
                answers[number] = Some(Err(NodeError::InProgress));
            } else if !again.contains(&number) {
                answers[number] = Some(answer);
            }
        }
        // A file that a record names by now is not given back.
        for (first, txid) in round.named {
            if !again.contains(&first) && !in_progress.contains(&first) {
                written.remove(&txid);
            }
        }
        let open = round.reads.into_iter().filter(|(first, _)| again.contains(first));
        let reads: BTreeSet<Txid> = open.flat_map(|(_, reads)| reads).collect();
        self.items.retain(|number| again.contains(number));
        self.outpoints.retain(|outpoint| reads.contains(outpoint.txid()));
        self.txids = reads.into_iter().collect();
    }
}
