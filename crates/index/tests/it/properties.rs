//! Random histories: whatever is done to an index in whatever order, it agrees with the model.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::FileFailurePersistence};
use utxokeep_chains::{Simulator, SimulatorConfig, decode_block};
use utxokeep_core::{BlockHash, Height, OutPoint, Txid};
use utxokeep_index::{
    Applied, ApplyError, ChainIndex, ChainWriter, DeltaKind, Follower, IndexSettings, Mode,
    RollbackError,
    tables::ids::{SIDE_BODY, UTXO_META},
};
use utxokeep_kv::Read;
use utxokeep_testkit::{ANYONE, Archive, HandTx, Model, mine};

use crate::common::{
    self, InMemory, IndexPlace, OnDisk, REGTEST, assert_same, check::assert_agrees, dump,
};

/// Blocks before the history starts: the first coinbases can be spent.
const BEFORE: u32 = 106;
/// Headers that are announced again after a rollback by hand.
const ANNOUNCED_AGAIN: usize = 80;

#[derive(Debug, Clone)]
enum Op {
    /// Blocks arrive, in order or newest first.
    Arrive { blocks: usize, newest_first: bool },
    /// Roll back by hand, then put some of the blocks back by hand.
    Rollback { depth: u32, put_back: u32 },
    /// Ask for more than can be undone.
    RollbackTooDeep { by: u32 },
    /// Some prune passes, of three rows each.
    Prune { passes: u32 },
    /// Close and open, perhaps with another kind of delta.
    Reopen { delta: DeltaKind },
    /// Several blocks per batch, or one.
    Mode(Mode),
    /// A block that breaks a rule.
    Invalid { kind: u8 },
    /// A block made by hand, applied and undone.
    ThereAndBack,
}

#[derive(Debug, Clone)]
struct History {
    seed: u64,
    rollback_window: u32,
    prune_depth: u32,
    muhash: bool,
    delta: DeltaKind,
    ops: Vec<Op>,
}

fn delta_kind() -> impl Strategy<Value = DeltaKind> {
    prop_oneof![Just(DeltaKind::Compact), Just(DeltaKind::SelfContained)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1usize..7, prop::bool::weighted(0.2))
            .prop_map(|(blocks, newest_first)| Op::Arrive { blocks, newest_first }),
        3 => (1u32..9, 0u32..4).prop_map(|(depth, put_back)| Op::Rollback { depth, put_back }),
        1 => (1u32..9).prop_map(|by| Op::RollbackTooDeep { by }),
        3 => (1u32..9).prop_map(|passes| Op::Prune { passes }),
        2 => delta_kind().prop_map(|delta| Op::Reopen { delta }),
        2 => prop_oneof![Just(Mode::Tip), Just(Mode::CatchUp)].prop_map(Op::Mode),
        2 => (0u8..10).prop_map(|kind| Op::Invalid { kind }),
        1 => Just(Op::ThereAndBack),
    ]
}

fn history() -> impl Strategy<Value = History> {
    (any::<u64>(), 6u32..12, 0u32..14, any::<bool>(), delta_kind(), prop::collection::vec(op(), 25))
        .prop_map(|(seed, rollback_window, prune_depth, muhash, delta, ops)| History {
            seed,
            rollback_window,
            prune_depth,
            muhash,
            delta,
            ops,
        })
}

fn simulated(seed: u64) -> SimulatorConfig {
    SimulatorConfig {
        seed,
        txs_per_block: 0..7,
        wide_outputs_max: 9,
        wide_percent: 10,
        fan_in_max: 6,
        fan_in_percent: 25,
        same_block_spend_percent: 25,
        op_return_percent: 10,
        odd_output_permille: 60,
        reorg_percent: 15,
        reorg_depth_max: 3,
        addresses: 8,
        coins_max: 2_000,
        ..SimulatorConfig::default()
    }
}

/// An index, the model beside it, and everything that has arrived.
struct World<P: IndexPlace> {
    place: P,
    settings: IndexSettings,
    follower: Option<Follower<P::K>>,
    simulator: Simulator,
    archive: Archive,
    /// Height and parent of every block that has arrived.
    known: BTreeMap<BlockHash, (u32, BlockHash)>,
    model: Model,
    scripts: Vec<Vec<u8>>,
    /// Whether "the first seen" is still what the archive says: not after blocks were announced
    /// again, or newest first.
    is_order_kept: bool,
    is_rolled_back: bool,
    /// Height up to which undo data may be gone.
    prunable: u32,
}

