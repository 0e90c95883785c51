//! Following a chain: the ledger reads it from its own cursor, block by block.
//!
//! The chain index decides which branch is followed and keeps a log of hashes, not of bodies. So
//! the ledger asks two questions: which block is at a height, answered by that log, and what is in
//! it, answered by wherever bodies are at hand (block files, the block just received). It pulls,
//! nobody pushes: after a crash, when it was added later, or when the index has reorganised while
//! nobody looked, the same walk goes on from the cursor that was committed with the last block.
//! Undoing needs no bodies, because the ledger keeps its transactions.
//!
//! # Invariants
//!
//! * Cursor and effects of a block are one database transaction.
//! * The fork is the highest block that both chains have among those the ledger remembers: all of
//!   the newest, and below them those with transactions of its wallets. Going back further than
//!   the real fork changes nothing that walking forward again does not restore.
//! * The ledger goes back only when the chain has another block at a height that it remembers, and
//!   a better branch: more work, or more blocks where the work is not known. A chain that merely ends
//!   lower, such as that of a second follower which lags, or whose branch is not better, is waited
//!   for.

mod branch;
mod convert;
mod fork;
mod recent;

use std::{error::Error, ops::Range, sync::Arc};

use utxokeep_core::{Block, BlockHash, ChainWork, Height, Network, wallet::Micros};
use utxokeep_sql::SqlError;

pub use self::convert::block_txs;
use self::fork::Fork;
pub(crate) use self::recent::{forget, remember};
use crate::{Applied, BlockRef, Ledger, LedgerError, LinkedBlock, NewTx, Tip};

/// How often another follower may be faster before that is an error. Each time it has done a part of
/// the work; more than this means that two chains are followed into one ledger.
const RACES_MAX: u32 = 10_000;

/// Why a chain could not be read.
pub type ChainError = Box<dyn Error + Send + Sync>;

/// A block with the places of its transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockBody {
    /// The decoded block, shared with whoever else reads it.
    pub block: Arc<Block>,
    /// Where each transaction lies in [`Block::bytes`]; empty where that is not known, then no
    /// bytes of transactions are stored.
    pub tx_places: Vec<Range<usize>>,
}

/// A chain to follow, as of one moment: its answers must not change while it is followed.
pub trait FollowedChain {
    /// The last block.
    fn tip(&self) -> Result<Option<(Height, BlockHash)>, ChainError>;

    /// The block at a height.
    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, ChainError>;

    /// What is in the block at a height, whose hash [`FollowedChain::hash_at`] has named; `None` when
    /// its body cannot be found.
    fn body(&self, height: Height, hash: &BlockHash) -> Result<Option<BlockBody>, ChainError>;

    /// Work of all blocks up to a height, counted from wherever the chain starts to count; `None`
    /// where that is not known. Branches are then compared by their heights.
    fn total_work(&self, _height: Height) -> Result<Option<ChainWork>, ChainError> {
        Ok(None)
    }
}

/// Why following stopped. What was applied before stays applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The ledger refused a block, or its database failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The chain could not be read.
    #[error("the chain could not be read")]
    Chain(#[source] ChainError),
    /// A block has no body.
    #[error("the body of block {height} is not at hand; give the block files that hold it")]
    MissingBody {
        /// Its height.
        height: Height,
    },
    /// A body does not belong to its place.
    #[error("the body that was given for block {height} is of another block")]
    WrongBody {
        /// The height.
        height: Height,
    },
    /// The chain shares no block with the ledger.
    #[error(
        "the chain has no block in common with the ledger, whose tip is {tip}; nothing was changed: \
         check that both are of the same network; if they are, `wallet disconnect 0 --network \
         NETWORK` takes all blocks of the ledger back, and following starts over"
    )]
    NoCommonBlock {
        /// Height of the ledger's tip.
        tip: Height,
    },
}

impl From<SqlError> for FollowError {
    fn from(error: SqlError) -> Self {
        LedgerError::from(error).into()
    }
}

/// A chain whose branch is not better than that of the ledger, which keeps its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorseBranch {
    /// The last block that both have; `None` when the ledger has followed none of the chain's.
    pub shared: Option<Height>,
    /// Where the ledger ends.
    pub ledger: Height,
    /// Where the chain ends.
    pub chain: Height,
}

/// What following did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FollowReport {
    /// Blocks applied.
    pub applied: u64,
    /// Heights taken back.
    pub undone: u64,
    /// Transactions recorded, over all wallets.
    pub recorded: u64,
    /// Blocks by which the chain ends below the ledger, on the same branch; the ledger waits.
    pub chain_lacks: u64,
    /// The chain is on another branch, which is not better; the ledger waits.
    pub worse_branch: Option<WorseBranch>,
}

impl FollowReport {
    fn count(&mut self, applied: &Applied) {
        self.applied += u64::from(!applied.already_applied);
        self.recorded += applied.recorded.values().map(|each| each.len() as u64).sum::<u64>();
    }
}

/// How to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowOptions {
    /// The chain.
    pub network: Network,
    /// Where a ledger without a cursor starts: nothing is paid to its wallets below.
    pub first_height: Height,
    /// Stop after this many blocks; the next call goes on. Going over to a better branch is one step,
    /// however many blocks that takes.
    pub blocks_max: u64,
    /// A ledger that has followed fewer blocks than this starts over when the chain has others in
    /// place of all of them; any other has met a wrong chain.
    pub start_over_blocks_max: u32,
}

