//! The wallet ledger follows the chain database of the program.
//!
//! The chain database decides which branch is followed and knows every hash of it. It keeps no
//! bodies, so those come from where they are: blocks that have just arrived, files, the node.
//!
//! # Invariants
//!
//! * Blocks are applied one by one, and each leaves nothing or everything: a stop or a crash at any
//!   moment is gone on from.
//! * One step looks at one snapshot of the chain database.
//! * The ledger goes back only when the chain database has another block in place of one of its
//!   own, and a better branch. A chain database that merely ends lower lags behind that of another
//!   follower, or is being made anew; one on another branch that is not better has not heard of the
//!   ledger's yet: the ledger waits for it.

mod background;
mod chain;
mod error;
mod meter;
mod rescan;
mod scan;

use std::{cell::RefCell, collections::BTreeSet};

use utxokeep_chains::BodyFinder;
use utxokeep_core::{Height, Network, wallet::WalletId};
use utxokeep_index::{ChainIndex, View};
use utxokeep_kv::Kv;
use utxokeep_wallet::{
    FollowError, FollowOptions, FollowReport, Ledger, Micros, NearEdge, WorseBranch,
};

use self::chain::IndexedChain;
pub use self::{error::WalletFollowError, meter::METRICS, scan::Scanned};
use crate::clock::now_us;

/// Blocks that are applied before a new snapshot is taken.
const STEP_BLOCKS_MAX: usize = 64;

/// Brings a ledger to the tip of a chain database.
#[derive(Debug)]
pub struct WalletFollower<K> {
    ledger: Ledger,
    index: ChainIndex<K>,
    bodies: BodyFinder,
    first_height: Height,
    total: FollowReport,
    /// Wallets whose being set aside was reported.
    reported: BTreeSet<WalletId>,
    near_edge: BTreeSet<NearEdge>,
}

/// Where a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The last block of the ledger.
    pub ledger: Option<Height>,
    /// The last block of the chain database.
    pub chain: Option<Height>,
    /// Blocks of the ledger that the chain database has not; the ledger waits for it.
    pub chain_lacks: u64,
    /// The chain database is on another branch, which is not better; the ledger keeps its own.
    pub worse_branch: Option<WorseBranch>,
    /// Whether nothing is left to do for now.
    pub is_done: bool,
    /// Why a rescan that was asked for does not get on; blocks are followed all the same.
    pub rescan_held_up: Option<String>,
}

impl Step {
    /// What a step that succeeded could not do, for people.
    #[must_use]
    pub fn hindrance(&self) -> Option<String> {
        if let Some(branch) = self.worse_branch {
            return Some(worse_branch_text(&branch));
        }
        if let (1.., Some(chain), Some(ledger)) = (self.chain_lacks, self.chain, self.ledger) {
            return Some(format!(
                "the chain database ends at block {chain}, below block {ledger} of the ledger, \
                 which waits for it"
            ));
        }
        self.rescan_held_up.as_ref().map(|reason| format!("a rescan does not get on: {reason}"))
    }
}

fn worse_branch_text(branch: &WorseBranch) -> String {
    let WorseBranch { shared, ledger, chain } = branch;
    let since = shared.map_or_else(String::new, |shared| format!(" since block {shared}"));
    let first = shared.map_or(0, |shared| shared.get() + 1);
    format!(
        "the chain database is on another branch{since}, which ends at block {chain} and is not \
         better than that of the ledger, which ends at block {ledger}; the ledger keeps its own and \
         waits until the database has it or a better one. If the database is right, `wallet \
         disconnect {first} --network NETWORK` takes the blocks of the ledger back"
    )
}

impl<K: Kv> WalletFollower<K> {
    /// A ledger that has seen no block starts at `first_height`, or where the chain database does.
    pub fn new(
        ledger: Ledger,
        index: ChainIndex<K>,
        bodies: BodyFinder,
        first_height: Height,
    ) -> Self {
        let (total, reported, near_edge) =
            (FollowReport::default(), BTreeSet::new(), BTreeSet::new());
        Self { ledger, index, bodies, first_height, total, reported, near_edge }
    }

    /// The network of the chain database.
    #[must_use]
    pub fn network(&self) -> Network {
        self.index.settings().network()
    }

    /// The ledger that follows.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What was done so far, by steps that failed too.
    #[must_use]
    pub const fn total(&self) -> FollowReport {
        self.total
    }