impl<P: IndexPlace> World<P> {
    fn new(history: &History) -> Self {
        let mut settings = common::settings(history.rollback_window);
        settings.window.prune_depth = history.prune_depth;
        settings.muhash = history.muhash;
        settings.delta = history.delta;
        settings.prune_rows_max = 3;
        settings.catch_up_blocks_max = 3;
        let place = P::default();
        let index = place.open(settings.clone());
        let follower = Follower::new(ChainWriter::new(index).unwrap()).unwrap();
        let config = simulated(history.seed);
        let mut scripts = Simulator::scripts(&config);
        scripts.truncate(4);
        scripts.push(b"never paid to".to_vec());
        let genesis = REGTEST.genesis_hash();
        let mut model = Model::new(REGTEST);
        let first = utxokeep_chains::genesis_block(REGTEST);
        model.apply(&decode_block(first, REGTEST).unwrap()).unwrap();
        let mut world = Self {
            place,
            settings,
            follower: Some(follower),
            simulator: Simulator::new(config),
            archive: Archive::default(),
            known: BTreeMap::from([(genesis, (0, BlockHash::default()))]),
            model,
            scripts,
            is_order_kept: true,
            is_rolled_back: false,
            prunable: 0,
        };
        world.simulator.mine_next();
        world.writer().set_mode(Mode::CatchUp).unwrap();
        while world.simulator.tip_height().get() < BEFORE {
            world.arrive(1, false);
        }
        world.writer().set_mode(Mode::Tip).unwrap();
        world
    }

    fn writer(&mut self) -> &mut ChainWriter<P::K> {
        self.follower.as_mut().unwrap().writer_mut()
    }

    fn index(&self) -> ChainIndex<P::K> {
        self.follower.as_ref().unwrap().writer().index().clone()
    }

    fn tip(&self) -> u32 {
        self.model.tip().unwrap()
    }

    fn tip_header(&self) -> utxokeep_core::Header {
        let tip = self.model.blocks()[self.tip() as usize].hash;
        *self.archive.headers().iter().find(|header| header.hash == tip).unwrap()
    }

    fn arrive(&mut self, blocks: usize, newest_first: bool) {
        self.announce_again();
        let mut headers = Vec::new();
        for _ in 0..blocks {
            let (header, raw) = self.simulator.mine_next();
            self.archive.push(header, raw);
            let height = self.known[&header.prev].0 + 1;
            self.known.insert(header.hash, (height, header.prev));
            headers.push(header);
        }
        if newest_first {
            headers.reverse();
            self.is_order_kept &= blocks == 1;
        }
        let follower = self.follower.as_mut().unwrap();
        for header in headers {
            follower.accept(&header, &self.archive).unwrap();
        }
        assert_eq!(follower.report().refused, []);
        self.follow_the_index();
    }

    /// After a rollback by hand the index has forgotten blocks that a source would tell it again.
    fn announce_again(&mut self) {
        if !std::mem::take(&mut self.is_rolled_back) {
            return;
        }
        self.is_order_kept = false;
        let follower = self.follower.as_mut().unwrap();
        let headers = self.archive.headers();
        for header in &headers[headers.len().saturating_sub(ANNOUNCED_AGAIN)..] {
            follower.accept(header, &self.archive).unwrap();
        }
    }

    /// Checks that the index stands on a best tip, and brings the model there.
    fn follow_the_index(&mut self) {
        let tip = self.writer().tip().unwrap();
        let best = self.known.values().map(|(height, _)| *height).max().unwrap();
        assert_eq!(tip.height.get(), best);
        if self.is_order_kept {
            let chain = common::best_chain(REGTEST.genesis_hash(), self.archive.headers());
            assert_eq!(chain.last(), Some(&tip.hash), "the first seen stays");
        }
        let mut path = Vec::new();
        let mut hash = tip.hash;
        while !self.model.blocks().iter().any(|block| block.hash == hash) {
            path.push(hash);
            hash = self.known[&hash].1;
        }
        self.model.rollback(self.known[&hash].0);
        for hash in path.iter().rev() {
            self.model.apply(&common::block(&self.archive, hash)).unwrap();
        }
    }

    /// Does something with the bare writer; the follower starts anew afterwards.
    fn with_writer(&mut self, act: impl FnOnce(&mut ChainWriter<P::K>)) {
        let (mut writer, _) = self.follower.take().unwrap().into_writer().unwrap();
        act(&mut writer);
        self.follower = Some(Follower::new(writer).unwrap());
    }

