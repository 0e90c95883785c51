//! The command line. Groups are nouns, commands are verbs: `utxokeep chain rollback 840000`.
//!
//! # Invariants
//!
//! * Results go to stdout, everything else to stderr; only [`output`] writes to either.
//! * The exit code follows from the typed error, never from its text.

mod args;
mod chain;
mod digest;
mod error;
mod exit;
mod follow;
mod help;
mod import;
mod interrupt;
mod open;
mod output;
mod progress;
mod sources;
mod status;
mod utxo;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use self::{
    args::{Address, Chain, Cli, Command, Demo, Serve, Utxo},
    exit::Exit,
    open::Session,
};
use crate::{
    demo::{self, DemoOptions},
    server,
};

pub use self::help::page;

/// Reads the arguments of the process, does what they ask, and answers its exit code.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are results, mistakes are not; clap knows which stream to use.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    start_logging(cli.global.verbose);
    let exit = execute(cli).unwrap_or_else(|error| {
        output::error(&error);
        Exit::of(&error)
    });
    ExitCode::from(exit.code())
}

fn execute(cli: Cli) -> anyhow::Result<Exit> {
    let session = Session::new(cli.global)?;
    match cli.command {
        Command::Chain(command) => match command {
            Chain::Import(args) => import::import(&session, &args),
            Chain::Follow(args) => follow::follow(&session, &args),
            Chain::Status => status::status(&session),
            Chain::Digest(args) => digest::digest(&session, &args),
            Chain::Rollback(args) => chain::rollback(&session, &args),
            Chain::Verify => chain::verify(&session),
            Chain::Prune(args) => chain::prune(&session, &args),
        },
        Command::Utxo(Utxo::Show(args)) => utxo::show(&session, &args),
        Command::Address(command) => match command {
            Address::Utxos(args) => utxo::list(&session, &args),
            Address::Balance(args) => utxo::balance(&session, &args),
        },
        Command::Serve(args) => serve(&session, &args),
        Command::Demo(args) => run_demo(&session, &args),
    }
}

/// Answers REST requests about a database. When the configuration names a source, it is followed at
/// the same time.
fn serve(session: &Session, args: &Serve) -> anyhow::Result<Exit> {
    let (index, work) = follow::in_background(session)?;
    let listen = args.listen.unwrap_or(session.config().rest.listen);
    server::serve_until_stopped(&index, listen, session.config(), work, |address| {
        output::note(format_args!(
            "serving {} on http://{address} (API page: http://{address}/docs); Ctrl-C stops",
            session.data().display()
        ));
    })?;
    output::note("stopped");
    Ok(Exit::Success)
}

fn run_demo(session: &Session, args: &Demo) -> anyhow::Result<Exit> {
    let options = DemoOptions {
        data: session.data().to_owned(),
        listen: args.listen,
        seed: args.seed,
        blocks_per_second: args.blocks_per_second,
        blocks: args.blocks,
    };
    demo::run(options, session.config())?;
    Ok(Exit::Success)
}

/// Logs go to stderr: warnings, and more with each `-v`, unless `UTXOKEEP_LOG` says otherwise.
fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let filter = EnvFilter::try_from_env("UTXOKEEP_LOG")
        .unwrap_or_else(|_| EnvFilter::default().add_directive(level.into()));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
}
