//! Following a chain: one block for all wallets in one database transaction, with the tip.
//!
//! The tip is the cursor of whoever follows. It moves in the transaction that carries the block,
//! so a block is never half applied, and applying it again changes nothing.

mod detach;
mod mempool;
mod relevant;
mod scan;

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    BlockHash, ChainHash, ChainWork, Height, Network,
    wallet::{EventDepths, Evidence, Micros, WalletId, parents_first},
};
use utxokeep_fault::crash_point;
use utxokeep_sql::{Dialect, SqlError, Transaction, Value};

use crate::{
    BlockRef, Ledger, LedgerError, LinkedBlock, NewTx, RecordOptions, Recorded, Seen, birthday,
    follow,
    ingest::{check_block, check_shape},
    ledger::ensure_chain,
    lifecycle::family,
    outbox::TipAfter,
    prune, rows,
    session::{CHAIN_LOCKS, Session},
    standing,
};

const SELECT_TIP: &str = "SELECT tip_height, tip_hash FROM chains WHERE id = $1";
const LOCK_TIP: &str = "SELECT tip_height, tip_hash FROM chains WHERE id = $1 FOR NO KEY UPDATE";
/// Keeps every writer of a wallet of the chain away, without touching the rows of the wallets.
const LOCK_CHAIN: &str = "SELECT pg_advisory_xact_lock($1)";
const UPDATE_TIP: &str = "UPDATE chains SET tip_height = $2, tip_hash = $3,
        first_height = CASE WHEN tip_height IS NULL OR first_height > $2 THEN $2
            ELSE first_height END
    WHERE id = $1";
const SELECT_STORED_BELOW: &str = "SELECT height, hash FROM blocks
    WHERE chain_id = $1 AND height < $2 AND is_claimed = 0 ORDER BY height DESC LIMIT 1";
const SELECT_RECENT_BELOW: &str = "SELECT height, hash FROM recent_blocks
    WHERE chain_id = $1 AND height < $2 ORDER BY height DESC LIMIT 1";
/// Blocks stay on which transactions hang that could not be taken out of them.
const DELETE_BLOCKS: &str = "DELETE FROM blocks WHERE chain_id = $1 AND height >= $2
    AND NOT EXISTS (SELECT t.wallet_id FROM transactions t
        WHERE t.chain_id = $1 AND t.block_height = blocks.height)";
const MARK_LEFT_BLOCKS: &str =
    "UPDATE blocks SET is_claimed = 1 WHERE chain_id = $1 AND height >= $2";
const DROP_DEEP_LEASES: &str = "DELETE FROM utxo_leases
    WHERE wallet_id IN (SELECT id FROM wallets WHERE chain_id = $1)
        AND spent_height + hold_confirmations - 1 <= $2";
const SELECT_TOUCHED: &str = "SELECT DISTINCT wallet_id FROM transactions
    WHERE chain_id = $1 AND block_height >= $2 ORDER BY wallet_id";

/// Transactions in a block that a new tip makes deep enough to be told of.
const SELECT_DEEPER: &str = "SELECT t.wallet_id, t.id FROM transactions t
    JOIN wallets w ON w.id = t.wallet_id
    WHERE t.chain_id = $1 AND t.block_height = $2 AND t.told_depth < $3
        AND w.archived_at_us IS NULL
    ORDER BY t.wallet_id, t.id";

pub use self::{
    mempool::{MempoolApplied, MempoolRefusal, MempoolView, WatchMark},
    scan::RescanStep,
};

/// What to do when transactions were pruned from blocks that are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtPruned {
    /// Whoever asks has to know.
    Refuse,
    /// The blocks have left the chain, whatever was pruned.
    LookAgain,
}

/// Where a chain ends.
pub type Tip = Option<(Height, BlockHash)>;

/// What a block did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// The ledger was there already; nothing was changed.
    pub already_applied: bool,
    /// What was recorded, by wallet.
    pub recorded: BTreeMap<WalletId, Vec<Recorded>>,
    /// Wallets that could not take the block and are set aside now, with the reason.
    pub set_aside: BTreeMap<WalletId, String>,
}

