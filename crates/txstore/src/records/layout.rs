//! Which cell holds what, and under which name.
//!
//! | cell | key | fields |
//! |---|---|---|
//! | master of a transaction | `u` txid | `r` record, `b` body, `o` vout: an output, `m` child: marker of a deleted child, `c` the call that created it, `s` staging |
//! | page of outputs | `u` txid page | `o` vout, `g` while its transaction is being created, `c`, `s` |
//! | creation lock | `u` txid `ffffffff` | see [`super::lock`] |
//! | value of the store | `n` name | `v`, `s` |
//! | status of a call | `t` id | `k` state, `l` keys |
//! | further keys of a call | `t` id number | `l` |
//! | numbers of the store | `f` in shard 0 | `f` |
//! | guard of the values | `g` | `v`, `s` |
//! | stamp of a shard | `e` in each shard | `v`, see [`super::stamp`] |
//!
//! The shard of a master is the beginning of its id, so that walking shards in order walks ids in
//! order. Pages of one transaction are in many shards on purpose: a large transaction is then spread
//! over the servers.

use utxokeep_core::{Corrupt, Height, OutPoint, Txid, node::HeightIndex};
use utxokeep_records::{Field, Key};

use super::status::CallId;

/// Format of the cells. It is raised with everything that the programs before would call damaged.
pub(super) const FORMAT: u64 = 1;

/// Page number of the creation lock: no transaction has so many outputs.
pub(super) const LOCK_PAGE: u32 = u32::MAX;

pub(super) const RECORD: &[u8] = b"r";
pub(super) const BODY: &[u8] = b"b";
pub(super) const STAGING: &[u8] = b"s";
pub(super) const CREATOR: &[u8] = b"c";
pub(super) const CREATING: &[u8] = b"g";
pub(super) const VALUE: &[u8] = b"v";
pub(super) const STATE: &[u8] = b"k";
pub(super) const KEYS: &[u8] = b"l";
pub(super) const NUMBERS: &[u8] = b"f";

/// Indexes of a shard, by number: the four heights come first.
pub(super) const ALL: u8 = 4;
pub(super) const NAMES: u8 = 5;
pub(super) const OPEN: u8 = 6;
pub(super) const PAGES: u8 = 7;

/// Number of the index of a height.
pub(super) const fn height_index(index: HeightIndex) -> u8 {
    match index {
        HeightIndex::Due => 0,
        HeightIndex::Unmined => 1,
        HeightIndex::Preserved => 2,
        HeightIndex::KeptForChild => 3,
    }
}

/// Field of an output.
pub(super) fn output_field(vout: u32) -> Field {
    [b"o".as_slice(), &vout.to_be_bytes()].concat()
}

/// Inverse of [`output_field`]; `None` for other fields.
pub(super) fn output_of(field: &[u8]) -> Option<u32> {
    let vout = field.strip_prefix(b"o")?;
    Some(u32::from_be_bytes(vout.try_into().ok()?))
}

/// Field of the marker of a deleted child.
pub(super) fn marker_field(child: &Txid) -> Field {
    [b"m".as_slice(), child.as_bytes()].concat()
}

/// Inverse of [`marker_field`]; `None` for other fields.
pub(super) fn marker_of(field: &[u8]) -> Option<Txid> {
    Txid::from_slice(field.strip_prefix(b"m")?)
}

/// Score of a name: its beginning, so that names sort by score and name as they do by name alone, and
/// a page of names with one beginning ends where they end.
pub(super) fn name_score(name: &[u8], fill: u8) -> u64 {
    let byte = |at: usize| u64::from(name.get(at).copied().unwrap_or(fill));
    (0..6).fold(0, |score, at| score << 8 | byte(at))
}

/// The row of a height index.
pub(super) fn height_row(score: u64, member: &[u8]) -> Result<(Height, Txid), Corrupt> {
    let damaged = || Corrupt::new("index row", "no height and transaction");
    let height = u32::try_from(score).map_err(|_| damaged())?;
    Ok((Height::new(height), Txid::from_slice(member).ok_or_else(damaged)?))
}

