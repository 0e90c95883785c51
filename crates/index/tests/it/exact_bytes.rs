//! Undoing a block restores the exact bytes of every table, whatever way led there and back.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use utxokeep_chains::{
    BlockList, BlockSource, Simulator, SimulatorConfig, SourceError, decode_block, decode_header,
    genesis_block,
};
use utxokeep_core::{
    Block, BlockHash, ChainWork, Header, Height, Network, OutPoint, Output, Tx, Txid,
};
use utxokeep_index::{
    Applied, ChainIndex, ChainWriter, DeltaKind, Follower, IndexSettings, Mode, import_files,
    tables::{
        TABLES,
        ids::{SIDE, SIDE_BODY},
    },
};
use utxokeep_kv::{Batch, Kv, KvError, MemoryKv, TableId};
use utxokeep_testkit::{Archive, EventKind, Hook, HookedKv, RegtestA};

use crate::common::{
    self, InMemory, IndexPlace, MemoryEngine, OnDisk, REGTEST, assert_clean, assert_same, block,
    dump, fresh,
};

/// Tables that remember other branches: they tell how an index came to its chain.
const SIDE_TABLES: &[TableId] = &[SIDE, SIDE_BODY];

/// Where blocks that left the chain are kept for readers of the log, until they join it again.
const LEFT: &[TableId] = &[SIDE_BODY];

fn variants() -> impl Iterator<Item = IndexSettings> {
    [(DeltaKind::Compact, false), (DeltaKind::Compact, true), (DeltaKind::SelfContained, true)]
        .into_iter()
        .map(|(delta, muhash)| {
            common::settings(400).with(|settings| {
                settings.delta = delta;
                settings.muhash = muhash;
            })
        })
}

/// Applies, undoes and applies again `step` blocks at a time, comparing all tables.
fn there_and_back<K: Kv>(
    index: &ChainIndex<K>,
    source: &dyn BlockSource,
    chain: &[BlockHash],
    from: u32,
    step_at: impl Fn(u32) -> u32,
) {
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let mut blocks = chain.iter().map(|hash| block(source, hash)).peekable();
    for block in blocks.by_ref().take(from as usize + 1) {
        writer.apply(&block).unwrap();
    }
    let mut before = dump(index.engine());
    while blocks.peek().is_some() {
        let tip = writer.tip().unwrap().height;
        let part: Vec<_> = blocks.by_ref().take(step_at(tip.get()) as usize).collect();
        let connect = |writer: &mut ChainWriter<K>| {
            for block in &part {
                assert!(matches!(writer.apply(block).unwrap(), Applied::Connected(_)));
            }
        };
        connect(&mut writer);
        let after = dump(index.engine());
        writer.rollback(tip).unwrap();
        assert_same(&before, &dump(index.engine()), LEFT, &format!("blocks above {tip}"));
        connect(&mut writer);
        if part.len() == 1 && tip.get().is_multiple_of(16) {
            assert_same(&after, &dump(index.engine()), &[], &format!("again above {tip}"));
        }
        before = after;
    }
    assert_same(&before, &dump(index.engine()), &[], "all blocks twice");
}

fn simulated(seed: u64) -> SimulatorConfig {
    SimulatorConfig {
        seed,
        txs_per_block: 1..12,
        wide_outputs_max: 20,
        same_block_spend_percent: 25,
        odd_output_permille: 60,
        reorg_percent: 0,
        addresses: 15,
        ..SimulatorConfig::default()
    }
}

fn simulated_chain(height: u32) -> (Archive, Vec<BlockHash>) {
    let mut simulator = Simulator::new(simulated(77));
    let mut archive = Archive::default();
    for _ in 0..=height {
        let (header, raw) = simulator.mine_next();
        archive.push(header, raw);
    }
    let chain = archive.headers().iter().map(|header| header.hash).collect();
    (archive, chain)
}

#[test]
fn each_simulated_block_is_undone_to_the_byte_on_both_engines() {
    let (archive, chain) = simulated_chain(140);
    for settings in variants() {
        let index = InMemory::default().open(settings.clone());
        there_and_back(&index, &archive, &chain, 0, |_| 1);
        let place = OnDisk::default();
        there_and_back(&place.open(settings), &archive, &chain, 90, |_| 1);
    }
}

#[test]
fn each_block_of_the_real_chain_is_undone_to_the_byte_in_memory() {
    let data = RegtestA::default();
    let index = InMemory::default().open(common::settings(400));
    there_and_back(&index, &data.block_files(), &data.active_chain(), 0, |_| 1);
    assert_clean(&index, "regtest-a");
}