impl Ledger {
    /// Where the ledger's view of a network ends.
    pub fn tip(&self, network: Network) -> Result<Tip, LedgerError> {
        const SELECT: &str =
            "SELECT tip_height, tip_hash FROM chains WHERE chain = $1 AND network = $2";
        let names = [Value::from(network.chain()), Value::from(network.name())];
        let tip = self.read(|tx| Ok(tx.query_opt(SELECT, &names, |row| rows::tip(row, 0, 1))?))?;
        Ok(tip.flatten())
    }

    /// Applies the next block to all wallets of a network. `txs` are its transactions in the order
    /// of the block; those that concern no wallet are skipped.
    ///
    /// A wallet that cannot take it is left as it was and set aside, and the block goes on; see
    /// [`Ledger::request_rescan`].
    ///
    /// The first block may have any height. Applying the tip again changes nothing.
    pub fn apply_block(
        &self,
        network: Network,
        linked: &LinkedBlock,
        txs: &[NewTx],
        now: Micros,
    ) -> Result<Applied, LedgerError> {
        self.apply_with_work(network, linked, None, txs, now)
    }

    /// The same for a block whose work is known, so that branches can be compared by it.
    pub(crate) fn apply_with_work(
        &self,
        network: Network,
        linked: &LinkedBlock,
        work: Option<ChainWork>,
        txs: &[NewTx],
        now: Micros,
    ) -> Result<Applied, LedgerError> {
        self.check_block(network, txs)?;
        self.write(|tx| {
            let mut chain = LockedChain::lock(tx, network)?;
            self.apply_next(&mut chain, linked, work, txs, now)
        })
    }

    /// Refuses what no block can hold.
    pub(crate) fn check_block(&self, network: Network, txs: &[NewTx]) -> Result<(), LedgerError> {
        self.check_batch(txs.len())?;
        check_block(network, txs)
    }

    /// Applies the next block, which was checked, to a chain that is locked.
    pub(crate) fn apply_next(
        &self,
        chain: &mut LockedChain<'_, '_>,
        linked: &LinkedBlock,
        work: Option<ChainWork>,
        txs: &[NewTx],
        now: Micros,
    ) -> Result<Applied, LedgerError> {
        let block = linked.block;
        if chain.tip == Some((block.height, block.hash)) {
            return Ok(Applied { already_applied: true, ..Applied::default() });
        }
        if !follows(linked, chain.tip) {
            return Err(LedgerError::NotNextBlock { height: block.height, tip: chain.named_tip() });
        }
        let mut applied = Applied::default();
        let mut skipped = standing::set_aside(chain.tx, chain.id)?;
        for (wallet, error) in self.widen_chain(chain.tx, chain.id, txs, &skipped, now)? {
            skipped.insert(wallet.get());
            let reason = chain.set_wallet_aside(wallet, &block, error, now)?;
            applied.set_aside.insert(wallet, reason);
        }
        let places = chain.concerned(block.height, txs)?;
        let deeper = chain.deeper(block.height, self.limits.event_depths)?;
        let wallets: BTreeSet<i64> = places.keys().chain(deeper.keys()).copied().collect();
        for id in wallets.difference(&skipped) {
            let (wallet, places) = (WalletId::new(*id), places.get(id));
            let recorded = chain.tx.savepoint(|tx| {
                let mut session = Session::lock(tx, self.limits, wallet, now)?;
                session.clock = self.lease_clock;
                session.outbox.tip_after = Some(TipAfter(Some(block.height)));
                session.touch(deeper.get(id).map_or(&[], Vec::as_slice))?;
                let recorded = match places {
                    Some(places) => Some(session.record_block(&block, txs, places)?),
                    None => None,
                };
                session.finish()?;
                crash_point("in_block");
                Ok(recorded)
            });
            match recorded {
                Ok(recorded) => {
                    applied.recorded.extend(recorded.map(|recorded| (wallet, recorded)));
                }
                Err(error) => {
                    let reason = chain.set_wallet_aside(wallet, &block, error, now)?;
                    applied.set_aside.insert(wallet, reason);
                }
            }
        }
        let row = [Value::from(chain.id), Value::from(block.height.get())];
        chain.tx.execute(DROP_DEEP_LEASES, &row)?;
        follow::remember(chain.tx, chain.id, &block, work)?;
        chain.set_tip(Some((block.height, block.hash)))?;
        Ok(applied)
    }

