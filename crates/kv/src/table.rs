//! Tables with types: a schema states name, key and value of each table once.
//!
//! The engines below know bytes. A [`Table`] is how a schema's crate reads and writes them, and takes
//! only keys and values of its own types:
//!
//! ```
//! use utxokeep_core::{BlockHash, Height};
//! use utxokeep_kv::{Access, Batch, Durability, Kv as _, MemoryKv, tables};
//!
//! tables! {
//!     pub,
//!     /// Block hash → height.
//!     HEIGHTS = 0, "heights": BlockHash => Height, Access::Point;
//! }
//!
//! let kv = MemoryKv::new(TABLES);
//! let hash = BlockHash::from_bytes([7; 32]);
//! let mut batch = Batch::new();
//! HEIGHTS.put(&mut batch, &hash, &Height::new(3));
//! kv.commit(batch, Durability::Buffered)?;
//! let found = HEIGHTS.get(&kv, &hash)?;
//! assert_eq!(found.unwrap().read().unwrap(), Height::new(3));
//! # Ok::<(), utxokeep_kv::KvError>(())
//! ```
//!
//! A key of another type does not compile:
//!
//! ```compile_fail,E0308
//! # use utxokeep_core::{BlockHash, Height, Txid};
//! # use utxokeep_kv::{Access, Batch, tables};
//! # tables! { pub, HEIGHTS = 0, "heights": BlockHash => Height, Access::Point; }
//! # let mut batch = Batch::new();
//! HEIGHTS.put(&mut batch, &Txid::from_bytes([7; 32]), &Height::new(3));
//! ```
//!
//! Nor does a value of another type:
//!
//! ```compile_fail,E0277
//! # use utxokeep_core::{BlockHash, Height};
//! # use utxokeep_kv::{Access, Batch, tables};
//! # tables! { pub, HEIGHTS = 0, "heights": BlockHash => Height, Access::Point; }
//! # let mut batch = Batch::new();
//! HEIGHTS.put(&mut batch, &BlockHash::from_bytes([7; 32]), &3_u32);
//! ```
//!
//! Nor bytes that are said to be neither:
//!
//! ```compile_fail,E0308
//! # use utxokeep_core::{BlockHash, Height};
//! # use utxokeep_kv::{Access, Batch, tables};
//! # tables! { pub, HEIGHTS = 0, "heights": BlockHash => Height, Access::Point; }
//! # let mut batch = Batch::new();
//! batch.put(HEIGHTS, &[7; 32], &[0, 0, 0, 3]);
//! ```

use std::{fmt, marker::PhantomData};

use utxokeep_core::{Corrupt, Encoded, StoreAs, StoredKey, StoredValue};

use crate::{Batch, KvError, Read, Scan, TableId};

/// A table whose keys are `K` and whose values are `V`.
pub struct Table<K: ?Sized, V: ?Sized> {
    id: TableId,
    types: PhantomData<fn(&K) -> Box<V>>,
}

impl<K: ?Sized, V: ?Sized> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, V: ?Sized> Copy for Table<K, V> {}

impl<K: ?Sized, V: ?Sized> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Table").field(&self.id.0).finish()
    }
}

impl<K: ?Sized, V: ?Sized> Table<K, V> {
    /// The table of this position; [`tables!`](crate::tables) is for that.
    #[must_use]
    pub const fn new(id: TableId) -> Self {
        Self { id, types: PhantomData }
    }

    /// The table as engines know it, for what concerns bytes: counts, sizes, damage.
    #[must_use]
    pub const fn id(self) -> TableId {
        self.id
    }
}

/// A value as it was read from its row.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored<V: ?Sized> {
    bytes: Vec<u8>,
    value: PhantomData<fn(&V)>,
}

