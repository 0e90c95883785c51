//! The Cardano side of the chain vocabulary: blocks of every era, and the genesis they start from.

mod address;
mod asset;
mod cbor;
mod cut;
mod decode;
mod error;
mod files;
mod genesis;
mod hash;
mod header;
mod immutable;
mod node;
mod output;
mod parts;
mod wrapper;

pub use address::{
    CardanoAddressError, Owner, address_text, parse_credential, parse_owner, stake_address_text,
};
pub use asset::{AssetParseError, AssetProblem, asset_fingerprint, parse_asset};
pub use cut::cut_block;
pub use decode::{DecodedTx, decode_block, decode_tx};
pub use error::{CardanoDecodeError, GenesisError};
pub use files::{CardanoFiles, CardanoFilesReport};
pub use genesis::{Genesis, GenesisOutput};
pub use header::{HeaderInfo, decode_bare_header, decode_header};
pub use immutable::{BlockPosition, ImmutableBlocks, ImmutableDb, ImmutableTip, RawBlock};
pub use node::{CardanoNode, NodeAddress, NodeConnection, NodeError, NodeOptions, NodePoint};
pub use wrapper::{MAX_BLOCK_BYTES, SplitBlocks, split_blocks};
