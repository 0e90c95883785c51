//! `tx settings`: the numbers that every program over one node store has in common.

use serde::Serialize;
use utxokeep_txstore::{Agreement, PruneStore as _};

use utxokeep::times::utc;

use super::{
    args::TxSettings,
    exit::Exit,
    open::Session,
    output::{self, Human, Lines},
    tx,
};
use crate::{clock::now_us, pruning};

#[derive(Debug, Serialize)]
struct Number {
    name: String,
    blocks: u32,
}

#[derive(Debug, Serialize)]
struct Change {
    name: String,
    at_ms: u64,
    from_blocks: u32,
    to_blocks: u32,
}

/// What a store was made with, and what was changed since.
#[derive(Debug, Serialize)]
struct Shown {
    settings: Vec<Number>,
    changes: Vec<Change>,
}

impl Human for Shown {
    fn describe(&self, lines: &mut Lines) {
        for Number { name, blocks } in &self.settings {
            lines.row(format!("{name} = {blocks}"));
        }
        for Change { name, at_ms, from_blocks, to_blocks } in &self.changes {
            let at = utc(i64::try_from(at_ms.saturating_mul(1_000)).unwrap_or(i64::MAX));
            lines.row(format!("changed {at}: {name} from {from_blocks} to {to_blocks}"));
        }
    }
}

/// Shows the numbers of a store, after changing them to those of the configuration if that is asked.
pub(super) fn run(session: &Session, args: &TxSettings) -> anyhow::Result<Exit> {
    let now_ms = u64::try_from(now_us() / 1_000).unwrap_or_default();
    let agreement = if args.change { Agreement::Change { now_ms } } else { Agreement::Ignore };
    let store = tx::open_with(session, args.store.store.as_deref(), agreement)?;
    let pruner = pruning::settings(&session.config().pruner);
    store.agree(&pruner.agreed(), agreement)??;
    let agreed = store.agreed()?;
    let numbers = agreed.numbers.into_iter().map(|(name, blocks)| Number { name, blocks });
    let changes = agreed.changes.into_iter().map(|change| Change {
        name: change.name,
        at_ms: change.at_ms,
        from_blocks: change.from,
        to_blocks: change.to,
    });
    let shown = Shown { settings: numbers.collect(), changes: changes.collect() };
    output::result(session.json(), &shown)?;
    Ok(Exit::Success)
}
