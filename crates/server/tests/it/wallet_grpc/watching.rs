//! What a wallet watches over gRPC: options of a known descriptor, freezing, archives, and what was
//! pruned.

use tonic::Code;
use utxokeep_server::grpc::proto;

use crate::wallet_grpc::{
    served::Served,
    world::{ACCOUNT, FIRST, WALLET, apply, balance, block, fund, txid_of},
};

fn name() -> String {
    WALLET.to_owned()
}

/// The descriptor of the wallet once more: keychain, lookahead, next index.
fn add(asked: [Option<u32>; 3]) -> proto::AddDescriptorRequest {
    let descriptor = format!("wpkh({ACCOUNT}/<0;1>/*)");
    let [keychain, lookahead, next_index] = asked;
    proto::AddDescriptorRequest { wallet: name(), descriptor, keychain, lookahead, next_index }
}

#[test]
fn descriptors_take_more_and_coins_freeze() {
    let served = Served::sqlite();
    let funding = fund(&served, &[10_000]);
    for wrong in [[None, Some(9), None], [Some(1), None, None], [None, None, Some(0)]] {
        let status = served.status(served.client().add_descriptor(add(wrong)));
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert_eq!(status.metadata().get("utxokeep-code").unwrap(), "descriptor_differs");
    }
    let added = served.ok(served.client().add_descriptor(add([None, Some(30), None])));
    assert_eq!((added.descriptors[0].lookahead, added.scan_from_height), (30, Some(FIRST)));
    assert_eq!(added.descriptors[0].near_edge, None);

    let outpoint = Some(proto::OutPoint { txid: txid_of(&funding), vout: 0 });
    let request = proto::FreezeCoinRequest { wallet: name(), outpoint: outpoint.clone() };
    served.ok(served.client().freeze_coin(request));
    assert_eq!(balance(&served).held_back, 10_000);
    let request = proto::UnfreezeCoinRequest { wallet: name(), outpoint };
    served.ok(served.client().unfreeze_coin(request));
    assert_eq!(balance(&served).held_back, 0);
}

#[test]
fn wallets_and_keychains_are_archived_and_restored() {
    let served = Served::sqlite();
    fund(&served, &[10_000]);
    let archive = |allow: &[&str]| proto::ArchiveWalletRequest {
        wallet: name(),
        allow: allow.iter().map(ToString::to_string).collect(),
    };
    let status = served.status(served.client().archive_wallet(archive(&[])));
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    let status = served.status(served.client().archive_wallet(archive(&["all"])));
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    served.ok(served.client().archive_wallet(archive(&["coins"])));
    let list = |archived| proto::ListWalletsRequest { archived, ..Default::default() };
    assert!(served.ok(served.client().list_wallets(list(false))).wallets.is_empty());
    let all = served.ok(served.client().list_wallets(list(true))).wallets;
    assert!(all[0].archived_at_us.is_some());
    let next = apply(block(FIRST + 1, 1), Some(block(FIRST, 1)), &[]);
    served.ok(served.client().apply_block(next));
    let archived = balance(&served);
    assert_eq!((archived.tip, archived.archived_height), (None, Some(FIRST)));
    let request = proto::RestoreWalletRequest { wallet: name() };
    let restored = served.ok(served.client().restore_wallet(request));
    assert_eq!(restored.scan_from_height, Some(FIRST + 1));
    let lacking = balance(&served).set_aside.unwrap();
    assert_eq!((lacking.height, lacking.hash), (FIRST + 1, Vec::new()));
    let leases = proto::ListLeasesRequest { wallet: name(), ..Default::default() };
    assert!(served.ok(served.client().list_leases(leases)).set_aside.is_some());
    let again = apply(block(FIRST + 1, 1), Some(block(FIRST, 1)), &[]);
    assert!(served.ok(served.client().apply_block(again)).already_applied);
    assert_eq!(balance(&served).set_aside, None);

    let request =
        proto::ArchiveDescriptorRequest { wallet: name(), descriptor_id: 2, allow: Vec::new() };
    served.ok(served.client().archive_descriptor(request));
    let list = |archived| proto::ListDescriptorsRequest { wallet: name(), archived };
    assert_eq!(served.ok(served.client().list_descriptors(list(false))).descriptors.len(), 1);
    assert_eq!(served.ok(served.client().list_descriptors(list(true))).descriptors.len(), 2);
    let request = proto::RestoreDescriptorRequest { wallet: name(), descriptor_id: 2 };
    let restored = served.ok(served.client().restore_descriptor(request));
    assert_eq!(restored.scan_from_height, None);
}
