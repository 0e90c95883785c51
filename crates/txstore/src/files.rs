//! Files of large bodies, which are written while no transaction is open.
//!
//! A call that stores a large body is decided first. If it needs a file that is not written yet, it
//! commits nothing: a transaction of several records is locked, the file is announced in a row of its
//! own and written; then the call is decided again, and its commit names the file and takes the row
//! away. The same row says that a file waits to be deleted.
//!
//! A file that cannot be written refuses the transactions that need it, and no others. Their creation
//! locks are released, and what was announced for them is taken back.
//!
//! # Invariants
//!
//! * Whoever deletes a file holds its row, and the row says that the file waits for that.
//! * A commit that names a file holds its row too, and the row says what it said when the file was
//!   announced. So no file is deleted between its writing and the commit that names it.
//! * What a crash leaves is a row: a file whose writing does not end is deleted after a while.
//! * A file that a record names holds the bytes that the record has the checksum of. One transaction
//!   has several forms (with or without what its inputs spend), and a row says which of them is being
//!   written: who brings another one waits, and nobody writes over a file that is named.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use utxokeep_core::{
    Txid,
    node::{BlobKind, ChangeSet, NodeTx, TxRecord, encode_blob, file_checksum},
};
use utxokeep_fault::crash_point;

use crate::{
    admit::Asks,
    backend::{StoreReads, Touched},
    engine::NodeStore,
    error::StoreError,
    faults::ProofFault,
};

/// How often a call is decided again because a file of its was deleted meanwhile.
const ROUNDS_MAX: usize = 10;

/// A file that was announced and never named for so long is taken for left behind. Longer than any
/// call may take.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(15 * 60);

/// Rows of files that are being written, remembered to see which of them stay.
const SEEN_MAX: usize = 10_000;

/// A row that says that its file waits to be deleted; any other value is that of its writer.
const WAITS: &[u8] = b"";

/// Where a file that nobody needs waits for its end, and where one is announced.
pub(crate) const BLOB_DELETE: &str = "blob_delete/";

pub(crate) fn file_row(txid: &Txid, kind: BlobKind) -> String {
    format!("{BLOB_DELETE}{}.{}", txid.to_reversed_hex(), kind.extension())
}

/// A row that says that a file is not needed any more.
pub(crate) fn waits(txid: &Txid, kind: BlobKind) -> (String, Option<Vec<u8>>) {
    (file_row(txid, kind), Some(WAITS.to_vec()))
}

/// A file that was written, and what its row must still say.
pub(crate) struct WrittenFile {
    kind: BlobKind,
    token: Vec<u8>,
}

pub(crate) type Written = BTreeMap<Txid, WrittenFile>;

/// Where a large body goes.
enum File {
    /// Into a file that has to be written first.
    New(BlobKind, Vec<u8>),
    /// Into one that was, with this checksum.
    Written(BlobKind, Option<u32>),
}

/// A file that a call needs before it can be committed.
pub(crate) struct Needed {
    txid: Txid,
    kind: BlobKind,
    bytes: Vec<u8>,
    /// Outputs of the transaction, which say how many records it will have.
    outputs: u32,
}

/// Transactions whose files could not be written, and what the blob store said. A call that creates
/// one is refused with [`NodeError::Storage`](utxokeep_core::node::NodeError::Storage).
pub(crate) type Unwritten = BTreeMap<Txid, String>;

/// Releases the creation locks of a call when it is over.
pub(crate) struct Creations<'s>(&'s NodeStore);

impl<'s> Creations<'s> {
    pub(crate) const fn of(store: &'s NodeStore) -> Self {
        Self(store)
    }
}

impl Drop for Creations<'_> {
    fn drop(&mut self) {
        self.0.backend.unlock_creations();
    }
}

/// Rows of files that are being written, and since when they say the same.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<BTreeMap<String, (Vec<u8>, Instant)>>);

impl Seen {
    /// Whether the row of a file says that it may be deleted: it waits for that, or its writer is
    /// gone.
    pub(crate) fn may_delete(&self, name: &str, row: &[u8], now: Instant) -> bool {
        if row == WAITS {
            return true;
        }
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() > SEEN_MAX {
            seen.clear();
        }
        let first = seen.entry(name.to_owned()).or_insert_with(|| (row.to_vec(), now));
        if first.0 != row {
            *first = (row.to_vec(), now);
        }
        now.duration_since(first.1) >= LEFT_BEHIND_AFTER
    }
}

/// Bytes of a token: random ones, and behind them the checksum of the file.
const TOKEN_LEN: usize = 16 + 4;

/// Bytes that nobody else has.
pub(crate) fn random_bytes() -> [u8; 16] {
    let random = || u128::from(RandomState::new().build_hasher().finish());
    (random() << 64 | random()).to_be_bytes()
}

/// Bytes of a row that says that its file is being deleted.
const CLAIM_LEN: usize = 16 + 1;

fn new_token(checksum: u32) -> Vec<u8> {
    [random_bytes().as_slice(), &checksum.to_be_bytes()].concat()
}