#[test]
fn each_block_of_the_real_chain_is_undone_to_the_byte_on_rocksdb() {
    let data = RegtestA::default();
    let place = OnDisk::default();
    let settings = common::settings(400).with(|settings| settings.delta = DeltaKind::SelfContained);
    let index = place.open(settings);
    // Once the set has grown, several blocks go back and forth between two looks at all rows.
    let step = |tip| if tip < 134 { 1 } else { 8 };
    there_and_back(&index, &data.block_files(), &data.active_chain(), 100, step);
    assert_clean(&index, "regtest-a");
}

/// Refuses one commit once it is set.
#[derive(Debug, Default)]
struct RefusesNext(AtomicBool);

impl Hook for RefusesNext {
    fn commit(&self, _: &Batch) -> Result<(), KvError> {
        if self.0.swap(false, Ordering::SeqCst) { Err(KvError::Poisoned) } else { Ok(()) }
    }
}

#[test]
fn a_rollback_whose_commit_fails_leaves_the_writer_at_its_tip() {
    let data = RegtestA::default();
    let (files, chain) = (data.block_files(), data.active_chain());
    let (last, before) = chain.split_last().unwrap();
    for settings in variants() {
        let engine = HookedKv::new(MemoryKv::new(TABLES), RefusesNext::default());
        let index = ChainIndex::open(engine.clone(), settings.clone()).unwrap();
        let mut writer = ChainWriter::new(index).unwrap();
        for hash in before {
            writer.apply(&block(&files, hash)).unwrap();
        }
        let tip = writer.tip().unwrap();
        engine.hook.0.store(true, Ordering::SeqCst);
        writer.rollback(tip.height.minus(3)).unwrap_err();
        assert_eq!(writer.tip(), Some(tip));
        writer.apply(&block(&files, last)).unwrap();
        let fresh = fresh(settings, &files, &chain);
        assert_same(&dump(&engine), &dump(fresh.engine()), &[], "after the refused rollback");
    }
}

#[test]
fn after_every_reorganisation_the_tables_are_those_of_its_chain_alone() {
    let data = RegtestA::default();
    let files = data.block_files();
    let settings = common::settings(400).with(|settings| settings.muhash = true);
    let index = InMemory::default().open(settings.clone());
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let mut chain = vec![REGTEST.genesis_hash()];
    writer.apply(&block(&files, &chain[0])).unwrap();
    let mut was_disconnected = false;
    let mut compared = 0;
    for event in data.events() {
        let hash = BlockHash::from_reversed_hex(&event.hash).unwrap();
        match event.ev {
            EventKind::Connect if chain.contains(&hash) => {}
            EventKind::Connect => {
                writer.apply(&block(&files, &hash)).unwrap();
                chain.push(hash);
            }
            EventKind::Disconnect => {
                chain.pop();
                writer.rollback(Height::new(event.height).minus(1)).unwrap();
                was_disconnected = true;
            }
            EventKind::Tip if std::mem::take(&mut was_disconnected) => {
                let fresh = fresh(settings.clone(), &files, &chain);
                let what = format!("after the reorganisation to {hash}");
                assert_same(&dump(index.engine()), &dump(fresh.engine()), LEFT, &what);
                compared += 1;
            }
            EventKind::Tip => {}
        }
    }
    assert!(compared >= 15, "the data has 15 reorganisations, {compared} were compared");
    let fresh = fresh(settings, &files, &data.active_chain());
    assert_same(&dump(index.engine()), &dump(fresh.engine()), LEFT, "at the end");
}

#[test]
fn an_import_with_its_reorganisations_ends_in_the_tables_of_the_best_chain_alone() {
    let data = RegtestA::default();
    for settings in variants() {
        let fresh = fresh(settings.clone(), &data.block_files(), &data.active_chain());
        let index = InMemory::default().open(settings);
        let writer = ChainWriter::new(index.clone()).unwrap();
        let (_, report) = import_files(writer, &data.block_files(), false, &mut |_| true).unwrap();
        assert!(report.reorganisations >= 10);
        assert_same(&dump(index.engine()), &dump(fresh.engine()), SIDE_TABLES, "imported");
    }
}

/// A source that no longer has some blocks.
struct Forgetful<'a> {
    sources: [&'a dyn BlockSource; 2],
    forgotten: BTreeSet<BlockHash>,
}

impl BlockSource for Forgetful<'_> {
    fn next(&mut self) -> Result<Option<Header>, SourceError> {
        Ok(None)
    }

    fn raw(&self, hash: &BlockHash) -> Result<Vec<u8>, SourceError> {
        if self.forgotten.contains(hash) {
            return Err(SourceError::UnknownBlock { hash: REGTEST.hash(*hash) });
        }
        self.sources[0].raw(hash).or_else(|_| self.sources[1].raw(hash))
    }
}

