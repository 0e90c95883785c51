//! The Bitcoin side of the chain vocabulary: blocks, scripts and addresses.

mod address;
mod codec;
mod decode;
mod descriptor;
mod error;
mod hash;
mod header;
mod merkle;
mod node_tx;
mod psbt;
mod reader;
mod tx;

use utxokeep_core::Network;

pub use address::{
    AddressError, parse_address_or_script, parse_txid, script_hash_candidates, script_key,
    script_to_address, script_type,
};
pub use codec::BitcoinCodec;
pub use decode::{MAX_BLOCK_BYTES, MAX_MONEY, decode_block};
pub use descriptor::{
    DESCRIPTOR_CHARS_MAX, DescriptorError, INDEX_MAX, derive_scripts, parse_descriptor,
};
pub use error::DecodeError;
pub(crate) use hash::{sha256d, sha256d_parts};
pub(crate) use header::decode_header_of;
pub use header::{HEADER_LEN, decode_header};
pub(crate) use merkle::merkle_root;
pub use node_tx::{NodeTxsError, coinbase_id, node_txs};
pub use psbt::{
    PsbtError, PsbtInput, PsbtOutput, PsbtRequest, PsbtSummary, ScriptOrigin, UnsignedPsbt,
    build_psbt, finalize_psbt, read_psbt,
};
pub use tx::{MAX_TX_BYTES, TxDecodeError, decode_tx, tx_places};

/// Raw bytes of the first block of a network.
#[must_use]
pub fn genesis_block(network: Network) -> Vec<u8> {
    let block = ::bitcoin::constants::genesis_block(params_of(network));
    ::bitcoin::consensus::serialize(&block)
}

/// The `bitcoin` crate's name of a network of Bitcoin.
fn params_of(network: Network) -> ::bitcoin::Network {
    ::bitcoin::Network::from_magic(::bitcoin::p2p::Magic::from_bytes(network.magic()))
        .expect("every network with a magic of its own is known to the bitcoin crate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_block_of_every_network_has_the_hash_the_rules_name() {
        for network in Network::ALL.into_iter().filter(|network| !network.is_cardano()) {
            let raw = genesis_block(network);
            let block = decode_block(raw, network).unwrap();
            assert_eq!(block.header.hash, network.genesis_hash(), "{network}");
            assert_eq!(block.txs.len(), 1);
            assert_eq!(block.txs[0].output_total, 5_000_000_000);
            assert!(block.outputs.is_empty(), "the first coinbase can never be spent");
        }
    }
}
