//! Limits of the port, checked once for all engines before anything is sent.

use std::{collections::BTreeSet, ops::Bound};

use crate::{
    error::RecordError,
    port::{
        CALL_ITEMS_MAX, Expect, FIELD_NAME_BYTES_MAX, Fields, KEY_NAME_BYTES_MAX, Key,
        MEMBER_BYTES_MAX, ReadCell, SCAN_LIMIT_MAX, SCORE_MAX, SHARDS_MAX, ScanIndex, WriteCell,
    },
};

/// Milliseconds until a cell expires: 100 years. Redis refuses times that overflow its clock.
const EXPIRE_MS_MAX: u64 = 100 * 366 * 86_400_000;

pub(crate) fn reads(reads: &[ReadCell]) -> Result<(), RecordError> {
    items(reads.len())?;
    for read in reads {
        key(&read.key)?;
        if let Fields::Named(names) = &read.fields {
            names.iter().try_for_each(|name| field(name))?;
        }
    }
    Ok(())
}

pub(crate) fn writes(writes: &[WriteCell]) -> Result<(), RecordError> {
    items(writes.len())?;
    let mut cells = BTreeSet::new();
    let mut rows = BTreeSet::new();
    for write in writes {
        one_write(write)?;
        if !cells.insert(&write.key) {
            return Err(RecordError::usage(format!("{} is written twice", write.key)));
        }
        for change in &write.index {
            if !rows.insert((write.key.shard, change.index, &change.member)) {
                return Err(RecordError::usage(format!(
                    "two changes of one row of index {} with {}",
                    change.index, write.key
                )));
            }
        }
    }
    Ok(())
}

fn one_write(write: &WriteCell) -> Result<(), RecordError> {
    let refused = |what: &str| Err(RecordError::usage(format!("{}: {what}", write.key)));
    key(&write.key)?;
    let mut names = BTreeSet::new();
    for name in write.set.iter().map(|(name, _)| name).chain(&write.unset) {
        field(name)?;
        if !names.insert(name) {
            return refused("a field is named twice");
        }
    }
    if write.expect == Expect::Version(write.version) {
        return refused("the version it expects is the one it writes");
    }
    if write.action.deletes() {
        if write.expect == Expect::Absent {
            return refused("it deletes a cell that is expected to be absent");
        }
        if !names.is_empty() || write.expire_ms.is_some() {
            return refused("a cell that is deleted has no fields and does not expire");
        }
    }
    if write.expire_ms.is_some_and(|ms| ms == 0 || ms > EXPIRE_MS_MAX) {
        return refused("it expires in 1 ms to 100 years");
    }
    if write.expire_ms.is_some() && write.index.iter().any(|change| change.score.is_some()) {
        return refused("a cell that expires has no rows of indexes");
    }
    for change in &write.index {
        if change.member.is_empty() || change.member.len() > MEMBER_BYTES_MAX {
            return refused("a member of an index has 1 to 512 bytes");
        }
        if change.score.is_some_and(|score| score > SCORE_MAX) {
            return refused("a score of an index is below 2^53");
        }
    }
    Ok(())
}

pub(crate) fn scans(scans: &[ScanIndex]) -> Result<(), RecordError> {
    items(scans.len())?;
    for scan in scans {
        shard(scan.shard)?;
        if scan.limit == 0 || scan.limit > SCAN_LIMIT_MAX {
            return Err(RecordError::usage(format!("a page has 1 to {SCAN_LIMIT_MAX} rows")));
        }
        if let Bound::Included((_, member)) | Bound::Excluded((_, member)) = &scan.from
            && member.len() > MEMBER_BYTES_MAX
        {
            return Err(RecordError::usage("a member of an index has at most 512 bytes"));
        }
    }
    Ok(())
}

pub(crate) fn shard(shard: u16) -> Result<(), RecordError> {
    if shard < SHARDS_MAX {
        return Ok(());
    }
    Err(RecordError::usage(format!("shard {shard} is not below {SHARDS_MAX}")))
}

fn items(count: usize) -> Result<(), RecordError> {
    if count <= CALL_ITEMS_MAX {
        return Ok(());
    }
    Err(RecordError::usage(format!("{count} items in one call, at most {CALL_ITEMS_MAX}")))
}

fn key(key: &Key) -> Result<(), RecordError> {
    shard(key.shard)?;
    if key.name.is_empty() || key.name.len() > KEY_NAME_BYTES_MAX {
        return Err(RecordError::usage(format!("{key}: a key has 1 to 512 bytes")));
    }
    Ok(())
}

fn field(name: &[u8]) -> Result<(), RecordError> {
    // The version is stored among the fields, under this name.
    if name.is_empty() || name.len() > FIELD_NAME_BYTES_MAX || name[0] == b'@' {
        return Err(RecordError::usage(format!(
            "field {}: a name has 1 to 64 bytes and does not begin with @",
            name.escape_ascii()
        )));
    }
    Ok(())
}
