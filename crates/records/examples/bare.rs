//! Rates of a bare cluster: `cargo run --release --features bench --example bare -- URL`.

use utxokeep_records::{
    RedisOptions, RedisRecords,
    bench::{BenchPlan, measure},
};

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("the URL of a cluster is missing")?;
    let store = RedisRecords::open(RedisOptions::parse(&url)?)?;
    measure(&store, &BenchPlan::default(), &mut |row| {
        println!(
            "{:>16} batch {:>5} clients {:>3} ack {:>7}: {:>9.0} records/s",
            row.work.name(),
            row.batch,
            row.clients,
            row.acknowledgement,
            row.per_second
        );
    })?;
    Ok(())
}
