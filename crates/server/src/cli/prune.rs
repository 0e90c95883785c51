//! `pruner …`: the pruner on a store, or one that runs elsewhere.

mod answers;
mod remote;
mod remote_answers;
mod run;

use std::{collections::BTreeSet, sync::Arc};

use utxokeep::{
    engine::{Engine, Parts},
    ops::pruner::PrunerPart,
};
use utxokeep_core::{Txid, node::ChainReport};
use utxokeep_pruner::{Pruner, PrunerError};

use self::{
    answers::{Confirmed, NodeStateForgotten, Paused, PersisterForgotten, Preserved, Restored},
    remote::Remote,
    remote_answers::RemoteReads,
};
use super::{
    args::{
        Connect, PruneConfirm, PrunePreserve, PruneRestore, Pruner as Command, PrunerServe, Target,
    },
    error::CliError,
    exit::Exit,
    note_token,
    open::Session,
    output, tx,
};
use crate::{
    grpc::{GrpcServer, proto},
    pruning::{self, WallClock},
    rest, server,
};

/// Does what a command asks.
pub(super) fn pruner(session: &Session, command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Serve(args) => serve(session, args),
        Command::Run(args) => run::run(session, args),
        Command::Pause(args) => set_paused(session, args, true),
        Command::Resume(args) => set_paused(session, args, false),
        Command::Preserve(args) => preserve(session, args),
        Command::Restore(args) => restore(session, args),
        Command::Confirm(args) => confirm(session, args),
        Command::ForgetPersister(args) => forget_persister(session, args),
        Command::ForgetNodeState(args) => forget_node_state(session, args),
    }
}

/// Whom the questions of the table go to. `is_running` says that only a pruner that runs can answer,
/// unless a store is named.
pub(super) fn asked(
    session: &Session,
    target: &Target,
    is_running: bool,
) -> anyhow::Result<PrunerPart> {
    let Target { store, connect } = target;
    if connect.is_none() && (store.store.is_some() || !is_running) {
        return Ok(PrunerPart::new(Arc::new(here(session, store.store.as_deref())?)));
    }
    let remote = Remote::named_or_configured(session, connect.as_deref())?;
    Ok(PrunerPart::new(Arc::new(RemoteReads::new(remote))))
}

/// Who is asked.
enum Asked {
    /// A store that this program opens.
    Here(Box<Pruner>),
    /// A pruner that runs elsewhere.
    There(Box<Remote>),
}

impl Asked {
    fn new(session: &Session, target: &Target) -> anyhow::Result<Self> {
        if let Some(address) = &target.connect {
            return Ok(Self::There(Box::new(Remote::connect(session, address)?)));
        }
        Ok(Self::Here(Box::new(here(session, target.store.store.as_deref())?)))
    }
}

/// A pruner over a store that this program opens.
fn here(session: &Session, url: Option<&str>) -> anyhow::Result<Pruner> {
    let store = tx::open(session, url).inspect_err(|error| {
        if Exit::of(error) == Exit::Refused {
            output::note("to ask the program that uses the store, add --connect URL");
        }
    })?;
    let mut settings = pruning::settings(&session.config().pruner);
    // Whoever watches stops a run by hand, and is told at once that the gate is closed.
    settings.run_time_max_ms = 0;
    (settings.mined_set_wait_ms, settings.assembly_wait_ms) = (0, 0);
    Ok(Pruner::new(store, Arc::new(WallClock::default()), settings)?)
}

/// The same error in words of the command line, where that helps.
fn in_our_words(error: PrunerError) -> anyhow::Error {
    match error {
        PrunerError::NoHeight => CliError::HeightUnknown.into(),
        PrunerError::Ahead { asked, newest } => CliError::RunAhead { asked, newest }.into(),
        refused @ (PrunerError::NothingPersisted | PrunerError::ConsumerBehind { .. }) => {
            CliError::PrunerRefused { message: refused.to_string() }.into()
        }
        PrunerError::NoUndo => CliError::NoUndo.into(),
        other => other.into(),
    }
}

fn set_paused(session: &Session, args: &Connect, paused: bool) -> anyhow::Result<Exit> {
    let mut remote = Remote::named_or_configured(session, args.connect.as_deref())?;
    if paused {
        remote.pause(proto::PrunerPauseRequest {})?;
    } else {
        remote.resume(proto::PrunerResumeRequest {})?;
    }
    output::result(session.json(), &Paused { is_paused: paused })?;
    Ok(Exit::Success)
}

