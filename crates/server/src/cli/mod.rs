//! The command line. Groups are nouns, commands are verbs: `utxokeep chain rollback 840000`.
//!
//! # Invariants
//!
//! * Results go to stdout, everything else to stderr; only [`output`] writes to either.
//! * The exit code follows from the typed error, never from its text.

mod args;
mod chain;
mod consumers;
mod error;
mod exit;
mod follow;
mod help;
mod import;
mod interrupt;
mod mmr;
mod nature;
mod open;
mod output;
mod persister;
mod progress;
mod prune;
mod recover;
mod settings;
mod sources;
mod store;
mod store_move;
mod sync;
mod table;
mod tx;
mod wallet;
mod wallet_follow;
mod watch;

use std::{path::Path, process::ExitCode};

use clap::{FromArgMatches as _, parser::ValueSource};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};
use utxokeep::{
    engine::{Engine, Parts, Presence},
    ops::{self, chain::ChainLimits},
};
use utxokeep_core::ErrorKind;

use self::{
    args::{Chain, Cli, Command, Demo, Global, PersisterCommand, Serve, StoreCommand, Tx},
    open::Session,
};
use crate::{
    demo::{self, DemoOptions},
    grpc::GrpcServer,
    rest,
    server::{self, Servers},
};

pub(crate) use self::{error::CliError, exit::Exit, mmr::MmrCommandError};

pub use self::help::{page, tree};

/// Reads the arguments of the process, does what they ask, and answers its exit code.
#[must_use]
pub fn run() -> ExitCode {
    // Also arguments that are wrong are told as JSON where that is asked for.
    let json = std::env::args_os().any(|arg| arg == "--json");
    let asked = match parse() {
        Ok(asked) => asked,
        Err(error) if json && error.use_stderr() => {
            output::error_json(ErrorKind::Invalid, error.to_string().trim_end());
            return ExitCode::from(Exit::Usage.code());
        }
        Err(error) => {
            // Help and version are results, mistakes are not; clap knows which stream to use.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let exit = carry_out(asked).unwrap_or_else(|error| {
        output::error(json, &error);
        Exit::of(&error)
    });
    ExitCode::from(exit.code())
}

/// What the arguments ask for.
enum Asked {
    /// An operation of the tables.
    Operation(Global, table::Chosen),
    /// A command of its own.
    Command(Box<Cli>),
}

/// Reads the arguments, and notes which of them were given.
fn parse() -> Result<Asked, clap::Error> {
    let matches = tree().try_get_matches()?;
    let is_data_named = matches.value_source("data") == Some(ValueSource::CommandLine);
    if let Some(chosen) = table::chosen(&matches)? {
        let global = Global::from_arg_matches(&matches)?;
        return Ok(Asked::Operation(Global { is_data_named, ..global }, chosen));
    }
    let mut cli = Cli::from_arg_matches(&matches)?;
    cli.global.is_data_named = is_data_named;
    Ok(Asked::Command(Box::new(cli)))
}

fn carry_out(asked: Asked) -> anyhow::Result<Exit> {
    match asked {
        Asked::Operation(global, chosen) => {
            start_logging(global.verbose);
            (chosen.run)(&Session::new(global, chosen.mode)?)
        }
        Asked::Command(cli) => {
            start_logging(cli.global.verbose);
            execute(*cli)
        }
    }
}

fn execute(cli: Cli) -> anyhow::Result<Exit> {
    let session = Session::new(cli.global, nature::of(&cli.command))?;
    match cli.command {
        Command::Chain(command) => match command {
            Chain::Import(args) => import::import(&session, &args),
            Chain::Follow(args) => follow::follow(&session, &args),
            Chain::Rollback(args) => chain::rollback(&session, &args),
            Chain::Verify => chain::verify(&session),
            Chain::Prune(args) => chain::prune(&session, &args),
            Chain::Consumers(command) => consumers::run(&session, &command),
            Chain::Watch(args) => watch::run(&session, &args),
            Chain::Mmr(command) => mmr::run(&session, &command),
            Chain::Recover(args) => recover::chain(&session, &args),
        },
        Command::Tx(command) => match command {
            Tx::Verify(args) => tx::verify(&session, &args),
            Tx::Settings(args) => settings::run(&session, &args),
            Tx::AdoptBlobs(args) => tx::adopt_blobs(&session, &args),
            Tx::Recover(args) => recover::tx(&session, &args),
        },
        Command::Store(command) => match command {
            StoreCommand::Bench(args) => store::bench(&session, &args),
            StoreCommand::Move(args) => store_move::move_to(&session, &args),
            StoreCommand::Verify(args) => store_move::verify(&session, &args),
        },
        Command::Pruner(command) => prune::pruner(&session, &command),
        Command::Persister(PersisterCommand::Status) => persister::status(&session),
        Command::Persister(PersisterCommand::Verify(args)) => persister::verify(&session, &args),
        Command::Wallet(args) => wallet::wallet(&session, &args),
        Command::Serve(args) => serve(&session, &args),
        Command::Demo(args) => run_demo(&session, &args),
    }
}

