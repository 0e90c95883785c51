//! Digests of the set, at the tip or at any height inside the window.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use utxokeep_core::{
    ChainPoint, Corrupt, MuHash, OutPoint, SetDigest, SpentRecord, Totals, UtxoRecord,
};
use utxokeep_kv::{Read, Scan};

use crate::{
    View,
    error::{QueryError, StoreError},
    tables::{MUHASH, SPENT, UNSPENT},
};

/// What commits to the set at one place on the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Where.
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

/// What reading the whole set gives.
#[derive(Debug, Default)]
pub(crate) struct SetScan {
    pub(crate) totals: Totals,
    asset_entries: u64,
    pub(crate) muhash: Option<MuHash>,
    ordered_hash: Option<[u8; 32]>,
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
        if !audit && !is_cardano && self.settings.muhash {
            let bytes = self
                .read
                .get(MUHASH, &height.to_key())?
                .ok_or_else(|| StoreError::missing("utxo_muhash", height))?;
            let muhash = MuHash::from_bytes(&bytes)
                .ok_or_else(|| Corrupt::new("muhash accumulator", "not a reduced fraction"))?
                .digest();
            return Ok(Digest {
                point,
                totals: entry.totals,
                asset_entries: None,
                muhash: Some(muhash),
                ordered_hash: None,
                scanned: false,
            });
        }
        let scan = self.scan_set(!is_cardano || audit, is_cardano || audit)?;
        Ok(Digest {
            point,
            totals: scan.totals,
            asset_entries: Some(scan.asset_entries),
            muhash: scan.muhash.map(|muhash| muhash.digest()),
            ordered_hash: scan.ordered_hash,
            scanned: true,
        })
    }

    /// Reads the whole set: in order on one thread for the ordered hash, in parts on all threads
    /// for the order-free one.
    pub(crate) fn scan_set(&self, muhash: bool, ordered: bool) -> Result<SetScan, StoreError> {
        let network = self.settings.network();
        let next_part = AtomicU32::new(0);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let unordered = || -> Result<SetDigest, StoreError> {
            let mut digest = SetDigest::new(network, true, false);
            loop {
                let part = next_part.fetch_add(1, Ordering::Relaxed);
                if part >= PARTS {
                    return Ok(digest);
                }
                self.visit_part(part, &mut |outpoint, record| digest.add(outpoint, record))?;
            }
        };
        let in_order = || -> Result<SetDigest, StoreError> {
            let mut digest = SetDigest::new(network, false, true);
            for part in 0..PARTS {
                self.visit_part(part, &mut |outpoint, record| digest.add(outpoint, record))?;
            }
            Ok(digest)
        };
        let panicked = || StoreError::from(utxokeep_kv::KvError::Poisoned);
        thread::scope(|scope| {
            let in_order = ordered.then(|| scope.spawn(in_order));
            let threads = if muhash { threads } else { 0 };
            let parts: Vec<_> = (0..threads).map(|_| scope.spawn(unordered)).collect();
            let mut scan = SetScan { muhash: muhash.then(MuHash::new), ..SetScan::default() };
            for part in parts {
                let part = part.join().map_err(|_| panicked())??;
                scan.totals.txouts += part.totals().txouts;
                scan.totals.total_amount += part.totals().total_amount;
                scan.totals.bogosize += part.totals().bogosize;
                scan.asset_entries += part.asset_entries();
                if let (Some(whole), Some(own)) = (&mut scan.muhash, part.muhash()) {
                    whole.combine(own);
                }
            }
            if let Some(handle) = in_order {
                let digest = handle.join().map_err(|_| panicked())??;
                scan.ordered_hash = digest.ordered_hash();
                scan.totals = digest.totals();
                scan.asset_entries = digest.asset_entries();
            }
            Ok(scan)
        })
    }

    /// Visits the outputs live at the height of the view whose transaction ids start with one
    /// byte, in key order.
    pub(crate) fn visit_part(
        &self,
        part: u32,
        visit: &mut dyn FnMut(OutPoint, &UtxoRecord<'_>) -> Result<(), Corrupt>,
    ) -> Result<(), StoreError> {
        let first = u8::try_from(part).unwrap_or(u8::MAX);
        let from = [first];
        let until = first.checked_add(1).map(|next| [next]);
        let until = until.as_ref().map(<[u8; 1]>::as_slice);
        let scan = Scan { from: &from, until, ..Scan::ALL };
        let mut back = self.spent_since(&scan)?.into_iter().peekable();
        let mut damage = None;
        let at = self.horizon();
        self.read.scan(UNSPENT, &scan, &mut |key, value| {
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
    fn spent_since(&self, scan: &Scan<'_>) -> Result<Vec<Keyed>, StoreError> {
        let Some(at) = self.horizon() else { return Ok(Vec::new()) };
        let mut back = Vec::new();
        let mut damage = None;
        self.read.scan(SPENT, scan, &mut |key, value| {
            let found = SpentRecord::decode(value)
                .and_then(|spent| spent.utxo().map(|record| (spent, record.height)));
            match found {
                Ok((spent, created)) if spent.spent_height > at && created <= at => {
                    back.push((key.to_vec(), spent.record.to_vec()));
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