/// The chain and the branch of `regtest-a` whose third block spends an output twice.
struct FailedBranch {
    files: utxokeep_chains::BlockFiles,
    /// From the first block to the tip that must stay.
    chain: Vec<BlockHash>,
    /// The two valid blocks, the invalid one and its child.
    branch: Vec<Header>,
    bad: Archive,
}

fn failed_branch() -> FailedBranch {
    let data = RegtestA::default();
    let files = data.block_files();
    let mut bad = Archive::default();
    for refused in data.refused_blocks().iter().filter(|r| r.reject == "branch abandoned") {
        bad.push(decode_header(&refused.raw()).unwrap(), refused.raw());
    }
    let header = |hash: &BlockHash| *files.headers().iter().find(|h| h.hash == *hash).unwrap();
    let third = bad.headers()[0];
    let second = header(&third.prev);
    let first = header(&second.prev);
    let branch = vec![first, second, third, bad.headers()[1]];
    let active = data.active_chain();
    let fork = active.iter().position(|hash| *hash == first.prev).unwrap();
    let chain = active[..=fork + 3].to_vec();
    FailedBranch { files, chain, branch, bad }
}

#[test]
fn a_failed_reorganisation_leaves_everything_as_it_was() {
    let FailedBranch { files, chain, branch, bad } = failed_branch();
    for settings in variants() {
        // With the bodies of the old chain at hand, and without.
        for forgotten in [BTreeSet::new(), chain.iter().copied().collect()] {
            let index = fresh(settings.clone(), &files, &chain);
            let before = dump(index.engine());
            let writer = ChainWriter::new(index.clone()).unwrap();
            let mut follower = Follower::new(writer).unwrap();
            let source = Forgetful { sources: [&files, &bad], forgotten };
            for header in &branch {
                follower.accept(header, &source).unwrap();
            }
            let (writer, report) = follower.into_writer().unwrap();
            assert_eq!((report.connected, report.disconnected), (0, 0), "nothing has changed");
            assert_eq!(report.refused.len(), 1);
            assert_eq!(report.refused[0].hash, branch[2].hash);
            let reason = &report.refused[0].reason;
            assert!(reason.starts_with("bad-txns-inputs-missingorspent"), "{reason}");
            assert_eq!(writer.tip().unwrap().hash, *chain.last().unwrap());
            assert_same(&before, &dump(index.engine()), SIDE_TABLES, "the branch was left");
            assert_clean(&index, "the branch was left");

            // The verdict is remembered: neither block is tried again.
            let mut follower = Follower::new(writer).unwrap();
            for header in &branch {
                follower.accept(header, &source).unwrap();
            }
            assert_eq!((follower.report().connected, follower.report().disconnected), (0, 0));
        }
    }
}

/// A branch that wins, loses and wins again, as blocks of both arrive in turn.
#[test]
fn flipping_between_branches_without_their_source_is_exact() {
    let (mut archive, chain) = simulated_chain(128);
    let other = common::simulate_branch(&mut archive, simulated(78), &chain[..=120], 7);
    let [old, new] = [&chain[121..], &other];
    for settings in variants() {
        let index = fresh(settings.clone(), &archive, &chain[..=121]);
        let writer = ChainWriter::new(index.clone()).unwrap();
        let mut follower = Follower::new(writer).unwrap();
        let mut forgotten = BTreeSet::new();
        let mut lengths = [1, 0];
        for turn in 0..6 {
            // The branch that is behind grows until it is one block ahead.
            let (ahead, behind) = if turn % 2 == 0 { (0, 1) } else { (1, 0) };
            let branch = if behind == 0 { old } else { new };
            let wanted = lengths[ahead] + 1;
            for hash in &branch[lengths[behind]..wanted] {
                let source = Forgetful { sources: [&archive, &archive], forgotten };
                let header = header_of(&archive, hash);
                follower.accept(&header, &source).unwrap();
                forgotten = source.forgotten;
                forgotten.insert(*hash);
            }
            lengths[behind] = wanted;
            let tip = follower.writer().tip().unwrap();
            assert_eq!(tip.hash, branch[wanted - 1], "turn {turn}");
            let mut path = chain[..=120].to_vec();
            path.extend(&branch[..wanted]);
            let fresh = fresh(settings.clone(), &archive, &path);
            let what = format!("turn {turn}");
            assert_same(&dump(index.engine()), &dump(fresh.engine()), SIDE_TABLES, &what);
        }
        assert_eq!(follower.report().reorganisations, 6);
        assert_clean(&index, "flipped");
    }
}