impl<V: StoredValue + ?Sized> Stored<V> {
    /// The value.
    pub fn read(&self) -> Result<V::Read<'_>, Corrupt> {
        V::read_value(&self.bytes)
    }

    /// The bytes, which are a value.
    #[must_use]
    pub fn encoded(&self) -> Encoded<'_, V> {
        Encoded::new(&self.bytes)
    }

    /// The bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl<K: StoredKey + ?Sized, V: StoredValue + ?Sized> Table<K, V> {
    /// Writes a row.
    pub fn put(self, batch: &mut Batch, key: &K, value: &(impl StoreAs<V> + ?Sized)) {
        batch.put_with(self.id, key.key_bytes().as_ref(), |out| value.write_value(out));
    }

    /// Deletes a row.
    pub fn delete(self, batch: &mut Batch, key: &K) {
        batch.delete(self.id, key.key_bytes().as_ref());
    }

    /// Deletes a row that was visited, whether its key can be read or not.
    pub fn delete_row(self, batch: &mut Batch, key: &RowKey<'_, K>) {
        batch.delete(self.id, key.bytes);
    }

    /// Reads a row.
    pub fn get(self, read: &(impl Read + ?Sized), key: &K) -> Result<Option<Stored<V>>, KvError> {
        let bytes = read.get(self.id, key.key_bytes().as_ref())?;
        Ok(bytes.map(|bytes| Stored { bytes, value: PhantomData }))
    }

    /// Whether there is such a row.
    pub fn has(self, read: &(impl Read + ?Sized), key: &K) -> Result<bool, KvError> {
        Ok(self.get(read, key)?.is_some())
    }

    /// Reads many rows, whose keys must be in ascending order, and hands each value to `found` with
    /// the position of its key.
    pub fn multi_get<'k>(
        self,
        read: &(impl Read + ?Sized),
        keys: impl IntoIterator<Item = &'k K>,
        mut found: impl FnMut(usize, Option<Encoded<'_, V>>),
    ) -> Result<(), KvError>
    where
        K: 'k,
    {
        let keys: Vec<_> = keys.into_iter().map(StoredKey::key_bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        read.multi_get(self.id, &keys, &mut |at, value| found(at, value.map(Encoded::new)))
    }

    /// Visits a range of rows in the order of their keys, until `visit` says that it is enough;
    /// answers how many were visited. Bounds are bytes: most are beginnings of keys.
    pub fn scan(
        self,
        read: &(impl Read + ?Sized),
        scan: &Scan<'_>,
        mut visit: impl FnMut(RowKey<'_, K>, Encoded<'_, V>) -> bool,
    ) -> Result<usize, KvError> {
        read.scan(self.id, scan, &mut |key, value| visit(RowKey::new(key), Encoded::new(value)))
    }
}

/// The key of a row that was visited.
#[derive(Debug)]
pub struct RowKey<'r, K: ?Sized> {
    bytes: &'r [u8],
    key: PhantomData<fn(&K)>,
}

impl<'r, K: StoredKey + ?Sized> RowKey<'r, K> {
    const fn new(bytes: &'r [u8]) -> Self {
        Self { bytes, key: PhantomData }
    }

    /// The key; `None` where the bytes are not one.
    #[must_use]
    pub fn read(&self) -> Option<K::Read> {
        K::read_key(self.bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(&self) -> &'r [u8] {
        self.bytes
    }
}

/// Declares the tables of a schema, one line each: constant, position, name on disk, type of the keys,
/// type of the values, and how it is read. Makes a [`Table`] of each, `TABLES` of all, in the order of
/// their positions, and a module `ids` with the positions.
#[macro_export]
macro_rules! tables {
    ($vis:vis, $($(#[$doc:meta])*
        $name:ident = $id:literal, $disk:literal: $key:ty => $value:ty, $access:expr;)+) => {
        $($(#[$doc])*
        $vis const $name: $crate::Table<$key, $value> = $crate::Table::new($crate::TableId($id));)+
        /// The tables as engines know them, for what looks at bytes: damage, counts, copies.
        pub mod ids {
            $($(#[$doc])* $vis const $name: $crate::TableId = $crate::TableId($id);)+
        }
        /// Every table, in the order of their ids.
        pub const TABLES: &[$crate::TableSpec] =
            &[$($crate::TableSpec { name: $disk, access: $access }),+];
    };
}
