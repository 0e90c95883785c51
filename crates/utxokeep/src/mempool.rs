//! The mempool of a followed node, told to the wallet ledger.
//!
//! Each look lists the mempool, fetches transactions that are new and tells the ledger what the node
//! holds. The ledger decides what that means; see `Ledger::apply_mempool`.
//!
//! # Invariants
//!
//! * The ledger is told only while it stands at the block at which the node listed its mempool.
//! * Every transaction that stays in the mempool is told once, and again when wallets watch other
//!   scripts than before. Those that concern a wallet are told again at every new block.
//! * A failure of a look changes nothing for following the chain. The next look makes up for it.

mod background;
mod meter;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use utxokeep_chains::{LiveError, MempoolList, MempoolSource, decode_tx};
use utxokeep_core::{BlockHash, Network, Txid, wallet::Micros};
use utxokeep_wallet::{Ledger, LedgerError, MempoolApplied, MempoolView, NewTx, WatchMark};

use crate::config::MempoolConfig;

pub(crate) use self::background::MempoolConsumer;
pub(crate) use self::meter::METRICS;

/// Transactions that are fetched and told at once. The ledger is locked for as long as that takes.
const PART_TXS: usize = 1_000;

/// How often all parts are told again because a wallet learnt of a transaction whose children may
/// have been in an earlier part. A chain in a mempool has no more than 25 links.
const PASSES_MAX: u32 = 26;

/// Up to so many transactions are told again at once when wallets watch other scripts.
const RETOLD_AT_ONCE: usize = 5_000;

/// How often more of them are told again at the most.
const RETOLD_EVERY: Duration = Duration::from_secs(10);

/// Limits of looking at a mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MempoolSettings {
    /// How long the ledger waits between looks, at the most.
    pub poll_interval: Duration,
    /// A mempool with more transactions is not read.
    pub transactions_max: usize,
    /// Bytes of transactions that are kept, to tell them again without asking the node.
    pub kept_bytes_max: usize,
    /// How long a transaction that was never seen in the mempool may be on its way to the node.
    pub grace_us: i64,
}

impl MempoolSettings {
    /// As a configuration says.
    #[must_use]
    pub fn of(config: &MempoolConfig) -> Self {
        Self {
            poll_interval: Duration::from_millis(config.poll_interval_ms.get().into()),
            transactions_max: config.transactions_max.get() as usize,
            kept_bytes_max: (config.kept_mib_max as usize).saturating_mul(1 << 20),
            grace_us: i64::from(config.grace_secs) * 1_000_000,
        }
    }
}

/// Why a look came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MempoolError {
    /// The node did not say what its mempool holds.
    #[error("the mempool of the node cannot be read; following the chain goes on without it")]
    Node(#[from] LiveError),
    /// The ledger did not take it.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// What a look came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Looked {
    /// The block at which the ledger has to stand first. It was told nothing, or not everything.
    pub waits_for: Option<BlockHash>,
    /// Transactions that the mempool holds.
    pub listed: usize,
    /// What the ledger made of it.
    pub applied: MempoolApplied,
}

/// Looks at the mempool of a node for a ledger.
#[derive(Debug)]
pub struct MempoolFollower {
    source: Box<dyn MempoolSource>,
    ledger: Ledger,
    network: Network,
    settings: MempoolSettings,
    /// What the ledger was told of and the mempool still holds, with its bytes if they are kept.
    told: BTreeMap<Txid, Option<Arc<[u8]>>>,
    kept_bytes: usize,
    /// Those of them that concern a wallet.
    concerning: BTreeSet<Txid>,
    /// Those of them that some wallet did not take.
    refused: BTreeSet<Txid>,
    /// What the mempool held when the ledger was told last.
    held: BTreeSet<Txid>,
    at: Option<ToldAt>,
    retold: Option<Instant>,
}

/// Where node and ledger stood when the ledger was told everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ToldAt {
    tip: BlockHash,
    sequence: u64,
    mark: WatchMark,
}

