//! Several clients at the same time.

use std::collections::BTreeSet;

use tonic::Code;
use utxokeep::config::GrpcConfig;
use utxokeep_server::grpc::proto;
use utxokeep_testkit::postgres::TestDatabase;

use crate::wallet_grpc::{
    served::Served,
    world::{balance, coins_for, fund, select},
};

const CLIENTS: usize = 4;
const COINS: usize = 24;

#[test]
fn no_coin_is_given_twice_on_sqlite() {
    share(&Served::sqlite());
}

#[test]
fn no_coin_is_given_twice_on_postgres() {
    let Some(database) = TestDatabase::create_or_skip() else { return };
    share(&Served::start(database.url(), &GrpcConfig::default()));
}

/// Every client takes one coin after the other until there is none left.
fn share(served: &Served) {
    fund(served, &[10_000; COINS]);
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = served.client();
            served.runtime.spawn(async move {
                let mut taken = Vec::new();
                loop {
                    let lease = Some(proto::LeaseTerms::default());
                    let coins = proto::CoinRequest { lease, seed: None, ..coins_for(9_000) };
                    match client.select_coins(select(coins)).await {
                        Ok(answer) => {
                            taken.extend(answer.into_inner().selection.unwrap().coins);
                        }
                        Err(status) => {
                            assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
                            return taken;
                        }
                    }
                }
            })
        })
        .collect();
    let mut taken = Vec::new();
    for task in tasks {
        taken.extend(served.runtime.block_on(task).unwrap());
    }
    assert_eq!(taken.len(), COINS);
    let outputs: BTreeSet<u32> =
        taken.iter().map(|coin| coin.outpoint.as_ref().unwrap().vout).collect();
    assert_eq!(outputs.len(), COINS, "every coin once");
    let has = balance(served);
    assert_eq!((has.available, has.leased), (0, 10_000 * COINS as u64));
}
