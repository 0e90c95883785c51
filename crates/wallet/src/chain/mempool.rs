//! What the mempool of a node holds, told to all wallets of a network.
//!
//! A refusal concerns one transaction in one wallet. It is reported and nothing else: the mempool is
//! no part of the chain, so a wallet that cannot take a transaction of it lacks nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use utxokeep_core::{
    BlockHash, Network, Txid,
    wallet::{Absent, AbsentFate, Micros, TxState, WalletId, mempool_replaces, parents_first},
};
use utxokeep_sql::{Row, SqlError, Transaction, Value};

use super::{LockedChain, relevant};
use crate::{
    Ledger, LedgerError, NewTx, RecordOptions, Recorded, Seen, lifecycle::family, rows,
    session::Session, standing,
};

const SELECT_CHAIN: &str = "SELECT id FROM chains WHERE chain = $1 AND network = $2";
const SELECT_UNCONFIRMED: &str = "SELECT t.wallet_id, t.txid, t.lease_id, t.received_at_us,
        t.sent_at_us
    FROM wallets w JOIN transactions t ON t.wallet_id = w.id
    LEFT JOIN wallet_rescans r ON r.wallet_id = w.id
    WHERE w.chain_id = $1 AND w.archived_at_us IS NULL AND r.failed_height IS NULL
        AND t.block_height IS NULL AND t.status = 1
    ORDER BY t.wallet_id, t.id";
const SELECT_WATCHED: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(w.id), 0) AS BIGINT),
        CAST(COALESCE(SUM(w.next_address_id), 0) AS BIGINT), COUNT(r.failed_height),
        (SELECT COUNT(*) FROM descriptors d JOIN wallets v ON v.id = d.wallet_id
            WHERE v.chain_id = $1 AND d.archived_at_us IS NULL)
    FROM wallets w LEFT JOIN wallet_rescans r ON r.wallet_id = w.id
    WHERE w.chain_id = $1 AND w.archived_at_us IS NULL";

/// The mempool of a node as it was at one moment.
#[derive(Clone, Copy)]
pub struct MempoolView<'m> {
    /// The newest block of the node then.
    pub tip: BlockHash,
    /// Whether the mempool holds a transaction.
    pub holds: &'m dyn Fn(&Txid) -> bool,
    /// Whether it held the transaction when the caller looked before.
    pub held: &'m dyn Fn(&Txid) -> bool,
    /// How long a transaction that was never seen there may be on its way.
    pub grace_us: i64,
}

impl fmt::Debug for MempoolView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MempoolView").field("tip", &self.tip).finish_non_exhaustive()
    }
}

/// A transaction that a wallet did not take, or could not give up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MempoolRefusal {
    /// Whose.
    pub wallet: WalletId,
    /// The transaction; nothing when the wallet could not watch further ahead.
    pub txid: Option<Txid>,
    /// Why.
    pub reason: String,
}

/// What the mempool came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MempoolApplied {
    /// The ledger stands at another block than the node did. Nothing was looked at or changed.
    pub is_elsewhere: bool,
    /// What was recorded, by wallet.
    pub recorded: BTreeMap<WalletId, Vec<Recorded>>,
    /// What the mempool has dropped, by wallet, without what depended on it.
    pub evicted: BTreeMap<WalletId, Vec<Txid>>,
    /// What did not go in or out.
    pub refused: Vec<MempoolRefusal>,
}

/// Which scripts the wallets of a network watch. When it differs from an earlier one, a mempool has
/// to be told anew, because it may hold payments to scripts that are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchMark([i64; 5]);

/// A transaction that the mempool does not hold.
struct Gone {
    wallet: i64,
    txid: Txid,
    absent: Absent,
}

impl Ledger {
    /// Tells all wallets of a network what the mempool of a node holds. `new` are transactions that
    /// it holds; those that concern no wallet are skipped, and what is recorded already is left as
    /// it is. Transactions in no block that the mempool does not hold are given up, as
    /// [`Absent::fate`] decides.
    ///
    /// Wallets that are set aside take nothing. No refusal of one stops another.
    pub fn apply_mempool(
        &self,
        network: Network,
        view: &MempoolView<'_>,
        new: &[NewTx],
        now: Micros,
    ) -> Result<MempoolApplied, LedgerError> {
        self.check_batch(new.len())?;
        let elsewhere = || MempoolApplied { is_elsewhere: true, ..MempoolApplied::default() };
        let Some((height, hash)) = self.tip(network)?.filter(|(_, hash)| *hash == view.tip) else {
            return Ok(elsewhere());
        };
        // Most of a mempool concerns nobody here. Nobody has to wait for a lock then.
        if !self.is_concerned(network, view, new, now)? {
            return Ok(MempoolApplied::default());
        }
        self.write(|tx| match LockedChain::lock_at(tx, network, (height, hash)) {
            Ok(mut chain) => self.tell_mempool(&mut chain, view, new, now),
            Err(LedgerError::NotTip { .. }) => Ok(elsewhere()),
            Err(error) => Err(error),
        })
    }

