//! The coins a simulated chain may spend next, with a journal to take blocks back.
//!
//! # Invariants
//!
//! * A coin is ready (in `ready` and `places`) or waiting for maturity (in `waiting`), never both.
//! * Undoing a journal backwards and redoing it forwards reach the same set of coins; their order
//!   may differ, but only as a function of what was called.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use utxokeep_core::{Height, OutPoint};

use super::rng::Rng;

/// An output that a simulated chain may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimCoin {
    /// What an input that spends the coin names.
    pub outpoint: OutPoint,
    /// Amount in satoshi.
    pub value: u64,
    /// Height of the block that created it.
    pub height: Height,
    /// Whether a coinbase created it.
    pub is_coinbase: bool,
}

/// One step of a block's effect on the coins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Added(SimCoin),
    Taken(SimCoin),
    Waits(SimCoin),
    Matured(SimCoin),
}

#[derive(Debug, Default)]
pub(super) struct Coins {
    ready: Vec<SimCoin>,
    places: FxHashMap<OutPoint, usize>,
    /// Coinbase outputs in order of height.
    waiting: VecDeque<SimCoin>,
    journal: Option<Vec<Step>>,
}

impl Coins {
    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn contains(&self, outpoint: &OutPoint) -> bool {
        self.places.contains_key(outpoint)
    }

    /// Starts to note every step.
    pub(super) fn start_journal(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// The steps since [`Coins::start_journal`].
    pub(super) fn finish_journal(&mut self) -> Vec<Step> {
        self.journal.take().unwrap_or_default()
    }

    pub(super) fn undo(&mut self, steps: &[Step]) {
        for step in steps.iter().rev() {
            match step {
                Step::Added(coin) => drop(self.remove(&coin.outpoint)),
                Step::Taken(coin) => self.insert(*coin),
                Step::Waits(_) => drop(self.waiting.pop_back()),
                Step::Matured(coin) => self.waiting.push_front(*coin),
            }
        }
    }

    pub(super) fn redo(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Added(coin) => self.insert(*coin),
                Step::Taken(coin) => drop(self.remove(&coin.outpoint)),
                Step::Waits(coin) => self.waiting.push_back(*coin),
                Step::Matured(_) => drop(self.waiting.pop_front()),
            }
        }
    }

    /// Makes a coin ready to be spent.
    pub(super) fn add(&mut self, coin: SimCoin) {
        self.insert(coin);
        self.note(Step::Added(coin));
    }

    /// Keeps a coinbase output until it is mature. Calls come in order of height.
    pub(super) fn add_waiting(&mut self, coin: SimCoin) {
        self.waiting.push_back(coin);
        self.note(Step::Waits(coin));
    }

    /// Makes the coinbase outputs ready that a block at `height` may spend.
    pub(super) fn mature(&mut self, height: Height, maturity: u32) {
        while let Some(coin) = self.waiting.pop_front() {
            if coin.height.plus(maturity) > height {
                self.waiting.push_front(coin);
                return;
            }
            self.note(Step::Matured(coin));
            self.add(coin);
        }
    }

    pub(super) fn take(&mut self, outpoint: &OutPoint) -> Option<SimCoin> {
        let coin = self.remove(outpoint)?;
        self.note(Step::Taken(coin));
        Some(coin)
    }

    /// Takes the richest of a few random coins, so that chains do not end up with dust alone.
    pub(super) fn take_random(&mut self, rng: &mut Rng, draws: u32) -> Option<SimCoin> {
        if self.ready.is_empty() {
            return None;
        }
        let best = (0..draws)
            .map(|_| &self.ready[rng.place(self.ready.len())])
            .max_by_key(|coin| coin.value)?
            .outpoint;
        self.take(&best)
    }

    /// Takes the coin that became ready last, if it was created at `height`.
    pub(super) fn take_newest(&mut self, height: Height) -> Option<SimCoin> {
        let newest = self.ready.last().filter(|coin| coin.height == height)?.outpoint;
        self.take(&newest)
    }

    /// Forgets random coins until at most `max` are ready.
    pub(super) fn limit(&mut self, max: usize, rng: &mut Rng) {
        while self.ready.len() > max {
            self.take_random(rng, 1);
        }
    }

    fn insert(&mut self, coin: SimCoin) {
        self.places.insert(coin.outpoint, self.ready.len());
        self.ready.push(coin);
    }

    fn remove(&mut self, outpoint: &OutPoint) -> Option<SimCoin> {
        let place = self.places.remove(outpoint)?;
        let coin = self.ready.swap_remove(place);
        if let Some(moved) = self.ready.get(place) {
            self.places.insert(moved.outpoint, place);
        }
        Some(coin)
    }

    fn note(&mut self, step: Step) {
        if let Some(journal) = &mut self.journal {
            journal.push(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::Txid;

    use super::*;

    fn coin(number: u8, height: u32) -> SimCoin {
        SimCoin {
            outpoint: OutPoint::new(Txid::from_bytes([number; 32]), 0),
            value: u64::from(number),
            height: Height::new(height),
            is_coinbase: false,
        }
    }

    fn state(coins: &Coins) -> (Vec<SimCoin>, Vec<SimCoin>) {
        let mut ready = coins.ready.clone();
        ready.sort_by_key(|coin| coin.outpoint);
        (ready, coins.waiting.iter().copied().collect())
    }

    #[test]
    fn journal_takes_a_block_back_and_applies_it_again() {
        let mut coins = Coins::default();
        coins.add(coin(1, 5));
        coins.add(coin(2, 5));
        coins.add_waiting(coin(3, 5));
        let before = state(&coins);

        coins.start_journal();
        coins.mature(Height::new(105), 100);
        coins.take(&coin(1, 5).outpoint).unwrap();
        coins.add(coin(4, 105));
        assert_eq!(coins.take_newest(Height::new(105)), Some(coin(4, 105)));
        assert_eq!(coins.take_newest(Height::new(105)), None);
        coins.add(coin(5, 105));
        coins.add_waiting(coin(6, 105));
        coins.limit(2, &mut Rng::new(1));
        let steps = coins.finish_journal();
        let after = state(&coins);

        coins.undo(&steps);
        assert_eq!(state(&coins), before);
        coins.redo(&steps);
        assert_eq!(state(&coins), after);
    }
}
