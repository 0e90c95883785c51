//! Leaving one branch for a better one.
//!
//! # Invariants
//!
//! * The old blocks go and the new ones come in one database transaction, at least until what is
//!   there is better than what was. So the chain of the ledger only ever gets better, and followers
//!   on different branches cannot chase each other.

use utxokeep_core::{
    BlockHash, Height,
    wallet::{BranchAbove, Micros},
};
use utxokeep_sql::{Row, Transaction, Value};

use super::{Bringing, FollowError, FollowReport, FollowedChain, WorseBranch, fork::Parted};
use crate::{Ledger, LedgerError, chain::LockedChain, rows};

const SELECT_WORK: &str = "SELECT r.work FROM chains c JOIN recent_blocks r ON r.chain_id = c.id
    WHERE c.chain = $1 AND c.network = $2 AND r.height > $3 AND r.height <= $4";

impl Ledger {
    /// Compares the branch of `chain` with that of the ledger, and takes the better one.
    pub(super) fn choose_branch(
        &self,
        bringing: &Bringing<'_>,
        tip: (Height, BlockHash),
        end: Height,
        parted: Parted,
        report: &mut FollowReport,
    ) -> Result<Option<(Height, BlockHash)>, FollowError> {
        let ours = self.branch_above(bringing, parted, tip.0)?;
        let theirs = chain_above(bringing.chain, parted, end)?;
        if !theirs.is_better_than(&ours) {
            let shared = parted.shared().map(|(height, _)| height);
            report.worse_branch = Some(WorseBranch { shared, ledger: tip.0, chain: end });
            return Ok(Some(tip));
        }
        let (cursor, did) = self.switch(bringing, tip, end, parted, &ours)?;
        report.undone += u64::from(ours.blocks);
        report.applied += did.applied;
        report.recorded += did.recorded;
        Ok(cursor)
    }

    /// What the ledger has above the place where the branches part. Blocks that it does not remember,
    /// or that came without their work, leave the work unknown.
    fn branch_above(
        &self,
        bringing: &Bringing<'_>,
        parted: Parted,
        tip: Height,
    ) -> Result<BranchAbove, LedgerError> {
        let blocks = tip.get().saturating_sub(parted.first().get()).saturating_add(1);
        let network = bringing.options.network;
        let parameters = [
            Value::from(network.chain()),
            Value::from(network.name()),
            Value::from(i64::from(parted.first().get()) - 1),
            Value::from(tip.get()),
        ];
        let read = |row: &Row<'_>| rows::opt_work(row, 0);
        let read_all = |tx: &mut Transaction<'_>| -> Result<_, LedgerError> {
            Ok(tx.query_all(SELECT_WORK, &parameters, read)?)
        };
        let remembered =
            self.read(read_all)?.into_iter().fold(BranchAbove::empty(), BranchAbove::plus);
        let is_whole = remembered.blocks == blocks;
        Ok(BranchAbove { blocks, work: remembered.work.filter(|_| is_whole) })
    }

    /// Takes the ledger's blocks above the fork back and applies those of the chain, at least until
    /// they are better than what was there. Whoever moved the tip meanwhile is found out.
    fn switch(
        &self,
        bringing: &Bringing<'_>,
        looked_at: (Height, BlockHash),
        end: Height,
        parted: Parted,
        old: &BranchAbove,
    ) -> Result<(Option<(Height, BlockHash)>, FollowReport), FollowError> {
        let mut height = parted.first();
        let mut start = parted.shared();
        if start.is_none() {
            height = self.start(bringing.options, bringing.chain)?;
            let below = height.parent().map(|below| bringing.hash_at(below)).transpose()?;
            start = height.parent().zip(below.flatten());
        }
        let now: Micros = bringing.now;
        self.write(|tx| {
            let mut chain = LockedChain::lock_at(tx, bringing.options.network, looked_at)?;
            chain.detach_from(parted.first(), parted.shared(), self.limits, now)?;
            let (mut next, mut parent) = (height, start.map(|(_, hash)| hash));
            let (mut new, mut did, mut cursor) =
                (BranchAbove::empty(), FollowReport::default(), parted.shared());
            while next <= end && !new.is_better_than(old) {
                let (linked, work, txs) = bringing.block(next, parent)?;
                self.check_block(bringing.options.network, &txs)?;
                let applied = self.apply_next(&mut chain, &linked, work, &txs, now)?;
                did.count(&applied);
                if next >= parted.first() {
                    new = new.plus(work);
                }
                cursor = Some((next, linked.block.hash));
                (next, parent) = (next.plus(1), Some(linked.block.hash));
            }
            Ok((cursor, did))
        })
    }
}

/// What a chain has above the place where the branches part.
fn chain_above(
    chain: &dyn FollowedChain,
    parted: Parted,
    end: Height,
) -> Result<BranchAbove, FollowError> {
    let total = |height: Height| chain.total_work(height).map_err(FollowError::Chain);
    let work = match parted.first().parent() {
        None => total(end)?,
        Some(below) => total(end)?.zip(total(below)?).and_then(|(all, below)| all.above(&below)),
    };
    let blocks = (end.get() + 1).saturating_sub(parted.first().get());
    Ok(BranchAbove { blocks, work })
}
