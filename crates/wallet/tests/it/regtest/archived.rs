//! Archived wallets and keychains: not followed, not paying, still readable, and whole again after
//! they are restored and scanned.

use utxokeep_core::{Height, Network, wallet::CannotArchive};
use utxokeep_wallet::{
    Amount, ArchiveBlocker, FeeRate, Ledger, LedgerError, NewAddress, NewDescriptor, NewTx,
    RecordOptions, Seen, SelectionRequest, Standing, WalletId,
};

use crate::regtest::{
    chain::{NOW, hd_descriptors, open, wallet},
    descriptors::{block, pays, script, total},
};

const NETWORK: Network = Network::BitcoinRegtest;
const ALL: [ArchiveBlocker; 3] =
    [ArchiveBlocker::Coins, ArchiveBlocker::Unconfirmed, ArchiveBlocker::Leases];

fn descriptor() -> NewDescriptor {
    NewDescriptor { lookahead: Some(20), ..hd_descriptors().remove(0) }
}

fn apply(ledger: &Ledger, height: u8, txs: &[NewTx]) {
    ledger.apply_block(NETWORK, &block(height), txs, NOW).unwrap();
}

/// Two wallets that watch the same; one is going to be archived.
fn two(ledger: &Ledger) -> (WalletId, WalletId) {
    (wallet(ledger, "old", &[descriptor()]), wallet(ledger, "live", &[descriptor()]))
}

fn an_archived_wallet_is_not_followed_and_takes_nothing(url: &str) {
    let ledger = open(url);
    let (old, live) = two(&ledger);
    apply(&ledger, 10, &[]);
    ledger.archive_wallet(old, &[], NOW).unwrap();
    ledger.archive_wallet(old, &[], NOW).unwrap();
    let names = |wallets: Vec<utxokeep_wallet::Wallet>| -> Vec<String> {
        wallets.into_iter().map(|wallet| wallet.name).collect()
    };
    assert_eq!(names(ledger.wallets(None, 10).unwrap()), ["live"]);
    assert_eq!(names(ledger.wallets_and_archived(None, 10).unwrap()), ["old", "live"]);
    apply(&ledger, 11, &[pays(&descriptor(), 3)]);
    assert_eq!((total(&ledger, old), total(&ledger, live)), (0, 3_000));
    let id = ledger.descriptors(old).unwrap()[0].id;
    let options = RecordOptions::default();
    let rate = FeeRate::per_vbyte(1);
    let value = Amount::new(1_000).unwrap();
    let payment = SelectionRequest::new(value, rate, 1);
    let refused = [
        // It gets no blocks, so that its coins may be spent.
        ledger.select(old, &payment, NOW).map(drop),
        ledger.reveal_next_address(old, id, NOW).map(drop),
        ledger.add_descriptor(old, &descriptor(), NOW).map(drop),
        ledger.record(old, &pays(&descriptor(), 4), Seen::Mempool, &options, NOW).map(drop),
        ledger.scan_block(old, &block(11).block, &[], NOW).map(drop),
        ledger.archive_descriptor(old, id, &[], NOW),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(LedgerError::WalletArchived)), "{refused:?}");
    }
    // Its history and its labels stay.
    ledger.set_tx_label(old, &pays(&descriptor(), 3).txid, "late", NOW).unwrap();
    assert_eq!(ledger.verify(old).unwrap(), []);

    assert_eq!(ledger.restore_wallet(old, NOW).unwrap(), Some(Height::new(11)));
    let asked = ledger.requested_rescans(NETWORK).unwrap();
    assert_eq!(asked, [(old, Height::new(11))], "a restored wallet asks for what it lacks");
    lacks_from(&ledger, old, 11);
    apply(&ledger, 12, &[]);
    lacks_from(&ledger, old, 11);
    ledger.scan_block(old, &block(11).block, &[pays(&descriptor(), 3)], NOW).unwrap();
    assert_eq!(total(&ledger, old), total(&ledger, live));
    ledger.scan_block(old, &block(12).block, &[], NOW).unwrap();
    assert_eq!(ledger.standing(old).unwrap(), Standing::default(), "it has every block");
    assert!(!matches!(pay(&ledger, old), Err(LedgerError::NotRescanned { .. })));
    assert_eq!(ledger.restore_wallet(old, NOW).unwrap(), None);
    apply(&ledger, 13, &[pays(&descriptor(), 5)]);
    assert_eq!(total(&ledger, old), 8_000, "it is followed again");
}

