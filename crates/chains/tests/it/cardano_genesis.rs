//! Genesis files of real networks against what the program knows of them.

use std::fs;

use utxokeep_chains::cardano::Genesis;
use utxokeep_core::{BlockHash, Network};
use utxokeep_testkit::testdata;

fn assert_same(found: &Genesis, expected: &Genesis) {
    // All facts of a genesis are in its bytes.
    assert!(found.encode() == expected.encode(), "{found:?} is not {expected:?}");
    assert!(found.outputs() == expected.outputs());
}

#[test]
fn built_in_networks_are_what_their_files_say() {
    for network in [Network::CardanoMainnet, Network::CardanoPreprod, Network::CardanoPreview] {
        let name = network.name();
        let (Some(byron), Some(shelley)) = (
            testdata(&format!("cardano/genesis/{name}-byron-genesis.json")),
            testdata(&format!("cardano/genesis/{name}-shelley-genesis.json")),
        ) else {
            return;
        };
        let (byron, shelley) = (fs::read(byron).unwrap(), fs::read(shelley).unwrap());
        let genesis = Genesis::from_files(Some(&byron), &shelley).unwrap();
        assert_eq!(genesis.hash(), network.genesis_hash());
        assert_same(&genesis, &Genesis::public(network).unwrap());
    }
}

#[test]
fn private_chains_start_with_their_initial_funds() {
    let Some(path) = testdata("cardano/genesis/partner-shelley-genesis.json") else { return };
    let genesis = Genesis::from_files(None, &fs::read(path).unwrap()).unwrap();
    assert_eq!(genesis.hash(), BlockHash::default());
    assert_eq!((genesis.network_magic(), genesis.security_blocks()), (42, 5));
    assert_eq!(genesis.epoch_and_time(240), (2, 1_719_856_418));
    let funds: u64 = genesis.outputs().iter().map(|output| output.value).sum();
    assert_eq!((genesis.outputs().len(), funds), (4, 29_996_521_000_000_000));
    assert_same(&Genesis::decode(&genesis.encode()).unwrap(), &genesis);

    let Some(path) = testdata("cardano/genesis/golden-shelley-genesis.json") else { return };
    let genesis = Genesis::from_files(None, &fs::read(path).unwrap()).unwrap();
    assert_eq!((genesis.network_magic(), genesis.outputs().len()), (4_036_000_900, 1));
}
