//! Writes that become visible together or not at all.

use crate::{KvError, RowSink, SortedRows, TableId};

#[derive(Debug, Clone, Copy)]
struct Op {
    /// First bytes of the key, so that sorting rarely touches the arena.
    prefix: u128,
    start: u64,
    value_len: u32,
    key_len: u16,
    table: TableId,
    is_delete: bool,
}

/// Puts and deletes across tables, in one arena.
#[derive(Debug, Default, Clone)]
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    arena: Vec<u8>,
    ops: Vec<Op>,
}

/// One write of a batch; a delete has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// Table it goes to.
    pub table: TableId,
    /// Key bytes.
    pub key: &'a [u8],
    /// New value, or `None` to delete the row.
    pub value: Option<&'a [u8]>,
}

/// The rows of one table of a sorted batch.
#[derive(Debug)]
pub struct TableRows<'a> {
    table: TableId,
    batch: &'a Batch,
    ops: &'a [Op],
}

impl SortedRows for TableRows<'_> {
    fn table(&self) -> TableId {
        self.table
    }

    fn visit(&self, sink: &mut RowSink<'_>) -> Result<(), KvError> {
        for op in self.ops {
            let row = self.batch.row(op);
            sink(row.key, row.value)?;
        }
        Ok(())
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for this many rows and bytes.
    pub fn with_capacity(rows: usize, bytes: usize) -> Self {
        Self { arena: Vec::with_capacity(bytes), ops: Vec::with_capacity(rows) }
    }

    /// Writes a row.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        self.put_with(table, key, |out| out.extend_from_slice(value));
    }

    /// Writes a row whose value is produced in place.
    pub fn put_with(&mut self, table: TableId, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) {
        let op = self.push(table, key, false);
        let before = self.arena.len();
        value(&mut self.arena);
        let value_len = self.arena.len() - before;
        self.ops[op].value_len = u32::try_from(value_len).expect("a value is below 4 GiB");
    }

    /// Deletes a row.
    pub fn delete(&mut self, table: TableId, key: &[u8]) {
        self.push(table, key, true);
    }

    fn push(&mut self, table: TableId, key: &[u8], is_delete: bool) -> usize {
        let mut prefix = [0; 16];
        let shared = key.len().min(16);
        prefix[..shared].copy_from_slice(&key[..shared]);
        self.ops.push(Op {
            prefix: u128::from_be_bytes(prefix),
            start: self.arena.len() as u64,
            value_len: 0,
            key_len: u16::try_from(key.len()).expect("a key is below 64 KiB"),
            table,
            is_delete,
        });
        self.arena.extend_from_slice(key);
        self.ops.len() - 1
    }

    /// Moves all rows of `other` behind the rows of this batch.
    pub fn append(&mut self, other: &Self) {
        let shift = self.arena.len() as u64;
        self.arena.extend_from_slice(&other.arena);
        self.ops.extend(other.ops.iter().map(|op| Op { start: op.start + shift, ..*op }));
    }

    /// Orders the rows by table and key; of several writes to one row only the last remains.
    pub fn sort(&mut self) {
        let Self { arena, ops } = self;
        let key = |op: &Op| {
            let start = usize::try_from(op.start).expect("the arena is in memory");
            &arena[start..start + usize::from(op.key_len)]
        };
        // The arena grows with every write, so `start` tells earlier writes from later ones.
        ops.sort_unstable_by(|a, b| {
            (a.table, a.prefix)
                .cmp(&(b.table, b.prefix))
                .then_with(|| key(a).cmp(key(b)))
                .then_with(|| b.start.cmp(&a.start))
        });
        ops.dedup_by(|later, first| {
            (later.table, later.prefix) == (first.table, first.prefix) && key(later) == key(first)
        });
    }

    /// The rows, in their present order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.ops.iter().map(|op| self.row(op))
    }

    fn row(&self, op: &Op) -> Row<'_> {
        let start = usize::try_from(op.start).expect("the arena is in memory");
        let (key, rest) = self.arena[start..].split_at(usize::from(op.key_len));
        let value = (!op.is_delete).then(|| &rest[..op.value_len as usize]);
        Row { table: op.table, key, value }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether the batch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.arena.len()
    }

    /// Sorts the batch and splits it by table, for a load.
    pub fn sorted_tables(&mut self) -> Vec<TableRows<'_>> {
        self.sort();
        self.ops
            .chunk_by(|a, b| a.table == b.table)
            .map(|ops| TableRows { table: ops[0].table, batch: self, ops })
            .collect()
    }

    /// Encodes the batch for the intent record of a load.
    #[cfg(any(test, feature = "rocksdb"))]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes() + self.len() * 8);
        for row in self.rows() {
            out.push(row.table.0);
            out.push(u8::from(row.value.is_some()));
            for part in [row.key, row.value.unwrap_or_default()] {
                out.extend_from_slice(&(part.len() as u64).to_be_bytes());
                out.extend_from_slice(part);
            }
        }
        out
    }

    /// Inverse of [`Batch::encode`]; `None` when the bytes are damaged.
    #[cfg(any(test, feature = "rocksdb"))]
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
            let (len, rest) = bytes.split_at_checked(8)?;
            let len = usize::try_from(u64::from_be_bytes(len.try_into().ok()?)).ok()?;
            let (part, rest) = rest.split_at_checked(len)?;
            *bytes = rest;
            Some(part)
        }
        let mut batch = Self::new();
        while let Some((head, rest)) = bytes.split_at_checked(2).filter(|_| !bytes.is_empty()) {
            bytes = rest;
            let (key, value) = (part(&mut bytes)?, part(&mut bytes)?);
            match head[1] {
                0 => batch.delete(TableId(head[0]), key),
                _ => batch.put(TableId(head[0]), key, value),
            }
        }
        bytes.is_empty().then_some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TableId = TableId(0);
    const B: TableId = TableId(1);

    fn sample() -> Batch {
        let mut batch = Batch::new();
        batch.put(B, b"k", b"1");
        batch.put(A, b"longer than eight, two", b"2");
        batch.put(A, b"longer than eight, one", b"3");
        batch.put(A, b"k", b"4");
        batch.delete(A, b"k");
        batch.put(B, b"k", b"");
        batch
    }

    #[test]
    fn sorting_orders_by_table_and_key_and_the_last_write_wins() {
        let mut batch = sample();
        batch.sort();
        let rows: Vec<_> = batch.rows().map(|row| (row.table, row.key, row.value)).collect();
        assert_eq!(
            rows,
            [
                (A, &b"k"[..], None),
                (A, b"longer than eight, one", Some(&b"3"[..])),
                (A, b"longer than eight, two", Some(b"2")),
                (B, b"k", Some(b"")),
            ]
        );
    }

    #[test]
    fn an_encoded_batch_round_trips_and_damage_is_noticed() {
        let batch = sample();
        let bytes = batch.encode();
        let back = Batch::decode(&bytes).unwrap();
        assert!(back.rows().eq(batch.rows()));
        for cut in 1..bytes.len() {
            if let Some(back) = Batch::decode(&bytes[..cut]) {
                assert!(back.len() < batch.len());
            }
        }
    }
}
