//! What a block changed as one ordered list, cut into parts, and which of it somebody watches.
//!
//! The list of a block is a function of its delta: outputs that it replaced, then those that it
//! created, then those that it spent. Applied from the front it never takes away what is not there;
//! undone from the back it never puts back what is there. A reader that has come `n` changes into
//! the list may go on from there in either direction, whatever size parts have.
//!
//! # Invariants
//!
//! * A part ends behind as many watched outputs as it may hold; an output that is larger than a
//!   whole part is one of its own.
//! * A filter leaves outputs out of parts. It never moves the places of the others.

use std::{collections::BTreeSet, ops::Range};

use super::{
    delta::BlockDelta,
    details::AssetFilter,
    record::{Corrupt, UtxoRecord},
    rows::IndexKey,
};
use crate::{
    network::Network,
    types::{OutPoint, Txid},
};

const WHAT: &str = "changes of a block";

/// What happened to an output when its block was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It left the set because a repeated transaction took its place.
    Replaced,
    /// It joined the set.
    Created,
    /// It left the set.
    Spent,
}

/// One change of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'d> {
    /// What happened.
    pub kind: ChangeKind,
    /// Which output.
    pub outpoint: OutPoint,
    /// The output itself.
    pub record: UtxoRecord<'d>,
    /// The spending transaction, of a spent output. It is all zeroes where the ledger itself removed
    /// the output.
    pub spent_by: Option<Txid>,
    /// Length of the record as it is stored.
    pub bytes: usize,
}

/// The changes of a block, in order.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'d> {
    delta: &'d BlockDelta,
}

impl<'d> Changes<'d> {
    /// Of a delta that has the record of every output inside.
    #[must_use]
    pub const fn of(delta: &'d BlockDelta) -> Self {
        Self { delta }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.delta.replaced.len() + self.delta.created.len() + self.delta.spent.len()
    }

    /// Whether the block changed nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The change at a place; an error where there is none, or its record is missing or damaged.
    pub fn get(&self, place: usize) -> Result<Change<'d>, Corrupt> {
        let BlockDelta { replaced, created, spent, .. } = self.delta;
        let missing = || Corrupt::new(WHAT, "a record is missing");
        let (kind, outpoint, bytes, spent_by) = if let Some((outpoint, bytes)) = replaced.get(place)
        {
            (ChangeKind::Replaced, *outpoint, Some(bytes), None)
        } else if let Some(entry) = created.get(place - replaced.len()) {
            (ChangeKind::Created, entry.outpoint, entry.record.as_ref(), None)
        } else {
            let entry = spent.get(place - replaced.len() - created.len()).ok_or_else(missing)?;
            (ChangeKind::Spent, entry.outpoint, entry.record.as_ref(), entry.spent_by)
        };
        let bytes = bytes.ok_or_else(missing)?;
        let record = UtxoRecord::decode(bytes)?;
        Ok(Change { kind, outpoint, record, spent_by, bytes: bytes.len() })
    }

    /// The next part of the list for a reader that has `applied` changes of it.
    pub fn part(
        &self,
        applied: usize,
        direction: Direction,
        watch: &WatchFilter,
        network: Network,
        limits: PartLimits,
    ) -> Result<ChangePart<'d>, Corrupt> {
        if applied > self.len() {
            return Err(Corrupt::new(WHAT, "the place lies behind the last change"));
        }
        let (mut at, mut bytes, mut changes) = (applied, 0usize, Vec::new());
        let end = match direction {
            Direction::Apply => self.len(),
            Direction::Undo => 0,
        };
        while at != end {
            let place = match direction {
                Direction::Apply => at,
                Direction::Undo => at - 1,
            };
            let change = self.get(place)?;
            if watch.matches(network, &change.record)? {
                let is_full = changes.len() >= limits.outputs_max.max(1)
                    || (!changes.is_empty() && bytes + change.bytes > limits.bytes_max);
                if is_full {
                    break;
                }
                bytes += change.bytes;
                changes.push(change);
            }
            at = match direction {
                Direction::Apply => at + 1,
                Direction::Undo => at - 1,
            };
        }
        let places = at.min(applied)..at.max(applied);
        Ok(ChangePart { changes, places, applied: at, is_last: at == end })
    }
}

/// Whether a block joins the chain or leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Changes from the front.
    Apply,
    /// Changes from the back.
    Undo,
}