    /// What the wallets of a network watch now.
    pub fn watch_mark(&self, network: Network) -> Result<WatchMark, LedgerError> {
        self.read(|tx| {
            let Some(id) = find_chain(tx, network)? else { return Ok(WatchMark([0; 5])) };
            let read = |row: &Row<'_>| {
                Ok([row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?, row.int(4)?])
            };
            Ok(WatchMark(tx.query_one(SELECT_WATCHED, &[Value::from(id)], read)?))
        })
    }

    fn is_concerned(
        &self,
        network: Network,
        view: &MempoolView<'_>,
        new: &[NewTx],
        now: Micros,
    ) -> Result<bool, LedgerError> {
        self.read(|tx| {
            let Some(id) = find_chain(tx, network)? else { return Ok(false) };
            Ok(!gone(tx, id, view, now)?.is_empty()
                || !relevant::by_wallet(tx, id, new)?.is_empty())
        })
    }

    fn tell_mempool(
        &self,
        chain: &mut LockedChain<'_, '_>,
        view: &MempoolView<'_>,
        new: &[NewTx],
        now: Micros,
    ) -> Result<MempoolApplied, LedgerError> {
        let mut applied = MempoolApplied::default();
        let mut skipped = standing::set_aside(chain.tx, chain.id)?;
        // What left lets go of its inputs before others take them.
        let gone = gone(chain.tx, chain.id, view, now)?;
        for gone in &gone {
            let wallet = WalletId::new(gone.wallet);
            let evicted = self.in_wallet(chain.tx, wallet, now, |session| {
                let stored = session.known(&gone.txid)?;
                // It may have gone with a parent just now.
                if stored.state != TxState::Unconfirmed {
                    return Ok(false);
                }
                session.give_up(&stored, &gone.txid)?;
                Ok(true)
            });
            if applied.or_refused(wallet, Some(gone.txid), evicted)? == Some(true) {
                applied.evicted.entry(wallet).or_default().push(gone.txid);
            }
        }
        for (wallet, error) in self.widen_chain(chain.tx, chain.id, new, &skipped, now)? {
            skipped.insert(wallet.get());
            applied.or_refused::<()>(wallet, None, Err(error))?;
        }
        let places = relevant::by_wallet(chain.tx, chain.id, new)?;
        for (id, places) in places.iter().filter(|(id, _)| !skipped.contains(id)) {
            self.tell_wallet(chain.tx, WalletId::new(*id), new, places, now, &mut applied)?;
        }
        Ok(applied)
    }

    /// Records in one wallet what concerns it, parents first.
    fn tell_wallet(
        &self,
        tx: &mut Transaction<'_>,
        wallet: WalletId,
        new: &[NewTx],
        places: &[usize],
        now: Micros,
        applied: &mut MempoolApplied,
    ) -> Result<(), LedgerError> {
        let order = parents_first(&family(places.iter().map(|at| &new[*at])));
        for new in order.iter().map(|at| &new[places[*at]]) {
            let recorded = self.in_wallet(tx, wallet, now, |session| {
                let stored = session.stored(&new.txid)?.map(|stored| stored.state);
                let replaces = mempool_replaces(stored);
                let options = RecordOptions { replaces, ..RecordOptions::default() };
                session.record(new, Seen::Mempool, &options, false)
            });
            let recorded = applied.or_refused(wallet, Some(new.txid), recorded)?;
            applied.recorded.entry(wallet).or_default().extend(recorded);
        }
        Ok(())
    }

    /// Changes one wallet, or leaves it as it was.
    fn in_wallet<T>(
        &self,
        tx: &mut Transaction<'_>,
        wallet: WalletId,
        now: Micros,
        body: impl FnOnce(&mut Session<'_, '_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        tx.savepoint(|tx| {
            let mut session = Session::lock(tx, self.limits, wallet, now)?;
            session.clock = self.lease_clock;
            session.codec.clone_from(&self.codec);
            let answer = body(&mut session)?;
            session.finish()?;
            Ok(answer)
        })
    }
}

impl MempoolApplied {
    /// The answer, or a refusal that is the wallet's own; any other error ends the whole.
    fn or_refused<T>(
        &mut self,
        wallet: WalletId,
        txid: Option<Txid>,
        answer: Result<T, LedgerError>,
    ) -> Result<Option<T>, LedgerError> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is_of_wallet() => {
                self.refused.push(MempoolRefusal { wallet, txid, reason: error.to_string() });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Adds what came of another part of the same mempool.
    pub fn extend(&mut self, other: Self) {
        self.is_elsewhere |= other.is_elsewhere;
        for (wallet, recorded) in other.recorded {
            self.recorded.entry(wallet).or_default().extend(recorded);
        }
        for (wallet, evicted) in other.evicted {
            self.evicted.entry(wallet).or_default().extend(evicted);
        }
        self.refused.extend(other.refused);
    }

    /// The transactions of the mempool that concern a wallet, taken or not.
    #[must_use]
    pub fn concerning(&self) -> BTreeSet<Txid> {
        let recorded = self.recorded.values().flatten().map(|recorded| recorded.txid);
        recorded.chain(self.refused.iter().filter_map(|refused| refused.txid)).collect()
    }
}

fn find_chain(tx: &mut Transaction<'_>, network: Network) -> Result<Option<i64>, SqlError> {
    let names = [Value::from(network.chain()), Value::from(network.name())];
    tx.query_opt(SELECT_CHAIN, &names, |row| row.int(0))
}

/// What the wallets of a chain have in no block and the mempool has dropped.
fn gone(
    tx: &mut Transaction<'_>,
    chain: i64,
    view: &MempoolView<'_>,
    now: Micros,
) -> Result<Vec<Gone>, SqlError> {
    let mut gone = tx.query_all(SELECT_UNCONFIRMED, &[Value::from(chain)], |row| {
        let txid = rows::txid(row, 1)?;
        let absent = Absent {
            state: TxState::Unconfirmed,
            // What was given to the node from here is sent again, whoever made it.
            is_own_payment: row.opt_bytes(2)?.is_some() || row.opt_int(4)?.is_some(),
            was_there: (view.held)(&txid),
            known_since: Micros::new(row.int(3)?),
        };
        Ok(Gone { wallet: row.int(0)?, txid, absent })
    })?;
    gone.retain(|gone| {
        !(view.holds)(&gone.txid) && gone.absent.fate(now, view.grace_us) == AbsentFate::Evicted
    });
    Ok(gone)
}
