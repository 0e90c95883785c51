//! The `utxokeep` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    utxokeep::cli::run()
}