fn pay(ledger: &Ledger, wallet: WalletId) -> Result<(), LedgerError> {
    let request = SelectionRequest::new(Amount::new(1_000).unwrap(), FeeRate::per_vbyte(1), 1);
    ledger.select(wallet, &request, NOW).map(drop)
}

/// Until a restored wallet has looked at what passed meanwhile, it counts as set aside.
fn lacks_from(ledger: &Ledger, wallet: WalletId, height: u32) {
    let standing = ledger.standing(wallet).unwrap();
    let aside = standing.set_aside.unwrap();
    assert_eq!((aside.height.get(), aside.hash), (height, None));
    assert_eq!(standing.rescan.unwrap().next.get(), height);
    assert!(ledger.lagging_wallets(None, 10).unwrap().iter().any(|each| each.wallet == wallet));
    let refused = pay(ledger, wallet).unwrap_err();
    assert!(matches!(refused, LedgerError::NotRescanned { next, .. } if next.get() == height));
}

/// A rescan that was under way when the wallet was archived does not make it whole.
fn a_rescan_from_before_the_archive_does_not_hide_what_is_lacking(url: &str) {
    let ledger = open(url);
    let (old, _) = two(&ledger);
    apply(&ledger, 10, &[]);
    ledger.request_rescan(old, Height::new(10), NOW).unwrap();
    pay(&ledger, old).map(drop).unwrap_err();
    ledger.archive_wallet(old, &[], NOW).unwrap();
    apply(&ledger, 11, &[pays(&descriptor(), 3)]);
    assert_eq!(ledger.restore_wallet(old, NOW).unwrap(), Some(Height::new(11)));
    lacks_from(&ledger, old, 10);
    ledger.disconnect_block(NETWORK, &block(11), NOW).unwrap();
    ledger.scan_block(old, &block(10).block, &[], NOW).unwrap();
    assert_eq!(ledger.standing(old).unwrap(), Standing::default());
}

fn what_it_still_has_must_be_allowed_by_name(url: &str) {
    let ledger = open(url);
    let (old, _) = two(&ledger);
    apply(&ledger, 10, &[pays(&descriptor(), 3)]);
    let options = RecordOptions::default();
    ledger.record(old, &pays(&descriptor(), 4), Seen::Mempool, &options, NOW).unwrap();
    let id = ledger.descriptors(old).unwrap()[0].id;
    let refused = ledger.archive_wallet(old, &[ArchiveBlocker::Coins], NOW).unwrap_err();
    let LedgerError::CannotArchive(CannotArchive(facts)) = refused else { panic!("{refused}") };
    assert_eq!((facts.coins, facts.unconfirmed, facts.leases), (2, 1, 0));
    let refused = ledger.archive_descriptor(old, id, &[], NOW).unwrap_err();
    let LedgerError::CannotArchive(CannotArchive(facts)) = refused else { panic!("{refused}") };
    assert_eq!((facts.coins, facts.unconfirmed, facts.leases), (2, 1, 0));
    assert_eq!(ledger.wallets(None, 10).unwrap().len(), 2);
    ledger.archive_wallet(old, &ALL, NOW).unwrap();
    assert_eq!(total(&ledger, old), 7_000, "nothing of it is lost");
    assert_eq!(ledger.restore_wallet(old, NOW).unwrap(), None, "no block has passed");
}

/// Blocks that took the place of others were not looked at either.
fn a_reorganisation_moves_down_where_to_scan_from(url: &str) {
    let ledger = open(url);
    let (old, live) = two(&ledger);
    apply(&ledger, 10, &[]);
    apply(&ledger, 11, &[pays(&descriptor(), 3)]);
    let id = ledger.descriptors(live).unwrap()[0].id;
    ledger.archive_wallet(old, &ALL, NOW).unwrap();
    ledger.archive_descriptor(live, id, &ALL, NOW).unwrap();
    ledger.disconnect_block(NETWORK, &block(11), NOW).unwrap();
    apply(&ledger, 11, &[pays(&descriptor(), 6)]);
    for scan_from in [
        ledger.restore_wallet(old, NOW).unwrap(),
        ledger.restore_descriptor(live, id, NOW).unwrap(),
    ] {
        assert_eq!(scan_from, Some(Height::new(11)));
    }
    for wallet in [old, live] {
        let txs = [pays(&descriptor(), 6)];
        ledger.scan_block(wallet, &block(11).block, &txs, NOW).unwrap();
        assert_eq!(total(&ledger, wallet), 9_000, "3 waits in the mempool, 6 is in the block");
        assert_eq!(ledger.verify(wallet).unwrap(), []);
    }
}