/// How much one part may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartLimits {
    /// Outputs; at least one.
    pub outputs_max: usize,
    /// Bytes of their records, as they are stored.
    pub bytes_max: usize,
}

/// Some changes of a block that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePart<'d> {
    /// Those that are watched, in the order in which a reader carries them out.
    pub changes: Vec<Change<'d>>,
    /// Places in the list that the part covers, those of unwatched changes included.
    pub places: Range<usize>,
    /// How many changes of the block a reader has that has carried the part out.
    pub applied: usize,
    /// Whether the block is done with it: wholly applied, or wholly undone.
    pub is_last: bool,
}

/// Which outputs a reader watches: those of any of the owners, and those that hold any of the assets.
/// One that names nothing watches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchFilter {
    owners: BTreeSet<IndexKey>,
    assets: Vec<AssetFilter>,
}

impl WatchFilter {
    /// Watches these owners and assets.
    #[must_use]
    pub fn new(
        owners: impl IntoIterator<Item = IndexKey>,
        assets: impl IntoIterator<Item = AssetFilter>,
    ) -> Self {
        Self { owners: owners.into_iter().collect(), assets: assets.into_iter().collect() }
    }

    /// Whether everything is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.assets.is_empty()
    }

    /// How many owners and assets are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owners.len() + self.assets.len()
    }

    /// Whether an output is watched.
    pub fn matches(&self, network: Network, record: &UtxoRecord<'_>) -> Result<bool, Corrupt> {
        Ok(self.is_empty() || self.has_owner(network, record.address) || self.has_asset(record)?)
    }

    fn has_owner(&self, network: Network, address: &[u8]) -> bool {
        if self.owners.is_empty() {
            return false;
        }
        let credentials = IndexKey::credentials(network, address);
        self.owners.contains(&IndexKey::address(network, address))
            || credentials.iter().flatten().any(|key| self.owners.contains(key))
    }

    fn has_asset(&self, record: &UtxoRecord<'_>) -> Result<bool, Corrupt> {
        if self.assets.is_empty() || !record.details.has_assets() {
            return Ok(false);
        }
        let held = record.details.parse()?.assets;
        Ok(held.iter().any(|asset| self.assets.iter().any(|watched| watched.matches(asset))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chain::{
            delta::{Created, Spent},
            details::{Asset, Details, Parsed},
        },
        types::{BlockHash, Height},
    };

    const REGTEST: Network = Network::BitcoinRegtest;
    const ALL: PartLimits = PartLimits { outputs_max: 100, bytes_max: 1 << 20 };

    fn record(address: &[u8], details: Details<'_>) -> Vec<u8> {
        let record = UtxoRecord {
            address,
            value: 5,
            details,
            height: Height::new(7),
            place: None,
            tx_index: 0,
            is_coinbase: false,
        };
        record.encode()
    }

    fn outpoint(index: u32) -> OutPoint {
        OutPoint::new(Txid::from_bytes([1; 32]), index)
    }

    /// Outputs 0 to 3 are created, 2 and 9 are spent, 8 is replaced; each pays to its own number.
    fn delta() -> BlockDelta {
        let body = |index: u32| record(&[u8::try_from(index).unwrap()], Details::default());
        let created = |index| Created { outpoint: outpoint(index), record: Some(body(index)) };
        let spent = |index| Spent {
            outpoint: outpoint(index),
            record: Some(body(index)),
            spent_by: Some(Txid::from_bytes([2; 32])),
        };
        BlockDelta {
            height: Height::new(9),
            slot: 9,
            hash: BlockHash::from_bytes([3; 32]),
            prev: BlockHash::from_bytes([4; 32]),
            created: (0..4).map(created).collect(),
            spent: vec![spent(2), spent(9)],
            replaced: vec![(outpoint(8), body(8))],
            invalid_txs: Vec::new(),
            mmr: None,
        }
    }

    fn places(part: &ChangePart<'_>) -> Vec<(ChangeKind, u32)> {
        part.changes.iter().map(|change| (change.kind, change.outpoint.index())).collect()
    }

    #[test]
    fn undoing_is_applying_from_the_other_end() {
        let delta = delta();
        let changes = Changes::of(&delta);
        let watch = WatchFilter::default();
        let applied = changes.part(0, Direction::Apply, &watch, REGTEST, ALL).unwrap();
        assert_eq!((applied.places.clone(), applied.applied, applied.is_last), (0..7, 7, true));
        let order = places(&applied);
        assert_eq!(order[0], (ChangeKind::Replaced, 8));
        assert_eq!(order[1..5], [0, 1, 2, 3].map(|index| (ChangeKind::Created, index)));
        assert_eq!(order[5..], [2, 9].map(|index| (ChangeKind::Spent, index)));
        let undone = changes.part(7, Direction::Undo, &watch, REGTEST, ALL).unwrap();
        assert_eq!((undone.places.clone(), undone.applied, undone.is_last), (0..7, 0, true));
        assert!(order.iter().rev().eq(&places(&undone)));
    }

    #[test]
    fn parts_of_any_size_tell_every_change_once_in_either_direction() {
        let delta = delta();
        let changes = Changes::of(&delta);
        for direction in [Direction::Apply, Direction::Undo] {
            for watch in [WatchFilter::default(), watching(&[2, 8])] {
                let start = if direction == Direction::Apply { 0 } else { changes.len() };
                let whole = changes.part(start, direction, &watch, REGTEST, ALL).unwrap();
                for outputs_max in 1..9 {
                    let limits = PartLimits { outputs_max, ..ALL };
                    let (mut at, mut told) = (start, Vec::new());
                    loop {
                        let part = changes.part(at, direction, &watch, REGTEST, limits).unwrap();
                        assert!(part.changes.len() <= outputs_max && part.applied != at);
                        told.extend(part.changes);
                        at = part.applied;
                        if part.is_last {
                            break;
                        }
                    }
                    assert_eq!(told, whole.changes, "{direction:?} {outputs_max}");
                }
            }
        }
        assert!(changes.part(8, Direction::Apply, &WatchFilter::default(), REGTEST, ALL).is_err());
    }

    #[test]
    fn a_part_ends_before_its_bytes_are_too_many_but_never_empty() {
        let delta = delta();
        let changes = Changes::of(&delta);
        let limits = PartLimits { outputs_max: 100, bytes_max: 1 };
        let watch = WatchFilter::default();
        let part = changes.part(0, Direction::Apply, &watch, REGTEST, limits).unwrap();
        assert_eq!((part.changes.len(), part.is_last), (1, false));
    }

    fn watching(owners: &[u8]) -> WatchFilter {
        WatchFilter::new(owners.iter().map(|owner| IndexKey::address(REGTEST, &[*owner])), [])
    }

    #[test]
    fn a_filter_leaves_others_out_and_moves_no_place() {
        let delta = delta();
        let changes = Changes::of(&delta);
        let part = changes.part(0, Direction::Apply, &watching(&[2]), REGTEST, ALL).unwrap();
        assert_eq!(places(&part), [(ChangeKind::Created, 2), (ChangeKind::Spent, 2)]);
        assert_eq!((part.places, part.is_last), (0..7, true));
        let limits = PartLimits { outputs_max: 1, ..ALL };
        let part = changes.part(0, Direction::Apply, &watching(&[2]), REGTEST, limits).unwrap();
        // It ends before the next output that is watched, not before that is known to be one.
        assert_eq!((part.places, part.is_last), (0..5, false));
    }

    #[test]
    fn assets_are_watched_by_policy_or_by_name() {
        let asset = Asset { policy: &[7; 28], name: b"gold", quantity: 1 };
        let mut bytes = Vec::new();
        let fields = Parsed { assets: vec![asset], ..Parsed::default() }.encode_into(&mut bytes);
        let bytes = record(&[1], Details { bytes: &bytes, fields });
        let with = UtxoRecord::decode(&bytes).unwrap();
        let plain = record(&[1], Details::default());
        let without = UtxoRecord::decode(&plain).unwrap();
        for (policy, name, expected) in [
            ([7; 28], None, true),
            ([7; 28], Some(b"gold".to_vec()), true),
            ([7; 28], Some(Vec::new()), false),
            ([8; 28], None, false),
        ] {
            let watch = WatchFilter::new([], [AssetFilter { policy, name }]);
            assert_eq!(watch.matches(REGTEST, &with), Ok(expected));
            assert_eq!(watch.matches(REGTEST, &without), Ok(false));
        }
        assert_eq!(WatchFilter::default().matches(REGTEST, &without), Ok(true));
    }

    #[test]
    fn a_delta_without_records_is_an_error() {
        let mut delta = delta();
        delta.spent[1].record = None;
        let changes = Changes::of(&delta);
        let watch = WatchFilter::default();
        assert!(changes.part(0, Direction::Apply, &watch, REGTEST, ALL).is_err());
    }
}
