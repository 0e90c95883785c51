//! What is refused, with which status, word and figures; and that nothing changes.

use tonic::{Code, Status};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use utxokeep::config::GrpcConfig;
use utxokeep_server::grpc::{proto, services::wallets_server::SERVICE_NAME};
use utxokeep_sql::{Database, Options, SqlError};
use utxokeep_testkit::postgres::TestDatabase;

use crate::wallet_grpc::{
    served::Served,
    world::{FIRST, WALLET, apply, balance, block, coins_for, create, fund, payment, select},
};

/// A figure or word that goes with a status.
fn about<'s>(status: &'s Status, key: &str) -> Option<&'s str> {
    status.metadata().get(key).map(|value| value.to_str().unwrap())
}

fn assert_refused(status: &Status, code: Code, word: &str) {
    assert_eq!(status.code(), code, "{status}");
    assert_eq!(about(status, "utxokeep-code"), Some(word), "{status}");
    assert!(!status.message().is_empty());
}

fn balance_of(wallet: &str) -> proto::GetBalanceRequest {
    let wallet = wallet.to_owned();
    proto::GetBalanceRequest { wallet, ..proto::GetBalanceRequest::default() }
}

#[test]
fn each_kind_has_its_status_and_a_word() {
    let served = Served::sqlite();
    fund(&served, &[10_000]);
    let client = || served.client();
    let unknown = served.status(client().get_balance(balance_of("nobody")));
    assert_refused(&unknown, Code::NotFound, "unknown_wallet");
    let again = served.status(client().create_wallet(create(WALLET)));
    assert_refused(&again, Code::AlreadyExists, "wallet_exists");
    let elsewhere = proto::CreateWalletRequest { network: "moon".to_owned(), ..create("other") };
    let elsewhere = served.status(client().create_wallet(elsewhere));
    assert_refused(&elsewhere, Code::InvalidArgument, "unknown_network");
    let gap = apply(block(FIRST + 2, 1), Some(block(FIRST + 1, 1)), &[]);
    let gap = served.status(client().apply_block(gap));
    assert_refused(&gap, Code::FailedPrecondition, "not_next_block");
    let watch = proto::AddAddressesRequest {
        wallet: WALLET.to_owned(),
        addresses: vec![proto::WatchAddress {
            owner: Some(proto::watch_address::Owner::Address("bcrt1wrong".to_owned())),
            spend_weight: None,
        }],
    };
    let address = served.status(client().add_addresses(watch));
    assert_refused(&address, Code::InvalidArgument, "bad_address");
    let raw = apply(block(FIRST + 1, 1), Some(block(FIRST, 1)), &[vec![1, 2, 3]]);
    let raw = served.status(client().apply_block(raw));
    assert_refused(&raw, Code::InvalidArgument, "bad_request");
    assert_eq!(balance(&served).tip.unwrap().height, FIRST);
}

#[test]
fn who_is_short_of_funds_learns_the_figures() {
    let served = Served::sqlite();
    fund(&served, &[10_000, 20_000]);
    let lease = Some(proto::LeaseTerms::default());
    let coins = proto::CoinRequest { lease, ..coins_for(15_000) };
    served.ok(served.client().select_coins(select(coins.clone())));
    let poor = served.status(served.client().select_coins(select(coins)));
    assert_refused(&poor, Code::FailedPrecondition, "insufficient_funds");
    let leased = balance(&served).leased;
    assert!(leased >= 20_000, "what the first selection took");
    assert_eq!(about(&poor, "utxokeep-available"), Some((30_000 - leased).to_string().as_str()));
    assert_eq!(about(&poor, "utxokeep-leased"), Some(leased.to_string().as_str()));
    assert!(about(&poor, "utxokeep-needed").unwrap().parse::<u64>().unwrap() > 15_000);
    for key in ["utxokeep-immature", "utxokeep-pending", "utxokeep-uneconomic", "utxokeep-excluded"]
    {
        assert_eq!(about(&poor, key), Some("0"), "{key}");
    }
    assert_eq!(balance(&served).leased, leased, "the first selection alone");
}

#[test]
fn a_guard_refuses_by_name_and_is_allowed_by_name() {
    let served = Served::sqlite();
    fund(&served, &[10_000, 20_000]);
    let allow = |allow: &[&str]| proto::CoinRequest {
        fee_per_kilo_weight: Some(0),
        allow: allow.iter().map(ToString::to_string).collect(),
        ..coins_for(5_000)
    };
    let free = served.status(served.client().select_coins(select(allow(&["dust"]))));
    assert_refused(&free, Code::FailedPrecondition, "guarded");
    assert_eq!(about(&free, "utxokeep-guard"), Some("fee_rate_min"));
    assert_eq!(about(&free, "utxokeep-figure"), Some("0"));
    assert_eq!(about(&free, "utxokeep-bound"), Some("1"));
    let unknown = served.status(served.client().select_coins(select(allow(&["everything"]))));
    assert_refused(&unknown, Code::InvalidArgument, "bad_request");
    let allowed = served.ok(served.client().select_coins(select(allow(&["fee_rate_min"]))));
    assert_eq!(allowed.selection.unwrap().fee, 0, "what was asked for");
}

