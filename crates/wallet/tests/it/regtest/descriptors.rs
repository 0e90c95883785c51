//! Descriptors: what is watched, handed out, and found.

use utxokeep_chains::derive_scripts;
use utxokeep_core::{BlockHash, Height, Network, OutPoint, Txid};
use utxokeep_sql::Database;
use utxokeep_wallet::{
    Amount, BalanceQuery, BlockRef, Credits, LOOKAHEAD_DEFAULT, Ledger, LedgerError, Limits,
    LinkedBlock, Micros, NewAddress, NewDescriptor, NewOutput, NewTx, RecordOptions, Seen,
    WalletId, migrate, unmigrate,
};

use crate::regtest::chain::{NOW, hd_descriptors, open, wallet};

const NETWORK: Network = Network::BitcoinRegtest;

fn ranged(lookahead: u32) -> NewDescriptor {
    NewDescriptor { lookahead: Some(lookahead), ..hd_descriptors().remove(0) }
}

pub(crate) fn script(descriptor: &NewDescriptor, index: u32) -> Vec<u8> {
    derive_scripts(&descriptor.text, NETWORK, index..index + 1).unwrap()[0].script.clone()
}

/// A transaction that pays `index` thousand to the script with that index.
pub(crate) fn pays(descriptor: &NewDescriptor, index: u32) -> NewTx {
    let name = u8::try_from(index).unwrap();
    NewTx {
        txid: Txid::from_bytes([name; 32]),
        inputs: vec![OutPoint::new(Txid::from_bytes([0xee; 32]), index)],
        outputs: vec![NewOutput {
            amount: Amount::new(u64::from(index) * 1_000).unwrap(),
            script: script(descriptor, index),
        }],
        coinbase: false,
        raw: None,
        credits: Credits::Watched,
    }
}

pub(crate) fn block(height: u8) -> LinkedBlock {
    let hash = |height: u8| BlockHash::from_bytes([height; 32]);
    let block =
        BlockRef { height: Height::new(height.into()), hash: hash(height), time: Micros::new(1) };
    LinkedBlock { block, parent: Some(hash(height - 1)) }
}

pub(crate) fn total(ledger: &Ledger, wallet: WalletId) -> u64 {
    ledger.balance(wallet, &BalanceQuery::default(), NOW).unwrap().total()
}

fn counts(ledger: &Ledger, wallet: WalletId) -> (u32, u32) {
    let descriptor = &ledger.descriptors(wallet).unwrap()[0];
    (descriptor.next_index, descriptor.derived_count)
}

