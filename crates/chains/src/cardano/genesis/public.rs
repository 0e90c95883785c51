//! The genesis of the public networks.

use std::sync::OnceLock;

use pallas_addresses::byron::{AddressPayload, ByronAddress};
use pallas_crypto::key::ed25519::PublicKey;
use utxokeep_core::Network;

use super::{Facts, Genesis, GenesisOutput, Outputs, Pace};

/// Public key and lovelace, big endian, of every voucher of the main network, in the order of keys.
const MAINNET_VOUCHERS: &[u8] = include_bytes!("mainnet-vouchers.bin");
const KEY_BYTES: usize = 32;
const VOUCHER_BYTES: usize = KEY_BYTES + 8;

/// The one address with money on preprod, then those without.
const PREPROD: [&str; 8] = [
    "FHnt4NL7yPXuYUxBF33VX5dZMBDAab2kvSNLRzCskvuKNCSDknzrQvKeQhGUw5a",
    "FHnt4NL7yPXhCzCHVywZLqVsvwuG3HvwmjKXQJBrXh3h2aigv6uxkePbpzRNV8q",
    "FHnt4NL7yPXuJGViM3KwSPwrwECD9q5vNetX3QJDYRWgiX3RHi5i5VV32dnETDK",
    "FHnt4NL7yPY8exfnuJ8ACyoU7xCN93tKXSv357UrTp1nddGbkWxJpQfrt62xYFX",
    "FHnt4NL7yPYFpVcAXZADrKdsqCAFvcRFYkTcqkn2guGmj8akQMiMVjhSUECvD1F",
    "FHnt4NL7yPYH2vP2FLEfH2pt3K6meM7fgtjRiLBidaqpP5ogPzxLNsZy68e1KdW",
    "FHnt4NL7yPYHrcxPtPufYYFWLhqvHGnZ5NFSz2KZpWQgSq4VLsUgWnkEmfUtd1E",
    "FHnt4NL7yPYJiN5Y8VsQr6LP6YgN51BHBPegNjVwKkq6AooCkbTpfZ2bqkVkfXU",
];

/// The one address with money on preview, then those without.
const PREVIEW: [&str; 8] = [
    "FHnt4NL7yPXvDWHa8bVs73UEUdJd64VxWXSFNqetECtYfTd9TtJguJ14Lu3feth",
    "FHnt4NL7yPXjpZtYj1YUiX9QYYUZGXDT9gA2PJXQFkTSMx3EgawXK5BUrCHdhe2",
    "FHnt4NL7yPXk7D87qAWEmfnL7wSQ9AzBU2mjZt3eM48NSCbygxgzAU6vCGiRZEW",
    "FHnt4NL7yPXpazQsTdJ3Gp1twQUo4N5rrgGbRNSzchjchPiApc1k4CvqDMcdd7H",
    "FHnt4NL7yPXtNo1wLCLZyGTMfAvB14h8onafiYkM7B69ZwvGgXeUyQWfi7FPrif",
    "FHnt4NL7yPXtmi4mAjD43V3NB3shDs1gCuHNcMLPsRWjaw1b2yRV2xad8S8V6aq",
    "FHnt4NL7yPXvNSRpCYydjRr7koQCrsTtkovk5uYMimgqMJX2DyrEEBqiXaTd8rG",
    "FHnt4NL7yPY9rTvdsCeyRnsbzp4bN7XdmAZeU5PzA1qR2asYmN6CsdxJw4YoDjG",
];

/// What the test networks started with, in lovelace.
const TEST_MONEY: u64 = 30_000_000_000_000_000;

/// The genesis of a public network of Cardano.
pub(super) fn genesis_of(network: Network) -> Option<Genesis> {
    let byron_slots = byron_slots_of(network)?;
    let (start, shelley_epoch_slots, outputs) = match network {
        Network::CardanoMainnet => (1_506_203_091, 432_000, Outputs::Vouchers),
        Network::CardanoPreprod => (1_654_041_600, 432_000, test_outputs(&PREPROD)),
        _ => (1_666_656_000, 86_400, test_outputs(&PREVIEW)),
    };
    let security_blocks = network.security_blocks();
    let facts = Facts {
        hash: network.genesis_hash(),
        security_blocks,
        network_magic: u32::from_be_bytes(network.magic()),
        network_id: u8::from(network == Network::CardanoMainnet),
        start_ms: start * 1_000,
        byron_slots,
        byron: Pace { epoch_slots: 10 * u64::from(security_blocks), slot_ms: 20_000 },
        shelley: Pace { epoch_slots: shelley_epoch_slots, slot_ms: 1_000 },
    };
    Some(Genesis { facts, outputs })
}

