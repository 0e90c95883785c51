//! The wallet ledger: ingest, balance, selection with leases, opening and undoing, beside the floor
//! of bare statements on the same tables.

mod floor;
mod history;
mod leases;
mod made;
mod quality;

use std::{path::Path, time::Duration};

use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_wallet::BalanceQuery;

use self::{
    floor::Rows,
    made::{Made, NOW},
};
use crate::{
    clock::{Clock, Took},
    output,
};

/// Sizes of a full measurement, in coins.
pub(crate) const SIZES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// Larger wallets are filled with fewer transactions that make more coins, to be done in time.
const LONG_HISTORY_COINS_MAX: u64 = 100_000;
/// Blocks that are written in turn by the ledger and bare.
const TURNS: u32 = 10;
/// Calls of one balance.
const BALANCES: u32 = 5;
/// Blocks that are taken back.
const UNDONE: u32 = 6;

/// Measures wallets of these sizes on both engines.
pub(crate) fn measure(dir: &Path, sizes: &[u64]) -> anyhow::Result<()> {
    measure_sqlite(dir, sizes)?;
    measure_postgres(sizes)?;
    quality::measure(dir)
}

fn measure_sqlite(dir: &Path, sizes: &[u64]) -> anyhow::Result<()> {
    output::heading("wallet ledger on SQLite");
    for coins in sizes {
        let file = dir.join(format!("wallet-{coins}.db"));
        let fsync = [("fsync off", false), ("fsync on", true)];
        measure_size(&format!("sqlite:{}", file.display()), *coins, &fsync)?;
        for end in ["", "-wal", "-shm"] {
            // The last two go when the database is closed.
            let _ = std::fs::remove_file(format!("{}{end}", file.display()));
        }
    }
    Ok(())
}

fn measure_postgres(sizes: &[u64]) -> anyhow::Result<()> {
    output::heading("wallet ledger on PostgreSQL");
    for coins in sizes {
        let database = TestDatabase::create()?;
        measure_size(database.url(), *coins, &[("fsync off", true)])?;
    }
    Ok(())
}

/// `durabilities` are names and settings; the server for tests never syncs.
fn measure_size(url: &str, coins: u64, durabilities: &[(&str, bool)]) -> anyhow::Result<()> {
    let payments = (coins / 10).clamp(50, 2_000);
    let addresses = u32::try_from(coins / 10)?.clamp(10, 10_000);
    let mut made = Made::new(url, addresses)?;
    fill(&mut made, coins, payments)?;
    for (name, fsync) in durabilities {
        (made, _) = made.reopen(*fsync)?;
        let what = format!("{coins} coins, {name}");
        measure_blocks(&mut made, &what, payments)?;
        for clients in [1, 8] {
            leases::measure(&made, &what, coins, clients)?;
        }
    }
    measure_balance(&made, coins)?;
    let (reopened, opened) = made.reopen(false)?;
    made = reopened;
    let first = Clock::start();
    made.ledger.balance(made.wallet, &BalanceQuery::default(), NOW)?;
    output::line(&format!(
        "{coins} coins: opened again in {opened:.2?}, first balance {}",
        first.stop()
    ));
    let undo = Clock::start();
    made.roll_back(UNDONE)?;
    let undo = undo.stop();
    let verify = Clock::start();
    let violations = made.ledger.verify(made.wallet)?;
    anyhow::ensure!(violations.is_empty(), "the ledger breaks its rules: {violations:?}");
    output::line(&format!(
        "{coins} coins: {UNDONE} blocks of {payments} payments taken back, {undo}; verify, {}",
        verify.stop()
    ));
    Ok(())
}

/// The whole history, block by block, fsync off.
fn fill(made: &mut Made, coins: u64, payments: u64) -> anyhow::Result<()> {
    let coins_each = if coins > LONG_HISTORY_COINS_MAX { 10 } else { 2 };
    let mut spent = Took { wall: Duration::ZERO, cpu_seconds: 0.0 };
    let mut count = 0;
    for _ in 0..coins.div_ceil(payments * u64::from(coins_each - 1)) {
        let (block, txs) = made.next_block(payments, coins_each);
        count += txs.len() as u64;
        let clock = Clock::start();
        made.apply(&block, &txs)?;
        spent = add(spent, clock.stop());
    }
    let mut single = Vec::new();
    for _ in 0..(coins / 100).min(1_000) {
        single.push(made.record_next()?);
    }
    output::line(&format!(
        "{coins} coins, fsync off: {count} transactions of {coins_each} coins in blocks of \
         {payments}, {spent}, {} by wall, {} by CPU; one without a block {}",
        output::per_second(count, spent.seconds()),
        output::per_second(count, spent.cpu_seconds),
        output::percentiles(single)
    ));
    Ok(())
}

fn add(one: Took, other: Took) -> Took {
    Took { wall: one.wall + other.wall, cpu_seconds: one.cpu_seconds + other.cpu_seconds }
}

/// Blocks by the ledger and bare, in turn, so that both meet tables of the same size.
fn measure_blocks(made: &mut Made, what: &str, payments: u64) -> anyhow::Result<()> {
    let zero = Took { wall: Duration::ZERO, cpu_seconds: 0.0 };
    let (mut own, mut bare, mut count) = (zero, zero, 0);
    for _ in 0..TURNS {
        let (block, txs) = made.next_block(payments, 2);
        count += txs.len() as u64;
        let clock = Clock::start();
        made.apply(&block, &txs)?;
        own = add(own, clock.stop());
        let (block, txs) = made.next_block(payments, 2);
        let rows = Rows::prepare(&made.ledger, made.wallet, &block, &txs)?;
        let clock = Clock::start();
        rows.write(made.ledger.database())?;
        bare = add(bare, clock.stop());
    }
    output::line(&format!(
        "{what}: blocks of {payments}, {} ({own}); floor {} ({bare}); ratio by wall {:.2}, by CPU \
         {:.2}",
        output::per_second(count, own.seconds()),
        output::per_second(count, bare.seconds()),
        bare.seconds() / own.seconds(),
        bare.cpu_seconds / own.cpu_seconds
    ));
    Ok(())
}

fn measure_balance(made: &Made, coins: u64) -> anyhow::Result<()> {
    let query = BalanceQuery::default();
    let total = made.ledger.balance(made.wallet, &query, NOW)?.total();
    let own = Clock::start();
    for _ in 0..BALANCES {
        made.ledger.balance(made.wallet, &query, NOW)?;
    }
    let own = own.stop();
    let bare = Clock::start();
    for _ in 0..BALANCES {
        let sum = floor::sum(made.ledger.database(), made.wallet)?;
        anyhow::ensure!(u64::try_from(sum)? == total, "the floor counts something else");
    }
    let bare = bare.stop();
    let each = |took: Took| {
        let wall = took.wall / BALANCES;
        format!("{wall:.2?} wall, {:.3} s CPU", took.cpu_seconds / f64::from(BALANCES))
    };
    output::line(&format!(
        "{coins} coins: balance {}; floor, one sum, {}; ratio by wall {:.2}",
        each(own),
        each(bare),
        bare.seconds() / own.seconds()
    ));
    Ok(())
}
