//! A watch-only wallet that follows the chain: `example-wallet BLOCKS DIR ADDRESS`.

#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::{env, error::Error, path::PathBuf, thread, time::Duration};

use utxokeep::{
    config::Config,
    engine::Engine,
    wallets::{AddAddresses, BalanceOf, CreateWallet, WatchAddress},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let mut next = |name| args.next().ok_or(format!("{name} is missing: BLOCKS DIR ADDRESS"));
    let (blocks, dir, address) = (next("BLOCKS")?, PathBuf::from(next("DIR")?), next("ADDRESS")?);

    let mut config = Config::default();
    config.chain.network = "regtest".into();
    config.storage.data = dir.join("chain");
    config.wallet.url = format!("sqlite:{}", dir.join("ledger").display());
    // The ledger reads bodies of blocks; the chain index does not keep them.
    config.wallet.blocks.clone_from(&blocks);

    let mut engine = Engine::open(&config)?;
    engine.import(&[PathBuf::from(blocks)])?;

    let wallets = engine.wallets().ok_or("the configuration names a ledger")?.clone();
    wallets.create_wallet(&CreateWallet {
        name: "savings".to_owned(),
        chain: "bitcoin".to_owned(),
        network: "regtest".to_owned(),
        birthday_height: None,
    })?;
    wallets.add_addresses(&AddAddresses {
        wallet: "savings".to_owned(),
        addresses: vec![WatchAddress { address, spend_weight: None }],
        spend_weight: None,
    })?;

    // From here on the ledger follows the chain on a thread of its own.
    engine.start()?;
    let (tip, _) = engine.index().and_then(|index| index.view().ok()?.tip()).ok_or("no block")?;
    let of = BalanceOf { wallet: "savings".to_owned(), ..BalanceOf::default() };
    let balance = loop {
        let balance = wallets.balance(&of)?;
        if balance.tip.as_ref().is_some_and(|ledger| ledger.height == tip.get()) {
            break balance;
        }
        thread::sleep(Duration::from_millis(20));
    };
    println!("confirmed {} at height {tip}", balance.confirmed.0);
    Ok(engine.stop()?)
}