/// Bytes of a row of the index of pages.
pub(super) const PAGE_MEMBER_LEN: usize = 36;

/// The row of the index of pages.
pub(super) fn page_member(txid: &Txid, page: u32) -> Vec<u8> {
    [txid.as_bytes().as_slice(), &page.to_be_bytes()].concat()
}

/// Inverse of [`page_member`].
pub(super) fn page_of(member: &[u8]) -> Result<(Txid, u32), Corrupt> {
    let damaged = || Corrupt::new("index row", "no transaction and page");
    let (txid, page) = member.split_at_checked(32).ok_or_else(damaged)?;
    let page = page.try_into().map_err(|_| damaged())?;
    Ok((Txid::from_slice(txid).ok_or_else(damaged)?, u32::from_be_bytes(page)))
}

/// The transaction that a cell belongs to, its locks included.
pub(super) fn txid_of(key: &Key) -> Option<Txid> {
    Txid::from_slice(key.name.strip_prefix(b"u")?.get(..32)?)
}

/// Where everything is, from the numbers of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// A power of two.
    pub(super) shards: u16,
    pub(super) outputs_per_record: u32,
}

impl Layout {
    /// The shard of something that may be anywhere.
    fn any_shard(self, name: &[u8]) -> u16 {
        let low = crc32fast::hash(name) & u32::from(self.shards - 1);
        u16::try_from(low).expect("it is below the number of shards")
    }

    fn anywhere(self, name: Vec<u8>) -> Key {
        Key::new(self.any_shard(&name), name)
    }

    /// The shard of a master.
    pub(super) fn shard_of(self, txid: &Txid) -> u16 {
        let bytes = txid.as_bytes();
        let first = u32::from(bytes[0]) << 8 | u32::from(bytes[1]);
        let shard = (first * u32::from(self.shards)) >> 16;
        u16::try_from(shard).expect("it is below the number of shards")
    }

    pub(super) fn master(self, txid: &Txid) -> Key {
        Key::new(self.shard_of(txid), [b"u".as_slice(), txid.as_bytes()].concat())
    }

    /// A page of outputs, counted from 1: the master is the first.
    pub(super) fn page(self, txid: &Txid, page: u32) -> Key {
        self.anywhere([b"u".as_slice(), &page_member(txid, page)].concat())
    }

    /// The creation lock of a transaction, in the shard of its master.
    pub(super) fn lock(self, txid: &Txid) -> Key {
        let name = [b"u".as_slice(), &page_member(txid, LOCK_PAGE)].concat();
        Key::new(self.shard_of(txid), name)
    }

    /// Pages that a transaction has besides its master.
    pub(super) const fn pages(self, outputs: u32) -> u32 {
        outputs.div_ceil(self.outputs_per_record).saturating_sub(1)
    }

    /// The page of an output; 0 is the master.
    pub(super) const fn page_number(self, outpoint: &OutPoint) -> u32 {
        outpoint.index() / self.outputs_per_record
    }

    /// The cell of an output.
    pub(super) fn output(self, outpoint: &OutPoint) -> Key {
        match self.page_number(outpoint) {
            0 => self.master(outpoint.txid()),
            page => self.page(outpoint.txid(), page),
        }
    }

    pub(super) fn value(self, name: &str) -> Key {
        self.anywhere([b"n".as_slice(), name.as_bytes()].concat())
    }

    /// Whoever changes several values of the store, or looks through their names, changes this cell.
    pub(super) fn guard(self) -> Key {
        self.anywhere(b"g".to_vec())
    }

    pub(super) fn status(self, id: &CallId) -> Key {
        self.anywhere([b"t".as_slice(), &id.to_bytes()].concat())
    }

    /// Further keys of a call, counted from 1, in the shard of its status.
    pub(super) fn status_page(self, id: &CallId, page: u32) -> Key {
        let Key { shard, name } = self.status(id);
        Key::new(shard, [name.as_slice(), &page.to_be_bytes()].concat())
    }

