//! A chain with validators, miners, reorganisations, a lagging persister, operators and restarts,
//! played by a seed; after every deletion a plain model says whether it was allowed.

mod model;
mod world;

use std::sync::Arc;

use utxokeep_core::node::{Check, Policy};
use utxokeep_txstore::PruneStore;

use model::Model;
use world::World;

/// Blocks that records are kept, and that must lie above a child.
const WINDOW: u32 = 12;

/// What is played.
#[derive(Debug, Clone, Copy)]
pub struct SimulationConfig {
    /// Decides everything.
    pub seed: u64,
    /// Blocks that are mined.
    pub blocks: u32,
    /// A check that is left out, to see whether that is noticed.
    pub planted: Option<Check>,
}

impl SimulationConfig {
    /// The policy a store must have to be played with.
    #[must_use]
    pub fn policy() -> Policy {
        Policy {
            retention_blocks: WINDOW,
            coinbase_maturity: 1,
            unmined_retention_blocks: 5,
            conflict_walk_max: 1_000,
            height_jump_blocks_max: 144,
        }
    }
}

/// Plays a seed. `reopen` answers the store, the first time and after every restart.
///
/// # Errors
///
/// The first thing that went wrong, in words.
pub fn simulate(
    config: SimulationConfig,
    reopen: &mut dyn FnMut(Option<Arc<dyn PruneStore>>) -> Arc<dyn PruneStore>,
) -> Result<(), String> {
    let mut world = World::new(config, reopen(None));
    for step in 0..config.blocks {
        if world.dice.one_in(23) {
            world = world.restart(reopen);
        }
        world.step().map_err(|error| format!("seed {:#x}, step {step}: {error}", config.seed))?;
    }
    world.settle().map_err(|error| format!("seed {:#x}, at the end: {error}", config.seed))
}

/// Numbers that look random and follow from a seed.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below.max(1)
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.roll(chances) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let at = usize::try_from(self.roll(from.len() as u64)).unwrap_or(0);
        from.get(at).copied()
    }
}