fn one_block_brings_further_scripts_into_reach(url: &str) {
    let ledger = open(url);
    let descriptor = ranged(2);
    let other = ledger.create_wallet("other", NETWORK, NOW).unwrap().id;
    let wallet = wallet(&ledger, "w", std::slice::from_ref(&descriptor));
    assert_eq!(counts(&ledger, wallet), (0, 2));
    // Each payment but the last is out of reach until the one behind it is seen.
    let txs: Vec<NewTx> = [5, 3, 1].iter().map(|index| pays(&descriptor, *index)).collect();
    ledger.apply_block(NETWORK, &block(10), &txs, NOW).unwrap();
    assert_eq!(total(&ledger, wallet), 9_000);
    assert_eq!(counts(&ledger, wallet), (6, 8));
    ledger.apply_block(NETWORK, &block(11), &[pays(&descriptor, 8)], NOW).unwrap();
    assert_eq!(total(&ledger, wallet), 9_000, "beyond what is watched ahead");
    ledger.apply_block(NETWORK, &block(12), &[pays(&descriptor, 7)], NOW).unwrap();
    assert_eq!(total(&ledger, wallet), 16_000);

    let before = counts(&ledger, wallet);
    ledger.disconnect_block(NETWORK, &block(12), NOW).unwrap();
    ledger.disconnect_block(NETWORK, &block(11), NOW).unwrap();
    assert_eq!(counts(&ledger, wallet), before, "an address stays used");
    assert_eq!(total(&ledger, other), 0);
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

fn a_payment_in_the_mempool_widens_one_wallet(url: &str) {
    let ledger = open(url);
    let descriptor = ranged(2);
    let one = wallet(&ledger, "one", std::slice::from_ref(&descriptor));
    let two = wallet(&ledger, "two", std::slice::from_ref(&descriptor));
    let tx = pays(&descriptor, 1);
    ledger.record(one, &tx, Seen::Mempool, &RecordOptions::default(), NOW).unwrap();
    assert_eq!((total(&ledger, one), counts(&ledger, one)), (1_000, (2, 4)));
    assert_eq!((total(&ledger, two), counts(&ledger, two)), (0, (0, 2)));
    // A block is for all wallets; in a batch, order does not matter.
    ledger.apply_block(NETWORK, &block(1), &[tx], NOW).unwrap();
    assert_eq!((total(&ledger, two), counts(&ledger, two)), (1_000, (2, 4)));
    let batch: Vec<(NewTx, Seen)> =
        [5, 3].map(|index| (pays(&descriptor, index), Seen::Mempool)).to_vec();
    ledger.record_batch(two, &batch, NOW).unwrap();
    assert_eq!((total(&ledger, two), counts(&ledger, two)), (9_000, (6, 8)));
}

fn addresses_are_handed_out_once(url: &str) {
    let ledger = open(url);
    let descriptor = ranged(3);
    let wallet = wallet(&ledger, "w", std::slice::from_ref(&descriptor));
    let id = ledger.descriptors(wallet).unwrap()[0].id;
    for index in 0..3 {
        let revealed = ledger.reveal_next_address(wallet, id, NOW).unwrap();
        assert_eq!(revealed.index, index);
        assert_eq!(revealed.script, script(&descriptor, index));
        assert!(revealed.address.unwrap().starts_with("bcrt1"));
    }
    assert_eq!(counts(&ledger, wallet), (3, 6));
    ledger.apply_block(NETWORK, &block(1), &[pays(&descriptor, 5)], NOW).unwrap();
    assert_eq!(ledger.reveal_next_address(wallet, id, NOW).unwrap().index, 6);
    let missing = ledger.reveal_next_address(wallet, 77, NOW);
    assert!(matches!(missing, Err(LedgerError::DescriptorNotFound(77))));

    let single = "wpkh(03a053a329a61c71d2a90bdd6b2b7f11e222332d026c9839893409520112951b1e)";
    let added = ledger.add_descriptor(wallet, &NewDescriptor::new(single), NOW).unwrap();
    let added = added.keychains;
    assert!(!added[0].is_ranged);
    let first = ledger.reveal_next_address(wallet, added[0].id, NOW).unwrap();
    assert_eq!(ledger.reveal_next_address(wallet, added[0].id, NOW).unwrap(), first);
}

fn adding_again_changes_nothing(url: &str) {
    let ledger = open(url);
    let body = ranged(2).text.replace("/0/*", "/<0;1>/*");
    let both = NewDescriptor::new(body.split_once('#').unwrap().0);
    let wallet = wallet(&ledger, "w", &[ranged(2)]);
    let added = ledger.add_descriptor(wallet, &both, NOW).unwrap().keychains;
    assert_eq!(added.iter().map(|each| each.keychain).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((added[0].id, added[0].lookahead), (1, 2), "the first was there already");
    assert_eq!(added[1].derived_count, LOOKAHEAD_DEFAULT);
    assert_eq!(ledger.add_descriptor(wallet, &both, NOW).unwrap().keychains, added);
    assert_eq!(ledger.descriptors(wallet).unwrap(), added);

    let scripts = [script(&both_branch(&added[1].text), 7), vec![0x51]];
    let sources = ledger.script_sources(wallet, &scripts).unwrap();
    assert_eq!(sources.len(), 1);
    assert_eq!((sources[0].index, sources[0].keychain), (7, 1));
    assert_eq!(sources[0].descriptor, added[1].text);
}

fn both_branch(text: &str) -> NewDescriptor {
    NewDescriptor::new(text)
}

fn what_cannot_be_watched_leaves_no_trace(url: &str) {
    let ledger = open(url);
    let wallet = ledger.create_wallet("w", NETWORK, NOW).unwrap().id;
    let secret = "pkh(5KYZdUEo39z3FPrtuX2QbbwGnNP5zTd7yyr2SC1j299sBCnWjss)";
    for text in [secret, "wpkh(nonsense)", "wpkh(xpub)#12345678"] {
        let refused = ledger.add_descriptor(wallet, &NewDescriptor::new(text), NOW);
        assert!(matches!(refused, Err(LedgerError::Codec(_))), "{text}");
    }
    let refused = ledger.add_descriptor(wallet, &ranged(0), NOW);
    assert!(matches!(refused, Err(LedgerError::BadReach(_))));
    assert_eq!(ledger.descriptors(wallet).unwrap(), []);
    assert_eq!(ledger.addresses(wallet, 0, 10).unwrap(), []);
}

fn without_the_formats_of_the_chain_nothing_is_missed(url: &str) {
    let ledger = open(url);
    let descriptor = ranged(2);
    let wallet = wallet(&ledger, "w", std::slice::from_ref(&descriptor));
    let database = Database::open(url, &utxokeep_sql::Options::default()).unwrap();
    let bare = Ledger::open(database, Limits::default(), NOW).unwrap();
    let refused = bare.add_descriptor(wallet, &descriptor, NOW);
    assert!(matches!(refused, Err(LedgerError::NoCodec)));
    // The payment is in reach, but nobody could watch what comes into reach behind it.
    let refused = bare.apply_block(NETWORK, &block(1), &[pays(&descriptor, 1)], NOW);
    assert!(matches!(refused, Err(LedgerError::NoCodec)));
    assert_eq!(bare.tip(NETWORK).unwrap(), None);
    ledger.apply_block(NETWORK, &block(1), &[pays(&descriptor, 1)], NOW).unwrap();
    let again = NewTx { txid: Txid::from_bytes([0x77; 32]), ..pays(&descriptor, 1) };
    let again = NewTx { inputs: vec![OutPoint::new(Txid::from_bytes([0x78; 32]), 0)], ..again };
    bare.apply_block(NETWORK, &block(2), &[again], NOW).unwrap();
    assert_eq!(total(&ledger, wallet), 2_000);
}

fn a_script_that_was_paid_before_counts_as_used(url: &str) {
    let ledger = open(url);
    let descriptor = ranged(2);
    let wallet = ledger.create_wallet("w", NETWORK, NOW).unwrap().id;
    let watched = [1, 3].map(|index| NewAddress {
        script: script(&descriptor, index),
        address: None,
        spend_weight: None,
    });
    ledger.add_addresses(wallet, &watched, NOW).unwrap();
    let txs = [1, 3].map(|index| pays(&descriptor, index));
    ledger.apply_block(NETWORK, &block(1), &txs, NOW).unwrap();
    ledger.add_descriptor(wallet, &descriptor, NOW).unwrap();
    assert_eq!(counts(&ledger, wallet), (4, 6));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

fn the_tables_can_go_and_come_back(url: &str) {
    let ledger = open(url);
    wallet(&ledger, "w", &[ranged(2)]);
    unmigrate(ledger.database(), 1).unwrap();
    migrate(ledger.database(), NOW).unwrap();
    let wallet = ledger.wallet_named("w").unwrap().id;
    assert_eq!(ledger.descriptors(wallet).unwrap(), []);
    ledger.add_descriptor(wallet, &ranged(3), NOW).unwrap();
    assert_eq!(counts(&ledger, wallet), (0, 3));
}

crate::regtest::on_both!(
    one_block_brings_further_scripts_into_reach,
    a_payment_in_the_mempool_widens_one_wallet,
    addresses_are_handed_out_once,
    adding_again_changes_nothing,
    what_cannot_be_watched_leaves_no_trace,
    without_the_formats_of_the_chain_nothing_is_missed,
    a_script_that_was_paid_before_counts_as_used,
    the_tables_can_go_and_come_back,
);