    fn rollback(&mut self, depth: u32, put_back: u32) {
        let (tip, floor) = (self.tip(), self.floor());
        let target = (tip - depth).max(floor);
        let undone: Vec<_> =
            self.model.blocks()[target as usize + 1..].iter().map(|block| block.hash).collect();
        self.model.rollback(target);
        let again: Vec<_> = undone
            .iter()
            .take(put_back as usize)
            .map(|hash| common::block(&self.archive, hash))
            .collect();
        self.with_writer(|writer| {
            assert_eq!(writer.rollback(Height::new(target)).unwrap(), tip - target);
            for (height, block) in (target + 1..).zip(&again) {
                let height = Height::new(height);
                assert_eq!(writer.apply(block).unwrap(), Applied::Connected(height));
                assert_eq!(writer.apply(block).unwrap(), Applied::AlreadyKnown(height));
            }
        });
        for block in &again {
            self.model.apply(block).unwrap();
        }
        self.is_rolled_back = true;
    }

    fn floor(&self) -> u32 {
        self.follower.as_ref().unwrap().writer().floor().get()
    }

    fn rollback_too_deep(&mut self, by: u32) {
        self.writer().flush().unwrap();
        let (index, floor) = (self.index(), self.floor());
        let before = dump(index.engine());
        let target = Height::new(floor.saturating_sub(by));
        let error = self.writer().rollback(target).unwrap_err();
        assert!(matches!(error, RollbackError::TooDeep { .. }));
        assert_eq!(error.safe_height(), Some(Height::new(floor)));
        assert_same(&before, &dump(index.engine()), &[], "a refused rollback");
    }

    fn prune(&mut self, passes: u32) {
        let horizon = self.settings.window.horizon();
        self.prunable = self.prunable.max(self.tip().saturating_sub(horizon));
        for _ in 0..passes {
            let report = self.writer().prune_pass().unwrap();
            assert!(report.spent_deleted <= 3 && report.deltas_deleted <= 3);
        }
    }

    fn reopen(&mut self, delta: DeltaKind) {
        let (writer, _) = self.follower.take().unwrap().into_writer().unwrap();
        let mode = writer.mode();
        drop(writer);
        self.settings.delta = delta;
        let index = self.place.open(self.settings.clone());
        let mut writer = ChainWriter::new(index).unwrap();
        writer.set_mode(mode).unwrap();
        self.follower = Some(Follower::new(writer).unwrap());
    }

    /// Model and index refuse the block for the same reason, and nothing changes.
    fn refuse(&mut self, block: &utxokeep_core::Block) {
        let refusal = self.model.clone().apply(block).unwrap_err();
        self.writer().flush().unwrap();
        let index = self.index();
        let before = dump(index.engine());
        match self.writer().apply(block).unwrap_err() {
            ApplyError::Invalid { reason, .. } => {
                assert!(reason.to_string().starts_with(refusal.0), "{reason}, not {}", refusal.0);
            }
            other => panic!("{other}"),
        }
        self.writer().flush().unwrap();
        assert_same(&before, &dump(index.engine()), &[], refusal.0);
    }

    fn invalid(&mut self, kind: u8) {
        let live = self.model.live();
        let height = self.tip() + 1;
        let mature = |coin: &utxokeep_testkit::ModelCoin| {
            !coin.is_coinbase || height - coin.height >= REGTEST.coinbase_maturity()
        };
        let spendable: Vec<OutPoint> =
            live.iter().filter(|(_, coin)| mature(coin)).map(|(name, _)| *name).collect();
        let young = live.iter().find(|(_, coin)| !mature(coin)).map(|(name, _)| *name).unwrap();
        let spent = self.model.blocks().iter().rev().find_map(|block| block.spent.first());
        let unknown = OutPoint::new(Txid::from_bytes([0xee; 32]), 1);
        let mine_one = |txs: &[HandTx], reward: u64| {
            let tip = self.tip_header();
            decode_block(mine(&tip, height, 1, &[(reward, ANYONE)], txs).raw, REGTEST).unwrap()
        };
        let Some(&coin) = spendable.first() else { return };
        let value = live[&coin].value;
        let block = match kind {
            0 => mine_one(&[HandTx::new(&[coin, unknown], &[1])], 0),
            1 => {
                let Some((gone, ..)) = spent else { return };
                mine_one(&[HandTx::new(&[*gone], &[0])], 0)
            }
            2 => mine_one(&[HandTx::new(&[coin, young], &[1])], 0),
            3 => mine_one(&[HandTx::new(&[coin], &[value, 1])], 0),
            4 => mine_one(&[], REGTEST.subsidy(Height::new(height)) + 1),
            5 => mine_one(&[HandTx::new(&[coin, coin], &[1])], 0),
            6 => mine_one(&[HandTx::new(&[coin], &[0]), HandTx::new(&[coin], &[0, 0])], 0),
            7 => {
                let parent = HandTx::new(&[coin], &[value]);
                mine_one(&[HandTx::new(&[parent.output(0)], &[0]), parent], 0)
            }
            8 => {
                // The transactions of an earlier block once more, under another coinbase.
                let blocks = self.model.blocks().iter().rev();
                let Some(old) = blocks.skip(1).find(|block| !block.spent.is_empty()) else {
                    return;
                };
                let mut block = common::block(&self.archive, &old.hash);
                let mined = mine(&self.tip_header(), height, 2, &[(0, ANYONE)], &[]);
                (block.header, block.txs[0].txid) = (mined.header, mined.coinbase);
                block.claimed_height = Some(height);
                block
            }
            _ => {
                let mined = mine(&self.tip_header(), height - 1, 2, &[(0, ANYONE)], &[]);
                decode_block(mined.raw, REGTEST).unwrap()
            }
        };
        self.refuse(&block);
    }