    /// Takes the tip back. Payments in it are unconfirmed again, coinbases are orphaned and what
    /// spends from them fails. Disconnecting what is disconnected already changes nothing.
    pub fn disconnect_block(
        &self,
        network: Network,
        linked: &LinkedBlock,
        now: Micros,
    ) -> Result<(), LedgerError> {
        self.write(|tx| {
            let mut chain = LockedChain::lock(tx, network)?;
            let block = linked.block;
            let below = block.height.parent().zip(linked.parent);
            if chain.tip == below {
                return Ok(());
            }
            if chain.tip != Some((block.height, block.hash)) {
                return Err(LedgerError::NotTip { height: block.height, tip: chain.named_tip() });
            }
            chain.detach_from(block.height, below, self.limits, now)
        })
    }

    /// Takes back every block from `height` on. The tip becomes the block right below, if the ledger
    /// remembers it: it remembers the newest 5,000, and below them those with transactions of its
    /// wallets. Refused when transactions were pruned from one of these blocks.
    pub fn rollback_from(
        &self,
        network: Network,
        height: Height,
        now: Micros,
    ) -> Result<Tip, LedgerError> {
        self.roll_back(network, height, AtPruned::Refuse, now)
    }

    /// The same, also when transactions were pruned from one of these blocks. Their wallets pay
    /// nothing until a rescan is done, which is asked for.
    pub fn rollback_below_pruned(
        &self,
        network: Network,
        height: Height,
        now: Micros,
    ) -> Result<Tip, LedgerError> {
        self.roll_back(network, height, AtPruned::LookAgain, now)
    }

    fn roll_back(
        &self,
        network: Network,
        height: Height,
        at_pruned: AtPruned,
        now: Micros,
    ) -> Result<Tip, LedgerError> {
        self.write(|tx| {
            let mut chain = LockedChain::lock(tx, network)?;
            if at_pruned == AtPruned::Refuse {
                prune::check_undo(chain.tx, chain.id, height)?;
            }
            let below = match chain.tip {
                Some((tip, _)) if tip >= height => chain.known_below(height)?,
                tip => tip,
            };
            chain.detach_from(height, below, self.limits, now)?;
            Ok(chain.tip)
        })
    }

    /// Takes back every block above `target`, which becomes the tip. The caller vouches that the
    /// chain of the ledger goes through it.
    pub fn rollback_to(
        &self,
        network: Network,
        target: (Height, BlockHash),
        now: Micros,
    ) -> Result<(), LedgerError> {
        self.write(|tx| {
            let mut chain = LockedChain::lock(tx, network)?;
            if chain.tip.is_none_or(|(tip, _)| tip < target.0) {
                return Err(LedgerError::NotTip { height: target.0, tip: chain.named_tip() });
            }
            chain.detach_from(target.0.plus(1), Some(target), self.limits, now)
        })
    }

    /// Takes the blocks above `height` back for one wallet only, so that it can be scanned again.
    /// Tip, blocks and other wallets stay.
    pub fn rewind_wallet(
        &self,
        wallet: WalletId,
        height: Height,
        now: Micros,
    ) -> Result<(), LedgerError> {
        self.write_wallet(wallet, now, |session| session.detach_from(height.plus(1)))
    }
}

fn follows(linked: &LinkedBlock, tip: Tip) -> bool {
    match tip {
        None => true,
        Some((height, hash)) => {
            linked.block.height.parent() == Some(height) && linked.parent == Some(hash)
        }
    }
}

/// A chain whose tip is locked, and whose wallets nobody else writes to. Wallets that are concerned
/// are locked as they come, in ascending order.
pub(crate) struct LockedChain<'t, 'c> {
    tx: &'t mut Transaction<'c>,
    id: i64,
    network: Network,
    tip: Tip,
}

