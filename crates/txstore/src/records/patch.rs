//! What becomes of one cell, as it waits in the cell until its call is committed.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decoder, Encoder};
use utxokeep_core::Corrupt;
use utxokeep_records::{Field, IndexChange, Key, Version, WriteCell};

use super::{layout::STAGING, status::CallId};

const PATCH: &str = "staged change";

/// Encoding into memory does not fail.
const INFALLIBLE: &str = "writing to memory does not fail";

/// Bytes with a checksum behind them: a cell that was damaged must never be taken for another.
pub(super) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_be_bytes());
    bytes
}

/// Inverse of [`sealed`].
pub(super) fn opened<'b>(what: &'static str, bytes: &'b [u8]) -> Result<&'b [u8], Corrupt> {
    let (content, checksum) =
        bytes.split_last_chunk::<4>().ok_or_else(|| Corrupt::new(what, "it is torn"))?;
    if crc32fast::hash(content) != u32::from_be_bytes(*checksum) {
        return Err(Corrupt::new(what, "its checksum is wrong"));
    }
    Ok(content)
}

/// Changes of one cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Patch {
    /// The cell goes as a whole.
    pub(super) deletes: bool,
    pub(super) set: BTreeMap<Field, Vec<u8>>,
    pub(super) unset: BTreeSet<Field>,
    /// Index, member and score; no score takes the row away.
    pub(super) index: BTreeMap<(u8, Vec<u8>), Option<u64>>,
}

impl Patch {
    pub(super) fn set(&mut self, field: &[u8], value: Vec<u8>) {
        self.unset.remove(field);
        self.set.insert(field.to_vec(), value);
    }

    pub(super) fn unset(&mut self, field: &[u8]) {
        self.set.remove(field);
        self.unset.insert(field.to_vec());
    }

    pub(super) fn delete(&mut self) {
        self.deletes = true;
        self.set.clear();
        self.unset.clear();
    }

    pub(super) fn row(&mut self, index: u8, member: &[u8], score: Option<u64>) {
        self.index.insert((index, member.to_vec()), score);
    }

    /// The write that makes the change, on a cell of this version.
    pub(super) fn write(&self, key: &Key, read: Option<Version>, version: Version) -> WriteCell {
        let mut write = match read {
            None => WriteCell::create(key.clone(), version),
            Some(read) if self.deletes => WriteCell::delete(key.clone(), read),
            Some(read) => WriteCell::update(key.clone(), read, version),
        };
        write.set = self.set.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        // A cell that is made has nothing to take away.
        if read.is_some() {
            write.unset = self.unset.iter().cloned().collect();
        }
        let row = |((index, member), score): (&(u8, Vec<u8>), &Option<u64>)| IndexChange {
            index: *index,
            member: member.clone(),
            score: *score,
        };
        write.index = self.index.iter().map(row).collect();
        write
    }

    fn encode(&self, e: &mut Encoder<&mut Vec<u8>>) {
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            e.array(4)?.bool(self.deletes)?.array(self.set.len() as u64)?;
            for (name, value) in &self.set {
                e.array(2)?.bytes(name)?.bytes(value)?;
            }
            e.array(self.unset.len() as u64)?;
            for name in &self.unset {
                e.bytes(name)?;
            }
            e.array(self.index.len() as u64)?;
            for ((index, member), score) in &self.index {
                e.array(3)?.u8(*index)?.bytes(member)?;
                match score {
                    Some(score) => e.u64(*score)?,
                    None => e.null()?,
                };
            }
            Ok(())
        };
        write().expect(INFALLIBLE);
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, Corrupt> {
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(PATCH, error);
        items(d, 4)?;
        let mut patch = Self { deletes: d.bool().map_err(corrupt)?, ..Self::default() };
        for _ in 0..array(d)? {
            items(d, 2)?;
            let name = d.bytes().map_err(corrupt)?.to_vec();
            patch.set.insert(name, d.bytes().map_err(corrupt)?.to_vec());
        }
        for _ in 0..array(d)? {
            patch.unset.insert(d.bytes().map_err(corrupt)?.to_vec());
        }
        for _ in 0..array(d)? {
            items(d, 3)?;
            let index = d.u8().map_err(corrupt)?;
            let member = d.bytes().map_err(corrupt)?.to_vec();
            let is_null = d.datatype().map_err(corrupt)? == minicbor::data::Type::Null;
            let score = if is_null {
                d.null().map_err(corrupt)?;
                None
            } else {
                Some(d.u64().map_err(corrupt)?)
            };
            patch.index.insert((index, member), score);
        }
        Ok(patch)
    }
}

fn array(d: &mut Decoder<'_>) -> Result<u64, Corrupt> {
    let len = d.array().map_err(|error| Corrupt::new(PATCH, error))?;
    len.ok_or_else(|| Corrupt::new(PATCH, "an array has no length"))
}

fn items(d: &mut Decoder<'_>, expected: u64) -> Result<(), Corrupt> {
    if array(d)? == expected {
        return Ok(());
    }
    Err(Corrupt::new(PATCH, format!("an array has not {expected} items")))
}

