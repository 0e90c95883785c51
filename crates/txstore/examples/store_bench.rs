//! Rates of the node store on a cluster of its own, beside a bare client:
//! `cargo run --release --example store_bench -- [ACK] [BATCH,…] [CLIENTS,…] [MILLISECONDS]`.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use utxokeep_records::{RedisOptions, RedisRecords, testing::TestCluster};
use utxokeep_txstore::{
    RecordSettings, StoreSettings,
    bench::{BareEngine, BenchCase, measure},
};

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |at: usize, default: &'static str| args.get(at).map_or(default, String::as_str);
    let numbers = |text: &str| -> Result<Vec<usize>, std::num::ParseIntError> {
        text.split(',').map(str::parse).collect()
    };
    let (ack, batches, clients) = (arg(0, "replica"), arg(1, "1,128,1000"), arg(2, "1,8,64"));
    let lasts = Duration::from_millis(arg(3, "500").parse()?);
    let settings: &[(&str, &str)] =
        if ack == "disk" { &[("appendonly", "yes"), ("appendfsync", "always")] } else { &[] };
    let cluster = TestCluster::start_or_skip(settings).ok_or("redis-server is not installed")?;
    let mut number = 0;
    for batch in numbers(batches)? {
        for clients in numbers(clients)? {
            number += 1;
            let url = cluster.url(&format!("ack={ack}&prefix=b{number}"));
            let port = Arc::new(RedisRecords::open(RedisOptions::parse(&url)?)?);
            let (store, bare) =
                BareEngine::open(port, StoreSettings::default(), RecordSettings::default())?;
            let stop = AtomicBool::new(false);
            let case = BenchCase { batch, clients, lasts, stop: &stop };
            measure(&store, Some(&bare), &case, &mut |row| {
                let Some(bare) = row.bare else { return };
                println!(
                    "{ack} {:>12} batch {batch:>4} clients {clients:>2}: {:>8.0}/s bare {:>8.0} ({:.2}) \
                     floor {:>8.0} ({:.2}) {:?}",
                    row.operation.name(),
                    row.store,
                    bare.same,
                    row.store / bare.same,
                    bare.floor,
                    row.store / bare.floor,
                    bare.size,
                );
            })?;
        }
    }
    Ok(())
}
