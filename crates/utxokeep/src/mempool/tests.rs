//! The follower on a simulated node: what it asks for, tells, and survives.

use std::sync::atomic::{AtomicUsize, Ordering};

use utxokeep_chains::{BitcoinCodec, BlockDecoder, decode_header};
use utxokeep_core::wallet::{Micros, TxState, WalletId};
use utxokeep_sql::{Database, Options};
use utxokeep_testkit::{
    live::{LiveStage as _, MadeBlock, SimulatedNode, SimulatedStage},
    open_coins::{OpenCoin, OpenTx, open_script},
};
use utxokeep_wallet::{
    BalanceQuery, BlockBody, LeaseClock, Limits, LinkedBlock, NewAddress, block_ref, block_txs,
};

use super::*;

const NETWORK: Network = Network::BitcoinRegtest;
const NOW: Micros = Micros::new(1_700_000_000_000_000);
/// The wallet's scripts.
const OURS: u8 = 1;
const OURS_LATER: u8 = 3;
/// A stranger's.
const THEIRS: u8 = 2;

/// Counts what it is asked for.
#[derive(Debug, Clone)]
struct Counting(SimulatedNode, Arc<AtomicUsize>);

impl MempoolSource for Counting {
    fn address(&self) -> String {
        MempoolSource::address(&self.0)
    }

