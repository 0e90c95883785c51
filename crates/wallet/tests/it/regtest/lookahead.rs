//! No payment is missed without a word: how far descriptors are watched ahead, what becomes of a
//! known descriptor that is added again, and when the ledger says that it may have missed something.

use utxokeep_core::{Height, Network, OutPoint, Txid, wallet::BadReach};
use utxokeep_wallet::{
    Amount, BlockRef, Credits, Ledger, LedgerError, LinkedBlock, NewAddress, NewDescriptor,
    NewOutput, NewTx, RecordOptions, Seen, WalletId,
};

use crate::regtest::{
    chain::{NOW, hd_descriptors, open, wallet},
    descriptors::{block, script, total},
};

const NETWORK: Network = Network::BitcoinRegtest;

fn descriptor(lookahead: Option<u32>) -> NewDescriptor {
    NewDescriptor { lookahead, ..hd_descriptors().remove(0) }
}

/// A transaction that pays 1,000 to the script with that index.
fn pays(index: u32) -> NewTx {
    let mut txid = [0x55; 32];
    txid[..4].copy_from_slice(&index.to_be_bytes());
    let amount = Amount::new(1_000).unwrap();
    NewTx {
        txid: Txid::from_bytes(txid),
        inputs: vec![OutPoint::new(Txid::from_bytes([0xee; 32]), index)],
        outputs: vec![NewOutput { amount, script: script(&descriptor(None), index) }],
        coinbase: false,
        raw: None,
        credits: Credits::Watched,
    }
}

/// Blocks from height 10 on, each with payments to these scripts.
fn apply(ledger: &Ledger, paid: &[&[u32]]) -> Vec<(LinkedBlock, Vec<NewTx>)> {
    let blocks = (10u8..).zip(paid).map(|(height, indexes)| {
        let txs: Vec<NewTx> = indexes.iter().map(|index| pays(*index)).collect();
        ledger.apply_block(NETWORK, &block(height), &txs, NOW).unwrap();
        (block(height), txs)
    });
    blocks.collect()
}

fn scan(ledger: &Ledger, wallet: WalletId, from: Height, blocks: &[(LinkedBlock, Vec<NewTx>)]) {
    for (linked, txs) in blocks {
        let block: BlockRef = linked.block;
        if block.height >= from {
            ledger.scan_block(wallet, &block, txs, NOW).unwrap();
        }
    }
}

fn edge(ledger: &Ledger, wallet: WalletId) -> Option<u32> {
    ledger.descriptors(wallet).unwrap()[0].edge_index
}

