//! Random steps on ledger and model at once.

use std::{cell::RefCell, collections::BTreeMap};

use utxokeep_core::{BlockHash, Height, Network, OutPoint, Txid};
use utxokeep_wallet::{
    Amount, BalanceQuery, BlockRef, Coin, CoinClass, CoinQuery, Credits, HistoryQuery, LeaseId,
    LeaseTerms, Ledger, LedgerError, LinkedBlock, Maturity, Micros, NewAddress, NewOutput, NewTx,
    RecordOptions, Seen, Tip, TxState, TxSummary, WalletId,
};

use crate::histories::{
    model::{self, FIRST, Met, Model, Stand},
    told::Reader,
};

pub(crate) const NETWORK: Network = Network::BitcoinRegtest;
/// Steps of one history; short ones keep wallets small and reach many corners.
const STEPS_PER_HISTORY: u64 = 100;

/// Steps from one look at all rules to the next: it costs more than all other comparisons together,
/// and what is broken stays so.
const STEPS_PER_VERIFY: u64 = 5;

/// A generator whose whole state is one number.
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(from.len()).unwrap();
        (count > 0).then(|| &from[usize::try_from(self.below(count)).unwrap()])
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

pub(crate) fn histories(open: &dyn Fn() -> Ledger) {
    let steps = setting("UTXOKEEP_HISTORY_STEPS", 2_000);
    let first_seed = setting("UTXOKEEP_HISTORY_SEED", 1);
    for number in 0..steps.div_ceil(STEPS_PER_HISTORY) {
        let seed = first_seed + number;
        eprintln!("seed {seed}");
        let mut history = History::new(open, seed);
        for _ in 0..STEPS_PER_HISTORY.min(steps) {
            history.step();
        }
        history.end();
    }
}

/// A script of the wallet of this history.
fn own(seed: u64, n: u64) -> Vec<u8> {
    let mut script = vec![0x51, u8::try_from(n % 5).unwrap()];
    script.extend(seed.to_be_bytes());
    script
}

fn is_own(script: &[u8]) -> bool {
    script.first() == Some(&0x51)
}

pub(crate) struct History<'l> {
    open: &'l dyn Fn() -> Ledger,
    pub(crate) ledger: Ledger,
    pub(crate) wallet: WalletId,
    /// Watches the same scripts and is told nothing: it has what the chain has.
    observer: WalletId,
    pub(crate) seed: u64,
    pub(crate) model: Model,
    pub(crate) random: Random,
    pub(crate) chain: Vec<LinkedBlock>,
    /// What the blocks of the chain hold, in their order.
    pub(crate) bodies: Vec<Vec<NewTx>>,
    pub(crate) undone: Vec<(LinkedBlock, Vec<NewTx>)>,
    made: Vec<NewTx>,
    names: u64,
    steps: u64,
    pub(crate) now: Micros,
    reader: RefCell<Reader>,
}

impl<'l> History<'l> {
    fn new(open: &'l dyn Fn() -> Ledger, seed: u64) -> Self {
        let ledger = open();
        let now = Micros::new(1_000_000);
        let create =
            |name| ledger.create_wallet(&format!("{name} {seed}"), NETWORK, now).unwrap().id;
        let (wallet, observer) = (create("history"), create("observer"));
        let scripts: Vec<NewAddress> = (0..5)
            .map(|n| NewAddress { script: own(seed, n), address: None, spend_weight: None })
            .collect();
        for each in [wallet, observer] {
            ledger.add_addresses(each, &scripts, now).unwrap();
        }
        Self {
            open,
            ledger,
            wallet,
            observer,
            seed,
            model: Model::default(),
            random: Random(seed),
            chain: Vec::new(),
            bodies: Vec::new(),
            undone: Vec::new(),
            made: Vec::new(),
            names: seed << 32,
            steps: 0,
            now,
            reader: RefCell::default(),
        }
    }

    /// Empties the chain, so that the next history starts without a tip.
    fn end(mut self) {
        self.leave_long_chain();
        while !self.chain.is_empty() {
            self.disconnect();
            self.compare();
        }
        self.verify();
        self.reader.borrow().read_again(&self.ledger, self.wallet);
        self.ledger.rollback_below_pruned(NETWORK, Height::GENESIS, self.now).unwrap();
    }

    fn name(&mut self) -> [u8; 32] {
        self.names += 1;
        let mut bytes = [0x77; 32];
        bytes[..8].copy_from_slice(&self.names.to_be_bytes());
        bytes
    }

