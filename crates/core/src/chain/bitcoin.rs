//! Rules of Bitcoin that need no script to be run: versions, times, locks, sizes and signature
//! operations.
//!
//! The decoder gathers what they look at, the writer adds the times of earlier blocks, this module
//! decides. Reasons have the names that Bitcoin Core gives them. Two rules about headers are not
//! here: the target, which takes the headers of a whole period, and how far a block may be ahead of
//! the clock, which a chain that is read later does not show.

use std::ops::Range;

use super::{block::Block, check::InvalidBlock, sigops::LEGACY_SCALE};
use crate::{
    network::Network,
    types::{BlockHash, Height},
};

/// The most that a block may weigh: bytes outside of witnesses count four times.
pub const BLOCK_WEIGHT_MAX: u64 = 4_000_000;
/// What the signature operations of a block may cost.
pub const SIGOP_COST_MAX: u32 = 80_000;

const WITNESS_SCALE: u64 = 4;
const COINBASE_SCRIPT_BYTES: std::ops::RangeInclusive<u32> = 2..=100;
/// Blocks whose median time counts.
pub const MEDIAN_BLOCKS: usize = 11;
/// Lock times below this are heights, others seconds.
const LOCK_TIME_SECONDS_MIN: u32 = 500_000_000;
const SEQUENCE_FINAL: u32 = u32::MAX;
const SEQUENCE_NO_LOCK: u32 = 1 << 31;
const SEQUENCE_IN_SECONDS: u32 = 1 << 22;
const SEQUENCE_LOCK: u32 = 0xffff;
/// A relative lock in seconds counts units of 512.
const SEQUENCE_SECONDS_SHIFT: u32 = 9;
/// Blocks between two changes of the target.
const PERIOD_BLOCKS: u32 = 2_016;
/// How much earlier than the block before it the first block of a period may be, in seconds.
const TIMEWARP_SECONDS_MAX: u64 = 600;

/// What the rules look at besides inputs and outputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BitcoinFacts {
    /// Version in the header.
    pub version: i32,
    /// Length of the block without witnesses.
    pub stripped_bytes: u32,
    /// Length of the script of the coinbase's input.
    pub coinbase_script_bytes: u32,
    /// Signature operations in plain sight, in scripts of inputs and outputs.
    pub legacy_sigops: u32,
    /// Locks of each transaction, in block order.
    pub locks: Vec<TxLock>,
    /// What unlocks each of [`Block::inputs`].
    pub unlocks: Vec<Unlock>,
}

/// When a transaction may be in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxLock {
    /// Version of the transaction.
    pub version: u32,
    /// Lock time, a height or seconds.
    pub lock_time: u32,
    /// Whether every input says that the lock time does not count.
    pub is_final: bool,
}

/// What an input says besides what it spends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlock {
    /// Its sequence number.
    pub sequence: u32,
    /// Where its script lies in [`Block::bytes`].
    pub script: Range<u32>,
    /// Where the last item of its witness lies in [`Block::bytes`]; empty if there is none.
    pub last_witness: Range<u32>,
}

/// Times of the blocks before one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PastTimes {
    /// Median of the last eleven.
    pub median: u64,
    /// The last one.
    pub previous: u64,
}

/// The median of the times of up to eleven blocks; zero for none.
#[must_use]
pub fn median_time(times: &[u64]) -> u64 {
    let mut newest = [0; MEDIAN_BLOCKS];
    let times = &times[times.len().saturating_sub(MEDIAN_BLOCKS)..];
    let newest = &mut newest[..times.len()];
    newest.copy_from_slice(times);
    newest.sort_unstable();
    newest.get(times.len() / 2).copied().unwrap_or(0)
}

impl BitcoinFacts {
    /// Whether an input of transaction `tx` is locked for a time since its output was created, so that
    /// the times of the blocks around that one are needed.
    #[must_use]
    pub fn is_locked_in_seconds(&self, tx: usize, input: usize) -> bool {
        self.relative_lock(tx, input).is_some_and(|lock| lock & SEQUENCE_IN_SECONDS != 0)
    }

    /// The relative lock of an input, as it is written.
    fn relative_lock(&self, tx: usize, input: usize) -> Option<u32> {
        let has_locks = self.locks.get(tx).is_some_and(|lock| lock.version >= 2);
        let sequence = self.unlocks.get(input)?.sequence;
        (has_locks && sequence & SEQUENCE_NO_LOCK == 0).then_some(sequence)
    }

    /// Whether an input may spend an output that was created at height `created`, after blocks whose
    /// median time was `created_after`, in a block at `height` after those of `past`.
    pub(crate) fn is_unlocked(
        &self,
        (tx, input): (usize, usize),
        (created, created_after): (Height, u64),
        (height, past): (Height, &PastTimes),
    ) -> bool {
        let Some(lock) = self.relative_lock(tx, input) else { return true };
        let units = lock & SEQUENCE_LOCK;
        if lock & SEQUENCE_IN_SECONDS == 0 {
            return height >= created.plus(units);
        }
        let seconds = u64::from(units) << SEQUENCE_SECONDS_SHIFT;
        past.median >= created_after.saturating_add(seconds)
    }