/// A change that waits in a cell for the status of its call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Staging {
    pub(super) call: CallId,
    /// The cell was made by the call, with the fields it is to have. Before the commit it is absent
    /// to everybody; when the call is aborted it is deleted.
    pub(super) is_new: bool,
    /// What is left to do at the commit.
    pub(super) patch: Patch,
}

impl Staging {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        let mut e = Encoder::new(&mut out);
        e.array(3).expect(INFALLIBLE).bytes(&self.call.to_bytes()).expect(INFALLIBLE);
        e.bool(self.is_new).expect(INFALLIBLE);
        self.patch.encode(&mut e);
        sealed(out)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(PATCH, error);
        let content = opened(PATCH, bytes)?;
        let mut d = Decoder::new(content);
        items(&mut d, 3)?;
        let call = CallId::from_bytes(d.bytes().map_err(corrupt)?)?;
        let is_new = d.bool().map_err(corrupt)?;
        let patch = Patch::decode(&mut d)?;
        if d.position() == content.len() {
            return Ok(Self { call, is_new, patch });
        }
        Err(Corrupt::new(PATCH, "there are bytes behind it"))
    }

    /// The write that puts a change into a cell.
    pub(super) fn stage(
        call: CallId,
        patch: &Patch,
        key: &Key,
        read: Option<Version>,
        version: Version,
    ) -> WriteCell {
        match read {
            None => {
                let rows = Patch { index: patch.index.clone(), ..Patch::default() };
                let staging = Self { call, is_new: true, patch: rows };
                let mut write = WriteCell::create(key.clone(), version);
                write.set = patch.set.clone().into_iter().collect();
                write.set(STAGING, staging.encode())
            }
            Some(read) => {
                let staging = Self { call, is_new: false, patch: patch.clone() };
                WriteCell::update(key.clone(), read, version).set(STAGING, staging.encode())
            }
        }
    }

    /// The write that makes the change final, on a cell of this version.
    pub(super) fn forward(&self, key: &Key, read: Version, version: Version) -> WriteCell {
        let write = self.patch.write(key, Some(read), version);
        if self.patch.deletes { write } else { write.unset(STAGING) }
    }

    /// The write that takes the change away again, on a cell of this version.
    pub(super) fn back(&self, key: &Key, read: Version, version: Version) -> WriteCell {
        if self.is_new {
            return WriteCell::delete(key.clone(), read);
        }
        WriteCell::update(key.clone(), read, version).unset(STAGING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staging() -> Staging {
        let call = CallId { started_ms: 1, random: 2, attempt: 3 };
        let mut patch = Patch::default();
        patch.set(b"r", vec![9]);
        patch.unset(b"b");
        patch.row(0, b"x", Some(5));
        patch.row(1, b"x", None);
        Staging { call, is_new: false, patch }
    }

    #[test]
    fn staged_bytes_are_pinned() {
        let bytes = staging().encode();
        let call = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3];
        let mut expected = vec![0x83, 0x54];
        expected.extend(call);
        expected.extend([0xf4, 0x84, 0xf4]);
        expected.extend([0x81, 0x82, 0x41, b'r', 0x41, 9]);
        expected.extend([0x81, 0x41, b'b']);
        expected.extend([0x82, 0x83, 0, 0x41, b'x', 5, 0x83, 1, 0x41, b'x', 0xf6]);
        assert_eq!(bytes, sealed(expected));
        assert_eq!(Staging::decode(&bytes).unwrap(), staging());
    }

    #[test]
    fn damaged_staging_is_refused() {
        let bytes = staging().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Staging::decode(&damaged).is_err(), "byte {at}");
            assert!(Staging::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
        let mut longer = bytes[..bytes.len() - 4].to_vec();
        longer.push(0);
        assert!(Staging::decode(&sealed(longer)).is_err());
    }

    #[test]
    fn a_cell_that_is_made_holds_its_fields_and_only_its_rows_wait() {
        let (key, [old, new]) = (Key::new(0, *b"u"), [1, 2].map(Version::new));
        let Staging { call, patch, .. } = staging();
        let write = Staging::stage(call, &patch, &key, None, new);
        let staged = write.set.iter().find(|(name, _)| name == STAGING).unwrap();
        let staged = Staging::decode(&staged.1).unwrap();
        assert!(staged.is_new && staged.patch.set.is_empty() && !staged.patch.index.is_empty());
        assert!(write.set.iter().any(|(name, _)| name == b"r") && write.index.is_empty());
        assert_eq!(staged.back(&key, old, new), WriteCell::delete(key.clone(), old));
        let write = Staging::stage(call, &patch, &key, Some(old), new);
        assert_eq!(write.set.len(), 1, "a cell that was there stays as it is");
        let forward = Staging { call, is_new: false, patch }.forward(&key, old, new);
        assert_eq!(forward.unset, [b"b".to_vec(), STAGING.to_vec()]);
        assert_eq!((forward.set.len(), forward.index.len()), (1, 2));
    }
}
