//! Who has a database open: one that writes, or any number that only read.
//!
//! RocksDB locks its file `LOCK` for a database that it may write, and minds nobody when it opens one
//! for reading. A reader beside a writer would meet files that go away, so readers lock that file
//! too, and share the lock among themselves. A missing `LOCK` is not created: RocksDB makes it before
//! it writes anything.
//!
//! A process loses its lock of a file as soon as it closes any handle of it. So what this process
//! itself has open is remembered here, and `LOCK` is not touched a second time.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Mutex, PoisonError},
};

use rustix::fs::{FlockOperation, fcntl_lock};

use crate::KvError;

/// A directory, by device and inode.
type Directory = (u64, u64);

/// How this process has a directory open.
enum Use {
    Written,
    /// So many read it; the file holds the lock that they share.
    Read(usize, #[expect(dead_code, reason = "closing it ends the lock")] Option<File>),
}

static IN_USE: Mutex<BTreeMap<Directory, Use>> = Mutex::new(BTreeMap::new());

/// A database that this process has open, until it is dropped.
#[derive(Debug)]
pub(super) struct Occupied(Directory);

impl Occupied {
    /// Keeps readers of this process out. RocksDB does so with other processes, by its lock.
    pub(super) fn to_write(dir: &Path) -> Result<Self, KvError> {
        let directory = identify(dir)?;
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        if in_use.contains_key(&directory) {
            return Err(KvError::InUse { path: dir.to_owned() });
        }
        in_use.insert(directory, Use::Written);
        Ok(Self(directory))
    }

    /// Keeps writers out, of this process and of others.
    pub(super) fn to_read(dir: &Path) -> Result<Self, KvError> {
        let directory = identify(dir)?;
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        match in_use.get_mut(&directory) {
            Some(Use::Written) => return Err(KvError::InUse { path: dir.to_owned() }),
            Some(Use::Read(readers, _)) => *readers += 1,
            None => {
                let lock = share_lock(dir)?;
                in_use.insert(directory, Use::Read(1, lock));
            }
        }
        Ok(Self(directory))
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        match in_use.get_mut(&self.0) {
            Some(Use::Read(readers, _)) if *readers > 1 => *readers -= 1,
            _ => drop(in_use.remove(&self.0)),
        }
    }
}

fn identify(dir: &Path) -> Result<Directory, KvError> {
    let found = dir.metadata();
    let found =
        found.map_err(|error| KvError::engine("looking at the database directory", error))?;
    Ok((found.dev(), found.ino()))
}

/// Locks `LOCK` for reading, if it is there.
fn share_lock(dir: &Path) -> Result<Option<File>, KvError> {
    let failed = |error: io::Error| KvError::engine("locking the database", error);
    let file = match File::open(dir.join("LOCK")) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            Err(KvError::InUse { path: dir.to_owned() })
        }
        Err(error) => Err(failed(error.into())),
    }
}