    fn verify(&self) {
        for wallet in [self.wallet, self.observer] {
            assert_eq!(self.ledger.verify(wallet).unwrap(), []);
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        self.now = self.now.plus(1_000);
        match self.random.below(26) {
            0..=3 => {
                let tx = self.receive();
                self.record(&tx);
            }
            4..=8 => {
                if let Some(tx) = self.spend() {
                    self.record(&tx);
                }
            }
            9 | 10 => {
                if let Some(tx) = self.random.pick(&self.made).cloned() {
                    self.record(&tx);
                }
            }
            11..=13 => self.mine(),
            14 => self.disconnect(),
            15 => self.reconnect(),
            16 => self.there_and_back(),
            17 => self.abandon(),
            18 | 19 => self.claim(),
            20 | 21 => self.lease(),
            22 | 23 => self.rescan(),
            24 => self.restart(),
            _ => self.prune_or_reorganise(),
        }
        self.compare();
    }

    fn outputs(&mut self, all_own: bool) -> Vec<NewOutput> {
        (0..=self.random.below(3))
            .map(|n| {
                let foreign = !all_own && n > 0 && self.random.below(2) == 0;
                let script = if foreign { vec![0x52] } else { own(self.seed, self.random.next()) };
                NewOutput { amount: Amount::new(1 + self.random.below(1_000)).unwrap(), script }
            })
            .collect()
    }

    fn made(&mut self, inputs: Vec<OutPoint>, coinbase: bool) -> NewTx {
        let tx = NewTx {
            txid: Txid::from_bytes(self.name()),
            inputs,
            outputs: self.outputs(false),
            coinbase,
            raw: None,
            credits: Credits::Watched,
        };
        self.made.push(tx.clone());
        tx
    }

    /// Somebody pays us; now and then from an output that was spent before.
    fn receive(&mut self) -> NewTx {
        let fresh = OutPoint::new(Txid::from_bytes(self.name()), 0);
        let reused = self.random.pick(&self.made).and_then(|tx| tx.inputs.first().copied());
        let input = match reused {
            Some(reused) if self.random.below(4) == 0 => reused,
            _ => fresh,
        };
        let tx = self.made(vec![input], false);
        // Its block may lie before the start of the ledger, which nobody knows.
        if input == fresh && self.random.below(6) == 0 {
            self.model.early.insert(tx.txid, tx.clone());
        }
        tx
    }

    /// We spend one or two outputs, spent already or not, live or not.
    fn spend(&mut self) -> Option<NewTx> {
        let mut inputs = Vec::new();
        for _ in 0..=self.random.below(2) {
            let parent = self.random.pick(&self.made)?;
            let count = u64::try_from(parent.outputs.len()).unwrap();
            let txid = parent.txid;
            let input = OutPoint::new(txid, u32::try_from(self.random.below(count)).unwrap());
            if !inputs.contains(&input) {
                inputs.push(input);
            }
        }
        Some(self.made(inputs, false))
    }

    fn record(&mut self, tx: &NewTx) {
        let replaces = self.random.below(3) == 0;
        let (met, seen) = match self.random.below(3) {
            0 => (Met::Here, Seen::Created),
            _ => (Met::Mempool, Seen::Mempool),
        };
        let expected = self.model.record(tx, met, replaces);
        let options = RecordOptions { replaces, ..Default::default() };
        let outcome = self.ledger.record(self.wallet, tx, seen, &options, self.now);
        assert_eq!(outcome.is_ok(), expected.is_ok(), "{outcome:?}");
    }

    /// The program ends and starts again: what was not stored is forgotten.
    fn restart(&mut self) {
        self.ledger = (self.open)();
    }

    pub(crate) fn next_linked(&mut self) -> LinkedBlock {
        let height = Height::new(self.model.next_height());
        let hash = BlockHash::from_bytes(self.name());
        let block = BlockRef { height, hash, time: Micros::new(i64::from(height.get())) };
        LinkedBlock { block, parent: self.chain.last().map(|below| below.block.hash) }
    }

    /// Somebody says that a transaction is in a block, which may be true.
    fn claim(&mut self) {
        let Some(tx) = self.random.pick(&self.made).cloned() else { return };
        let is_known = self.random.below(2) == 0;
        let block = match self.random.pick(&self.chain) {
            Some(linked) if is_known => linked.block,
            _ => {
                let height = u32::try_from(self.random.below(4)).unwrap();
                let mut hash = [0x33; 32];
                hash[..4].copy_from_slice(&height.to_be_bytes());
                let (hash, time) = (BlockHash::from_bytes(hash), Micros::new(0));
                BlockRef { height: Height::new(height), hash, time }
            }
        };
        let stand = self.model.txs.get(&tx.txid).map(|(_, stand)| *stand);
        if self.chain.is_empty() || stand == Some(Stand::Block(block.height.get())) {
            return;
        }
        if is_known && block.height.get() >= FIRST {
            let other = BlockRef { hash: BlockHash::from_bytes(self.name()), ..block };
            let seen = Seen::Block(other, None);
            let options = RecordOptions::default();
            let refused = self.ledger.record(self.wallet, &tx, seen, &options, self.now);
            assert!(matches!(refused, Err(LedgerError::BlockMismatch { .. })), "{refused:?}");
        }
        if self.random.below(4) == 0 {
            let expected = self.model.unconfirm(&tx.txid);
            let outcome = self.ledger.unconfirm(self.wallet, &tx.txid, self.now);
            assert_eq!(outcome.is_ok(), expected.is_ok(), "{outcome:?}");
        }
        let expected = self.model.record(&tx, Met::Claim(block.height.get()), false);
        let (seen, options) = (Seen::Block(block, None), RecordOptions::default());
        let outcome = self.ledger.record(self.wallet, &tx, seen, &options, self.now);
        assert_eq!(outcome.is_ok(), expected.is_ok(), "{outcome:?}");
    }

    /// A block of old and new transactions, sometimes with a coinbase.
    fn mine(&mut self) {
        let mut txs: Vec<NewTx> = Vec::new();
        if self.random.below(3) == 0 {
            txs.push(self.made(Vec::new(), true));
        }
        for _ in 0..self.random.below(4) {
            let tx = match self.random.below(4) {
                0 => self.spend(),
                _ => self.random.pick(&self.made).cloned(),
            };
            txs.extend(tx.filter(|tx| !tx.coinbase && self.model.is_valid(tx, &txs, &self.made)));
        }
        let linked = self.next_linked();
        self.connect(linked, &txs);
    }

    fn connect(&mut self, linked: LinkedBlock, txs: &[NewTx]) {
        self.model.connect(parents_first(txs));
        self.ledger.apply_block(NETWORK, &linked, txs, self.now).unwrap();
        self.chain.push(linked);
        self.bodies.push(txs.to_vec());
        self.undone.clear();
        self.compare_observer();
    }

    /// The wallet that was told nothing has what the blocks say, whatever the other one claims.
    pub(crate) fn compare_observer(&self) {
        let chain: Vec<&NewTx> = self.model.blocks.iter().flatten().collect();
        let mut expected = BTreeMap::new();
        for tx in &chain {
            for (index, output) in (0u32..).zip(&tx.outputs) {
                let outpoint = OutPoint::new(tx.txid, index);
                let is_spent = chain.iter().any(|other| other.inputs.contains(&outpoint));
                if is_own(&output.script) && !is_spent {
                    expected.insert(outpoint, output.amount.get());
                }
            }
        }
        let is_in_chain = |txid: &Txid| chain.iter().any(|tx| tx.txid == *txid);
        let found = self.ledger.outputs_to_watch(self.observer, 0, 1_000).unwrap();
        let found: BTreeMap<OutPoint, u64> = found
            .iter()
            .filter(|output| is_in_chain(output.outpoint.txid()))
            .map(|output| (output.outpoint, output.amount.get()))
            .collect();
        assert_eq!(found, expected);
    }

    fn disconnect(&mut self) {
        if let Some(linked) = self.chain.pop() {
            let txs = self.bodies.pop().unwrap();
            self.model.disconnect_from(linked.block.height.get());
            self.ledger.disconnect_block(NETWORK, &linked, self.now).unwrap();
            self.compare_observer();
            self.undone.push((linked, txs));
        }
    }

    fn reconnect(&mut self) {
        if let Some((linked, txs)) = self.undone.pop() {
            let rest = std::mem::take(&mut self.undone);
            self.connect(linked, &txs);
            self.undone = rest;
        }
    }

    /// Disconnecting and connecting a block changes nothing, unless a coinbase took others along.
    fn there_and_back(&mut self) {
        if self.chain.is_empty() {
            return;
        }
        let before = self.everything();
        let model_before = self.model.clone();
        let undone = self.undone.clone();
        self.disconnect();
        self.reconnect();
        self.undone = undone;
        if self.model.txs == model_before.txs {
            assert_eq!(self.everything(), before);
        }
    }

    fn abandon(&mut self) {
        if let Some(tx) = self.random.pick(&self.made).cloned() {
            let expected = self.model.abandon(&tx.txid);
            let outcome = self.ledger.abandon(self.wallet, &tx.txid, self.now);
            assert_eq!(outcome.is_ok(), expected.is_ok(), "{outcome:?}");
        }
    }

    fn lease(&mut self) {
        let coins = self.model.coins(is_own);
        let Some(tx) = self.random.pick(&self.made).cloned() else {
            return;
        };
        let coin = OutPoint::new(tx.txid, 0);
        let owner = LeaseId::from_bytes([u8::try_from(self.random.below(2)).unwrap(); 32]);
        let free = match self.model.leases.get(&coin) {
            None => true,
            Some((holder, until)) => *holder == owner || *until <= self.now.get(),
        };
        let duration_us = 1_000 + i64::try_from(self.random.below(20_000)).unwrap();
        let terms = LeaseTerms::until(owner, duration_us);
        let outcome = self.ledger.acquire_leases(self.wallet, &[coin], &terms, self.now);
        let has_all_blocks = self.model.rescan.is_none_or(|rescan| !rescan.is_undone);
        let expected = free && has_all_blocks && coins.contains_key(&coin);
        assert_eq!(outcome.is_ok(), expected, "{outcome:?}");
        if outcome.is_ok() {
            // The same owner's lease is renewed, and never ends earlier than before.
            let known = self.model.leases.get(&coin).filter(|(holder, _)| *holder == owner);
            let asked = self.now.get() + duration_us;
            let until = known.map_or(asked, |(_, known)| asked.max(*known));
            self.model.leases.insert(coin, (owner, until));
        }
    }

    fn everything(&self) -> (Vec<TxSummary>, Vec<Coin>, Tip) {
        let history = self.ledger.history(self.wallet, &HistoryQuery::default()).unwrap();
        let coins = self.ledger.coins(self.wallet, &CoinQuery::default(), self.now).unwrap();
        (history, coins, self.ledger.tip(NETWORK).unwrap())
    }

    fn compare(&self) {
        if self.steps.is_multiple_of(STEPS_PER_VERIFY) {
            self.verify();
        }
        let history = self.ledger.history(self.wallet, &HistoryQuery::default()).unwrap();
        let tip = self.ledger.tip(NETWORK).unwrap().map(|(height, _)| height);
        self.reader.borrow_mut().compare(&self.ledger, self.wallet, &history, tip);
        let found: BTreeMap<Txid, Stand> =
            history.iter().map(|tx| (tx.txid, stand(tx.state, tx.waiting))).collect();
        let expected: BTreeMap<Txid, Stand> =
            self.model.txs.iter().map(|(txid, (_, stand))| (*txid, *stand)).collect();
        assert_eq!(found, expected);

        let coins = self.ledger.coins(self.wallet, &CoinQuery::default(), self.now).unwrap();
        let found: BTreeMap<OutPoint, model::Seen> = coins
            .iter()
            .map(|coin| {
                let seen = model::Seen { amount: coin.amount.get(), class: coin.class };
                (coin.outpoint, seen)
            })
            .collect();
        let expected = self.model.coins(is_own);
        assert_eq!(found, expected);

        let query = BalanceQuery { maturity: Maturity::blocks_above(0), ..BalanceQuery::default() };
        let balance = self.ledger.balance(self.wallet, &query, self.now).unwrap();
        let sum = |class| -> u64 {
            expected.values().filter(|coin| coin.class == class).map(|coin| coin.amount).sum()
        };
        assert_eq!(balance.confirmed, sum(CoinClass::Confirmed));
        assert_eq!(balance.trusted_unconfirmed, sum(CoinClass::Trusted));
        assert_eq!(balance.untrusted_unconfirmed, sum(CoinClass::Untrusted));
        assert_eq!(balance.pending, sum(CoinClass::Pending));
        let active = |(_, until): &(LeaseId, i64)| *until > self.now.get();
        let leased: u64 = expected
            .iter()
            .filter(|(output, _)| self.model.leases.get(output).is_some_and(active))
            .map(|(_, coin)| coin.amount)
            .sum();
        assert_eq!(balance.leased, leased);
        let tip = tip.map(Height::get);
        assert_eq!(tip, self.model.next_height().checked_sub(1).filter(|tip| *tip >= FIRST));
        self.compare_standing();
    }
}

fn stand(state: TxState, waiting: bool) -> Stand {
    match state {
        TxState::Pending if waiting => Stand::Waiting,
        TxState::Pending => Stand::Pending,
        TxState::Unconfirmed => Stand::Published,
        TxState::Confirmed(height) => Stand::Block(height.get()),
        TxState::Replaced => Stand::Replaced,
        TxState::Failed => Stand::Failed,
        TxState::Orphaned => Stand::Orphaned,
    }
}

/// The slow way: take whatever has no parent left in the list.
fn parents_first(txs: &[NewTx]) -> Vec<NewTx> {
    let mut left = txs.to_vec();
    let mut sorted = Vec::new();
    while !left.is_empty() {
        let ready = left.iter().position(|tx| {
            let waits_for = |input: &OutPoint| left.iter().any(|other| other.txid == *input.txid());
            !tx.inputs.iter().any(waits_for)
        });
        sorted.push(left.remove(ready.unwrap_or(0)));
    }
    sorted
}