fn header_of(archive: &Archive, hash: &BlockHash) -> Header {
    *archive.headers().iter().find(|header| header.hash == *hash).unwrap()
}

/// What an index does between two starts: blocks arrive, some prune passes run.
fn follow_all(place: &InMemory, settings: &IndexSettings, archive: &Archive) -> bool {
    let run = || -> Result<(), Box<dyn std::error::Error>> {
        let index = ChainIndex::open(place.0.clone(), settings.clone())?;
        let mut follower = Follower::new(ChainWriter::new(index)?)?;
        for (number, header) in archive.headers().iter().enumerate() {
            follower.accept(header, archive)?;
            if number % 5 == 0 {
                follower.writer_mut().prune_pass()?;
            }
        }
        while follower.writer_mut().prune_pass()?.more {}
        follower.into_writer()?;
        Ok(())
    };
    run().is_ok()
}

/// The process dies after each possible write in turn; starting again always ends in the same
/// tables, with nothing to repair in between.
#[test]
fn death_after_any_write_costs_nothing_but_the_block_in_flight() {
    let (mut archive, chain) = simulated_chain(112);
    let losing = common::simulate_branch(&mut archive, simulated(5), &chain[..=108], 3);
    let winning = common::simulate_branch(&mut archive, simulated(6), &chain[..=107], 7);
    let mut with_branch = chain[..=108].to_vec();
    with_branch.extend(&losing);
    // A third branch whose second block is bad makes the index go there and come back, last.
    let mut on_winning = chain[..=107].to_vec();
    on_winning.extend(&winning[..5]);
    common::bad_branch(&mut archive, &on_winning);
    // A reorganisation in one commit, and in one for each block.
    for (delta, muhash, batch_bytes_max) in [
        (DeltaKind::Compact, true, 256 << 20),
        (DeltaKind::SelfContained, false, 256 << 20),
        (DeltaKind::Compact, true, 1),
        (DeltaKind::SelfContained, false, 1),
    ] {
        let mut settings = common::settings(9).with(|settings| {
            settings.delta = delta;
            settings.muhash = muhash;
        });
        settings.prune_rows_max = 4;
        settings.bulk_batch_bytes_max = batch_bytes_max;
        let whole = InMemory::default();
        assert!(follow_all(&whole, &settings, &archive));
        let tip = whole.open(settings.clone()).view().unwrap().point().unwrap();
        assert_eq!(tip.hash, *winning.last().unwrap());
        let expected = dump(&whole.0);
        let mut commits = 90;
        loop {
            let place = InMemory::default();
            let is_done = follow_all(&place.dying_after(commits), &settings, &archive);
            assert_clean(&place.open(settings.clone()), &format!("dead after {commits} writes"));
            assert!(follow_all(&place, &settings, &archive));
            let what = format!("started again after {commits} writes");
            assert_same(&dump(&place.0), &expected, SIDE_TABLES, &what);
            if is_done {
                break;
            }
            commits += 1;
        }
        assert!(commits > 130, "{commits} writes were enough");
    }
}

/// A reorganisation beyond the memory of a batch: the verdict on a bad branch is on disk, the chain
/// it was tried against is not yet back. No new header is needed to go on.
#[test]
fn a_crash_inside_a_failed_reorganisation_does_not_leave_the_shorter_chain() {
    let (mut archive, chain) = simulated_chain(106);
    common::bad_branch(&mut archive, &chain[..=104]);
    let settings = common::settings(9).with(|settings| settings.bulk_batch_bytes_max = 1);
    let mut was_short = false;
    for commits in 100.. {
        let place = InMemory::default();
        let is_done = follow_all(&place.dying_after(commits), &settings, &archive);
        let tip = place.open(settings.clone()).view().unwrap().point().unwrap();
        was_short |= tip.hash != chain[106];
        let index = place.open(settings.clone());
        let mut follower = Follower::new(ChainWriter::new(index).unwrap()).unwrap();
        for header in archive.headers() {
            follower.accept(header, &archive).unwrap();
        }
        assert_eq!(follower.writer().tip().unwrap().hash, chain[106], "after {commits} writes");
        if is_done {
            break;
        }
    }
    assert!(was_short);
}