    /// What says that the numbers of the store were compared, in each shard.
    pub(super) fn stamp(shard: u16) -> Key {
        Key::new(shard, b"e".to_vec())
    }

    pub(super) fn numbers() -> Key {
        Key::new(0, b"f".to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { shards: 1_024, outputs_per_record: 128 };

    fn txid(first: u8, second: u8) -> Txid {
        let mut bytes = [7; 32];
        (bytes[0], bytes[1]) = (first, second);
        Txid::from_bytes(bytes)
    }

    #[test]
    fn keys_are_pinned() {
        let id = txid(0x01, 0x40);
        let master = LAYOUT.master(&id);
        assert_eq!((master.shard, master.name.len()), (5, 33));
        assert_eq!(master.name[..4], [b'u', 0x01, 0x40, 7]);
        let page = LAYOUT.page(&id, 2);
        assert_eq!((page.shard, &page.name[33..]), (7, [0, 0, 0, 2].as_slice()));
        let lock = LAYOUT.lock(&id);
        assert_eq!((lock.shard, &lock.name[33..]), (5, [0xff; 4].as_slice()));
        assert_eq!(LAYOUT.value("heights"), Key::new(LAYOUT.any_shard(b"nheights"), *b"nheights"));
        let call = CallId { started_ms: 1, random: 2, attempt: 3 };
        let status = LAYOUT.status(&call);
        assert_eq!(status.name.len(), 21);
        assert_eq!(LAYOUT.status_page(&call, 1).shard, status.shard);
        assert_eq!(output_field(258), [b'o', 0, 0, 1, 2]);
        assert_eq!(output_of(&output_field(258)), Some(258));
        assert_eq!((output_of(b"r"), output_of(b"oxyz")), (None, None));
        assert_eq!(marker_field(&id).len(), 33);
        assert_eq!((marker_of(&marker_field(&id)), marker_of(b"mx")), (Some(id), None));
    }

    #[test]
    fn shards_are_in_the_order_of_ids() {
        assert_eq!(LAYOUT.shard_of(&txid(0, 0)), 0);
        assert_eq!(LAYOUT.shard_of(&txid(0xff, 0xff)), 1_023);
        assert!(LAYOUT.shard_of(&txid(0x7f, 0xff)) < LAYOUT.shard_of(&txid(0x80, 0)));
        let one = Layout { shards: 1, ..LAYOUT };
        assert_eq!((one.shard_of(&txid(0xff, 0xff)), one.any_shard(b"abc")), (0, 0));
    }

    #[test]
    fn outputs_of_a_large_transaction_are_on_pages() {
        let id = txid(1, 1);
        let output = |vout| LAYOUT.output(&OutPoint::new(id, vout));
        assert_eq!(output(127), LAYOUT.master(&id));
        assert_eq!(output(128), LAYOUT.page(&id, 1));
        let pages = [0, 1, 128, 129, 256, 257].map(|outputs| LAYOUT.pages(outputs));
        assert_eq!(pages, [0, 0, 0, 1, 1, 2]);
        assert_eq!(page_of(&page_member(&id, 9)).unwrap(), (id, 9));
        assert!(page_of(&[1; 35]).is_err());
    }

    #[test]
    fn names_sort_by_score_and_name_as_they_do_by_name() {
        let mut names = ["run/2", "run/10", "r", "undo/1/a", "undo/1/b", "undo/", "a"];
        let mut scored: Vec<_> =
            names.iter().map(|name| (name_score(name.as_bytes(), 0), *name)).collect();
        names.sort_unstable();
        scored.sort_unstable();
        assert_eq!(scored.iter().map(|(_, name)| *name).collect::<Vec<_>>(), names);
        assert!(name_score(b"undo/1/z", 0) <= name_score(b"undo/", 0x7f));
        assert!(name_score(b"undp", 0) > name_score(b"undo/", 0x7f));
    }
}
