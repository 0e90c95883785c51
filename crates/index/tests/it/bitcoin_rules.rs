//! Rules of Bitcoin that need no script to be run, on both sides of each limit.

mod made;

use utxokeep_index::Follower;
use utxokeep_testkit::{ANYONE, Archive, NOBODY, height_script, regtest_genesis};

use crate::bitcoin_rules::made::{BLOCKS, FINAL, MadeTx, UNLOCKED, World};

const OP_CHECKSIG: u8 = 0xac;
const IN_SECONDS: u32 = 1 << 22;
const NO_LOCK: u32 = 1 << 31;

fn world() -> World {
    World::new(BLOCKS, &[ANYONE, ANYONE])
}

#[test]
fn a_block_is_later_than_the_median_of_the_eleven_before_it() {
    let mut world = world();
    let mut block = world.next(&[]);
    block.time = world.median();
    world.refuses(&block, "time-too-old");
    block.time += 1;
    world.takes(&block);
    // The median is read again behind a rollback, and goes on from there.
    world.grow(&block);
    let mut block = world.next(&[]);
    block.time = world.median();
    world.refuses(&block, "time-too-old");
    block.time += 1;
    world.takes(&block);
}

#[test]
fn a_block_has_at_least_version_4() {
    let mut world = World::new(1, &[ANYONE]);
    let mut block = world.next(&[]);
    for (version, name) in [
        (3, "bad-version(0x00000003)"),
        (0, "bad-version(0x00000000)"),
        (-1, "bad-version(0xffffffff)"),
    ] {
        block.version = version;
        world.refuses(&block, name);
    }
    for version in [4, 0x2000_0000, i32::MAX] {
        block.version = version;
        world.takes(&block);
    }
}

#[test]
fn the_script_of_a_coinbase_has_2_to_100_bytes() {
    let mut first = World::new(0, &[]);
    let mut block = first.next(&[]);
    block.coinbase.inputs[0].script = height_script(1);
    first.refuses(&block, "bad-cb-length");
    block.coinbase.inputs[0].script.push(0);
    first.takes(&block);

    let mut world = world();
    let mut block = world.next(&[]);
    let script = &mut block.coinbase.inputs[0].script;
    script.resize(101, 0);
    world.refuses(&block, "bad-cb-length");
    block.coinbase.inputs[0].script.pop();
    world.takes(&block);
}

#[test]
fn a_transaction_waits_for_its_lock_time_unless_every_input_is_final() {
    let mut world = world();
    let (height, median) = (world.height(), world.median());
    let tx = MadeTx::spending(&world.coins);
    let with = |lock_time, sequence| world.next(&[tx.clone().locked(lock_time, sequence)]);
    let tries = [
        (with(height, UNLOCKED), false),
        (with(height - 1, UNLOCKED), true),
        (with(height, FINAL), true),
        // Seconds go by the median of the blocks before, not by the time of the block itself.
        (with(median, UNLOCKED), false),
        (with(median - 1, UNLOCKED), true),
        (with(499_999_999, UNLOCKED), false),
        (with(500_000_000, UNLOCKED), true),
    ];
    let mut one_is_final = with(height, UNLOCKED);
    one_is_final.txs[0].inputs[0].sequence = FINAL;
    let mut coinbase = world.next(&[]);
    coinbase.coinbase = coinbase.coinbase.locked(height, UNLOCKED);
    for (block, is_taken) in tries.into_iter().chain([(one_is_final, false), (coinbase, false)]) {
        if is_taken {
            world.takes(&block);
        } else {
            world.refuses(&block, "bad-txns-nonfinal");
        }
    }
}

/// Tries sequence numbers on an output that was created in the tip.
fn try_sequences(world: &mut World, parent: &MadeTx, tries: &[(u32, u32, bool)]) {
    for &(version, sequence, is_taken) in tries {
        let mut tx = MadeTx::spending(&[parent.output(0)]).locked(0, sequence);
        (tx.version, tx.outputs[0].0) = (version, 0);
        let block = world.next(&[tx]);
        if is_taken {
            world.takes(&block);
        } else {
            world.refuses(&block, "bad-txns-nonfinal");
        }
    }
}

