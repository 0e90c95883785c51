//! Tests that need a process of their own: the recorder of metrics and the memory of a process
//! also show what every other test does.

use std::process::Command;

/// In a process that was started for one test.
const ALONE: &str = "UTXOKEEP_TEST_ALONE";

/// Whether this process runs one test only. Where it does not, `test` (its path below this crate)
/// is run in a process that does, and must pass there.
pub(crate) fn is_alone(test: &str) -> bool {
    // cargo-nextest gives every test a process.
    if std::env::var_os("NEXTEST").is_some() || std::env::var_os(ALONE).is_some() {
        return true;
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{test}: {run:?}");
    false
}