fn a_gap_of_hundreds_of_scripts_misses_nothing(url: &str) {
    let ledger = open(url);
    let wallet = wallet(&ledger, "w", &[descriptor(None)]);
    apply(&ledger, &[&[26], &[400, 900], &[1_500, 2_450]]);
    assert_eq!(total(&ledger, wallet), 5_000);
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

fn raising_the_lookahead_of_a_known_descriptor_finds_what_was_missed(url: &str) {
    let ledger = open(url);
    let wallet = wallet(&ledger, "w", &[descriptor(Some(25))]);
    let blocks = apply(&ledger, &[&[], &[26], &[400]]);
    assert_eq!(total(&ledger, wallet), 0, "the old default misses them");
    let added = ledger.add_descriptor(wallet, &descriptor(Some(1_000)), NOW).unwrap();
    assert_eq!((added.keychains[0].lookahead, added.keychains[0].derived_count), (1_000, 1_000));
    let from = added.scan_from.unwrap();
    assert_eq!(from, Height::new(10), "the first block that the ledger has seen");
    scan(&ledger, wallet, from, &blocks);
    assert_eq!(total(&ledger, wallet), 2_000);
    // The same again has nothing new, and so nothing to scan for.
    let again = ledger.add_descriptor(wallet, &descriptor(Some(1_000)), NOW).unwrap();
    assert_eq!(again.scan_from, None);
    ledger.set_birthday(wallet, Some(Height::new(11)), NOW).unwrap();
    let more = ledger.add_descriptor(wallet, &descriptor(Some(1_001)), NOW).unwrap();
    assert_eq!(more.scan_from, Some(Height::new(11)));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

fn options_of_a_known_descriptor_are_honoured_or_refused(url: &str) {
    let ledger = open(url);
    let wallet = wallet(&ledger, "w", &[descriptor(Some(30))]);
    let add = |new: NewDescriptor| {
        let before = ledger.descriptors(wallet).unwrap();
        match ledger.add_descriptor(wallet, &new, NOW) {
            Ok(added) => Ok(added.keychains[0].clone()),
            Err(LedgerError::BadReach(bad)) => {
                assert_eq!(ledger.descriptors(wallet).unwrap(), before);
                Err(bad)
            }
            Err(other) => panic!("{other}"),
        }
    };
    let plain = || NewDescriptor { keychain: None, ..descriptor(None) };
    assert_eq!(add(plain()).unwrap().lookahead, 30);
    let smaller = NewDescriptor { lookahead: Some(29), ..plain() };
    assert_eq!(add(smaller), Err(BadReach::SmallerLookahead { stored: 30, asked: 29 }));
    let change = NewDescriptor { keychain: Some(1), ..plain() };
    assert_eq!(add(change), Err(BadReach::OtherKeychain { stored: 0, asked: 1 }));
    let further = add(NewDescriptor { next_index: Some(50), ..plain() }).unwrap();
    assert_eq!((further.next_index, further.derived_count), (50, 80));
    let back = NewDescriptor { next_index: Some(49), ..plain() };
    assert_eq!(add(back), Err(BadReach::SmallerNextIndex { stored: 50, asked: 49 }));
    let id = further.id;
    assert_eq!(ledger.reveal_next_address(wallet, id, NOW).unwrap().index, 50);
    for absurd in [0, 10_001] {
        let refused = add(NewDescriptor { lookahead: Some(absurd), ..plain() });
        assert_eq!(refused, Err(BadReach::Lookahead { asked: absurd }));
    }
    let single = "wpkh(03a053a329a61c71d2a90bdd6b2b7f11e222332d026c9839893409520112951b1e)";
    for next_index in [1, 5] {
        let single = NewDescriptor { next_index: Some(next_index), ..NewDescriptor::new(single) };
        assert_eq!(add(single), Err(BadReach::NotRanged));
    }
}

fn a_payment_near_the_edge_marks_the_descriptor(url: &str) {
    let ledger = open(url);
    let wallet = wallet(&ledger, "w", &[descriptor(Some(100))]);
    apply(&ledger, &[&[79]]);
    assert_eq!(edge(&ledger, wallet), None);
    // 180 are watched now; the last fifth of what is ahead begins at 160.
    ledger.apply_block(NETWORK, &block(11), &[pays(159)], NOW).unwrap();
    assert_eq!(edge(&ledger, wallet), None);
    let near = pays(259);
    ledger.record(wallet, &near, Seen::Mempool, &RecordOptions::default(), NOW).unwrap();
    assert_eq!(edge(&ledger, wallet), Some(259));
    let told = ledger.near_edge(NETWORK).unwrap();
    assert_eq!((told.len(), told[0].wallet.as_str(), told[0].index), (1, "w", 259));
    assert_eq!(ledger.near_edge(Network::BitcoinSignet).unwrap(), []);
    let marked = &ledger.descriptors(wallet).unwrap()[0];
    assert_eq!(marked.lookahead_to_raise_to(), Some(1_000));
    // It stays until the lookahead is raised.
    ledger.apply_block(NETWORK, &block(12), &[pays(261)], NOW).unwrap();
    assert_eq!(edge(&ledger, wallet), Some(259));
    ledger.add_descriptor(wallet, &descriptor(Some(101)), NOW).unwrap();
    assert_eq!(edge(&ledger, wallet), Some(259), "one script more is not enough");
    ledger.add_descriptor(wallet, &descriptor(Some(1_000)), NOW).unwrap();
    assert_eq!((edge(&ledger, wallet), ledger.near_edge(NETWORK).unwrap().len()), (None, 0));
}

fn addresses_take_the_weight_that_is_given_and_say_from_where_to_scan(url: &str) {
    let ledger = open(url);
    let wallet = wallet(&ledger, "w", &[]);
    let new = |spend_weight| NewAddress { script: vec![0x51], address: None, spend_weight };
    let first = ledger.add_addresses(wallet, &[new(None)], NOW).unwrap();
    assert_eq!(first.scan_from, None, "no block has passed");
    apply(&ledger, &[&[]]);
    // Whoever says less than any input weighs would pay less than asked for.
    let light = ledger.add_addresses(wallet, &[new(Some(163))], NOW).unwrap_err();
    assert!(light.to_string().contains("at least 164"), "{light}");
    let known = ledger.add_addresses(wallet, &[new(Some(777))], NOW).unwrap();
    assert_eq!((known.ids, known.scan_from), (first.ids, None));
    assert_eq!(ledger.addresses(wallet, 0, 1).unwrap()[0].spend_weight, 777);
    ledger.add_addresses(wallet, &[new(None)], NOW).unwrap();
    assert_eq!(ledger.addresses(wallet, 0, 1).unwrap()[0].spend_weight, 777);
    let other = NewAddress { script: vec![0x52], ..new(None) };
    let added = ledger.add_addresses(wallet, &[other], NOW).unwrap();
    assert_eq!(added.scan_from, Some(Height::new(10)));
}

crate::regtest::on_both!(
    a_gap_of_hundreds_of_scripts_misses_nothing,
    raising_the_lookahead_of_a_known_descriptor_finds_what_was_missed,
    options_of_a_known_descriptor_are_honoured_or_refused,
    a_payment_near_the_edge_marks_the_descriptor,
    addresses_take_the_weight_that_is_given_and_say_from_where_to_scan,
);
