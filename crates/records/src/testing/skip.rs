//! Skipped tests are counted: each leaves a line in the file that `scripts/cargo` names. The test kit
//! of the workspace, which does the same, stands above this crate.

use std::{fs::OpenOptions, io::Write};

/// Names the file.
const FILE: &str = "UTXOKEEP_SKIPPED_FILE";

/// Notes that the present test is skipped for lack of `what`; `message` says more. Where the variable
/// `required` is set, the test fails in its place.
///
/// # Panics
/// When the variable is set: where everything is to be proven, a skipped test would hide a failure.
pub fn skipped(what: &str, required: &str, message: &str) {
    assert!(std::env::var_os(required).is_none(), "{message}, and {required} is set");
    eprintln!("skipped for lack of {what}: {message}");
    let Some(file) = std::env::var_os(FILE) else { return };
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(std::path::Path::file_name).unwrap_or_default();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread");
    let line = format!("{what}\t{} {test}\n", program.to_string_lossy());
    let opened = OpenOptions::new().create(true).append(true).open(file);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot note a skipped test: {error}"));
}