/// How many slots a public network has before Shelley. The files do not say it.
pub(super) fn byron_slots_of(network: Network) -> Option<u64> {
    match network {
        Network::CardanoMainnet => Some(4_492_800),
        Network::CardanoPreprod => Some(86_400),
        Network::CardanoPreview => Some(0),
        _ => None,
    }
}

fn test_outputs(addresses: &[&str]) -> Outputs {
    let money = std::iter::once(TEST_MONEY).chain(std::iter::repeat(0));
    let outputs = addresses.iter().zip(money).map(|(address, value)| {
        let address = bitcoin::base58::decode(address).expect("the constants above are base58");
        GenesisOutput::new(address, value)
    });
    Outputs::list(outputs.collect()).expect("the constants above are different addresses")
}

/// The vouchers of the main network as outputs.
pub(super) fn mainnet_outputs() -> &'static [GenesisOutput] {
    static OUTPUTS: OnceLock<Vec<GenesisOutput>> = OnceLock::new();
    OUTPUTS.get_or_init(|| {
        let vouchers = MAINNET_VOUCHERS.chunks_exact(VOUCHER_BYTES);
        let mut outputs: Vec<_> = vouchers
            .filter_map(|voucher| {
                let (key, value) = voucher.split_first_chunk::<KEY_BYTES>()?;
                let value = u64::from_be_bytes(value.try_into().ok()?);
                Some(GenesisOutput::new(redeem_address(*key, None), value))
            })
            .collect();
        outputs.sort_unstable_by_key(|output| output.txid);
        outputs
    })
}

/// The Byron address at which the holder of a voucher's key finds its money.
pub(super) fn redeem_address(key: [u8; 32], network_magic: Option<u32>) -> Vec<u8> {
    let magic = network_magic
        .map(|magic| minicbor::to_vec(magic).expect("a number can be written into memory"));
    ByronAddress::from(AddressPayload::new_redeem(PublicKey::from(key), magic)).to_vec()
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{cardano::is_redeem_address, hex_encode};

    use super::*;
    use crate::cardano::hash::blake2b_256;

    #[test]
    fn mainnet_vouchers_are_pinned() {
        let digest = hex_encode(&blake2b_256(&[MAINNET_VOUCHERS]));
        assert_eq!(digest, "e007a88311bcd3a7531111dcc4d6c076174ec7c76514ec823886b0098df9406f");
        let outputs = genesis_of(Network::CardanoMainnet).unwrap();
        let outputs = outputs.outputs();
        assert_eq!(outputs.len(), 14_505);
        let sum: u64 = outputs.iter().map(|output| output.value).sum();
        assert_eq!(sum, 31_112_484_745_000_000);
        assert!(outputs.is_sorted_by(|a, b| a.txid < b.txid));
        assert!(outputs.iter().all(|output| is_redeem_address(&output.address)));
        let of_all = outputs.iter().map(|output| &output.txid.as_bytes()[..]).collect::<Vec<_>>();
        let digest = hex_encode(&blake2b_256(&of_all));
        assert_eq!(digest, "a2e080a5b8cb107657eb37373418b4d99f77f72b86d3739633469fa08f8d935e");
        // One that is known from elsewhere.
        let known = "0ae3da29711600e94a33fb7441d2e76876a9a1e98b5ebdefbf2e3bc535617616";
        assert!(outputs.iter().any(|output| output.txid.to_hex() == known));
    }

    #[test]
    fn test_networks_start_with_one_rich_address() {
        let preview = "4843cf2e582b2f9ce37600e5ab4cc678991f988f8780fed05407f9537f7712bd";
        let preprod = "5526b1373acfc774794a62122f95583ff17febb2ca8a0fe948d097e29cf99099";
        for (network, txid) in
            [(Network::CardanoPreview, preview), (Network::CardanoPreprod, preprod)]
        {
            let genesis = genesis_of(network).unwrap();
            let outputs = genesis.outputs();
            assert_eq!(outputs.len(), 8);
            assert!(outputs.is_sorted_by(|a, b| a.txid < b.txid));
            let rich: Vec<_> = outputs.iter().filter(|output| output.value > 0).collect();
            assert_eq!((rich.len(), rich[0].value), (1, TEST_MONEY));
            assert_eq!(rich[0].txid.to_hex(), txid, "{network}");
        }
    }
}