/// The checksum of the file that a row announces. Programs from before did not say it.
fn announced_checksum(token: &[u8]) -> Option<u32> {
    let checksum = token.split_last_chunk::<4>().map(|(_, last)| u32::from_be_bytes(*last));
    checksum.filter(|_| token.len() == TOKEN_LEN)
}

impl NodeStore {
    /// Commits what `work` decides. Large bodies among it go to files, which are there before the
    /// commit that names them.
    pub(crate) fn write_with_files(
        &self,
        asks: Asks,
        touched: &Touched,
        work: &mut dyn FnMut(&StoreReads<'_>, &Unwritten) -> Result<ChangeSet, StoreError>,
    ) -> Result<(), StoreError> {
        let (mut written, mut unwritten) = (Written::new(), Unwritten::new());
        let _locks = Creations::of(self);
        for _ in 0..ROUNDS_MAX {
            let (mut needed, mut named) = (Vec::new(), Vec::new());
            let outcome = self.commit(asks, touched, &mut |view| {
                (needed, named) = (Vec::new(), Vec::new());
                let mut writes = work(view, &unwritten)?;
                needed = self.place(view, &mut writes, &written, &mut named)?;
                Ok(if needed.is_empty() { writes } else { ChangeSet::default() })
            });
            if outcome.is_err() || needed.is_empty() {
                written.retain(|txid, _| outcome.is_err() || !named.contains(txid));
                self.give_back(written);
                return outcome;
            }
            if let Err(error) = self.write_files(needed, &mut written, &mut unwritten) {
                self.give_back(written);
                return Err(error);
            }
        }
        self.give_back(written);
        Err(StoreError::Contended)
    }

    /// Decides where bodies go; answers the files that have to be written first. `named` are those
    /// that the commit names.
    pub(crate) fn place(
        &self,
        view: &StoreReads<'_>,
        writes: &mut ChangeSet,
        written: &Written,
        named: &mut Vec<Txid>,
    ) -> Result<Vec<Needed>, StoreError> {
        for (txid, before, now) in &writes.records {
            if let (Some(TxRecord { blob: Some(kind), .. }), None) = (before, now) {
                writes.states.push(waits(txid, *kind));
            }
        }
        if self.blobs.is_none()
            || !writes.bodies.iter().any(|(_, body)| self.is_large(body.as_ref()))
        {
            return Ok(Vec::new());
        }
        // Rows are locked in one order.
        writes.bodies.sort_by_key(|(txid, _)| *txid);
        let (mut needed, mut inline) = (Vec::new(), Vec::new());
        for (txid, body) in std::mem::take(&mut writes.bodies) {
            let ready = match written.get(&txid) {
                Some(file) if self.is_large(body.as_ref()) => {
                    let row = view.state(&file_row(&txid, file.kind))?;
                    (self.ignores_rows() || row.as_ref() == Some(&file.token)).then_some(file)
                }
                _ => None,
            };
            let file = match ready {
                Some(file) => Some(File::Written(file.kind, announced_checksum(&file.token))),
                None => body
                    .as_ref()
                    .filter(|body| self.is_large(Some(body)))
                    .and_then(encode_blob)
                    .map(|(kind, bytes)| File::New(kind, bytes)),
            };
            match file {
                None => inline.push((txid, body)),
                Some(File::New(kind, bytes)) => {
                    let mut records = writes.records.iter().filter(|(id, ..)| *id == txid);
                    let record = records.next().and_then(|(.., now)| now.as_ref());
                    let outputs = record.map_or(0, |record| record.outputs);
                    needed.push(Needed { txid, kind, bytes, outputs });
                }
                Some(File::Written(kind, checksum)) => {
                    named.push(txid);
                    writes.states.push((file_row(&txid, kind), None));
                    let mut records = writes.records.iter_mut().filter(|(id, ..)| *id == txid);
                    if let Some((_, _, Some(record))) = records.next() {
                        (record.blob, record.file_checksum) = (Some(kind), checksum);
                    }
                }
            }
        }
        writes.bodies = inline;
        Ok(needed)
    }

    fn ignores_rows(&self) -> bool {
        self.planted.has(ProofFault::FileRowsIgnored)
    }

    fn is_large(&self, body: Option<&NodeTx>) -> bool {
        let max = self.settings.inline_body_bytes_max;
        body.is_some_and(|tx| body_bytes(tx) > max)
    }

    /// Locks the transactions that will have several records, announces their files in one commit, and
    /// writes them. Whoever cannot be locked, or is named by a record by now, gets no file: the
    /// transaction is there, or is being created.
    ///
    /// Once a file cannot be written the others are not tried: a blob store that is away would let
    /// each of them wait. All of them are in `unwritten` then, and a call that needs one all the same
    /// fails.
    pub(crate) fn write_files(
        &self,
        mut needed: Vec<Needed>,
        written: &mut Written,
        unwritten: &mut Unwritten,
    ) -> Result<(), StoreError> {
        let Some(blobs) = &self.blobs else { return Ok(()) };
        if let Some(reason) = needed.iter().find_map(|one| unwritten.get(&one.txid)) {
            return Err(StoreError::Blob { what: "writing", reason: reason.clone() });
        }
        let created: Vec<(Txid, u32)> = needed.iter().map(|one| (one.txid, one.outputs)).collect();
        let locked_out = self.backend.lock_creations(&created)?;
        needed.retain(|one| !locked_out.contains(&one.txid));
        let announced = self.announce(&needed)?;
        needed.retain(|one| announced.contains_key(&one.txid));
        written.extend(announced);
        let mut failed: Option<String> = None;
        for Needed { txid, kind, bytes, .. } in needed {
            if let Some(reason) = &failed {
                unwritten.insert(txid, reason.clone());
                continue;
            }
            crash_point("before_blob");
            let begin = Instant::now();
            let outcome = blobs.put(&txid, kind, bytes);
            crate::meter::blob_written(begin, &outcome);
            match outcome {
                Ok(()) => crash_point("after_blob"),
                Err(StoreError::Blob { reason, .. }) => {
                    tracing::error!(%txid, reason, "a body could not be written to the blob store");
                    unwritten.insert(txid, reason.clone());
                    failed = Some(reason);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Announces files in one commit. One that a record names by now is left as it is.
    fn announce(&self, needed: &[Needed]) -> Result<Written, StoreError> {
        let mut announced = Written::new();
        if needed.is_empty() {
            return Ok(announced);
        }
        let ids = needed.iter().map(|one| one.txid).collect();
        self.commit(Asks::Place, &Touched::Only(ids), &mut |view| {
            announced.clear();
            let mut states = Vec::with_capacity(needed.len());
            for Needed { txid, kind, bytes, .. } in needed {
                let record = view.records(std::slice::from_ref(txid))?.into_iter().next().flatten();
                if record.is_some_and(|record| record.blob == Some(*kind)) {
                    continue;
                }
                let (name, checksum) = (file_row(txid, *kind), file_checksum(bytes));
                let found = view.state(&name)?.filter(|row| row != WAITS);
                let token = match found {
                    // Whoever else writes the same file now shares its row: the files are the same.
                    Some(row) if announced_checksum(&row) == Some(checksum) => row,
                    Some(row)
                        if matches!(row.len(), TOKEN_LEN | CLAIM_LEN) && !self.ignores_rows() =>
                    {
                        return Err(StoreError::Contended);
                    }
                    _ => new_token(checksum),
                };
                announced.insert(*txid, WrittenFile { kind: *kind, token: token.clone() });
                states.push((name, Some(token)));
            }
            let states = if self.ignores_rows() { Vec::new() } else { states };
            Ok(ChangeSet::of_states(states))
        })?;
        Ok(announced)
    }

    /// Says in the row of a file that it is being deleted, on an engine that does not hold a row while
    /// the file goes: whoever is about to write the file sees it, and waits. Answers what the row
    /// says then; where the file must stay, it says something else.
    pub(crate) fn claim_file(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let claim = [random_bytes().as_slice(), b"d"].concat();
        self.commit(Asks::Place, &Touched::Only(Vec::new()), &mut |view| {
            let row = view.state(name)?;
            let is_claimed =
                row.is_some_and(|row| self.seen_files.may_delete(name, &row, (self.now)()));
            let claimed = is_claimed.then(|| (name.to_owned(), Some(claim.clone())));
            Ok(ChangeSet::of_states(claimed.into_iter().collect()))
        })?;
        Ok(claim)
    }

    /// Lets files go that were written for a call which does not name them. One that a record names
    /// stays; one that cannot be let go now is found by its row later.
    pub(crate) fn give_back(&self, written: Written) {
        for (txid, WrittenFile { kind, token }) in written {
            let _ = self.commit(Asks::Place, &Touched::Only(vec![txid]), &mut |view| {
                let name = file_row(&txid, kind);
                if view.state(&name)?.as_ref() != Some(&token) {
                    return Ok(ChangeSet::default());
                }
                let record = view.records(&[txid])?.into_iter().next().flatten();
                let is_named = record.is_some_and(|record| record.blob == Some(kind));
                let row = if is_named { (name, None) } else { waits(&txid, kind) };
                Ok(ChangeSet::of_states(vec![row]))
            });
        }
    }
}

/// About how long the bytes of a body are.
fn body_bytes(tx: &NodeTx) -> usize {
    const INPUT: usize = 41;
    const OUTPUT: usize = 9;
    let previous = |input: &utxokeep_core::node::NodeInput| {
        input.previous.as_ref().map_or(0, |previous| previous.script.len() + OUTPUT)
    };
    let inputs = tx.inputs.iter().map(|input| INPUT + input.script.len() + previous(input));
    let outputs = tx.outputs.iter().map(|output| OUTPUT + output.script.len());
    inputs.chain(outputs).sum()
}