fn an_archived_keychain_is_not_watched_and_hands_out_nothing(url: &str) {
    let ledger = open(url);
    let (one, _) = two(&ledger);
    apply(&ledger, 10, &[pays(&descriptor(), 3)]);
    let id = ledger.descriptors(one).unwrap()[0].id;
    ledger.archive_descriptor(one, id, &ALL, NOW).unwrap();
    assert_eq!(ledger.descriptors(one).unwrap(), []);
    assert_eq!(ledger.descriptors_and_archived(one).unwrap().len(), 1);
    apply(&ledger, 11, &[pays(&descriptor(), 4)]);
    assert_eq!(total(&ledger, one), 3_000, "what it had stays, what comes is not watched");
    for refused in [
        ledger.reveal_next_address(one, id, NOW).map(drop),
        ledger.add_descriptor(one, &descriptor(), NOW).map(drop),
    ] {
        assert!(matches!(refused, Err(LedgerError::DescriptorArchived(_))), "{refused:?}");
    }
    assert_eq!(ledger.verify(one).unwrap(), []);
    assert_eq!(ledger.restore_descriptor(one, id, NOW).unwrap(), Some(Height::new(11)));
    lacks_from(&ledger, one, 11);
    ledger.scan_block(one, &block(11).block, &[pays(&descriptor(), 4)], NOW).unwrap();
    assert_eq!(total(&ledger, one), 7_000);
    assert_eq!(ledger.verify(one).unwrap(), []);
}

fn change_never_goes_to_an_archived_keychain(url: &str) {
    let ledger = open(url);
    let change = NewDescriptor { keychain: Some(1), ..descriptor() };
    let wallet = wallet(&ledger, "w", &[change]);
    let id = ledger.next_change(wallet).unwrap()[0].descriptor;
    ledger.archive_descriptor(wallet, id, &[], NOW).unwrap();
    assert_eq!(ledger.next_change(wallet).unwrap(), []);
    ledger.restore_descriptor(wallet, id, NOW).unwrap();
    assert_eq!(ledger.next_change(wallet).unwrap().len(), 1);
}

/// Whether it was added before the descriptor or after.
fn an_address_that_was_added_by_hand_stays_watched(url: &str) {
    let ledger = open(url);
    let by_hand = |index| NewAddress {
        script: script(&descriptor(), index),
        address: None,
        spend_weight: None,
    };
    let one = wallet(&ledger, "w", &[]);
    ledger.add_addresses(one, &[by_hand(3)], NOW).unwrap();
    ledger.add_descriptor(one, &descriptor(), NOW).unwrap();
    ledger.add_addresses(one, &[by_hand(4)], NOW).unwrap();
    let id = ledger.descriptors(one).unwrap()[0].id;
    ledger.archive_descriptor(one, id, &[], NOW).unwrap();
    apply(&ledger, 10, &[3, 4, 5].map(|index| pays(&descriptor(), index)));
    assert_eq!(total(&ledger, one), 7_000, "all but what only the descriptor had");
    assert_eq!(ledger.verify(one).unwrap(), []);
    ledger.restore_descriptor(one, id, NOW).unwrap();
    assert_eq!(ledger.reveal_next_address(one, id, NOW).unwrap().index, 5, "4 was paid");
    assert_eq!(ledger.verify(one).unwrap(), []);
}

crate::regtest::on_both!(
    a_rescan_from_before_the_archive_does_not_hide_what_is_lacking,
    an_address_that_was_added_by_hand_stays_watched,
    change_never_goes_to_an_archived_keychain,
    an_archived_wallet_is_not_followed_and_takes_nothing,
    what_it_still_has_must_be_allowed_by_name,
    a_reorganisation_moves_down_where_to_scan_from,
    an_archived_keychain_is_not_watched_and_hands_out_nothing,
);
