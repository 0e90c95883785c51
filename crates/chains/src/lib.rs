//! Blocks in: decoders of Bitcoin and Cardano, addresses, block files, live nodes, finding bodies,
//! the simulator.
//!
//! # Invariants
//!
//! * Every source hands out raw bytes, and one decoder turns them into [`utxokeep_core::Block`]:
//!   simulated chains take the same path as real ones.
//! * Bytes from outside never panic and never reserve more memory than they are long.
//! * Nothing here decides which branch is best; headers come in order of arrival.

mod bitcoin;
pub mod bitcoind;
mod bodies;
pub mod cardano;
mod cut;
mod decoder;
mod files;
mod live;
mod node_source;
mod simulator;
mod source;

pub use self::bitcoin::{
    AddressError, BitcoinCodec, DESCRIPTOR_CHARS_MAX, DecodeError, DescriptorError, HEADER_LEN,
    INDEX_MAX, MAX_BLOCK_BYTES, MAX_MONEY, MAX_TX_BYTES, NodeTxsError, PsbtError, PsbtInput,
    PsbtOutput, PsbtRequest, PsbtSummary, ScriptOrigin, TxDecodeError, UnsignedPsbt, build_psbt,
    coinbase_id, decode_block, decode_header, decode_tx, derive_scripts, finalize_psbt,
    genesis_block, node_txs, parse_address_or_script, parse_descriptor, parse_txid, read_psbt,
    script_hash_candidates, script_key, script_to_address, script_type, tx_places,
};
pub use bodies::{BodyError, BodyFinder, RecentBlocks, RecentLimits, WantedBlock};
pub use cut::cut_block;
pub use decoder::BlockDecoder;
pub use files::{
    BlockFileWriter, BlockFiles, ScanOptions, ScanReport, UnpackLimits, XorKey, write_block_file,
};
pub use live::{
    Backoff, Contact, LiveCause, LiveConnection, LiveError, LiveEvent, LiveSource, MempoolList,
    MempoolSource, QueueLimits,
};
pub use node_source::NodeSource;
pub use simulator::{HeavyBlocks, SimCoin, SimTip, Simulator, SimulatorConfig, TxMix};
pub use source::{BlockList, BlockSource, SourceError, TooLarge};
