//! A wallet that is set aside, and how it comes back.

use tonic::Code;
use utxokeep_server::grpc::proto;

use crate::wallet_grpc::{
    served::Served,
    world::{
        FIRST, WALLET, apply, balance, block, coins_for, create, make_wallet, next_address, raw_tx,
        select, txid_of,
    },
};

fn show(served: &Served) -> proto::Wallet {
    let request = proto::GetWalletRequest { wallet: WALLET.to_owned() };
    served.ok(served.client().get_wallet(request)).wallet.unwrap()
}

fn rescan(from_height: Option<u32>) -> proto::RescanWalletRequest {
    proto::RescanWalletRequest { wallet: WALLET.to_owned(), from_height }
}

/// The wallet knows a coinbase as orphaned; the ledger starts again above its block.
#[test]
fn a_wallet_that_is_set_aside_says_so_and_can_be_rescanned() {
    let served = Served::sqlite();
    let keychains = make_wallet(&served);
    let script = next_address(&served, keychains[0].id).script;
    let mut coinbase = raw_tx(0, &[(50_000, &script)]);
    coinbase[37..41].fill(0xff);
    let mut spend = raw_tx(0, &[(40_000, &script)]);
    spend[5..37].copy_from_slice(&txid_of(&coinbase));

    let client = || served.client();
    served.ok(client().apply_block(apply(block(FIRST, 1), None, &[coinbase])));
    let network = "regtest".to_owned();
    let all = proto::RollBackRequest {
        network,
        from_height: Some(0),
        ..proto::RollBackRequest::default()
    };
    served.ok(client().roll_back(all));
    let above = apply(block(FIRST + 1, 1), Some(block(FIRST, 1)), &[]);
    assert_eq!(served.ok(client().apply_block(above)).set_aside, [""; 0]);
    served.ok(client().create_wallet(create("other")));
    let failing = apply(block(FIRST + 2, 1), Some(block(FIRST + 1, 1)), &[spend]);
    assert_eq!(served.ok(client().apply_block(failing)).set_aside, [WALLET]);

    let aside = show(&served).set_aside.unwrap();
    assert_eq!((aside.height, &aside.hash), (FIRST + 2, &block(FIRST + 2, 1).hash));
    assert!(aside.reason.contains("orphaned"), "{}", aside.reason);
    assert_eq!(balance(&served).set_aside.as_ref(), Some(&aside));
    let coins =
        proto::ListCoinsRequest { wallet: WALLET.to_owned(), ..proto::ListCoinsRequest::default() };
    assert_eq!(served.ok(client().list_coins(coins)).set_aside.as_ref(), Some(&aside));
    let history = proto::ListTransactionsRequest {
        wallet: WALLET.to_owned(),
        ..proto::ListTransactionsRequest::default()
    };
    assert_eq!(served.ok(client().list_transactions(history)).set_aside.as_ref(), Some(&aside));
    let wallets = served.ok(client().list_wallets(proto::ListWalletsRequest::default())).wallets;
    let lagging: Vec<bool> = wallets.iter().map(|each| each.set_aside.is_some()).collect();
    assert_eq!(lagging, [true, false]);
    let refused = served.status(client().select_coins(select(coins_for(1_000))));
    let word = refused.metadata().get("utxokeep-code").unwrap().to_str().unwrap();
    assert_eq!((refused.code(), word), (Code::FailedPrecondition, "wallet_set_aside"));

    let high = served.status(client().rescan_wallet(rescan(Some(FIRST + 3))));
    assert_eq!(high.code(), Code::FailedPrecondition, "{high}");
    // Where it failed, unless something lower is asked for.
    let asked = served.ok(client().rescan_wallet(rescan(None))).rescan.unwrap();
    assert_eq!((asked.from_height, asked.next_height), (FIRST + 2, FIRST + 2));
    let asked = served.ok(client().rescan_wallet(rescan(Some(FIRST)))).rescan.unwrap();
    assert_eq!((asked.from_height, asked.next_height), (FIRST, FIRST));
    assert_eq!(show(&served).rescan, Some(asked));
    assert_eq!(balance(&served).rescan, Some(asked));
}

#[test]
fn a_rescan_starts_at_the_birthday_or_at_the_first_block_of_the_ledger() {
    let served = Served::sqlite();
    make_wallet(&served);
    let refused = served.status(served.client().rescan_wallet(rescan(None)));
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_eq!(show(&served).rescan, None);
    served.ok(served.client().apply_block(apply(block(FIRST, 1), None, &[])));
    let above = apply(block(FIRST + 1, 1), Some(block(FIRST, 1)), &[]);
    served.ok(served.client().apply_block(above));
    let asked = served.ok(served.client().rescan_wallet(rescan(None))).rescan.unwrap();
    assert_eq!((asked.from_height, asked.next_height), (FIRST, FIRST));
    let born = |name: &str, height| proto::CreateWalletRequest {
        birthday_height: Some(height),
        ..create(name)
    };
    served.ok(served.client().create_wallet(born("young", FIRST + 1)));
    let young = proto::RescanWalletRequest { wallet: "young".to_owned(), from_height: None };
    let asked = served.ok(served.client().rescan_wallet(young)).rescan.unwrap();
    assert_eq!((asked.from_height, asked.next_height), (FIRST + 1, FIRST + 1));
    let refused = served.status(served.client().create_wallet(born("unborn", FIRST + 2)));
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
}