impl<'t, 'c> LockedChain<'t, 'c> {
    fn lock(tx: &'t mut Transaction<'c>, network: Network) -> Result<Self, LedgerError> {
        let id = ensure_chain(tx, network)?;
        let statement = match tx.dialect() {
            Dialect::Sqlite => SELECT_TIP,
            Dialect::Postgres => {
                tx.query(LOCK_CHAIN, &[Value::from(CHAIN_LOCKS + id)], |_| Ok(()))?;
                LOCK_TIP
            }
        };
        let tip = tx.query_one(statement, &[Value::from(id)], |row| rows::tip(row, 0, 1))?;
        Ok(Self { tx, id, network, tip })
    }

    /// The tip, as errors say it.
    fn named_tip(&self) -> Option<(Height, ChainHash)> {
        self.tip.map(|(height, hash)| (height, self.network.hash(hash)))
    }

    /// Locks a chain whose tip must not have moved.
    pub(crate) fn lock_at(
        tx: &'t mut Transaction<'c>,
        network: Network,
        tip: (Height, BlockHash),
    ) -> Result<Self, LedgerError> {
        let chain = Self::lock(tx, network)?;
        if chain.tip != Some(tip) {
            return Err(LedgerError::NotTip { height: tip.0, tip: chain.named_tip() });
        }
        Ok(chain)
    }

    fn set_tip(&mut self, tip: Tip) -> Result<(), LedgerError> {
        let hash = tip.as_ref().map(|(_, hash)| hash.as_bytes());
        let height = rows::height_value(tip.map(|(height, _)| height));
        self.tx.execute(UPDATE_TIP, &[Value::from(self.id), height, Value::from(hash)])?;
        self.tip = tip;
        Ok(())
    }

    /// The tip after blocks were taken back.
    fn go_back_to(&mut self, tip: Tip) -> Result<(), LedgerError> {
        self.set_tip(tip)?;
        // What is remembered above may reach down to the stored block that is the tip now.
        let above = tip.map_or(Height::new(0), |(height, _)| height.plus(1));
        follow::forget(self.tx, self.id, above)?;
        standing::forget_above(self.tx, self.id, tip)?;
        Ok(())
    }

    /// Sets a wallet aside if the error is its own, and answers the reason; any other stops the
    /// block for all.
    fn set_wallet_aside(
        &mut self,
        wallet: WalletId,
        block: &BlockRef,
        error: LedgerError,
        now: Micros,
    ) -> Result<String, LedgerError> {
        if !error.is_of_wallet() {
            return Err(error);
        }
        standing::set_wallet_aside(self.tx, wallet, block, &error, false, now)?;
        Ok(error.to_string())
    }

    /// Positions of the transactions that concern each wallet. A wallet that claims to have one at
    /// this height is concerned, whether the block holds it or not.
    fn concerned(
        &mut self,
        height: Height,
        txs: &[NewTx],
    ) -> Result<BTreeMap<i64, Vec<usize>>, LedgerError> {
        let mut places = relevant::by_wallet(self.tx, self.id, txs)?;
        // What no chain can contain spoils the block for everybody.
        let concerned: BTreeSet<usize> = places.values().flatten().copied().collect();
        concerned.into_iter().try_for_each(|at| check_shape(&txs[at]))?;
        let key = [Value::from(self.id), Value::from(height.get())];
        for wallet in self.tx.query_all(SELECT_TOUCHED, &key, |row| row.int(0))? {
            places.entry(wallet).or_default();
        }
        Ok(places)
    }

    /// Transactions that a block at `height` makes deep enough to be told of, by wallet.
    fn deeper(
        &mut self,
        height: Height,
        depths: EventDepths,
    ) -> Result<BTreeMap<i64, Vec<i64>>, SqlError> {
        let mut deeper: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        // What is in the block itself is told when it is recorded.
        for depth in depths.as_slice().iter().copied().filter(|depth| *depth > 1) {
            let Some(below) = height.get().checked_sub(depth - 1) else { continue };
            let key = [Value::from(self.id), Value::from(below), Value::from(depth)];
            self.tx.query(SELECT_DEEPER, &key, |row| {
                deeper.entry(row.int(0)?).or_default().push(row.int(1)?);
                Ok(())
            })?;
        }
        Ok(deeper)
    }