    fn weight(&self, total_bytes: usize) -> u64 {
        u64::from(self.stripped_bytes) * (WITNESS_SCALE - 1) + total_bytes as u64
    }
}

/// Checks what a block shows by itself and beside the times of the blocks before it. The first block
/// of a chain has none, and is right by definition.
pub fn check_alone(
    block: &Block,
    height: Height,
    network: Network,
    past: Option<&PastTimes>,
) -> Result<(), InvalidBlock> {
    let (Some(facts), Some(past)) = (&block.bitcoin, past) else { return Ok(()) };
    let units = facts.stripped_bytes.max(u32::try_from(block.txs.len()).unwrap_or(u32::MAX));
    if u64::from(units) * WITNESS_SCALE > BLOCK_WEIGHT_MAX {
        return Err(InvalidBlock::TooLong { bytes: facts.stripped_bytes });
    }
    let len = facts.coinbase_script_bytes;
    if !COINBASE_SCRIPT_BYTES.contains(&len) {
        return Err(InvalidBlock::CoinbaseScriptLength { len });
    }
    check_sigops(facts.legacy_sigops.saturating_mul(LEGACY_SCALE))?;
    check_header(facts.version, block.header.time, height, network, past)?;
    let clock = if network.has_relative_locks(height) { past.median } else { block.header.time };
    for (lock, tx) in facts.locks.iter().zip(&block.txs) {
        if !is_final(lock, height, clock) {
            return Err(InvalidBlock::NotFinal { tx: tx.txid, lock_time: lock.lock_time });
        }
    }
    Ok(())
}

/// Checks the weight, which Bitcoin Core does behind the height in the coinbase.
pub(crate) fn check_weight(block: &Block, facts: &BitcoinFacts) -> Result<(), InvalidBlock> {
    match facts.weight(block.bytes.len()) {
        weight if weight > BLOCK_WEIGHT_MAX => Err(InvalidBlock::TooHeavy { weight }),
        _ => Ok(()),
    }
}

pub(crate) const fn check_sigops(cost: u32) -> Result<(), InvalidBlock> {
    if cost > SIGOP_COST_MAX { Err(InvalidBlock::TooManySigops { cost }) } else { Ok(()) }
}

fn check_header(
    version: i32,
    time: u64,
    height: Height,
    network: Network,
    past: &PastTimes,
) -> Result<(), InvalidBlock> {
    if time <= past.median {
        return Err(InvalidBlock::TooEarly { time, median: past.median });
    }
    let starts_period = height.get().is_multiple_of(PERIOD_BLOCKS);
    if network.refuses_timewarp()
        && starts_period
        && time.saturating_add(TIMEWARP_SECONDS_MAX) < past.previous
    {
        return Err(InvalidBlock::Timewarp { time, previous: past.previous });
    }
    let least = network.least_version(height);
    if version < least {
        return Err(InvalidBlock::OldVersion { version, least });
    }
    Ok(())
}

/// Whether a transaction may be in a block at `height`, when `clock` is what its seconds go by.
fn is_final(lock: &TxLock, height: Height, clock: u64) -> bool {
    let now = if lock.lock_time < LOCK_TIME_SECONDS_MIN { u64::from(height.get()) } else { clock };
    lock.lock_time == 0 || u64::from(lock.lock_time) < now || lock.is_final
}

/// Whether a sequence number says that the lock time does not count.
#[must_use]
pub const fn is_final_sequence(sequence: u32) -> bool {
    sequence == SEQUENCE_FINAL
}

/// Heights from which rules hold, and blocks that are excepted.
impl Network {
    /// The least version that a block may have.
    const fn least_version(self, height: Height) -> i32 {
        // From these heights on versions 2, 3 and 4.
        let [two, three, four] = match self {
            Self::BitcoinMainnet => [227_931, 363_725, 388_381],
            Self::BitcoinTestnet3 => [21_111, 330_776, 581_885],
            _ => [1, 1, 1],
        };
        match height.get() {
            height if height >= four => 4,
            height if height >= three => 3,
            height if height >= two => 2,
            _ => i32::MIN,
        }
    }

    /// Whether inputs can be locked since their output was created, and lock times go by the median
    /// time of the blocks before.
    pub(crate) const fn has_relative_locks(self, height: Height) -> bool {
        let from = match self {
            Self::BitcoinMainnet => 419_328,
            Self::BitcoinTestnet3 => 770_112,
            _ => 1,
        };
        height.get() >= from
    }

    /// Whether the first block of a period may not be much earlier than the one before it.
    const fn refuses_timewarp(self) -> bool {
        matches!(self, Self::BitcoinTestnet4)
    }

