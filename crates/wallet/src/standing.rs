//! Wallets that lack blocks which the ledger has passed: set aside, or to be scanned again.
//!
//! A block that one wallet cannot take must not stop the others. That wallet is set aside: its part
//! of the block is undone, it gets no further blocks, and nothing is paid from it. A rescan gives it
//! the blocks that it lacks, one by one, beside the ledger, which goes on. A wallet that watches more
//! than before asks for the same. One that was in the archive, or a keychain of it, counts as set
//! aside until it has looked at what passed meanwhile; it gets new blocks at once. So does one that
//! was pruned from blocks which left the chain.
//!
//! # Invariants
//!
//! * A row says: the wallet lacks blocks from `next_height` on, or they must be looked at again.
//! * A row whose `next_height` is above the tip says nothing, and is gone in the transaction that
//!   makes it so: the one that scans the last block, or that takes blocks back.
//! * A wallet that could not take a block gets blocks from its rescan only; any other gets new ones
//!   at once.

use std::collections::BTreeSet;

use utxokeep_core::{
    BlockHash, Height, Network,
    wallet::{Micros, WalletId},
};
use utxokeep_sql::{Row, SqlError, Transaction, Value};

use crate::{BlockRef, Ledger, LedgerError, Tip, rows, session::Session};

const SELECT: &str = "SELECT from_height, next_height, is_requested, failed_height, failed_hash,
        failed_reason, failed_at_us, restored_at_us, undone_at_us
    FROM wallet_rescans WHERE wallet_id = $1";
const SELECT_PAGE: &str = "SELECT r.from_height, r.next_height, r.is_requested, r.failed_height,
        r.failed_hash, r.failed_reason, r.failed_at_us, r.restored_at_us,
        r.undone_at_us, w.id, w.name
    FROM wallet_rescans r JOIN wallets w ON w.id = r.wallet_id
    WHERE r.wallet_id > $1 ORDER BY r.wallet_id LIMIT $2";
const SELECT_REQUESTED: &str = "SELECT w.id, r.next_height
    FROM wallet_rescans r
    JOIN wallets w ON w.id = r.wallet_id JOIN chains c ON c.id = w.chain_id
    WHERE c.chain = $1 AND c.network = $2 AND r.is_requested = 1
        AND r.next_height <= c.tip_height AND w.archived_at_us IS NULL
    ORDER BY w.id";
const SELECT_SET_ASIDE: &str = "SELECT r.wallet_id
    FROM wallet_rescans r JOIN wallets w ON w.id = r.wallet_id
    WHERE w.chain_id = $1 AND r.failed_height IS NOT NULL";
const SET_ASIDE: &str = "INSERT INTO wallet_rescans (wallet_id, from_height, next_height,
        is_requested, failed_height, failed_hash, failed_reason, failed_at_us)
    VALUES ($1, $2, $2, 0, $2, $3, $4, $5)
    ON CONFLICT (wallet_id) DO UPDATE
    SET failed_height = excluded.failed_height, failed_hash = excluded.failed_hash,
        failed_reason = excluded.failed_reason, failed_at_us = excluded.failed_at_us";
/// The wallet still has a block that left the chain, so that it lacks those from there on.
const SET_ASIDE_BELOW: &str = "INSERT INTO wallet_rescans (wallet_id, from_height, next_height,
        is_requested, failed_height, failed_hash, failed_reason, failed_at_us)
    VALUES ($1, $6, $6, 0, $2, $3, $4, $5)
    ON CONFLICT (wallet_id) DO UPDATE
    SET failed_height = excluded.failed_height, failed_hash = excluded.failed_hash,
        failed_reason = excluded.failed_reason, failed_at_us = excluded.failed_at_us,
        is_requested = 0,
        from_height = CASE WHEN wallet_rescans.from_height < excluded.from_height
            THEN wallet_rescans.from_height ELSE excluded.from_height END,
        next_height = CASE WHEN wallet_rescans.next_height < excluded.next_height
            THEN wallet_rescans.next_height ELSE excluded.next_height END";
const STOP: &str = "UPDATE wallet_rescans SET is_requested = 0 WHERE wallet_id = $1";
const REQUEST: &str = "INSERT INTO wallet_rescans
        (wallet_id, from_height, next_height, is_requested)
    VALUES ($1, $2, $2, 1)
    ON CONFLICT (wallet_id) DO UPDATE
    SET from_height = excluded.from_height, next_height = excluded.next_height, is_requested = 1";
const MARK_RESTORED: &str = "UPDATE wallet_rescans SET restored_at_us = $2 WHERE wallet_id = $1";
const MARK_UNDONE: &str = "UPDATE wallet_rescans SET undone_at_us = $2 WHERE wallet_id = $1";
/// The rescan of a wallet that is set aside has to start lower.
const LOWER: &str =
    "UPDATE wallet_rescans SET from_height = $2, next_height = $2 WHERE wallet_id = $1";