fn preserve(session: &Session, args: &PrunePreserve) -> anyhow::Result<Exit> {
    let txids: BTreeSet<Txid> = args.txids.iter().copied().collect();
    let txids: Vec<Txid> = txids.into_iter().collect();
    let preserved = match Asked::new(session, &args.target)? {
        Asked::Here(pruner) => pruner.preserve(&txids, args.until).map_err(in_our_words)? as u64,
        Asked::There(mut remote) => {
            let txids = txids.iter().map(|txid| txid.as_bytes().to_vec()).collect();
            let until_height = args.until.get();
            remote.preserve(proto::PrunerPreserveRequest { txids, until_height })?.preserved
        }
    };
    output::result(session.json(), &Preserved { preserved })?;
    match (txids.len() as u64).saturating_sub(preserved) {
        0 => {}
        _ if preserved == 0 => return Err(CliError::NotPreserved.into()),
        missing => output::warning(format_args!("{missing} of them are not in the node store")),
    }
    Ok(Exit::Success)
}

fn restore(session: &Session, args: &PruneRestore) -> anyhow::Result<Exit> {
    let asked = Asked::new(session, &args.target)?;
    let answer = match (asked, &args.txid, args.height) {
        (Asked::Here(pruner), Some(txid), newest) => {
            Restored::one(txid, pruner.restore(txid, newest)).map_err(in_our_words)?
        }
        (Asked::Here(pruner), None, Some(height)) => {
            Restored::from(&pruner.restore_height(height).map_err(in_our_words)?)
        }
        (Asked::There(mut remote), Some(txid), newest) => {
            Restored::new(remote.restore_txid(txid, newest)?)
        }
        (Asked::There(mut remote), None, Some(height)) => {
            Restored::new(remote.restore_height(height)?)
        }
        // The definition of the command asks for one of them.
        (_, None, None) => Restored::default(),
    };
    output::result(session.json(), &answer)?;
    if answer.refused > 0 {
        return Err(CliError::RestoreRefused { refused: answer.refused }.into());
    }
    if answer.restored == 0 {
        return Err(CliError::NotRestored.into());
    }
    Ok(Exit::Success)
}

fn confirm(session: &Session, args: &PruneConfirm) -> anyhow::Result<Exit> {
    let answer = match Asked::new(session, &args.target)? {
        Asked::Here(pruner) => {
            Confirmed::from(&pruner.confirm_height(args.height).map_err(in_our_words)?)
        }
        Asked::There(mut remote) => {
            let height = args.height.get();
            Confirmed::from(remote.confirm_height(proto::PrunerConfirmHeightRequest { height })?)
        }
    };
    output::result(session.json(), &answer)?;
    match answer.held_height {
        Some(held) => Err(CliError::HeightHeld { held }.into()),
        None => Ok(Exit::Success),
    }
}

fn forget_persister(session: &Session, target: &Target) -> anyhow::Result<Exit> {
    match Asked::new(session, target)? {
        Asked::Here(pruner) => {
            pruner.report(&[ChainReport::NoPersister]).map_err(in_our_words)?;
        }
        Asked::There(mut remote) => {
            remote.forget_persister(proto::PrunerForgetPersisterRequest {})?;
        }
    }
    output::result(session.json(), &PersisterForgotten { persister: false })?;
    Ok(Exit::Success)
}

fn forget_node_state(session: &Session, target: &Target) -> anyhow::Result<Exit> {
    match Asked::new(session, target)? {
        Asked::Here(pruner) => {
            pruner.report(&[ChainReport::NoNodeState]).map_err(in_our_words)?;
        }
        Asked::There(mut remote) => {
            remote.forget_node_state(proto::PrunerForgetNodeStateRequest {})?;
        }
    }
    let forgotten = NodeStateForgotten { mined_set: false, assembly: false };
    output::result(session.json(), &forgotten)?;
    Ok(Exit::Success)
}

/// Prunes a store until a signal comes.
pub(super) fn serve(session: &Session, args: &PrunerServe) -> anyhow::Result<Exit> {
    rest::install_recorder();
    let mut config = session.config().clone();
    tx::url_of(session, args.store.store.as_deref())?.clone_into(&mut config.txstore.url);
    // It is told the heights; a chain database belongs to `serve`.
    config.pruner.follow_chain = false;
    let mut engine = Engine::open_parts(&config, Parts::NONE.with(|parts| parts.pruner = true))?;
    engine.start()?;
    let items_max = config.txstore.batch_items_max.get() as usize;
    let pruning = engine.pruning().cloned();
    let grpc = pruning.map(|pruning| {
        let answering = GrpcServer::of_pruner(pruning, items_max, &config.grpc);
        (answering, args.grpc_listen.unwrap_or(config.pruner.listen))
    });
    let rest_listen = args.listen.unwrap_or(config.pruner.rest_listen);
    server::serve_until_stopped(engine, rest_listen, grpc, |_, servers| {
        note_token(servers.token_file.as_deref());
        if let Some(grpc) = &servers.grpc {
            let grpc = grpc.address;
            output::note(format_args!("pruning; the pruner answers over gRPC on {grpc}"));
        }
        let rest = servers.rest.address;
        output::note(format_args!("health and metrics on http://{rest}; Ctrl-C stops"));
    })?;
    output::note("stopped");
    Ok(Exit::Success)
}