    /// A block with a spend, a spend in the same block and a new coinbase leaves no trace.
    fn there_and_back(&mut self) {
        let tip = self.tip();
        let live = self.model.live().iter();
        let coins: Vec<_> = live
            .filter(|(_, coin)| !coin.is_coinbase || tip + 1 - coin.height >= 100)
            .map(|(name, coin)| (*name, coin.value))
            .take(2)
            .collect();
        let names: Vec<_> = coins.iter().map(|(name, _)| *name).collect();
        let value: u64 = coins.iter().map(|(_, value)| value).sum();
        let first = HandTx::new(&names, &[value / 2, value - value / 2]);
        let second = HandTx::new(&[first.output(1)], &[value - value / 2]);
        let txs = if names.is_empty() { vec![] } else { vec![first, second] };
        let subsidy = REGTEST.subsidy(Height::new(tip + 1));
        let mined = mine(&self.tip_header(), tip + 1, 3, &[(subsidy, ANYONE)], &txs);
        let block = decode_block(mined.raw, REGTEST).unwrap();

        self.writer().flush().unwrap();
        let (index, scripts, prunable) = (self.index(), self.scripts.clone(), self.base());
        let before = dump(index.engine());
        self.model.apply(&block).unwrap();
        self.writer().apply(&block).unwrap();
        self.writer().flush().unwrap();
        assert_agrees(&index, &self.model, &scripts, prunable);
        self.model.rollback(tip);
        self.writer().rollback(Height::new(tip)).unwrap();
        // What left is kept for readers of the log.
        assert_same(&before, &dump(index.engine()), &[SIDE_BODY], "there and back");
    }

    /// Where undo data starts: never above what pruning was allowed to take.
    fn base(&self) -> u32 {
        let row = self.index().engine().get(UTXO_META, b"undo_base").unwrap().unwrap();
        let base = Height::from_key(&row).unwrap().get();
        assert!(base <= self.prunable, "{base} is above what was prunable, {}", self.prunable);
        base
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Arrive { blocks, newest_first } => self.arrive(blocks, newest_first),
            Op::Rollback { depth, put_back } => self.rollback(depth, put_back),
            Op::RollbackTooDeep { by } => self.rollback_too_deep(by),
            Op::Prune { passes } => self.prune(passes),
            Op::Reopen { delta } => self.reopen(delta),
            Op::Mode(mode) => self.writer().set_mode(mode).unwrap(),
            Op::Invalid { kind } => self.invalid(kind),
            Op::ThereAndBack => self.there_and_back(),
        }
        self.writer().flush().unwrap();
        assert_agrees(&self.index(), &self.model, &self.scripts, self.base());
    }
}

fn run<P: IndexPlace>(history: &History) {
    let mut world = World::<P>::new(history);
    for op in &history.ops {
        world.run(op);
    }
}

/// `PROPTEST_CASES` asks for more.
fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(cases),
        max_shrink_iters: 60,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(6))]

    #[test]
    fn any_history_agrees_with_the_model_in_memory(history in history()) {
        run::<InMemory>(&history);
    }
}

proptest! {
    #![proptest_config(config(3))]

    #[test]
    fn any_history_agrees_with_the_model_on_rocksdb(history in history()) {
        run::<OnDisk>(&history);
    }
}