#[test]
fn a_side_block_that_came_before_its_parent_survives_a_restart() {
    let (mut archive, chain) = simulated_chain(110);
    let branch = common::simulate_branch(&mut archive, simulated(9), &chain[..=106], 5);
    let settings = common::settings(9);
    let index = fresh(settings.clone(), &archive, &chain);
    let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
    for hash in branch[..4].iter().rev() {
        follower.accept(&header_of(&archive, hash), &archive).unwrap();
    }
    let (writer, report) = follower.into_writer().unwrap();
    assert_eq!((report.waiting, report.reorganisations), (0, 0));
    // The source has only the newest block now; the others are kept.
    let forgotten = branch[..4].iter().copied().collect();
    let source = Forgetful { sources: [&archive, &archive], forgotten };
    let mut follower = Follower::new(writer).unwrap();
    follower.accept(&header_of(&archive, &branch[4]), &source).unwrap();
    assert_eq!(follower.writer().tip().unwrap().hash, branch[4]);
    let path = [&chain[..=106], &branch].concat();
    let expected = fresh(settings, &archive, &path);
    assert_same(&dump(index.engine()), &dump(expected.engine()), SIDE_TABLES, "overtaken");
}

/// A mainnet block that nobody mined: the index is told of it as decoded.
pub(crate) fn bare_block(height: u32, prev: BlockHash, txs: &[Txid]) -> Block {
    let mut hash = [0xb1; 32];
    hash[..4].copy_from_slice(&height.to_be_bytes());
    let mut block = Block {
        header: Header {
            hash: BlockHash::from_bytes(hash),
            prev,
            time: u64::from(height),
            work: ChainWork::default(),
            slot: None,
        },
        claimed_height: None,
        is_boundary: false,
        txs: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        bytes: vec![0x51],
        bitcoin: None,
    };
    for (number, &txid) in (0u32..).zip(txs) {
        let (address, details) = (0..1, 0..0);
        block.outputs.push(Output { index: 0, value: 7, address, details, detail_fields: 0 });
        block.txs.push(Tx {
            txid,
            is_coinbase: number == 0,
            is_invalid: false,
            is_ledger_rule: false,
            output_total: 7,
            inputs: 0..0,
            outputs: number..number + 1,
        });
    }
    block
}

/// Two mainnet blocks repeat a coinbase whose first appearance was unspent.
#[test]
fn a_coinbase_that_replaces_an_older_one_is_undone_to_the_byte() {
    const REPEATED: u32 = 91_842;
    let mainnet = Network::BitcoinMainnet;
    let id = |number: u8| Txid::from_bytes([number; 32]);
    for delta in [DeltaKind::Compact, DeltaKind::SelfContained] {
        let window = common::settings(60).window;
        let settings = IndexSettings::new(mainnet).with(|settings| {
            settings.delta = delta;
            settings.muhash = true;
            settings.window = window;
        });
        let index = InMemory::default().open(settings);
        let mut writer = ChainWriter::new(index.clone()).unwrap();
        let genesis = decode_block(genesis_block(mainnet), mainnet).unwrap();
        writer.apply(&genesis).unwrap();
        writer.set_mode(Mode::Bulk).unwrap();
        let mut prev = genesis.header.hash;
        for height in 1..REPEATED {
            if height == REPEATED - 40 {
                writer.set_mode(Mode::Tip).unwrap();
            }
            let txs: &[Txid] = if height == REPEATED - 30 { &[id(1)] } else { &[] };
            let block = bare_block(height, prev, txs);
            writer.apply(&block).unwrap();
            prev = block.header.hash;
        }
        let before = dump(index.engine());
        let repeated = bare_block(REPEATED, prev, &[id(1)]);
        writer.apply(&repeated).unwrap();
        let utxo = index.view().unwrap().utxo(OutPoint::new(id(1), 0)).unwrap().unwrap();
        assert_eq!(utxo.created.height, Height::new(REPEATED));
        assert_eq!(index.status().unwrap().totals.unwrap().txouts, 1);
        assert_clean(&index, "repeated");
        let digest = |index: &ChainIndex<MemoryEngine>| index.view().unwrap().digest(true).unwrap();
        let kept = index.view().unwrap().digest(false).unwrap();
        assert_eq!(kept.muhash, digest(&index).muhash);
        writer.rollback(Height::new(REPEATED - 1)).unwrap();
        assert_same(&before, &dump(index.engine()), LEFT, "the older one is back");

        // At any other height it is against the rules.
        let next = bare_block(REPEATED, prev, &[id(2)]);
        writer.apply(&next).unwrap();
        let before = dump(index.engine());
        let error = writer.apply(&bare_block(REPEATED + 1, next.header.hash, &[id(1)]));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("bad-txns-BIP30"), "{error}");
        assert_same(&before, &dump(index.engine()), &[], "refused");
    }
}
