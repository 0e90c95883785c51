//! The import of a real Cardano chain is killed again and again, and ends where it would have.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

const KILLS: u32 = 12;

/// Small batches, so that a kill finds one in flight; an undo window of a few thousand blocks, so
/// that most of the chain with its transactions is written with undo data and pruned again.
const CONFIG: &str = "\
[chain]
chain = \"cardano\"
network = \"preview\"
[index]
rollback_window_blocks = 20000
prune_depth_blocks = 20000
stake_credential = true
[storage]
cache_mib = 16
catch_up_blocks_max = 50
fsync = false
";

fn utxokeep(data: &Path, config: &Path, words: &[&str]) -> Command {
    let mut command = crate::program::utxokeep(words);
    command.arg("--json").arg("--data").arg(data).arg("--config").arg(config);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_import_of_preview_that_is_killed_ends_where_it_would_have() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let Some(chain) = utxokeep_testkit::preview_immutable(cache) else { return };
    let chain = chain.to_str().unwrap().to_owned();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("utxokeep.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let import = ["chain", "import", &chain];

    let whole = dir.path().join("whole");
    let started = Instant::now();
    json(&utxokeep(&whole, &config, &import).output().unwrap());
    let took = started.elapsed();
    let expected = json(&utxokeep(&whole, &config, &["chain", "digest"]).output().unwrap());
    assert_eq!(expected["utxo_count"], 32_655, "{expected}");

    let data = dir.path().join("killed");
    let mut reached = 0;
    for round in 0..KILLS {
        let mut running = utxokeep(&data, &config, &import).spawn().unwrap();
        // Ever later moments of what is left, so that each round gets a little further.
        thread::sleep(Duration::from_millis(60) + took * (round + 1) / (KILLS * 2));
        running.kill().unwrap();
        running.wait().unwrap();
        let status = utxokeep(&data, &config, &["chain", "status"]).output().unwrap();
        if !status.status.success() {
            continue; // Killed before there was a database.
        }
        let height = json(&status)["height"].as_u64().unwrap_or(0);
        assert!(height >= reached, "round {round}: {height} after {reached}");
        reached = height;
        if round % 4 == 3 {
            let found = json(&utxokeep(&data, &config, &["chain", "verify"]).output().unwrap());
            assert_eq!(found["findings_total"], 0, "round {round}: {found}");
        }
    }
    assert!(reached > 0, "no round got anywhere");
    json(&utxokeep(&data, &config, &import).output().unwrap());
    let found = json(&utxokeep(&data, &config, &["chain", "digest"]).output().unwrap());
    assert_eq!(found, expected);
    let found = json(&utxokeep(&data, &config, &["chain", "verify"]).output().unwrap());
    assert_eq!(found["findings_total"], 0, "{found}");
}