    /// The highest block below a height whose hash the ledger knows.
    fn known_below(&mut self, height: Height) -> Result<Tip, SqlError> {
        let key = [Value::from(self.id), Value::from(height.get())];
        let mut below = None;
        for statement in [SELECT_RECENT_BELOW, SELECT_STORED_BELOW] {
            let found = self.tx.query_opt(statement, &key, |row| rows::tip(row, 0, 1))?;
            below = below.max(found.flatten());
        }
        Ok(below)
    }

    /// Takes back all blocks from `height` on; `tip` is the last one then. Transactions of every
    /// wallet leave their blocks first; only then the blocks can go. A wallet that cannot give one
    /// up is set aside with what it has, one that was pruned from them has to look at the chain
    /// again, and the others go on.
    pub(crate) fn detach_from(
        &mut self,
        height: Height,
        tip: Tip,
        limits: crate::Limits,
        now: Micros,
    ) -> Result<(), LedgerError> {
        let key = [Value::from(self.id), Value::from(height.get())];
        let mut failed = Vec::new();
        for wallet in self.tx.query_all(SELECT_TOUCHED, &key, |row| row.int(0))? {
            let wallet = WalletId::new(wallet);
            let detached: Result<(), LedgerError> = self.tx.savepoint(|tx| {
                let mut session = Session::lock(tx, limits, wallet, now)?;
                session.outbox.tip_after = Some(TipAfter(tip.map(|(height, _)| height)));
                session.detach_from(height)?;
                session.finish()?;
                Ok(())
            });
            match detached {
                Ok(()) => {}
                Err(error) if error.is_of_wallet() => failed.push((wallet, error)),
                Err(error) => return Err(error),
            }
        }
        birthday::rewind(self.tx, self.id, height)?;
        self.tx.execute(DELETE_BLOCKS, &key)?;
        self.tx.execute(MARK_LEFT_BLOCKS, &key)?;
        follow::forget(self.tx, self.id, height)?;
        let undone = self.tip.map_or(BlockHash::from_bytes([0; 32]), |(_, hash)| hash);
        if self.tip.is_some_and(|(tip, _)| tip >= height) {
            self.go_back_to(tip)?;
        }
        failed.extend(prune::look_again(self.tx, self.id, height, self.tip, limits, now)?);
        for (wallet, error) in failed {
            let block = (height, undone);
            standing::set_aside_at_undo(self.tx, wallet, block, tip, &error, now)?;
        }
        Ok(())
    }
}

impl Session<'_, '_> {
    /// Records what a block holds for this wallet, and takes out of it whatever was claimed to be
    /// in it and is not.
    fn record_block(
        &mut self,
        block: &BlockRef,
        txs: &[NewTx],
        places: &[usize],
    ) -> Result<Vec<Recorded>, LedgerError> {
        self.evidence = Evidence::Block;
        self.assert_block(block)?;
        if !places.is_empty() {
            self.lower_birthday(block.height)?;
        }
        let recorded = self.record_placed(block, txs, places)?;
        let held = places.iter().map(|at| txs[*at].txid).collect();
        self.detach_others(block.height, &held)?;
        Ok(recorded)
    }

    fn record_placed(
        &mut self,
        block: &BlockRef,
        txs: &[NewTx],
        places: &[usize],
    ) -> Result<Vec<Recorded>, LedgerError> {
        let order = parents_first(&family(places.iter().map(|at| &txs[*at])));
        let batch: Vec<(&NewTx, u32)> = order
            .iter()
            .map(|at| (&txs[places[*at]], u32::try_from(places[*at]).unwrap_or(u32::MAX)))
            .collect();
        if let Some(recorded) = self.record_bulk(&batch, block.height)? {
            return Ok(recorded);
        }
        let options = RecordOptions::default();
        let record = |(new, position): &(&NewTx, u32)| {
            self.record(new, Seen::Block(*block, Some(*position)), &options, true)
        };
        batch.iter().map(record).collect()
    }
}