#[test]
fn an_input_waits_for_its_relative_lock() {
    let mut world = world();
    let parent = MadeTx::spending(&world.coins);
    world.grow(&world.next(std::slice::from_ref(&parent)));
    // The output is one block old; the median has risen by 600 seconds since the block before it.
    let tries = [
        (2, 1, true),
        (2, 2, false),
        (2, 2 | NO_LOCK, true),
        (1, 2, true),
        (u32::MAX, 2, false),
        (2, IN_SECONDS | 1, true),
        (2, IN_SECONDS | 2, false),
        (1, IN_SECONDS | 2, true),
        // Other bits mean nothing.
        (2, 1 | 1 << 16, true),
        (2, 2 | 1 << 16, false),
    ];
    try_sequences(&mut world, &parent, &tries);
    world.grow(&world.next(&[]));
    // 1,200 seconds, and two blocks.
    try_sequences(
        &mut world,
        &parent,
        &[(2, 2, true), (2, 3, false), (2, IN_SECONDS | 2, true), (2, IN_SECONDS | 3, false)],
    );
}

#[test]
fn an_output_of_the_same_block_has_no_age() {
    let mut world = world();
    let parent = MadeTx::spending(&world.coins);
    for (sequence, is_taken) in [(0, true), (1, false), (IN_SECONDS, true), (IN_SECONDS | 1, false)]
    {
        let mut child = MadeTx::spending(&[parent.output(0)]).locked(0, sequence);
        child.outputs[0].0 = 0;
        let block = world.next(&[parent.clone(), child]);
        if is_taken {
            world.takes(&block);
        } else {
            world.refuses(&block, "bad-txns-nonfinal");
        }
    }
}

/// A relative lock on an old coin needs the times of blocks from far back.
#[test]
fn an_old_output_has_the_age_of_its_own_block() {
    let mut world = world();
    let blocks_since = world.height() - 1;
    // Before block 1 the median is the time of the first block.
    let first = u32::try_from(regtest_genesis().time).unwrap();
    let first_unit = (world.median() - first) / 512;
    let coins = world.coins.clone();
    for (sequence, is_taken) in [
        (blocks_since, true),
        (blocks_since + 1, false),
        (IN_SECONDS | first_unit, true),
        (IN_SECONDS | (first_unit + 1), false),
    ] {
        let block = world.next(&[MadeTx::spending(&coins[..1]).locked(0, sequence)]);
        if is_taken {
            world.takes(&block);
        } else {
            world.refuses(&block, "bad-txns-nonfinal");
        }
    }
}

/// Bytes of the block without and with witnesses.
fn sizes(block: &made::Try) -> (usize, usize) {
    let (mut stripped, mut whole) = (80 + 1, 80 + 1);
    for tx in std::iter::once(&block.coinbase).chain(&block.txs) {
        let (without, with) = tx.sizes();
        stripped += without;
        whole += with;
    }
    (stripped, whole)
}

#[test]
fn a_block_has_at_most_a_million_bytes_without_witnesses() {
    let mut world = world();
    let mut tx = MadeTx::spending(&world.coins);
    tx.outputs.extend((0..16).map(|_| (0, [NOBODY, &vec![0; 60_000][..]].concat())));
    let mut block = world.next(&[tx]);
    let (stripped, _) = sizes(&block);
    let room = 1_000_000 - stripped;
    assert!(room < 60_000);
    block.txs[0].outputs[1].1.extend(vec![0; room]);
    // The size of a longer script has two more bytes.
    let (stripped, _) = sizes(&block);
    let longer = block.txs[0].outputs[1].1.len();
    block.txs[0].outputs[1].1.truncate(longer - (stripped - 1_000_000));
    assert_eq!(sizes(&block).0, 1_000_000);
    world.takes(&block);
    block.txs[0].outputs[1].1.push(0);
    world.refuses(&block, "bad-blk-length");
}

#[test]
fn a_block_weighs_at_most_four_million() {
    let mut world = world();
    let mut tx = MadeTx::spending(&world.coins);
    tx.inputs[0].witness = Some(vec![0; 3_000_000]);
    let mut block = world.next(&[tx]);
    let (stripped, whole) = sizes(&block);
    let room = 4_000_000 - (3 * stripped + whole);
    let witness = |block: &mut made::Try, len: usize| {
        block.txs[0].inputs[0].witness = Some(vec![0; len]);
    };
    witness(&mut block, 3_000_000 + room);
    let (stripped, whole) = sizes(&block);
    assert_eq!(3 * stripped + whole, 4_000_000);
    world.takes(&block);
    witness(&mut block, 3_000_000 + room + 1);
    world.refuses(&block, "bad-blk-weight");
}