    /// Goes back to the fork, if there is one, then forward by some blocks. Then some blocks of
    /// rescans, once the ledger is at the tip.
    pub fn step(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<Step, WalletFollowError> {
        let network = self.network();
        let view = self.index.view()?;
        let mut step = Step {
            ledger: self.ledger_height()?,
            chain: view.tip().map(|(height, _)| height),
            chain_lacks: 0,
            worse_branch: None,
            is_done: false,
            rescan_held_up: None,
        };
        meter::stands(step.ledger, step.chain);
        self.check_reach(&step)?;
        let start = view.partial().and_then(|partial| partial.started_mid_chain_at);
        let options = FollowOptions {
            blocks_max: STEP_BLOCKS_MAX as u64,
            first_height: self.first_height.max(start.unwrap_or_default()),
            start_over_blocks_max: self.index.settings().window.horizon(),
            ..FollowOptions::new(network)
        };
        let looked_in = self.bodies.places();
        let chain = chain(&self.index, view, &mut self.bodies, is_stopped);
        let mut did = FollowReport::default();
        let now = Micros::new(now_us());
        let followed = self.ledger.follow_counting(&chain, &options, now, &mut did);
        drop(chain);
        meter::did(&did);
        self.total.applied += did.applied;
        self.total.undone += did.undone;
        self.total.recorded += did.recorded;
        match followed {
            // A body is not looked for any more once the follower is told to stop.
            Err(_) if is_stopped() => {}
            followed => {
                followed.map_err(|error| explained(error, &looked_in))?;
                step.is_done = did.applied < options.blocks_max;
            }
        }
        (step.chain_lacks, step.worse_branch) = (did.chain_lacks, did.worse_branch);
        self.watch_edges()?;
        step.ledger = self.ledger_height()?;
        meter::stands(step.ledger, step.chain);
        meter::chain_lacks(step.chain_lacks);
        meter::worse_branch(step.worse_branch);
        if step.is_done {
            match self.rescan_some(&step, is_stopped) {
                Ok(is_idle) => step.is_done = is_idle,
                Err(error) => {
                    meter::failed("rescan");
                    step.rescan_held_up = Some(format!("{:#}", anyhow::Error::new(error)));
                }
            }
        }
        self.report_lagging()?;
        Ok(step)
    }

    /// Tells of keychains whose edge was reached, each once.
    fn watch_edges(&mut self) -> Result<(), WalletFollowError> {
        let all: BTreeSet<NearEdge> = self.ledger.near_edge(self.network())?.into_iter().collect();
        meter::near_edge(all.len());
        for near in all.difference(&self.near_edge) {
            tracing::warn!(
                wallet = near.wallet,
                descriptor = near.descriptor,
                "script {} was paid near the end of the {} that are watched ahead, others may be \
                 missing; `wallet descriptor list` says what to do",
                near.index,
                near.lookahead
            );
        }
        self.near_edge = all;
        Ok(())
    }

    fn ledger_height(&self) -> Result<Option<Height>, WalletFollowError> {
        Ok(self.ledger.tip(self.network())?.map(|(height, _)| height))
    }

    /// Refuses a chain database that ends further below the ledger than a rollback of it reaches.
    fn check_reach(&self, step: &Step) -> Result<(), WalletFollowError> {
        let (Some(ledger), Some(chain)) = (step.ledger, step.chain) else { return Ok(()) };
        let horizon = self.index.settings().window.horizon();
        if chain.plus(horizon) < ledger {
            return Err(WalletFollowError::ChainBehind { chain, ledger });
        }
        Ok(())
    }
}

fn chain<'c, K: Kv>(
    index: &'c ChainIndex<K>,
    view: View<'c, K::Snapshot<'c>>,
    bodies: &'c mut BodyFinder,
    is_stopped: &'c dyn Fn() -> bool,
) -> IndexedChain<'c, K::Snapshot<'c>> {
    IndexedChain { view, settings: index.settings(), bodies: RefCell::new(bodies), is_stopped }
}

/// Says what to do about an error that the ledger cannot help with.
fn explained(error: FollowError, looked_in: &str) -> WalletFollowError {
    match error {
        FollowError::MissingBody { height } => {
            WalletFollowError::MissingBody { height, looked_in: looked_in.to_owned() }
        }
        other => other.into(),
    }
}
