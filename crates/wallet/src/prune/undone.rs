//! Blocks that leave the chain although transactions were pruned from them.
//!
//! # Invariants
//!
//! * A wallet remembers the lowest and the highest block that it was pruned from, in the transaction
//!   that prunes, until a rescan from the lowest one has come to the tip.
//! * A wallet whose pruned blocks leave the chain pays nothing until that rescan is done. It is not
//!   rewound and gets new blocks at once: what it still has is right.

use utxokeep_core::{
    Height,
    wallet::{AfterUndo, Micros, PrunedBlocks, WalletId},
};
use utxokeep_sql::{Row, SqlError, Transaction, Value};

use crate::{LedgerError, Limits, Tip, TxDetail, rows, session::Session};

const SELECT_PRUNED: &str =
    "SELECT pruned_from_height, pruned_to_height FROM wallets WHERE id = $1";
const SET_PRUNED: &str =
    "UPDATE wallets SET pruned_from_height = $2, pruned_to_height = $3 WHERE id = $1";
const SELECT_REACHED: &str = "SELECT id, name, pruned_from_height, pruned_to_height FROM wallets
    WHERE chain_id = $1 AND pruned_to_height >= $2 ORDER BY id";

/// A wallet that was pruned from a block which leaves the chain.
struct Reached {
    wallet: WalletId,
    name: String,
    pruned: PrunedBlocks,
}

/// Refuses to take blocks back from which transactions were pruned.
pub(crate) fn check_undo(
    tx: &mut Transaction<'_>,
    chain: i64,
    from: Height,
) -> Result<(), LedgerError> {
    let reached = reached(tx, chain, from)?;
    let Some(pruned) = reached.iter().map(|each| each.pruned).reduce(PrunedBlocks::and) else {
        return Ok(());
    };
    let wallets = reached.into_iter().map(|each| each.name).collect();
    Err(LedgerError::ReachesPruned { from, wallets, pruned })
}

/// Blocks from `from` on have left the chain, which ends at `tip` now. Asks for a rescan of every
/// wallet that was pruned from one of them; answers those that cannot even do that.
pub(crate) fn look_again(
    tx: &mut Transaction<'_>,
    chain: i64,
    from: Height,
    tip: Tip,
    limits: Limits,
    now: Micros,
) -> Result<Vec<(WalletId, LedgerError)>, LedgerError> {
    let mut failed = Vec::new();
    for Reached { wallet, pruned, .. } in reached(tx, chain, from)? {
        let after = pruned.after_undo(from, tip.map(|(height, _)| height));
        let done: Result<(), LedgerError> = tx.savepoint(|tx| {
            let mut session = Session::lock(tx, limits, wallet, now)?;
            match after {
                AfterUndo::Untouched => {}
                AfterUndo::NothingPruned => session.set_pruned(None)?,
                AfterUndo::LookAgain(left) => {
                    session.set_pruned(Some(left))?;
                    session.rescan_undone(left.lowest())?;
                }
            }
            session.finish()?;
            Ok(())
        });
        match done {
            Ok(()) => {}
            Err(error) if error.is_of_wallet() => failed.push((wallet, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(failed)
}

fn reached(tx: &mut Transaction<'_>, chain: i64, from: Height) -> Result<Vec<Reached>, SqlError> {
    let key = [Value::from(chain), Value::from(from.get())];
    let read = |row: &Row<'_>| {
        let (wallet, name) = (WalletId::new(row.int(0)?), row.text(1)?.to_owned());
        Ok(read_pruned(row, 2)?.map(|pruned| Reached { wallet, name, pruned }))
    };
    Ok(tx.query_all(SELECT_REACHED, &key, read)?.into_iter().flatten().collect())
}

fn read_pruned(row: &Row<'_>, column: usize) -> Result<Option<PrunedBlocks>, SqlError> {
    let heights = rows::height(row, column)?.zip(rows::height(row, column + 1)?);
    Ok(heights.and_then(|(lowest, highest)| PrunedBlocks::new(lowest, highest)))
}

impl Session<'_, '_> {
    /// Remembers from which blocks transactions go.
    pub(super) fn note_pruned(&mut self, gone: &[TxDetail]) -> Result<(), SqlError> {
        let heights = gone.iter().filter_map(|tx| tx.summary.state.block());
        let Some(now) = PrunedBlocks::of(heights) else { return Ok(()) };
        let before = self.pruned()?;
        self.set_pruned(Some(before.map_or(now, |before| before.and(now))))
    }

    /// Forgets what was pruned if a rescan from `from`, which has come to the tip, has brought it
    /// back.
    pub(crate) fn note_restored(&mut self, from: Height) -> Result<(), SqlError> {
        let is_restored = self.pruned()?.is_some_and(|pruned| pruned.is_restored_by(from));
        if is_restored { self.set_pruned(None) } else { Ok(()) }
    }

    fn pruned(&mut self) -> Result<Option<PrunedBlocks>, SqlError> {
        let key = [self.id()];
        self.tx.query_one(SELECT_PRUNED, &key, |row| read_pruned(row, 0))
    }

    fn set_pruned(&mut self, pruned: Option<PrunedBlocks>) -> Result<(), SqlError> {
        let lowest = rows::height_value(pruned.map(PrunedBlocks::lowest));
        let highest = rows::height_value(pruned.map(PrunedBlocks::highest));
        self.tx.execute(SET_PRUNED, &[self.id(), lowest, highest])?;
        Ok(())
    }
}
