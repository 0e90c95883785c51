//! `store move` and `store verify`: whole node stores.

use std::{sync::Arc, time::Instant};

use serde::Serialize;
use utxokeep_core::OpenMode;
use utxokeep_txstore::{
    Agreement, MoveOptions, MoveProgress, NodeStore, StoreComparison, abandon_move, compare_stores,
    move_store,
};

use super::{
    args::{StoreMove, StoreVerify},
    error::CliError,
    exit::Exit,
    interrupt::Interrupt,
    open::Session,
    output::{self, Human, Lines},
    progress::Progress,
    tx::url_of,
};
use crate::node_store;

/// Passes after which a source that still changes is given up.
const PASSES_MAX: u32 = 20;

/// How long writes are waited for that a program began before the source was retired.
const QUIET_MS: u64 = 3_000;

/// How long the creation of a large transaction is waited for.
const CREATING_WAIT_MS: u64 = 60_000;

/// Transactions that are compared at once.
const COMPARED: usize = 500;

/// Opens one side of a move, without the place for large bodies: files are not touched.
fn open(session: &Session, url: &str, mode: OpenMode) -> anyhow::Result<Arc<NodeStore>> {
    let config = &session.config().txstore;
    Ok(node_store::open_for_move(url, config, mode, Agreement::Moving)?)
}

#[derive(Debug, Serialize)]
struct Moved {
    from: String,
    to: String,
    transactions: u64,
    passes: u32,
    followed: u64,
    is_source_retired: bool,
    last_step_ms: Option<u64>,
    seconds: u64,
}

impl Human for Moved {
    fn describe(&self, lines: &mut Lines) {
        let Self { from, to, transactions, passes, .. } = self;
        lines.row(format!("moved {from} to {to}"));
        lines.row(format!("{transactions} transactions compared alike after {passes} passes"));
        if self.is_source_retired {
            lines.row(format!("{} changes were copied since", self.followed));
        }
        if let Some(ms) = self.last_step_ms {
            lines.row(format!("nobody could write for {ms} ms"));
        }
        if self.is_source_retired {
            lines.row("the source is retired: set [txstore] url to the target".to_owned());
        } else {
            lines.row(
                "the source is as it was: keep it stopped, and set [txstore] url to the \
                       target"
                    .to_owned(),
            );
        }
    }
}

#[derive(Debug, Serialize)]
struct Abandoned {
    was_retired: bool,
}

impl Human for Abandoned {
    fn describe(&self, lines: &mut Lines) {
        lines.row(
            if self.was_retired {
                "the source can be used again; remove the target"
            } else {
                "the source was not retired; remove the target"
            }
            .to_owned(),
        );
    }
}

/// Moves a node store.
pub(super) fn move_to(session: &Session, args: &StoreMove) -> anyhow::Result<Exit> {
    let writes_source = args.retire_source || args.abandon;
    let mode = if writes_source { OpenMode::Existing } else { OpenMode::Read };
    let source = open(session, &args.from, mode)?;
    let target_mode = if args.abandon { OpenMode::Existing } else { OpenMode::Create };
    let target = open(session, &args.to, target_mode)?;
    let options = MoveOptions {
        from: node_store::name_for_move(&args.from),
        to: node_store::name_for_move(&args.to),
        retires_source: args.retire_source,
        batch: args.batch as usize,
        passes_max: PASSES_MAX,
        quiet_ms: QUIET_MS,
        creating_wait_ms: CREATING_WAIT_MS,
    };
    if args.abandon {
        let was_retired = abandon_move(&source, &target, &options)?;
        output::result(session.json(), &Abandoned { was_retired })?;
        return Ok(Exit::Success);
    }
    let (interrupt, started) = (Interrupt::watch()?, Instant::now());
    let mut progress = Progress::start("moved", false);
    let mut watch = |now: &MoveProgress| {
        let percent = u32::from(now.at) * 100 / u32::from(u16::MAX);
        progress.update(now.transactions, 0, || {
            let retired = if now.is_retired { ", source retired" } else { "" };
            if now.is_following {
                return format!("changes copied since the last pass{retired}");
            }
            format!(
                "transactions: pass {} at {percent} %, {} written{retired}",
                now.pass, now.changed
            )
        });
        !interrupt.is_asked()
    };
    let moved = move_store(&source, &target, &options, &mut watch);
    progress.finish();
    let report = moved?;
    let moved = Moved {
        from: options.from,
        to: options.to,
        transactions: report.transactions,
        passes: report.passes,
        followed: report.followed,
        last_step_ms: report.last_step_ms,
        is_source_retired: args.retire_source,
        seconds: started.elapsed().as_secs(),
    };
    output::result(session.json(), &moved)?;
    Ok(Exit::Success)
}

#[derive(Debug, Serialize)]
struct Difference {
    what: String,
    difference: &'static str,
}

#[derive(Debug, Serialize)]
struct Compared {
    transactions: u64,
    differing: u64,
    differences: Vec<Difference>,
}

impl Compared {
    fn new(found: StoreComparison) -> Self {
        let difference = |found: utxokeep_txstore::StoreDifference| Difference {
            what: found.what,
            difference: found.difference,
        };
        Self {
            transactions: found.transactions,
            differing: found.differing,
            differences: found.differences.into_iter().map(difference).collect(),
        }
    }
}

impl Human for Compared {
    fn describe(&self, lines: &mut Lines) {
        for Difference { what, difference } in &self.differences {
            lines.row(format!("{what}: {difference}"));
        }
        let Self { transactions, differing, .. } = self;
        lines.row(format!("{transactions} transactions compared, {differing} differences"));
    }
}

/// Compares two node stores.
pub(super) fn verify(session: &Session, args: &StoreVerify) -> anyhow::Result<Exit> {
    let url = url_of(session, args.store.store.as_deref())?;
    let (name, against) =
        (node_store::name_for_move(url), node_store::name_for_move(&args.against));
    if name == against {
        return Err(CliError::SameStore { place: name }.into());
    }
    let one = open(session, url, OpenMode::Read)?;
    let other = open(session, &args.against, OpenMode::Read)?;
    let mut progress = Progress::start("compared", false);
    let found = compare_stores(&one, &other, COMPARED, &mut |done| {
        progress.update(done, 0, || "transactions".to_owned());
    });
    progress.finish();
    let compared = Compared::new(found?);
    let is_alike = compared.differing == 0;
    output::result(session.json(), &compared)?;
    Ok(if is_alike { Exit::Success } else { Exit::Unsound })
}
