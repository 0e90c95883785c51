//! Selecting and leasing by several clients at once, beside the floor.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use utxokeep_sql::{Database, SqlError, Value};
use utxokeep_wallet::{Amount, FeeRate, LeaseId, LeaseTerms, SelectionRequest, WalletId};

use super::{
    history::History,
    made::{Made, NOW},
};
use crate::output;

/// How long each measurement lasts at most.
const LASTS: Duration = Duration::from_secs(2);
/// Coins that the floor looks at.
const WINDOW: i64 = 100;
const LEASE_US: i64 = 600_000_000;

const SELECT_WINDOW: &str = "SELECT t.txid, c.output_index, c.id, c.amount, a.spend_weight,
        a.script
    FROM (SELECT wallet_id, id, tx_id, output_index, amount, address_id FROM utxos
        WHERE wallet_id = $1 AND spent_by_tx_id IS NULL AND parent_class > 0 AND amount >= $2
        ORDER BY amount, id LIMIT $3) c
    CROSS JOIN transactions t CROSS JOIN addresses a
    WHERE t.wallet_id = c.wallet_id AND t.id = c.tx_id
        AND a.wallet_id = c.wallet_id AND a.id = c.address_id";
const INSERT_LEASES: &str = "INSERT INTO utxo_leases
    (wallet_id, utxo_id, lease_id, expires_at_us, is_held) VALUES";

/// What one client does; answers the coins it has leased.
type Work<'w> = dyn Fn(u64) -> anyhow::Result<Vec<i64>> + Sync + 'w;

/// What clients did.
struct Done {
    per_second: f64,
    coins_each: usize,
    took: Vec<Duration>,
}

/// Lets clients work for a while. No coin may be handed out twice.
fn run(clients: usize, calls_max: u64, work: &Work<'_>) -> anyhow::Result<Done> {
    let next = AtomicU64::new(0);
    let leased = Mutex::new((Vec::new(), BTreeSet::new()));
    let started = Instant::now();
    thread::scope(|scope| {
        let client = || -> anyhow::Result<()> {
            while started.elapsed() < LASTS {
                let call = next.fetch_add(1, Ordering::Relaxed);
                if call >= calls_max {
                    break;
                }
                let begun = Instant::now();
                let coins = work(call)?;
                let took = begun.elapsed();
                let mut leased = leased.lock().unwrap_or_else(PoisonError::into_inner);
                leased.0.push(took);
                for coin in coins {
                    anyhow::ensure!(leased.1.insert(coin), "a coin was leased twice");
                }
            }
            Ok(())
        };
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("clients do not panic"))
    })?;
    let lasted = started.elapsed();
    let (took, coins) = leased.into_inner().unwrap_or_else(PoisonError::into_inner);
    let calls = u32::try_from(took.len().max(1))?;
    Ok(Done {
        per_second: f64::from(calls) / lasted.as_secs_f64(),
        coins_each: coins.len().div_ceil(took.len().max(1)).max(1),
        took,
    })
}

/// Payments that fit into any wallet of the benchmark, the same for every run.
pub(super) fn values(count: u64) -> Vec<u64> {
    let mut history = History::new(1);
    (0..count).map(|_| history.amount() / 10).collect()
}

/// Measures one number of clients; all leases are given back afterwards.
pub(super) fn measure(made: &Made, what: &str, coins: u64, clients: usize) -> anyhow::Result<()> {
    let calls_max = (coins / 10).clamp(50, 4_000);
    let values = values(calls_max);
    let owner = LeaseId::from_bytes([1; 32]);
    let terms = LeaseTerms::until(owner, LEASE_US);
    let own = run(clients, calls_max, &|call| {
        let value = Amount::new(values[usize::try_from(call)?])?;
        let request = SelectionRequest::new(value, FeeRate::per_vbyte(5), call);
        let selection = made.ledger.select_and_lease(made.wallet, &request, &terms, NOW)?;
        Ok(selection.coins.iter().map(|coin| coin.id).collect())
    })?;
    made.ledger.release_all(made.wallet, &owner, NOW)?;
    let taken = Mutex::new(BTreeSet::new());
    let database = made.ledger.database();
    let bare = run(clients, calls_max, &|call| {
        let amount = i64::try_from(values[usize::try_from(call)?])?;
        bare_lease(database, made.wallet, amount, own.coins_each, &taken)
    })?;
    made.ledger.release_all(made.wallet, &owner, NOW)?;
    output::line(&format!(
        "{what}, {clients} clients: select and lease {}; {:.0} /s, {} coins each; floor {}; \
         {:.0} /s; ratio {:.2}",
        output::percentiles(own.took),
        own.per_second,
        own.coins_each,
        output::percentiles(bare.took),
        bare.per_second,
        own.per_second / bare.per_second
    ));
    Ok(())
}

/// Reads a window through the index and leases some of it. Which coins are free is known without
/// asking the database.
fn bare_lease(
    database: &Database,
    wallet: WalletId,
    amount: i64,
    count: usize,
    taken: &Mutex<BTreeSet<i64>>,
) -> anyhow::Result<Vec<i64>> {
    let wallet = Value::from(wallet.get());
    let leased = database.write(|tx| -> Result<Vec<i64>, SqlError> {
        let key = [wallet, Value::from(amount), Value::from(WINDOW)];
        let window = tx.query_all(SELECT_WINDOW, &key, |row| {
            Ok((row.array::<32>(0)?, row.int(2)?, row.int(3)?, row.bytes(5)?.to_vec()))
        })?;
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = window.iter().map(|(_, id, ..)| *id).filter(|id| taken.insert(*id));
        let free: Vec<i64> = free.take(count).collect();
        drop(taken);
        let owner = [1; 32];
        let mut rows = Vec::new();
        for id in &free {
            rows.extend([wallet, Value::from(*id), Value::from(&owner)]);
            rows.extend([Value::from(NOW.get() + LEASE_US), Value::from(0)]);
        }
        tx.insert_rows(INSERT_LEASES, "", 5, &rows)?;
        Ok(free)
    });
    Ok(leased?)
}