impl MempoolFollower {
    /// Asks nobody yet.
    #[must_use]
    pub fn new(
        source: Box<dyn MempoolSource>,
        ledger: Ledger,
        network: Network,
        settings: MempoolSettings,
    ) -> Self {
        Self {
            source,
            ledger,
            network,
            settings,
            told: BTreeMap::new(),
            kept_bytes: 0,
            concerning: BTreeSet::new(),
            refused: BTreeSet::new(),
            held: BTreeSet::new(),
            at: None,
            retold: None,
        }
    }

    /// Looks once, and tells the ledger what the node's mempool holds now.
    pub fn look(
        &mut self,
        now: Micros,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Looked, MempoolError> {
        let list = self.source.list(self.settings.transactions_max, is_stopped)?;
        let listed = list.txids.len();
        if !self.stands_at(&list.tip)? {
            return Ok(Looked { waits_for: Some(list.tip), listed, ..Looked::default() });
        }
        self.forget(&list);
        let mark = self.ledger.watch_mark(self.network)?;
        let asked = self.choose(&list, mark);
        let mut applied = MempoolApplied::default();
        let is_whole = self.tell(&list, &asked.txids, now, is_stopped, &mut applied)?;
        meter::looked(listed, self.kept_bytes, &applied);
        if !is_whole {
            return Ok(Looked { waits_for: Some(list.tip), listed, applied });
        }
        let mark = if asked.has_all { mark } else { self.at.map_or(mark, |at| at.mark) };
        self.at = Some(ToldAt { tip: list.tip, sequence: list.sequence, mark });
        self.held = list.txids;
        Ok(Looked { waits_for: None, listed, applied })
    }

    /// Whether the ledger stands at this block.
    fn stands_at(&self, tip: &BlockHash) -> Result<bool, LedgerError> {
        Ok(self.ledger.tip(self.network)?.is_some_and(|(_, hash)| hash == *tip))
    }

    /// Forgets what left the mempool.
    fn forget(&mut self, list: &MempoolList) {
        let kept_bytes = &mut self.kept_bytes;
        self.told.retain(|txid, raw| {
            let stays = list.txids.contains(txid);
            if !stays {
                *kept_bytes -= raw.as_ref().map_or(0, |raw| raw.len());
            }
            stays
        });
        self.concerning.retain(|txid| list.txids.contains(txid));
        self.refused.retain(|txid| list.txids.contains(txid));
    }

    /// What the ledger has to hear of this time.
    fn choose(&mut self, list: &MempoolList, mark: WatchMark) -> Asked {
        let new = list.txids.iter().filter(|txid| !self.told.contains_key(*txid)).copied();
        let mut txids: BTreeSet<Txid> = new.collect();
        let Some(at) = self.at else {
            return Asked { txids: list.txids.clone(), has_all: true };
        };
        if at.tip != list.tip {
            txids.extend(&self.concerning);
        }
        if at.tip != list.tip || at.sequence != list.sequence {
            txids.extend(&self.refused);
        }
        if at.mark == mark {
            return Asked { txids, has_all: true };
        }
        let is_due = list.txids.len() <= RETOLD_AT_ONCE
            || self.retold.is_none_or(|last| last.elapsed() >= RETOLD_EVERY);
        if is_due {
            self.retold = Some(Instant::now());
            txids.clone_from(&list.txids);
        }
        Asked { txids, has_all: is_due }
    }

    /// Tells the ledger of these transactions, and of what left. Answers whether the ledger heard
    /// everything: it has moved to another block meanwhile if not, or there was no time.
    fn tell(
        &mut self,
        list: &MempoolList,
        txids: &BTreeSet<Txid>,
        now: Micros,
        is_stopped: &dyn Fn() -> bool,
        applied: &mut MempoolApplied,
    ) -> Result<bool, MempoolError> {
        let txids: Vec<Txid> = txids.iter().copied().collect();
        // Also without transactions: something may have left.
        let parts: Vec<&[Txid]> =
            if txids.is_empty() { vec![&[]] } else { txids.chunks(PART_TXS).collect() };
        for _ in 0..PASSES_MAX {
            let mut is_news = false;
            for part in &parts {
                if is_stopped() {
                    return Ok(false);
                }
                let told = self.tell_part(list, part, now, is_stopped)?;
                if told.is_elsewhere {
                    return Ok(false);
                }
                is_news |= told.recorded.values().flatten().any(is_news_to_children);
                applied.extend(told);
            }
            if parts.len() == 1 || !is_news {
                break;
            }
        }
        Ok(true)
    }

    fn tell_part(
        &mut self,
        list: &MempoolList,
        part: &[Txid],
        now: Micros,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<MempoolApplied, MempoolError> {
        let bodies = self.bodies(part, is_stopped)?;
        let mut new = Vec::with_capacity(bodies.len());
        for (txid, raw) in &bodies {
            new.push(read(*txid, raw)?);
        }
        let (holds, held) =
            (|txid: &Txid| list.txids.contains(txid), |txid: &Txid| self.held.contains(txid));
        let grace_us = self.settings.grace_us;
        let view = MempoolView { tip: list.tip, holds: &holds, held: &held, grace_us };
        let applied = self.ledger.apply_mempool(self.network, &view, &new, now)?;
        if applied.is_elsewhere {
            return Ok(applied);
        }
        let concerning = applied.concerning();
        let refused: BTreeSet<Txid> = applied.refused.iter().filter_map(|one| one.txid).collect();
        for refusal in &applied.refused {
            let is_known = refusal.txid.is_some_and(|txid| self.refused.contains(&txid));
            if !is_known {
                let tx = refusal.txid.map(|txid| self.network.hash(txid).to_string());
                let (wallet, reason) = (refusal.wallet.get(), &refusal.reason);
                tracing::warn!(wallet, tx, "a wallet did not take what the mempool says: {reason}");
            }
        }
        for (txid, raw) in bodies {
            self.keep(txid, raw);
            self.refused.remove(&txid);
        }
        self.concerning.extend(concerning);
        self.refused.extend(refused);
        Ok(applied)
    }

    /// The bytes of transactions, kept or fetched; none of those that left meanwhile.
    fn bodies(
        &mut self,
        part: &[Txid],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Body>, MempoolError> {
        let kept = |txid: &Txid| self.told.get(txid).cloned().flatten();
        let mut bodies: Vec<(Txid, Option<Arc<[u8]>>)> =
            part.iter().map(|txid| (*txid, kept(txid))).collect();
        let missing: Vec<Txid> =
            bodies.iter().filter(|(_, raw)| raw.is_none()).map(|(txid, _)| *txid).collect();
        let mut fetched = self.source.bodies(&missing, is_stopped)?.into_iter();
        for (_, raw) in bodies.iter_mut().filter(|(_, raw)| raw.is_none()) {
            *raw = fetched.next().flatten().map(Arc::from);
        }
        Ok(bodies.into_iter().filter_map(|(txid, raw)| Some((txid, raw?))).collect())
    }

    /// Remembers that the ledger was told, and the bytes if there is room.
    fn keep(&mut self, txid: Txid, raw: Arc<[u8]>) {
        if self.told.get(&txid).is_some_and(Option::is_some) {
            return;
        }
        let has_room = self.kept_bytes + raw.len() <= self.settings.kept_bytes_max;
        self.kept_bytes += if has_room { raw.len() } else { 0 };
        self.told.insert(txid, has_room.then_some(raw));
    }
}

/// A transaction and its bytes.
type Body = (Txid, Arc<[u8]>);

/// What the ledger hears of at a look.
struct Asked {
    txids: BTreeSet<Txid>,
    /// Everything that wallets watch now was considered.
    has_all: bool,
}

/// Whether what spends from a transaction may concern its wallet from now on.
fn is_news_to_children(recorded: &utxokeep_wallet::Recorded) -> bool {
    use utxokeep_wallet::Change;
    matches!(recorded.change, Change::Inserted | Change::Revived)
}

/// A transaction as the ledger takes it.
fn read(txid: Txid, raw: &[u8]) -> Result<NewTx, MempoolError> {
    let tx = decode_tx(raw).map_err(|error| LiveError::Away(error.into()))?;
    if tx.txid != txid {
        return Err(LiveError::Away("a transaction came under another id".into()).into());
    }
    Ok(NewTx::decoded(tx, raw).map_err(LedgerError::from)?)
}

#[cfg(test)]
mod tests;