const ADVANCE: &str = "UPDATE wallet_rescans SET next_height = $2 WHERE wallet_id = $1";
const DELETE: &str = "DELETE FROM wallet_rescans WHERE wallet_id = $1";
/// Rescans that are over have brought back what was pruned.
const FORGET_PRUNED_ABOVE: &str = "UPDATE wallets
    SET pruned_from_height = NULL, pruned_to_height = NULL
    WHERE chain_id = $1 AND EXISTS (SELECT r.wallet_id FROM wallet_rescans r
        WHERE r.wallet_id = wallets.id AND r.next_height > $2 AND r.is_requested = 1
            AND r.from_height <= wallets.pruned_from_height)";
const DELETE_ABOVE: &str = "DELETE FROM wallet_rescans
    WHERE next_height > $2 AND wallet_id IN (SELECT id FROM wallets WHERE chain_id = $1)";

/// Characters of a reason that are kept.
const REASON_CHARS_MAX: usize = 1_000;

/// Why a wallet that gets new blocks has not looked at all earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LackCause {
    /// It, or a keychain of it, was taken out of the archive.
    Restored,
    /// Blocks left the chain from which transactions had been pruned.
    PrunedUndone,
}

impl LackCause {
    /// The cause, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Restored => {
                "it was restored, and has not looked at all blocks since it was archived"
            }
            Self::PrunedUndone => {
                "blocks left the chain from which transactions had been pruned, and it has not \
                 looked at the chain again; those of them that no block holds any more are only in \
                 the archive of what was pruned"
            }
        }
    }

    /// The cause of a row, from when each happened. A reorganisation is the worse of both.
    pub(crate) fn of(
        restored_at_us: Option<i64>,
        undone_at_us: Option<i64>,
    ) -> Option<(Self, Micros)> {
        let undone = undone_at_us.map(|at| (Self::PrunedUndone, Micros::new(at)));
        undone.or(restored_at_us.map(|at| (Self::Restored, Micros::new(at))))
    }
}

/// The block since which a wallet has not all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// Height of the block.
    pub height: Height,
    /// The block that the wallet could not take; `None` for a wallet that was restored, or pruned
    /// from blocks that left the chain.
    pub hash: Option<BlockHash>,
    /// What the ledger said.
    pub reason: String,
    /// When it happened.
    pub at: Micros,
}

/// Blocks that a wallet is to look at, up to the tip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rescan {
    /// The first one.
    pub from: Height,
    /// The next one; those below are done.
    pub next: Height,
}

/// How a wallet stands to the tip of the ledger. Both are `None` when it has every block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// It pays nothing: it could not take this block and gets no further ones, or it has not looked
    /// at all blocks from this one on since it was restored, or since blocks left the chain that it
    /// had been pruned from.
    pub set_aside: Option<SetAside>,
    /// It is being scanned, or waits for that.
    pub rescan: Option<Rescan>,
}

/// A wallet that lacks blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaggingWallet {
    /// The wallet.
    pub wallet: WalletId,
    /// Its name.
    pub name: String,
    /// What it lacks.
    pub standing: Standing,
}

impl Ledger {
    /// How a wallet stands to the tip of the ledger.
    pub fn standing(&self, wallet: WalletId) -> Result<Standing, LedgerError> {
        self.read_wallet(wallet, |session| Ok(session.standing()?))
    }

    /// Wallets behind `after` that are set aside or being scanned, of all networks.
    pub fn lagging_wallets(
        &self,
        after: Option<WalletId>,
        limit: usize,
    ) -> Result<Vec<LaggingWallet>, LedgerError> {
        let parameters = [Value::from(after.map_or(0, WalletId::get)), self.page(limit)];
        let read = |row: &Row<'_>| {
            let (wallet, name) = (WalletId::new(row.int(9)?), row.text(10)?.to_owned());
            Ok(LaggingWallet { wallet, name, standing: RescanRow::read(row)?.standing() })
        };
        self.read(|tx| Ok(tx.query_all(SELECT_PAGE, &parameters, read)?))
    }

    /// Tells of each wallet that is set aside or being scanned, of all networks, page by page.
    pub fn each_lagging_wallet(
        &self,
        mut each: impl FnMut(LaggingWallet) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let mut after = None;
        loop {
            let page = self.lagging_wallets(after, usize::MAX)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.wallet);
            page.into_iter().try_for_each(&mut each)?;
        }
    }

    /// Wallets of a network for which a rescan was asked, with the next block of each.
    pub fn requested_rescans(
        &self,
        network: Network,
    ) -> Result<Vec<(WalletId, Height)>, LedgerError> {
        let names = [Value::from(network.chain()), Value::from(network.name())];
        let read =
            |row: &Row<'_>| Ok((WalletId::new(row.int(0)?), Height::new(rows::u32_at(row, 1)?)));
        self.read(|tx| Ok(tx.query_all(SELECT_REQUESTED, &names, read)?))
    }

    /// Asks that a wallet looks at all blocks from `from` up to the tip again. Whoever follows the
    /// chain does it, with [`Ledger::rescan_block`].
    ///
    /// A wallet that is set aside starts at the block that it could not take at the latest, and is
    /// rewound to before its start. A rescan that is under way goes on if it has not
    /// come to `from` yet; else it starts again there, because scripts may be watched since.
    pub fn request_rescan(
        &self,
        wallet: WalletId,
        from: Height,
        now: Micros,
    ) -> Result<Rescan, LedgerError> {
        self.write_wallet(wallet, now, |session| {
            if session.tip_height().is_none_or(|tip| from > tip) {
                return Err(LedgerError::BlockNotFound { height: from });
            }
            session.request_rescan(from)
        })
    }
}

