//! What a simulated chain looks like.

use std::ops::{Range, RangeInclusive};

/// Settings of the simulator. Equal settings give equal chains, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatorConfig {
    /// Start of the random sequence.
    pub seed: u64,
    /// Transactions in a block, besides the coinbase and as far as there are coins to spend.
    pub txs_per_block: Range<u32>,
    /// Most outputs of a transaction that pays many.
    pub wide_outputs_max: u32,
    /// How many of a hundred transactions pay many.
    pub wide_percent: u32,
    /// Most inputs of a transaction that gathers many.
    pub fan_in_max: u32,
    /// How many of a hundred transactions gather many.
    pub fan_in_percent: u32,
    /// How many of a hundred inputs spend an output of the same block.
    pub same_block_spend_percent: u32,
    /// How many of a hundred transactions carry an output nobody can spend.
    pub op_return_percent: u32,
    /// How many of a thousand outputs have no value, or a script without any owner.
    pub odd_output_permille: u32,
    /// After how many of a hundred blocks a branch starts below the tip.
    pub reorg_percent: u32,
    /// Most blocks a branch starts below the tip.
    pub reorg_depth_max: u32,
    /// How many of a hundred transactions of replaced blocks come back in each block of a branch.
    pub remine_percent: u32,
    /// Scripts that outputs pay to; the first ones far more often than the last.
    pub addresses: u32,
    /// Most coins held ready to be spent; surplus coins are forgotten and stay unspent for ever.
    pub coins_max: u32,
    /// Seconds between blocks.
    pub block_secs: u32,
    /// Blocks of another shape at regular heights.
    pub heavy: Vec<HeavyBlocks>,
}

/// Blocks at regular heights that differ from the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeavyBlocks {
    /// First height that may have this shape.
    pub from_height: u32,
    /// Every how many blocks.
    pub every: u32,
    /// Remainder of the height divided by `every`.
    pub phase: u32,
    /// Transactions in such a block.
    pub txs: RangeInclusive<u32>,
    /// What these transactions look like.
    pub mix: TxMix,
}

/// What the transactions of a block look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxMix {
    /// How many of a hundred pay many.
    pub wide_percent: u32,
    /// Outputs of those.
    pub wide_outputs: RangeInclusive<u32>,
    /// How many of a hundred gather many.
    pub fan_in_percent: u32,
    /// Inputs of those.
    pub fan_in_inputs: RangeInclusive<u32>,
    /// Whether inputs carry bytes in the size of signatures.
    pub is_signed: bool,
}

impl Default for SimulatorConfig {
    /// A lively chain to look at: small blocks of every kind, and frequent reorganisations.
    fn default() -> Self {
        Self {
            seed: 1,
            txs_per_block: 5..60,
            wide_outputs_max: 120,
            wide_percent: 4,
            fan_in_max: 25,
            fan_in_percent: 12,
            same_block_spend_percent: 8,
            op_return_percent: 6,
            odd_output_permille: 10,
            reorg_percent: 6,
            reorg_depth_max: 6,
            remine_percent: 60,
            addresses: 400,
            coins_max: 40_000,
            block_secs: 600,
            heavy: Vec::new(),
        }
    }
}

impl SimulatorConfig {
    /// Blocks in the chain that [`SimulatorConfig::bench`] describes.
    pub const BENCH_BLOCKS: u32 = 1_207;

    /// A chain to measure with: about 160 MB in [`SimulatorConfig::BENCH_BLOCKS`] blocks without
    /// forks, 2.5 million outputs and 0.75 million inputs. Small blocks alternate with blocks like
    /// those of the main network, blocks that create very many outputs, and blocks that gather very
    /// many.
    #[must_use]
    pub fn bench() -> Self {
        let heavy = |phase, txs, mix| HeavyBlocks { from_height: 111, every: 22, phase, txs, mix };
        let like_mainnet = TxMix {
            wide_percent: 5,
            wide_outputs: 10..=30,
            fan_in_percent: 5,
            fan_in_inputs: 10..=36,
            is_signed: true,
        };
        let create = TxMix {
            wide_percent: 100,
            wide_outputs: 1_800..=2_200,
            fan_in_percent: 0,
            fan_in_inputs: 1..=1,
            is_signed: false,
        };
        let gather = TxMix {
            wide_percent: 0,
            wide_outputs: 1..=1,
            fan_in_percent: 100,
            fan_in_inputs: 900..=1_000,
            is_signed: false,
        };
        Self {
            seed: 1,
            txs_per_block: 1..12,
            wide_outputs_max: 40,
            wide_percent: 20,
            fan_in_max: 1,
            fan_in_percent: 0,
            same_block_spend_percent: 5,
            op_return_percent: 5,
            odd_output_permille: 5,
            reorg_percent: 0,
            reorg_depth_max: 0,
            remine_percent: 0,
            addresses: 300_000,
            coins_max: 600_000,
            block_secs: 600,
            heavy: vec![
                heavy(0, 2_900..=2_950, like_mainnet),
                // One block of all these outputs would be longer than a block may be.
                heavy(7, 11..=11, create.clone()),
                heavy(10, 10..=10, create),
                heavy(14, 8..=8, gather),
            ],
        }
    }

    /// The shape of the block at `height`: how many transactions, and of which kind.
    ///
    /// A chain that holds nearly as many coins as it may gathers them, instead of forgetting them
    /// with their value for good.
    pub(super) fn shape(&self, height: u32, coins: usize) -> (RangeInclusive<u32>, TxMix) {
        let heavy = self.heavy.iter().find(|heavy| {
            height >= heavy.from_height && height.checked_rem(heavy.every) == Some(heavy.phase)
        });
        if let Some(heavy) = heavy {
            return (heavy.txs.clone(), heavy.mix.clone());
        }
        let is_full = coins > self.coins_max as usize / 4 * 3;
        let gathers = is_full && (1..50).contains(&self.fan_in_percent);
        let mix = TxMix {
            wide_percent: self.wide_percent,
            wide_outputs: 3..=self.wide_outputs_max.max(3),
            fan_in_percent: if gathers { 50 } else { self.fan_in_percent },
            fan_in_inputs: 3..=self.fan_in_max.max(3),
            is_signed: true,
        };
        let last = self.txs_per_block.end.saturating_sub(1).max(self.txs_per_block.start);
        (self.txs_per_block.start..=last, mix)
    }

    /// Whether branches may ever start.
    pub(super) fn has_forks(&self) -> bool {
        self.reorg_percent > 0 && self.reorg_depth_max > 0
    }
}
