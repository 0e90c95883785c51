//! What is refused before the store is asked.

use tonic::{Code, Status};
use utxokeep::{config::TxStoreConfig, node_store};
use utxokeep_chains::{genesis_block, tx_places};
use utxokeep_core::{Network, OpenMode};

use super::*;

fn limits(follows_chain: bool) -> Limits {
    Limits { items: 10, answer_bytes: 1 << 20, page_entries: 10, follows_chain }
}

/// A coinbase, in these blocks.
fn new(mined: Vec<proto::MinedBlock>) -> proto::NewTransaction {
    let block = genesis_block(Network::BitcoinRegtest);
    let raw = block[tx_places(&block).unwrap()[0].clone()].to_vec();
    proto::NewTransaction {
        transaction: Some(proto::Transaction { raw, ..Default::default() }),
        options: Some(proto::CreateOptions { mined, ..Default::default() }),
    }
}

#[track_caller]
fn is_refused<T: std::fmt::Debug>(answer: Answer<T>) {
    let status = Status::from(answer.unwrap_err());
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    let code = status.metadata().get("utxokeep-code").unwrap();
    assert_eq!(code.to_str().unwrap(), "store_follows_chain");
    assert!(status.message().ends_with("nothing was changed"), "{status:?}");
}

#[test]
fn a_store_that_follows_the_chain_hears_of_blocks_from_nobody_else() {
    let config = TxStoreConfig::default();
    let store = node_store::open("memory:", &config, OpenMode::Create).unwrap();
    let store: &dyn TxStore = store.as_ref();
    let block = proto::MinedBlock { id: 7, height: 9, subtree: 0 };
    let followed = &limits(true);
    let list = |mined| proto::CreateRequest { transactions: vec![new(mined)], height: 9 };
    let one = |mined| proto::SpendAndCreateRequest {
        transaction: Some(new(mined)),
        height: 9,
        ..Default::default()
    };
    is_refused(create(store, list(vec![block]), followed));
    is_refused(spend_and_create(store, one(vec![block]), followed));
    let all = proto::SpendAndCreateListRequest {
        transactions: vec![new(vec![block])],
        height: 9,
        ..Default::default()
    };
    is_refused(spend_and_create_list(store, all, followed));
    // One that waits to be mined is taken.
    create(store, list(Vec::new()), followed).unwrap();
    let txid = utxokeep_chains::coinbase_id(&genesis_block(Network::BitcoinRegtest)).unwrap();
    let txids = vec![txid.as_bytes().to_vec()];
    let mined = || proto::SetMinedRequest {
        txids: txids.clone(),
        block: Some(block),
        on_longest_chain: true,
        ..Default::default()
    };
    is_refused(set_mined(store, mined(), followed));
    let marked = proto::MarkOnLongestChainRequest {
        txids: txids.clone(),
        on_longest_chain: true,
        height: 9,
    };
    is_refused(mark_on_longest_chain(store, marked, followed));
    let record = |store: &dyn TxStore| {
        let found = store.get(&[txid], utxokeep_txstore::Fields::default()).unwrap();
        found.into_iter().flatten().next().unwrap().record
    };
    assert!(!record(store).is_mined(), "nothing was changed");
    set_mined(store, mined(), &limits(false)).unwrap();
    assert!(record(store).is_mined());
}