impl FollowOptions {
    /// From the first block, all the way.
    #[must_use]
    pub const fn new(network: Network) -> Self {
        Self {
            network,
            first_height: Height::GENESIS,
            blocks_max: u64::MAX,
            start_over_blocks_max: 288,
        }
    }
}

impl Ledger {
    /// Brings the ledger to the tip of `chain`: back to the fork, then forward. A chain that ends
    /// lower on the same branch, or whose branch is not better, changes nothing.
    ///
    /// Other programs may follow the same chain into the same ledger. Whoever finds that another one
    /// was faster reads the cursor again and goes on there.
    pub fn follow(
        &self,
        chain: &dyn FollowedChain,
        options: &FollowOptions,
        now: Micros,
    ) -> Result<FollowReport, FollowError> {
        let mut report = FollowReport::default();
        self.follow_counting(chain, options, now, &mut report)?;
        Ok(report)
    }

    /// Like [`Ledger::follow`]; `report` has what was done before a failure too.
    pub fn follow_counting(
        &self,
        chain: &dyn FollowedChain,
        options: &FollowOptions,
        now: Micros,
        report: &mut FollowReport,
    ) -> Result<(), FollowError> {
        let bringing = Bringing { chain, options, now };
        let named = |tip: Tip| tip.map(|(height, hash)| (height, options.network.hash(hash)));
        let mut races = 0;
        loop {
            let mut cursor = self.tip(options.network)?;
            let outcome = self.follow_from(&mut cursor, &bringing, report);
            match outcome {
                Err(FollowError::Ledger(
                    LedgerError::NotNextBlock { tip, .. } | LedgerError::NotTip { tip, .. },
                )) if tip != named(cursor) && races < RACES_MAX => races += 1,
                outcome => return outcome,
            }
        }
    }

    /// Follows as long as the tip of the ledger is where `cursor` says.
    fn follow_from(
        &self,
        cursor: &mut Tip,
        bringing: &Bringing<'_>,
        report: &mut FollowReport,
    ) -> Result<(), FollowError> {
        let (chain, options) = (bringing.chain, bringing.options);
        let Some((end, _)) = chain.tip().map_err(FollowError::Chain)? else {
            return Ok(());
        };
        (report.chain_lacks, report.worse_branch) = (0, None);
        if let Some(tip) = *cursor
            && bringing.hash_at(tip.0)? != Some(tip.1)
        {
            match self.fork(options, tip, end, chain)? {
                Fork::EndsLower => {
                    report.chain_lacks = u64::from(tip.0.get().saturating_sub(end.get()));
                    return Ok(());
                }
                Fork::Parted(parted) => {
                    *cursor = self.choose_branch(bringing, tip, end, parted, report)?;
                    if report.worse_branch.is_some() {
                        return Ok(());
                    }
                }
                Fork::Nowhere => return Err(FollowError::NoCommonBlock { tip: tip.0 }),
            }
        }
        let start = match *cursor {
            None => self.start(options, chain)?,
            Some((height, _)) => height.plus(1),
        };
        while report.applied < options.blocks_max {
            let height = cursor.map_or(start, |(height, _)| height.plus(1));
            if height > end {
                break;
            }
            let parent = match *cursor {
                Some((_, hash)) => Some(hash),
                None => match height.parent() {
                    Some(below) => bringing.hash_at(below)?,
                    None => None,
                },
            };
            let (linked, work, txs) = bringing.block(height, parent)?;
            let applied =
                self.apply_with_work(options.network, &linked, work, &txs, bringing.now)?;
            report.count(&applied);
            *cursor = Some((height, linked.block.hash));
        }
        Ok(())
    }
}

/// A chain, and how its blocks are brought into the ledger.
struct Bringing<'f> {
    chain: &'f dyn FollowedChain,
    options: &'f FollowOptions,
    now: Micros,
}

impl Bringing<'_> {
    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, FollowError> {
        self.chain.hash_at(height).map_err(FollowError::Chain)
    }

    /// The block at a height, which must follow `parent`.
    fn block(
        &self,
        height: Height,
        parent: Option<BlockHash>,
    ) -> Result<(LinkedBlock, Option<ChainWork>, Vec<NewTx>), FollowError> {
        let missing = FollowError::MissingBody { height };
        let Some(hash) = self.hash_at(height)? else { return Err(missing) };
        let body = self.chain.body(height, &hash).map_err(FollowError::Chain)?.ok_or(missing)?;
        let header = &body.block.header;
        // Around boundary blocks of Cardano the log links, and the header does not.
        let is_linked =
            self.options.network.is_cardano() || parent.is_none_or(|parent| parent == header.prev);
        if header.hash != hash || !is_linked {
            return Err(FollowError::WrongBody { height });
        }
        let linked = LinkedBlock { block: block_ref(height, &body.block), parent };
        Ok((linked, Some(header.work), block_txs(&body)?))
    }
}

/// How the ledger names a block.
#[must_use]
pub fn block_ref(height: Height, block: &Block) -> BlockRef {
    let micros = i64::try_from(block.header.time).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    BlockRef { height, hash: block.header.hash, time: Micros::new(micros) }
}
