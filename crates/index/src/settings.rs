//! What a chain index is opened with.

use utxokeep_chains::BlockDecoder;
use utxokeep_core::{Filter, Network, Window, mmr::MmrRule};
use utxokeep_kv::Durability;

/// What a delta holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaKind {
    /// Outpoints only; rollback reads bodies from the tables.
    Compact,
    /// Bodies too; rollback needs nothing else.
    SelfContained,
}

/// Settings of the chain index. Those marked *fixed* are part of the database once it exists.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[non_exhaustive]
pub struct IndexSettings {
    /// Turns raw blocks of the network that is followed into blocks; holds the genesis of a private
    /// chain (fixed).
    pub decoder: BlockDecoder,
    /// Keep the set and its tables at all (fixed).
    pub enabled: bool,
    /// Keep the address index (fixed).
    pub address_index: bool,
    /// Keep the index by payment credential, on chains that have them (fixed).
    pub payment_index: bool,
    /// Keep the index by stake credential, on chains that have them (fixed).
    pub stake_index: bool,
    /// Which outputs are kept (fixed).
    pub filter: Filter,
    /// Whether an empty database may start with any block, not only with the first of its chain.
    pub may_start_mid_chain: bool,
    /// Keep the MuHash accumulator in every block's batch (fixed).
    pub muhash: bool,
    /// Keep a Merkle mountain range over the set, with this rule (fixed).
    pub mmr: Option<MmrRule>,
    /// How far back things are kept.
    pub window: Window,
    /// What deltas written from now on hold.
    pub delta: DeltaKind,
    /// The most rows one prune pass deletes.
    pub prune_rows_max: usize,
    /// How many blocks a named reader of the log may lie behind the tip and still hold undo data
    /// back.
    pub consumer_lag_blocks_max: u32,
    /// The longest one prune pass may take, in milliseconds.
    pub prune_pass_ms_max: u64,
    /// Whether each commit at the tip waits for the disk.
    pub durability: Durability,
    /// Memory that rows waiting for their batch may take during bulk load.
    pub bulk_batch_bytes_max: usize,
    /// The most blocks in one batch while catching up inside the window.
    pub catch_up_blocks_max: usize,
    /// The most headers that may wait for their parents.
    pub waiting_headers_max: usize,
}

impl IndexSettings {
    /// Defaults for a network: keep undo data for twice the network's security parameter.
    #[must_use]
    pub fn new(network: Network) -> Self {
        Self::with_decoder(BlockDecoder::new(network))
    }

    /// The same with changes, for callers outside of this crate:
    /// `IndexSettings::new(network).with(|settings| settings.muhash = true)`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The same for a network that a decoder was made for.
    #[must_use]
    pub fn with_decoder(decoder: BlockDecoder) -> Self {
        let has_credentials = decoder.network().is_cardano();
        let security = decoder.security_blocks();
        Self {
            decoder,
            enabled: true,
            address_index: true,
            payment_index: has_credentials,
            stake_index: false,
            filter: Filter::default(),
            may_start_mid_chain: false,
            muhash: false,
            mmr: None,
            window: Window { prune_depth: security, rollback_window: security.saturating_mul(2) },
            delta: DeltaKind::Compact,
            prune_rows_max: 50_000,
            consumer_lag_blocks_max: 10_000,
            prune_pass_ms_max: 200,
            durability: Durability::Synced,
            bulk_batch_bytes_max: 256 << 20,
            catch_up_blocks_max: 288,
            waiting_headers_max: 1_000_000,
        }
    }

    /// The network whose chain is followed.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.decoder.network()
    }
}