/// A block whose scripts in plain sight have so many signature operations.
/// The hash of a block does not cover its witnesses: whoever sends a copy with others must not make
/// the block itself invalid.
#[test]
fn a_copy_with_other_witnesses_condemns_no_block() {
    let world = world();
    let mut tx = MadeTx::spending(&world.coins);
    tx.inputs[0].witness = Some(vec![0; 10]);
    let good = world.next(&[tx]);
    let mut stuffed = good.clone();
    stuffed.txs[0].inputs[0].witness = Some(vec![0; 4_000_000]);
    let ((header, raw), (same, other)) = (world.sealed(&good), world.sealed(&stuffed));
    assert_eq!(header.hash, same.hash);
    let source = |raw| {
        let mut archive = Archive::default();
        archive.push(header, raw);
        archive
    };
    let mut follower = Follower::new(world.into_writer()).unwrap();
    follower.accept(&header, &source(other)).unwrap();
    let refused = &follower.report().refused;
    assert!(refused[0].reason.starts_with("bad-blk-weight"), "{refused:?}");
    assert_ne!(follower.writer().tip().unwrap().hash, header.hash);
    // The next import brings another copy.
    let (writer, _) = follower.into_writer().unwrap();
    let mut follower = Follower::new(writer).unwrap();
    follower.accept(&header, &source(raw)).unwrap();
    assert_eq!(follower.report().refused, []);
    assert_eq!(follower.writer().tip().unwrap().hash, header.hash);
}

fn with_sigops(world: &World, count: usize, tx: MadeTx) -> made::Try {
    let mut block = world.next(&[tx]);
    // Nobody can spend it, and it counts all the same.
    block.coinbase.outputs.push((0, [NOBODY, &vec![OP_CHECKSIG; count][..]].concat()));
    block
}

#[test]
fn signature_operations_in_plain_sight_cost_at_most_80_000() {
    let mut world = world();
    let tx = MadeTx::spending(&world.coins);
    world.takes(&with_sigops(&world, 20_000, tx.clone()));
    world.refuses(&with_sigops(&world, 20_001, tx.clone()), "bad-blk-sigops");
    // Scripts of inputs count too, and an operation over keys counts for twenty.
    let mut keys = tx;
    keys.inputs[0].script = vec![0x51, 0xae];
    world.takes(&with_sigops(&world, 19_980, keys.clone()));
    world.refuses(&with_sigops(&world, 19_981, keys), "bad-blk-sigops");
}

#[test]
fn signature_operations_behind_hashes_and_in_witnesses_count() {
    let script_hash = [&[0xa9, 20][..], &[7; 20], &[0x87]].concat();
    let key_hash = [&[0, 20][..], &[7; 20]].concat();
    let witness_hash = [&[0, 32][..], &[7; 32]].concat();
    let taproot = [&[0x51, 32][..], &[7; 32]].concat();
    let mut world =
        World::new(BLOCKS, &[&script_hash, &key_hash, &witness_hash, &taproot, &script_hash]);
    let coins = world.coins.clone();
    // 79,996 of 80,000 are in plain sight.
    let mut attempt = |at: usize, script: Vec<u8>, witness: Option<Vec<u8>>, is_taken: bool| {
        let mut tx = MadeTx::spending(&coins[at..=at]);
        (tx.inputs[0].script, tx.inputs[0].witness) = (script, witness);
        let block = with_sigops(&world, 19_999, tx);
        if is_taken {
            world.takes(&block);
        } else {
            world.refuses(&block, "bad-blk-sigops");
        }
    };
    let checks = |count: usize| vec![OP_CHECKSIG; count];
    let push = |bytes: &[u8]| [&[u8::try_from(bytes.len()).unwrap()], bytes].concat();
    attempt(0, push(&checks(1)), None, true);
    attempt(0, push(&checks(2)), None, false);
    attempt(1, vec![], Some(checks(9)), true);
    attempt(2, vec![], Some(checks(4)), true);
    attempt(2, vec![], Some(checks(5)), false);
    attempt(3, vec![], Some(checks(9)), true);
    attempt(4, push(&witness_hash), Some(checks(4)), true);
    attempt(4, push(&witness_hash), Some(checks(5)), false);
}

#[test]
fn signature_operations_behind_an_output_of_the_same_block_count() {
    let mut world = world();
    let mut parent = MadeTx::spending(&world.coins);
    parent.outputs[0].1 = [&[0, 32][..], &[7; 32]].concat();
    for (count, is_taken) in [(4, true), (5, false)] {
        let mut child = MadeTx::spending(&[parent.output(0)]);
        child.outputs[0].0 = 0;
        child.inputs[0].witness = Some(vec![OP_CHECKSIG; count]);
        let mut block = with_sigops(&world, 19_999, parent.clone());
        block.txs.push(child);
        if is_taken {
            world.takes(&block);
        } else {
            world.refuses(&block, "bad-blk-sigops");
        }
    }
}
