//! Lists in pages.

use tonic::{Code, Response, Status};
use utxokeep::config::GrpcConfig;
use utxokeep_server::grpc::proto;

use crate::wallet_grpc::{
    served::Served,
    world::{WALLET, coins_for, create, fund, select},
};

/// Reads a list in pages of two, and gives its entries in order.
fn all_pages<T, R, F>(
    served: &Served,
    ask: impl Fn(Option<String>) -> F,
    split: impl Fn(R) -> (Vec<T>, Option<String>),
) -> Vec<T>
where
    F: Future<Output = Result<Response<R>, Status>>,
{
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let (entries, next) = split(served.ok(ask(cursor)));
        assert!(entries.len() <= 2);
        assert!(next.is_none() || entries.len() == 2, "only the last page is short");
        all.extend(entries);
        let Some(next) = next else { return all };
        cursor = Some(next);
    }
}

#[test]
fn every_list_is_read_completely_and_once() {
    let served = Served::sqlite();
    fund(&served, &[50_000, 10_000, 40_000, 20_000, 30_000]);
    for number in 0..4 {
        served.ok(served.client().create_wallet(create(&format!("other {number}"))));
    }
    let (wallet, page_entries) = (|| WALLET.to_owned(), Some(2));

    let ask = |cursor| async {
        served
            .client()
            .list_wallets(proto::ListWalletsRequest { cursor, page_entries, archived: false })
            .await
    };
    let wallets = all_pages(&served, ask, |page: proto::ListWalletsResponse| {
        (page.wallets, page.next_cursor)
    });
    let names: Vec<_> = wallets.iter().map(|each| each.name.as_str()).collect();
    assert_eq!(names, [WALLET, "other 0", "other 1", "other 2", "other 3"]);

    let ask = |cursor| async {
        let request = proto::ListCoinsRequest {
            wallet: wallet(),
            cursor,
            page_entries,
            ..proto::ListCoinsRequest::default()
        };
        served.client().list_coins(request).await
    };
    let coins =
        all_pages(&served, ask, |page: proto::ListCoinsResponse| (page.coins, page.next_cursor));
    let amounts: Vec<_> = coins.iter().map(|coin| coin.amount).collect();
    assert_eq!(amounts, [10_000, 20_000, 30_000, 40_000, 50_000]);

    let ask = |cursor| async {
        let request = proto::ListAddressesRequest { wallet: wallet(), cursor, page_entries };
        served.client().list_addresses(request).await
    };
    let addresses = all_pages(&served, ask, |page: proto::ListAddressesResponse| {
        (page.addresses, page.next_cursor)
    });
    assert!(addresses.len() >= 20, "two keychains, ten ahead each");
    assert!(addresses.is_sorted_by(|a, b| a.id < b.id));

    let lease = Some(proto::LeaseTerms::default());
    let coins = proto::CoinRequest { lease, ..coins_for(145_000) };
    served.ok(served.client().select_coins(select(coins)));
    let ask = |cursor| async {
        let request = proto::ListLeasesRequest { wallet: wallet(), cursor, page_entries };
        served.client().list_leases(request).await
    };
    let leases =
        all_pages(&served, ask, |page: proto::ListLeasesResponse| (page.leases, page.next_cursor));
    assert_eq!(leases.iter().map(|lease| lease.amount).sum::<u64>(), 150_000);

    let ask = |cursor| async {
        let request = proto::ListTransactionsRequest {
            wallet: wallet(),
            cursor,
            page_entries,
            ..proto::ListTransactionsRequest::default()
        };
        served.client().list_transactions(request).await
    };
    let history = all_pages(&served, ask, |page: proto::ListTransactionsResponse| {
        (page.transactions, page.next_cursor)
    });
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].received, history[0].delta), (150_000, 150_000));
}

#[test]
fn pages_are_limited_and_cursors_checked() {
    let config = GrpcConfig { page_entries_max: 3.try_into().unwrap(), ..GrpcConfig::default() };
    let served = Served::sqlite_with(&config);
    fund(&served, &[10_000, 20_000, 30_000, 40_000]);
    let ask = |cursor: Option<&str>, page_entries| proto::ListCoinsRequest {
        wallet: WALLET.to_owned(),
        cursor: cursor.map(str::to_owned),
        page_entries,
        ..proto::ListCoinsRequest::default()
    };
    let page = served.ok(served.client().list_coins(ask(None, None)));
    assert_eq!(page.coins.len(), 3, "the most that the server allows");
    let rest = served.ok(served.client().list_coins(ask(page.next_cursor.as_deref(), Some(3))));
    assert_eq!((rest.coins.len(), rest.next_cursor), (1, None));
    for (wrong, expected) in [
        (ask(None, Some(0)), "page_entries: is 0, from 1 to 3"),
        (ask(None, Some(4)), "page_entries: is 4, from 1 to 3"),
        (ask(Some("nonsense"), None), "cursor: "),
    ] {
        let status = served.status(served.client().list_coins(wrong));
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().starts_with(expected), "{expected}: {status}");
    }
}
