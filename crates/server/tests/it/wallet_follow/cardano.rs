//! A node on the loopback interface, which goes back and forth.

use std::collections::BTreeSet;

use utxokeep_core::{BlockHash, Network, hex_encode};
use utxokeep_testkit::{
    cardano::{Built, shelley_genesis},
    cardano_node::FakeNode,
};
use utxokeep_wallet::{Ledger, NewAddress, WalletId};

use crate::{
    cardano_follow::{WATCHED, extend, owner, raws},
    wallet_follow::program::{LedgerHome, NOW, coins, wait_for_tip},
};

const DEVNET: Network = Network::CardanoDevnet;
const MAGIC: u64 = 42;

fn tip(chain: &[Built]) -> (u32, BlockHash) {
    let height = u32::try_from(chain.len() - 1).unwrap();
    (height, BlockHash::from_bytes(chain.last().unwrap().hash))
}

/// The coins of the watched address: one of each block.
fn expected(chain: &[Built]) -> BTreeSet<String> {
    let blocks = chain.iter().enumerate().filter(|(_, built)| !built.txids.is_empty());
    let coin = |(height, built): (usize, &Built)| {
        let txid = utxokeep_core::Txid::from_bytes(built.txids[0]);
        let outpoint = utxokeep_core::OutPoint::new(txid, 1);
        let height = utxokeep_core::Height::new(u32::try_from(height).unwrap());
        format!("{outpoint} 1 {:?} false", Some(height))
    };
    blocks.map(coin).collect()
}

fn wallet(ledger: &Ledger) -> WalletId {
    let wallet = ledger.create_wallet("watched", DEVNET, NOW).unwrap().id;
    let address = NewAddress { script: owner(WATCHED), address: None, spend_weight: None };
    ledger.add_addresses(wallet, &[address], NOW).unwrap();
    wallet
}

fn configure(place: &LedgerHome, node: &FakeNode, more: &str) {
    let genesis = shelley_genesis(30, &[(&owner(0), 1_000_000)]);
    std::fs::write(place.path("shelley.json"), genesis).unwrap();
    let chain = format!(
        "{more}[chain]\nchain = \"cardano\"\nnetwork = \"devnet\"\ngenesis_shelley = \"{}\"\n\
         source = {{ kind = \"cardano-node\", address = {:?} }}\n\
         [follow]\nreconnect_first_ms = 50\n",
        place.path("shelley.json").display(),
        node.tcp_address()
    );
    place.configure(None, &chain);
}

#[test]
fn the_ledger_follows_the_node_through_its_rollbacks_and_after_being_killed() {
    let place = LedgerHome::sqlite();
    let mut chain = extend(&[], 30, 1);
    let node = FakeNode::start(MAGIC, place.path("").as_path(), &raws(&chain));
    configure(&place, &node, "");
    let ledger = place.ledger();
    let wallet = wallet(&ledger);
    for round in 1..4u8 {
        let serving = place.serve();
        wait_for_tip(&ledger, DEVNET, tip(&chain));
        assert_eq!(coins(&ledger, wallet), expected(&chain), "round {round}");
        let keep = chain.len() - usize::from(round) * 4;
        chain = extend(&chain[..keep], chain.len() + 2, round * 30);
        node.switch_fork(keep, &raws(&chain[keep..]));
        wait_for_tip(&ledger, DEVNET, tip(&chain));
        assert_eq!(coins(&ledger, wallet), expected(&chain), "round {round}");
        serving.wait_for_metric("utxokeep_wallet_follow_blocks_undone_total", |blocks| {
            blocks >= f64::from(round) * 4.0
        });
        serving.kill();
    }
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

/// Blocks that the index has from before, and more than are kept in memory: the node is asked again.
#[test]
fn blocks_that_nobody_kept_are_fetched_from_the_node_again() {
    let place = LedgerHome::sqlite();
    let mut chain = extend(&[], 60, 1);
    let node = FakeNode::start(MAGIC, place.path("").as_path(), &raws(&chain));
    configure(&place, &node, "recent_blocks_max = 1\n");
    let report = place.json(&["chain", "follow", "--until-tip"]);
    assert_eq!(report["best_hash"], hex_encode(&chain.last().unwrap().hash));
    let ledger = place.ledger();
    let wallet = wallet(&ledger);
    let serving = place.serve();
    wait_for_tip(&ledger, DEVNET, tip(&chain));
    chain = extend(&chain[..50], 75, 90);
    node.switch_fork(50, &raws(&chain[50..]));
    wait_for_tip(&ledger, DEVNET, tip(&chain));
    serving.stop();
    assert_eq!(coins(&ledger, wallet), expected(&chain));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}