/// Answers REST requests about a database, and gRPC calls to the node store and the wallet ledger if
/// the configuration names them; to the database where there is one of them, or where gRPC is asked
/// for. When it names a source, that is followed at the same time; a
/// wallet ledger follows the database.
fn serve(session: &Session, args: &Serve) -> anyhow::Result<Exit> {
    rest::install_recorder();
    let config = session.config();
    let parts = Parts::of(config).with(|parts| {
        parts.chain = match config.chain.source {
            Some(_) => Presence::OrNew,
            None if parts.node_store || parts.wallets => Presence::IfThere,
            None => Presence::Existing,
        };
    });
    let mut engine = Engine::open_parts(config, parts)?;
    engine.start()?;
    let mut answering = engine.node_store().map(|store| {
        let items_max = config.txstore.batch_items_max.get() as usize;
        let of_store = GrpcServer::new(store.clone(), items_max, &config.grpc)
            .with_followed_chain(parts.store_follower);
        engine.pruning().cloned().into_iter().fold(of_store, GrpcServer::with_pruner)
    });
    if let Some(wallets) = engine.wallets().cloned() {
        answering = Some(match answering {
            Some(of_store) => of_store.with_wallets(wallets),
            None => GrpcServer::of_wallets(wallets, &config.grpc),
        });
    }
    if let Some(index) = engine.index() {
        let source = engine.source().map(|(state, _)| state);
        let limits = ChainLimits::of_server(&config.rest);
        let chain = ops::chain::Chain::new(index.clone(), limits).with_source(source);
        answering = match answering {
            Some(others) => Some(others.with_chain(chain)),
            None if args.grpc_listen.is_some() || config.grpc.chain_alone => {
                Some(GrpcServer::of_chain(chain, &config.grpc))
            }
            None => None,
        };
    }
    let grpc_listen = args.grpc_listen.unwrap_or(config.grpc.listen);
    let grpc = answering.map(|answering| (answering, grpc_listen));
    let rest_listen = args.listen.unwrap_or(config.rest.listen);
    server::serve_until_stopped(engine, rest_listen, grpc, announce)?;
    output::note("stopped");
    Ok(Exit::Success)
}

/// Says what is served, and where.
fn announce(engine: &Engine, servers: &Servers) {
    note_token(servers.token_file.as_deref());
    let (rest, data) = (servers.rest.address, engine.config().storage.data.display());
    if let Some(grpc) = &servers.grpc {
        let served = [
            engine.index().map(|_| "the chain"),
            engine.node_store().map(|_| "the node store"),
            engine.pruning().map(|_| "the pruner"),
            engine.wallets().map(|_| "wallets"),
            engine.index().map(|_| "the change stream"),
        ];
        let served: Vec<_> = served.into_iter().flatten().collect();
        let what = match served.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        };
        output::note(format_args!("serving {what} over gRPC on {}", grpc.address));
    }
    if engine.persisting().is_some() {
        let url = &engine.config().persister.url;
        output::note(format_args!("blocks are persisted to {url}"));
    }
    if engine.ledger_follows() {
        output::note("the wallet ledger follows the chain database");
    }
    if let Some((source, _)) = engine.source() {
        sync::tell_in_background(source);
    }
    if engine.index().is_some() {
        output::note(format_args!(
            "serving {data} on http://{rest} (API page: http://{rest}/docs); Ctrl-C stops"
        ));
    } else if engine.wallets().is_some() {
        output::note(format_args!(
            "no chain database at {data}; serving wallets on http://{rest} (API page: http://{rest}/docs); Ctrl-C stops"
        ));
    } else {
        output::note(format_args!(
            "no chain database at {data}; health and metrics on http://{rest}; Ctrl-C stops"
        ));
    }
}

/// Says where the token is that clients need, if they need one.
fn note_token(file: Option<&Path>) {
    if let Some(file) = file {
        output::note(format_args!("clients need the access token in {}", file.display()));
    }
}

fn run_demo(session: &Session, args: &Demo) -> anyhow::Result<Exit> {
    let options = DemoOptions {
        listen: args.listen,
        seed: args.seed,
        blocks_per_second: args.blocks_per_second,
        blocks: args.blocks,
    };
    demo::run(&options, session.config())?;
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