    /// Whether signature operations behind hashes and in witnesses count in a block. One block of the
    /// main network and one of testnet3 are older than the rule about hashes and break it.
    pub(crate) fn counts_hidden_sigops(self, hash: &BlockHash) -> bool {
        let excepted = match self {
            Self::BitcoinMainnet => {
                "00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22"
            }
            Self::BitcoinTestnet3 => {
                "00000000dd30457c001f4095d208cc1296b0eed002427aa599874af7a432b105"
            }
            _ => return true,
        };
        BlockHash::from_reversed_hex(excepted) != Ok(*hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChainWork, Header};

    const PAST: PastTimes = PastTimes { median: 1_000, previous: 2_000 };

    /// A block that breaks no rule, but for its version and time.
    fn block(version: i32, time: u64) -> Block {
        let (hash, prev) = (BlockHash::default(), BlockHash::default());
        let header = Header { hash, prev, time, work: ChainWork::default(), slot: None };
        let facts = BitcoinFacts { version, coinbase_script_bytes: 4, ..BitcoinFacts::default() };
        Block {
            header,
            claimed_height: None,
            is_boundary: false,
            txs: vec![],
            inputs: vec![],
            outputs: vec![],
            bytes: vec![],
            bitcoin: Some(facts),
        }
    }

    fn check(network: Network, height: u32, block: &Block) -> Result<(), InvalidBlock> {
        check_alone(block, Height::new(height), network, Some(&PAST))
    }

    #[test]
    fn versions_rise_at_the_heights_of_each_network() {
        use Network::{
            BitcoinMainnet, BitcoinRegtest, BitcoinSignet, BitcoinTestnet3, BitcoinTestnet4,
        };
        let rises = [
            (BitcoinMainnet, [227_931, 363_725, 388_381]),
            (BitcoinTestnet3, [21_111, 330_776, 581_885]),
        ];
        for (network, heights) in rises {
            for (least, height) in (2..).zip(heights) {
                let older = block(least - 1, 2_500);
                assert_eq!(check(network, height - 1, &older), Ok(()));
                let refused = InvalidBlock::OldVersion { version: least - 1, least };
                assert_eq!(check(network, height, &older), Err(refused));
                assert_eq!(check(network, height, &block(least, 2_500)), Ok(()));
            }
            assert_eq!(check(network, 1, &block(i32::MIN, 2_500)), Ok(()));
        }
        for network in [BitcoinTestnet4, BitcoinSignet, BitcoinRegtest] {
            assert!(check(network, 1, &block(3, 2_500)).is_err());
            assert_eq!(check(network, 1, &block(4, 2_500)), Ok(()));
        }
    }

    #[test]
    fn lock_times_go_by_the_median_from_the_heights_of_each_network() {
        let lock = TxLock { version: 1, lock_time: 500_000_000, is_final: false };
        for (network, from) in [
            (Network::BitcoinMainnet, 419_328),
            (Network::BitcoinTestnet3, 770_112),
            (Network::BitcoinTestnet4, 1),
            (Network::BitcoinSignet, 1),
            (Network::BitcoinRegtest, 1),
        ] {
            assert!(network.has_relative_locks(Height::new(from)));
            assert!(from == 1 || !network.has_relative_locks(Height::new(from - 1)));
        }
        assert!(is_final(&lock, Height::new(1), 500_000_001));
        assert!(!is_final(&lock, Height::new(1), 500_000_000));
    }

    #[test]
    fn a_period_of_testnet4_does_not_begin_long_before_the_last_one_ended() {
        let warped = block(4, PAST.previous - 601);
        let refused = InvalidBlock::Timewarp { time: 1_399, previous: 2_000 };
        assert_eq!(check(Network::BitcoinTestnet4, 4_032, &warped), Err(refused));
        assert_eq!(check(Network::BitcoinTestnet4, 4_033, &warped), Ok(()));
        assert_eq!(check(Network::BitcoinSignet, 4_032, &warped), Ok(()));
        let within = block(4, PAST.previous - 600);
        assert_eq!(check(Network::BitcoinTestnet4, 4_032, &within), Ok(()));
    }

    #[test]
    fn the_median_is_of_the_last_eleven_and_of_fewer_at_first() {
        assert_eq!(median_time(&[]), 0);
        assert_eq!(median_time(&[7]), 7);
        assert_eq!(median_time(&[9, 7]), 9);
        assert_eq!(median_time(&[3, 9, 7]), 7);
        let times: Vec<u64> = (0..100).rev().collect();
        assert_eq!(median_time(&times), 5);
    }

    #[test]
    fn the_first_block_and_other_chains_are_left_alone() {
        let odd = block(0, 0);
        assert_eq!(check_alone(&odd, Height::GENESIS, Network::BitcoinMainnet, None), Ok(()));
        let other = Block { bitcoin: None, ..odd };
        assert_eq!(check(Network::BitcoinRegtest, 5, &other), Ok(()));
    }

    #[test]
    fn blocks_from_before_the_rule_about_hashes_are_excepted() {
        let hash = |text| BlockHash::from_reversed_hex(text).unwrap();
        let old = hash("00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22");
        assert!(!Network::BitcoinMainnet.counts_hidden_sigops(&old));
        assert!(Network::BitcoinTestnet3.counts_hidden_sigops(&old));
        assert!(Network::BitcoinMainnet.counts_hidden_sigops(&BlockHash::default()));
        assert!(Network::BitcoinRegtest.counts_hidden_sigops(&old));
    }
}