    fn list(
        &mut self,
        txs_max: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<MempoolList, LiveError> {
        self.0.list(txs_max, is_stopped)
    }

    fn bodies(
        &mut self,
        txids: &[Txid],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Option<Vec<u8>>>, LiveError> {
        self.1.fetch_add(txids.len(), Ordering::SeqCst);
        self.0.bodies(txids, is_stopped)
    }
}

struct World {
    node: SimulatedNode,
    stage: SimulatedStage,
    chain: Vec<MadeBlock>,
    ledger: Ledger,
    wallet: WalletId,
    follower: MempoolFollower,
    asked: Arc<AtomicUsize>,
    strangers: u32,
    _dir: tempfile::TempDir,
}

impl World {
    fn new(kept_bytes_max: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger").display());
        let database = Database::open(&url, &Options::default()).unwrap();
        let ledger = Ledger::open(database, Limits::default(), NOW).unwrap();
        let ledger = ledger.with_codec(Arc::new(BitcoinCodec)).with_lease_clock(LeaseClock::Caller);
        let wallet = ledger.create_wallet("one", NETWORK, NOW).unwrap().id;
        let (node, asked) = (SimulatedNode::default(), Arc::new(AtomicUsize::new(0)));
        let settings = MempoolSettings {
            poll_interval: Duration::from_millis(10),
            transactions_max: 5_000,
            kept_bytes_max,
            grace_us: 60_000_000,
        };
        let source = Box::new(Counting(node.clone(), Arc::clone(&asked)));
        let follower = MempoolFollower::new(source, ledger.clone(), NETWORK, settings);
        let (stage, chain) = (SimulatedStage::default(), Vec::new());
        let mut world =
            Self { node, stage, chain, ledger, wallet, follower, asked, strangers: 0, _dir: dir };
        world.watch(OURS);
        world.node_mines();
        world.ledger_follows();
        world
    }

    fn watch(&self, number: u8) {
        let script = open_script(number);
        let address = NewAddress { script, address: None, spend_weight: None };
        self.ledger.add_addresses(self.wallet, &[address], NOW).unwrap();
    }

    fn node_mines(&mut self) {
        let block = self.stage.make(self.chain.last(), 1);
        self.node.append(std::slice::from_ref(&block.raw));
        self.chain.push(block);
    }

    fn ledger_follows(&self) {
        let from = self.ledger.tip(NETWORK).unwrap().map_or(0, |(height, _)| height.get() + 1);
        for made in &self.chain[from as usize..] {
            let block = BlockDecoder::new(NETWORK).decode(made.raw.clone()).unwrap();
            let body = BlockBody { block: Arc::new(block), tx_places: Vec::new() };
            let parent = (from > 0 || made.point.height.get() > 0)
                .then(|| decode_header(&made.raw).unwrap().prev);
            let linked = LinkedBlock { block: block_ref(made.point.height, &body.block), parent };
            self.ledger.apply_block(NETWORK, &linked, &block_txs(&body).unwrap(), NOW).unwrap();
        }
    }

    /// A transaction that spends a coin which nobody knows.
    fn outside(&mut self, outputs: &[(u8, u64)]) -> OpenTx {
        self.strangers += 1;
        let coin = OpenCoin::new(Txid::from_bytes([9; 32]), self.strangers, 1_000_000, THEIRS);
        let outputs: Vec<_> =
            outputs.iter().map(|(number, amount)| (open_script(*number), *amount)).collect();
        OpenTx::spend(&[coin], &outputs)
    }

    fn look(&mut self) -> Looked {
        let looked = self.follower.look(NOW, &|| false).unwrap();
        assert_eq!(self.ledger.verify(self.wallet).unwrap(), []);
        looked
    }

    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }

    fn unconfirmed(&self) -> u64 {
        let balance = self.ledger.balance(self.wallet, &BalanceQuery::default(), NOW).unwrap();
        balance.trusted_unconfirmed + balance.untrusted_unconfirmed
    }

    fn state(&self, tx: &OpenTx) -> TxState {
        self.ledger.transaction(self.wallet, &tx.txid()).unwrap().summary.state
    }
}

#[test]
fn only_new_transactions_are_fetched_and_what_left_is_given_up() {
    let mut w = World::new(1 << 20);
    let first = w.outside(&[(OURS, 10)]);
    let strangers = w.outside(&[(THEIRS, 99)]);
    for tx in [&first, &strangers] {
        w.node.enter_mempool(&tx.raw());
    }
    assert_eq!((w.look().listed, w.asked(), w.unconfirmed()), (2, 2, 10));
    let second = w.outside(&[(OURS, 5)]);
    w.node.enter_mempool(&second.raw());
    w.look();
    assert_eq!((w.asked(), w.unconfirmed()), (1, 15));
    w.look();
    assert_eq!(w.asked(), 0);
    w.node.leave_mempool(&first.txid());
    let looked = w.look();
    assert_eq!(looked.applied.evicted[&w.wallet], [first.txid()]);
    assert_eq!((w.asked(), w.unconfirmed()), (0, 5));
    // The bytes of what was seen are kept, so that it can be shown and sent again.
    let stored = w.ledger.transaction(w.wallet, &second.txid()).unwrap();
    assert_eq!(stored.raw, Some(second.raw()));
}

#[test]
fn nothing_is_told_until_the_ledger_stands_where_the_node_does() {
    let mut w = World::new(1 << 20);
    let receive = w.outside(&[(OURS, 10)]);
    w.node.enter_mempool(&receive.raw());
    w.look();
    // A block takes it: to a ledger that has not seen the block it looks dropped.
    w.node_mines();
    w.node.leave_mempool(&receive.txid());
    let looked = w.look();
    assert_eq!(looked.waits_for, Some(w.chain.last().unwrap().point.hash));
    assert_eq!(w.state(&receive), TxState::Unconfirmed);
    w.ledger_follows();
    assert_eq!(w.look().waits_for, None);
    // This block did not hold it after all.
    assert_eq!(w.state(&receive), TxState::Failed);
}

#[test]
fn a_script_that_is_watched_late_finds_what_is_in_the_mempool_already() {
    for kept_bytes_max in [1 << 20, 0] {
        let mut w = World::new(kept_bytes_max);
        let late = w.outside(&[(OURS_LATER, 7)]);
        w.node.enter_mempool(&late.raw());
        w.look();
        assert_eq!((w.asked(), w.unconfirmed()), (1, 0));
        w.watch(OURS_LATER);
        w.look();
        let fetched_again = usize::from(kept_bytes_max == 0);
        assert_eq!((w.asked(), w.unconfirmed()), (fetched_again, 7));
        w.look();
        assert_eq!(w.asked(), 0);
    }
}

#[test]
fn a_chain_of_children_is_found_though_parts_come_in_any_order() {
    let mut w = World::new(1 << 20);
    // More than one part of strangers, so that children may come long before their parents.
    for _ in 0..PART_TXS + 200 {
        let strangers = w.outside(&[(THEIRS, 1)]);
        w.node.enter_mempool(&strangers.raw());
    }
    let mut last = w.outside(&[(OURS, 1_000)]);
    w.node.enter_mempool(&last.raw());
    for link in 1..12u64 {
        last = OpenTx::spend(&[last.coin(0, OURS)], &[(open_script(OURS), 1_000 - link)]);
        w.node.enter_mempool(&last.raw());
    }
    // The last link pays a stranger: only its input says that it is ours.
    let away = OpenTx::spend(&[last.coin(0, OURS)], &[(open_script(THEIRS), 900)]);
    w.node.enter_mempool(&away.raw());
    w.look();
    assert_eq!((w.state(&away), w.unconfirmed()), (TxState::Unconfirmed, 0));
    w.asked();
    w.look();
    assert_eq!(w.asked(), 0);
}

#[test]
fn what_a_user_gave_up_and_the_node_still_holds_is_live_again_with_the_next_block() {
    let mut w = World::new(1 << 20);
    let receive = w.outside(&[(OURS, 10)]);
    w.node.enter_mempool(&receive.raw());
    w.look();
    w.ledger.abandon(w.wallet, &receive.txid(), NOW).unwrap();
    w.look();
    assert_eq!(w.state(&receive), TxState::Failed);
    w.node_mines();
    w.ledger_follows();
    w.look();
    assert_eq!((w.state(&receive), w.asked()), (TxState::Unconfirmed, 1));
}

#[test]
fn a_refusal_says_what_goes_on_and_the_next_look_makes_up_for_it() {
    let mut w = World::new(1 << 20);
    w.node.refuse_mempool(true);
    let error = w.follower.look(NOW, &|| false).unwrap_err();
    assert!(error.to_string().contains("following the chain goes on"), "{error}");
    let receive = w.outside(&[(OURS, 10)]);
    w.node.enter_mempool(&receive.raw());
    w.node.refuse_mempool(false);
    w.look();
    assert_eq!(w.unconfirmed(), 10);
    // A restart forgets what was held; what vanished meanwhile was known for long enough.
    w.node.leave_mempool(&receive.txid());
    let source = Box::new(w.node.clone());
    let settings = w.follower.settings;
    w.follower = MempoolFollower::new(source, w.ledger.clone(), NETWORK, settings);
    w.look();
    assert_eq!(w.state(&receive), TxState::Unconfirmed);
    let later = NOW.plus(settings.grace_us);
    w.follower.look(later, &|| false).unwrap();
    assert_eq!(w.state(&receive), TxState::Failed);
}