/// What is stored about a wallet that lacks blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RescanRow {
    pub(crate) rescan: Option<Rescan>,
    pub(crate) is_requested: bool,
    pub(crate) set_aside: Option<SetAside>,
    /// Why and since when a wallet that gets new blocks lacks earlier ones.
    lacks: Option<(LackCause, Micros)>,
}

impl RescanRow {
    fn read(row: &Row<'_>) -> Result<Self, SqlError> {
        let height = |column| rows::u32_at(row, column).map(Height::new);
        let set_aside = match rows::tip(row, 3, 4)? {
            None => None,
            Some((height, hash)) => Some(SetAside {
                height,
                hash: Some(hash),
                reason: row.text(5)?.to_owned(),
                at: Micros::new(row.int(6)?),
            }),
        };
        let rescan = Some(Rescan { from: height(0)?, next: height(1)? });
        let lacks = LackCause::of(row.opt_int(7)?, row.opt_int(8)?);
        Ok(Self { rescan, is_requested: rows::flag(row, 2)?, set_aside, lacks })
    }

    fn standing(self) -> Standing {
        let lacks = self.lacks.zip(self.rescan).map(|((cause, at), rescan)| SetAside {
            height: rescan.from,
            hash: None,
            reason: cause.text().to_owned(),
            at,
        });
        Standing {
            rescan: self.rescan.filter(|_| self.is_requested),
            set_aside: self.set_aside.or(lacks),
        }
    }
}

impl Session<'_, '_> {
    /// How the wallet stands to the tip of the ledger.
    pub(crate) fn standing(&mut self) -> Result<Standing, SqlError> {
        Ok(self.rescan_row()?.unwrap_or_default().standing())
    }

    pub(crate) fn rescan_row(&mut self) -> Result<Option<RescanRow>, SqlError> {
        self.tx.query_opt(SELECT, &[self.id()], RescanRow::read)
    }

    /// Writes down that the wallet is to look at all blocks from `from` on, see
    /// [`Ledger::request_rescan`].
    pub(crate) fn request_rescan(&mut self, from: Height) -> Result<Rescan, LedgerError> {
        let row = self.rescan_row()?.unwrap_or_default();
        let under_way = row.rescan.filter(|rescan| row.is_requested && rescan.next <= from);
        if let Some(rescan) = under_way {
            return Ok(rescan);
        }
        let mut start = from;
        if let (Some(_), Some(lacks)) = (&row.set_aside, row.rescan) {
            start = start.min(lacks.next);
            self.detach_from(start)?;
        }
        self.tx.execute(REQUEST, &[self.id(), Value::from(start.get())])?;
        Ok(Rescan { from: start, next: start })
    }

    /// Asks for a rescan of a wallet that was restored. Until it is done nothing is paid from it.
    pub(crate) fn rescan_restored(&mut self, from: Height) -> Result<(), LedgerError> {
        self.request_rescan(from)?;
        let row = [self.id(), Value::from(self.now.get())];
        self.tx.execute(MARK_RESTORED, &row)?;
        Ok(())
    }

    /// Asks for a rescan from `lowest` on, because blocks left the chain that the wallet was pruned
    /// from. One that started there or below brings back what is missing, and goes on.
    pub(crate) fn rescan_undone(&mut self, lowest: Height) -> Result<(), LedgerError> {
        let row = self.rescan_row()?.unwrap_or_default();
        let under_way = row.is_requested && row.rescan.is_some_and(|rescan| rescan.from <= lowest);
        if row.set_aside.is_some() && !row.is_requested {
            // Whoever asks for its rescan is told that it starts there at the latest.
            let lacks = row.rescan.map_or(lowest, |rescan| rescan.next.min(lowest));
            self.tx.execute(LOWER, &[self.id(), Value::from(lacks.get())])?;
        } else if !under_way {
            self.request_rescan(lowest)?;
        }
        self.tx.execute(MARK_UNDONE, &[self.id(), Value::from(self.now.get())])?;
        Ok(())
    }

