//! `docs/cli.md`: every help text, as the program prints it.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use super::{args::Cli, exit::EXITS, table};

/// Width of the help texts on the page.
const COLUMNS: usize = 98;

/// The reference page.
#[must_use]
pub fn page() -> String {
    let mut out = String::from(
        "# Command line\n\n<!-- Generated from crates/server/src/cli/args.rs by `make docs`. \
         -->\n\nResults go to stdout, everything else to stderr.\n\n## Exit codes\n\n\
         | code | meaning |\n|---|---|\n",
    );
    for (exit, meaning) in EXITS {
        let _ = writeln!(out, "| {} | {meaning} |", exit.code());
    }
    let mut root = tree().term_width(COLUMNS);
    root.build();
    append(&mut out, &mut root, "utxokeep");
    out
}

/// Every command with its options, for tests that walk all of them.
#[doc(hidden)]
#[must_use]
pub fn tree() -> Command {
    table::with_operations(Cli::command())
}

fn append(out: &mut String, command: &mut Command, path: &str) {
    let help = command.render_long_help().to_string();
    let _ = write!(out, "\n## `{path}`\n\n```text\n");
    for line in help.trim_end().lines() {
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out.push_str("```\n");
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        let path = format!("{path} {}", inner.get_name());
        append(out, inner, &path);
    }
}