#[test]
#[allow(clippy::too_many_lines, reason = "one list of what can be wrong")]
fn what_breaks_the_contract_is_named_by_its_place() {
    let served = Served::sqlite();
    fund(&served, &[10_000]);
    let client = || served.client();
    let name = || WALLET.to_owned();
    let short = || vec![7; 31];
    let pay = |outputs| proto::CreatePsbtRequest {
        wallet: name(),
        payment: Some(proto::CoinRequest { outputs, value: None, ..coins_for(0) }),
        ..proto::CreatePsbtRequest::default()
    };
    let statuses = [
        (
            served.status(
                client().get_transaction(proto::GetTransactionRequest {
                    wallet: name(),
                    txid: short(),
                }),
            ),
            "txid: 31 bytes, 32 are expected",
        ),
        (
            served.status(
                client().get_coin(proto::GetCoinRequest { wallet: name(), outpoint: None }),
            ),
            "outpoint: is missing",
        ),
        (
            served.status(client().add_addresses(proto::AddAddressesRequest {
                wallet: name(),
                addresses: vec![proto::WatchAddress::default()],
            })),
            "addresses[0].owner: is missing",
        ),
        (
            served.status(client().acquire_leases(proto::AcquireLeasesRequest {
                wallet: name(),
                outpoints: vec![proto::OutPoint { txid: short(), vout: 0 }],
                terms: None,
                idempotency_key: None,
            })),
            "outpoints[0].txid: 31 bytes",
        ),
        (
            served.status(client().release_leases(proto::ReleaseLeasesRequest {
                wallet: name(),
                ..proto::ReleaseLeasesRequest::default()
            })),
            "owner: 0 bytes",
        ),
        (
            served.status(client().select_coins(proto::SelectCoinsRequest {
                wallet: name(),
                coins: None,
                idempotency_key: None,
            })),
            "coins: is missing",
        ),
        (
            served.status(client().select_coins(select(proto::CoinRequest {
                fee_per_kilo_weight: None,
                ..coins_for(1)
            }))),
            "coins.fee_per_kilo_weight: is missing",
        ),
        (
            served.status(
                client().select_coins(select(proto::CoinRequest { algorithm: 99, ..coins_for(1) })),
            ),
            "coins.algorithm: is 99",
        ),
        (
            served.status(client().create_psbt(pay(vec![
                payment(1),
                proto::WalletPayment { owner: None, amount: 1 },
            ]))),
            "payment.outputs[1].owner: is missing",
        ),
        (
            served.status(client().bump_fee(proto::BumpFeeRequest {
                wallet: name(),
                txid: vec![1; 32],
                ..proto::BumpFeeRequest::default()
            })),
            "fee_per_kilo_weight: is missing",
        ),
        (
            served.status(client().record_transaction(proto::RecordTransactionRequest {
                wallet: name(),
                ..proto::RecordTransactionRequest::default()
            })),
            "transaction: is missing",
        ),
        (
            served.status(client().apply_block(proto::ApplyBlockRequest {
                parent: Some(short()),
                ..apply(block(FIRST + 1, 1), None, &[])
            })),
            "parent: 31 bytes",
        ),
        (
            served.status(client().roll_back(proto::RollBackRequest {
                network: "regtest".to_owned(),
                ..proto::RollBackRequest::default()
            })),
            "from_height: is missing",
        ),
        (
            served.status(client().prune_wallet(proto::PruneWalletRequest {
                wallet: name(),
                dead_older_than_secs: Some(0),
                txs_max: Some(0),
                ..proto::PruneWalletRequest::default()
            })),
            "txs_max: is 0, from 1 to",
        ),
    ];
    for (status, expected) in statuses {
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().starts_with(expected), "{expected}: {status}");
        assert!(status.message().ends_with("; nothing was changed"), "{status}");
    }
    assert_eq!(balance(&served).available, 10_000);
}

#[test]
fn messages_are_limited_both_ways() {
    let config = GrpcConfig { message_mib_max: 1.try_into().unwrap(), ..GrpcConfig::default() };
    let served = Served::sqlite_with(&config);
    fund(&served, &[10_000]);
    let lines = "x".repeat(2 << 20);
    let request = proto::ImportLabelsRequest { wallet: WALLET.to_owned(), lines };
    let status = served.status(served.client().import_labels(request));
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
}

fn health(served: &Served) -> i32 {
    let request = HealthCheckRequest { service: SERVICE_NAME.to_owned() };
    served.ok(HealthClient::new(served.channel()).check(request)).status
}

#[test]
fn a_database_that_is_gone_is_unavailable() {
    let Some(database) = TestDatabase::create_or_skip() else { return };
    let served = Served::start(database.url(), &GrpcConfig::default());
    served.ok(served.client().create_wallet(create(WALLET)));
    assert_eq!(health(&served), i32::from(ServingStatus::Serving));
    drop(database);
    let gone = served.status(served.client().get_balance(balance_of(WALLET)));
    assert_refused(&gone, Code::Unavailable, "database");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while health(&served) != i32::from(ServingStatus::NotServing) {
        assert!(std::time::Instant::now() < deadline, "the health service does not know");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn a_damaged_database_is_an_internal_error() {
    let served = Served::sqlite();
    fund(&served, &[10_000]);
    let database = Database::open(&served.url, &Options::default()).unwrap();
    let dropped: Result<(), SqlError> = database.write(|tx| tx.execute_batch("DROP TABLE labels"));
    dropped.unwrap();
    let request = proto::ExportLabelsRequest { wallet: WALLET.to_owned() };
    let status = served.status(served.client().export_labels(request));
    assert_refused(&status, Code::Internal, "database");
}