    /// Notes that a block was looked at, if the rescan of the wallet waits for it.
    pub(crate) fn note_scanned(&mut self, height: Height) -> Result<(), SqlError> {
        let row = self.rescan_row()?.filter(|row| row.is_requested);
        let next = row.and_then(|row| row.rescan).map(|rescan| rescan.next);
        if next == Some(height) { self.advance_rescan(height.plus(1)) } else { Ok(()) }
    }

    /// Notes that the rescan has come to `next`, or that it is over.
    pub(crate) fn advance_rescan(&mut self, next: Height) -> Result<(), SqlError> {
        let key = [self.id(), Value::from(next.get())];
        if self.tip_height().is_none_or(|tip| next > tip) {
            let rescan = self.rescan_row()?.and_then(|row| row.rescan);
            self.tx.execute(DELETE, &key[..1])?;
            if let Some(rescan) = rescan {
                self.touch_untold(rescan.from)?;
                self.note_restored(rescan.from)?;
            }
        } else {
            self.tx.execute(ADVANCE, &key)?;
        }
        Ok(())
    }

    /// Refuses to pay from a wallet that lacks blocks: its coins may be spent.
    pub(crate) fn check_has_all_blocks(&self) -> Result<(), LedgerError> {
        if self.is_archived {
            return Err(LedgerError::WalletArchived);
        }
        match (&self.set_aside, self.lacks) {
            (Some((height, reason)), _) => {
                Err(LedgerError::SetAside { height: *height, reason: reason.clone() })
            }
            (None, Some((cause, next))) => Err(LedgerError::NotRescanned { next, cause }),
            (None, None) => Ok(()),
        }
    }
}

/// Wallets of a chain that get no blocks.
pub(crate) fn set_aside(tx: &mut Transaction<'_>, chain: i64) -> Result<BTreeSet<i64>, SqlError> {
    let wallets = tx.query_all(SELECT_SET_ASIDE, &[Value::from(chain)], |row| row.int(0))?;
    Ok(wallets.into_iter().collect())
}

/// Sets a wallet aside because of a block. A rescan that is under way goes on unless `stops` it.
pub(crate) fn set_wallet_aside(
    tx: &mut Transaction<'_>,
    wallet: WalletId,
    block: &BlockRef,
    error: &LedgerError,
    stops: bool,
    now: Micros,
) -> Result<(), SqlError> {
    let reason: String = error.to_string().chars().take(REASON_CHARS_MAX).collect();
    let row = [
        Value::from(wallet.get()),
        Value::from(block.height.get()),
        Value::from(block.hash.as_bytes()),
        Value::from(&reason),
        Value::from(now.get()),
    ];
    tx.execute(SET_ASIDE, &row)?;
    if stops {
        tx.execute(STOP, &row[..1])?;
    }
    Ok(())
}

/// Sets a wallet aside that could not give up `block`, after which the ledger ends at `tip`.
pub(crate) fn set_aside_at_undo(
    tx: &mut Transaction<'_>,
    wallet: WalletId,
    block: (Height, BlockHash),
    tip: Tip,
    error: &LedgerError,
    now: Micros,
) -> Result<(), SqlError> {
    let reason = format!("it could not be undone: {error}");
    let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
    // A row above the tip would say that nothing is lacking.
    let lacks_from = tip.map_or(0, |(height, _)| height.get());
    let row = [
        Value::from(wallet.get()),
        Value::from(block.0.get()),
        Value::from(block.1.as_bytes()),
        Value::from(&reason),
        Value::from(now.get()),
        Value::from(lacks_from),
    ];
    tx.execute(SET_ASIDE_BELOW, &row)?;
    Ok(())
}

/// Blocks were taken back: whoever lacks none of those that are left has all again.
pub(crate) fn forget_above(tx: &mut Transaction<'_>, chain: i64, tip: Tip) -> Result<(), SqlError> {
    let tip = tip.map_or(-1, |(height, _)| i64::from(height.get()));
    for statement in [FORGET_PRUNED_ABOVE, DELETE_ABOVE] {
        tx.execute(statement, &[Value::from(chain), Value::from(tip)])?;
    }
    Ok(())
}

impl LedgerError {
    /// Whether only the rows of the wallet in hand are at fault. Everything else (a database that is
    /// away or full, another transaction in the way, a program without the formats of its chain) has
    /// to be mended for all.
    pub(crate) const fn is_of_wallet(&self) -> bool {
        match self {
            Self::Sql(error) => matches!(
                error,
                SqlError::BadRow { .. } | SqlError::ColumnType { .. } | SqlError::Constraint { .. }
            ),
            Self::Closed | Self::NoCodec => false,
            _ => true,
        }
    }
}
