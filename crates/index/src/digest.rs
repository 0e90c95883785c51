//! Digests of the set, at the tip or at any height inside the window.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use utxokeep_core::{ChainPoint, Corrupt, OutPoint, SetDigest, Totals, UtxoRecord};
use utxokeep_kv::{Read, Scan};

use crate::{
    View, accumulator,
    error::{IndexError, QueryError},
    tables::{SPENT, UNSPENT},
};

/// What commits to the set at one place on the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// The block after which the set is described.
    pub point: ChainPoint,
    /// Outputs, amounts and `bogosize`.
    pub totals: Totals,
    /// Pairs of output and native asset, when the whole set was read.
    pub asset_entries: Option<u64>,
    /// `MuHash` in hash order; users of Bitcoin print it reversed.
    pub muhash: Option<[u8; 32]>,
    /// The hash over the outputs in order, when it was asked for: `hash_serialized_3` on Bitcoin,
    /// Blake2b-256 on Cardano.
    pub ordered_hash: Option<[u8; 32]>,
    /// Whether the whole set was read, or the kept accumulator answered.
    pub scanned: bool,
}

/// What reading the whole set gives, in either way or in both.
#[derive(Debug)]
pub(crate) struct SetScan {
    /// In parts on all threads, for the digest that does not depend on the order.
    pub(crate) unordered: Option<SetDigest>,
    /// In order on one thread, for the digest that does.
    ordered: Option<SetDigest>,
}

/// Key and value of a row.
type Keyed = (Vec<u8>, Vec<u8>);

/// The key space is read in this many parts, by the first byte of the transaction id.
const PARTS: u32 = 256;

impl<S: Read> View<'_, S> {
    /// The digest of the set where the view stands. Bitcoin: at once where accumulators are kept,
    /// else by scan; `audit` always scans, and adds `hash_serialized_3`. Cardano: the ordered hash,
    /// by scan; `audit` adds `MuHash`.
    pub fn digest(&self, audit: bool) -> Result<Digest, QueryError> {
        self.check_enabled()?;
        let (height, entry) = self.here()?;
        let point = entry.point(height);
        let is_cardano = self.settings.network().is_cardano();
        if !audit
            && !is_cardano
            && let Some(digest) = accumulator::set_digest(&self.read, self.settings, height)?
        {
            return Ok(Digest {
                point,
                totals: entry.totals,
                asset_entries: None,
                muhash: Some(digest),
                ordered_hash: None,
                scanned: false,
            });
        }
        let SetScan { unordered, ordered } =
            self.scan_set(!is_cardano || audit, is_cardano || audit)?;
        let counted = ordered.as_ref().or(unordered.as_ref());
        Ok(Digest {
            point,
            totals: counted.map(SetDigest::totals).unwrap_or_default(),
            asset_entries: Some(counted.map_or(0, SetDigest::asset_entries)),
            muhash: unordered.as_ref().and_then(SetDigest::unordered_hash),
            ordered_hash: ordered.as_ref().and_then(SetDigest::ordered_hash),
            scanned: true,
        })
    }

    /// Reads the whole set: in order on one thread for the ordered hash, in parts on all threads
    /// for the order-free one.
    pub(crate) fn scan_set(&self, unordered: bool, ordered: bool) -> Result<SetScan, IndexError> {
        let network = self.settings.network();
        let next_part = AtomicU32::new(0);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let in_parts = || -> Result<SetDigest, IndexError> {
            let mut digest = SetDigest::new(network, true, false);
            loop {
                let part = next_part.fetch_add(1, Ordering::Relaxed);
                if part >= PARTS {
                    return Ok(digest);
                }
                self.visit_part(part, &mut |outpoint, record| digest.add(outpoint, record))?;
            }
        };
        let in_order = || -> Result<SetDigest, IndexError> {
            let mut digest = SetDigest::new(network, false, true);
            for part in 0..PARTS {
                self.visit_part(part, &mut |outpoint, record| digest.add(outpoint, record))?;
            }
            Ok(digest)
        };
        let panicked = || IndexError::from(utxokeep_kv::KvError::Poisoned);
        thread::scope(|scope| {
            let in_order = ordered.then(|| scope.spawn(in_order));
            let threads = if unordered { threads } else { 0 };
            let parts: Vec<_> = (0..threads).map(|_| scope.spawn(in_parts)).collect();
            let mut unordered = unordered.then(|| SetDigest::new(network, true, false));
            for part in parts {
                let part = part.join().map_err(|_| panicked())??;
                if let Some(whole) = &mut unordered {
                    whole.combine(&part);
                }
            }
            let ordered = in_order.map(|handle| handle.join().map_err(|_| panicked())?);
            Ok(SetScan { unordered, ordered: ordered.transpose()? })
        })
    }

    /// Visits the outputs live at the height of the view whose transaction ids start with one
    /// byte, in key order.
    pub(crate) fn visit_part(
        &self,
        part: u32,
        visit: &mut dyn FnMut(OutPoint, &UtxoRecord<'_>) -> Result<(), Corrupt>,
    ) -> Result<(), IndexError> {
        let first = u8::try_from(part).unwrap_or(u8::MAX);
        let from = [first];
        let until = first.checked_add(1).map(|next| [next]);
        let until = until.as_ref().map(<[u8; 1]>::as_slice);
        let scan = Scan { from: &from, until, ..Scan::ALL };
        let mut back = self.spent_since(&scan)?.into_iter().peekable();
        let mut damage = None;
        let at = self.horizon();
        UNSPENT.scan(&self.read, &scan, |key, value| {
            let (key, value) = (key.bytes(), value.bytes());
            while let Some((key, bytes)) = back.next_if(|(old, _)| old.as_slice() < key) {
                if let Err(error) = visit_row(&key, &bytes, visit) {
                    damage = Some(error);
                }
            }
            let is_later = match (at, UtxoRecord::decode(value)) {
                (Some(at), Ok(record)) => record.height > at,
                _ => false,
            };
            if !is_later && let Err(error) = visit_row(key, value, visit) {
                damage = Some(error);
            }
            damage.is_none()
        })?;
        for (key, bytes) in back {
            visit_row(&key, &bytes, visit)?;
        }
        damage.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Outputs that were live at the height of the view and are spent at the tip.
    fn spent_since(&self, scan: &Scan<'_>) -> Result<Vec<Keyed>, IndexError> {
        let Some(at) = self.horizon() else { return Ok(Vec::new()) };
        let mut back = Vec::new();
        let mut damage = None;
        SPENT.scan(&self.read, scan, |key, value| {
            let found =
                value.read().and_then(|spent| spent.utxo().map(|record| (spent, record.height)));
            match found {
                Ok((spent, created)) if spent.spent_height > at && created <= at => {
                    back.push((key.bytes().to_vec(), spent.record.to_vec()));
                }
                Ok(_) => {}
                Err(error) => damage = Some(error),
            }
            damage.is_none()
        })?;
        damage.map_or(Ok(back), |error| Err(error.into()))
    }
}

fn visit_row(
    key: &[u8],
    value: &[u8],
    visit: &mut dyn FnMut(OutPoint, &UtxoRecord<'_>) -> Result<(), Corrupt>,
) -> Result<(), Corrupt> {
    let outpoint =
        OutPoint::from_key(key).ok_or_else(|| Corrupt::new("outpoint", "not 36 bytes long"))?;
    visit(outpoint, &UtxoRecord::decode(value)?)
}
