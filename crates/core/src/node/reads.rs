//! What the rules and the node store read of an engine.

use super::{
    blob::{BlobKind, check_body, decode_blob},
    codec::{file_checksum, wrong_checksum},
    output::OutputRecord,
    record::TxRecord,
    tx::NodeTx,
};
use crate::{
    chain::record::Corrupt,
    types::{Height, OutPoint, Txid},
};

/// Records that are found by a height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeightIndex {
    /// They may be deleted from it on.
    Due,
    /// They are off the longest chain since.
    Unmined,
    /// They must be kept until.
    Preserved,
    /// They are kept until then at the latest, for a child that waits to be mined.
    KeptForChild,
}

impl HeightIndex {
    /// Every index.
    pub const ALL: [Self; 4] = [Self::Due, Self::Unmined, Self::Preserved, Self::KeptForChild];

    /// The height under which a record is found.
    #[must_use]
    pub const fn of(self, record: &TxRecord) -> Option<Height> {
        match self {
            Self::Due => record.delete_at,
            Self::Unmined => record.unmined_since,
            Self::Preserved => record.preserve_until,
            Self::KeptForChild => record.kept_for_child_until,
        }
    }
}

/// A page of outputs; one that does not decode says so.
pub type OutputPage = Vec<(OutPoint, Result<OutputRecord, Corrupt>)>;

/// One state of a node store, as its engine shows it to the rules.
///
/// Inside a write, the engine makes sure that the answers stay true until the changes are committed,
/// or that the commit fails. It does so in one of two ways, and the rules see no difference:
///
/// * An engine with locks locks a transaction when its record is read. Outputs, body and markers of
///   a transaction are read after its record, and change only under the same lock.
/// * An engine with versions remembers, in the object that implements this trait, the version of
///   everything that it answered, absent things included, and commits on condition that those
///   versions still stand. No version goes through this trait: what the rules asked is what their
///   decision rests on, so the engine knows both the questions and the versions.
///
/// Questions about many transactions are asked together, so that an engine needs few round trips.
pub trait NodeReads {
    /// Why a read failed.
    type Error: From<Corrupt>;

    /// The mutable parts of transactions, in the order they were asked for.
    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, Self::Error>;

    /// Outputs that can be spent; `None` for every other.
    fn outputs_at(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<OutputRecord>>, Self::Error>;

    /// Every output that can be spent of transactions with so many outputs, in order; an engine
    /// that has them side by side overrides it.
    fn outputs(&self, of: &[(Txid, u32)]) -> Result<Vec<Vec<(u32, OutputRecord)>>, Self::Error> {
        let all = |&(txid, count): &(Txid, u32)| {
            let outpoints: Vec<_> = (0..count).map(|vout| OutPoint::new(txid, vout)).collect();
            let found = (0..).zip(self.outputs_at(&outpoints)?);
            Ok(found.filter_map(|(vout, slot)| Some((vout, slot?))).collect())
        };
        of.iter().map(all).collect()
    }

    /// Greatest recorded height of those of the transactions that are known to be settled (see
    /// [`TxRecord::settled_height`]) at a height up to `until`, and stay so until the changes are
    /// written. `None` says nothing: the record has to be read.
    fn settled(&self, txids: &[Txid], _until: Height) -> Result<Vec<Option<Height>>, Self::Error> {
        Ok(vec![None; txids.len()])
    }

    /// Bodies that are beside their records; `None` also for one that is in a file.
    fn bodies(&self, txids: &[Txid]) -> Result<Vec<Option<NodeTx>>, Self::Error>;

    /// What bodies beside their records spend. An engine that need not unpack all of a body for it
    /// overrides it.
    fn spends(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<OutPoint>>>, Self::Error> {
        let spends = |body: NodeTx| body.spends().map(|input| input.outpoint).collect();
        Ok(self.bodies(txids)?.into_iter().map(|body| body.map(spends)).collect())
    }

    /// Whether `child` spent `parent`, was mined, and was deleted since.
    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, Self::Error>;

    /// Every child for which [`NodeReads::is_deleted_child`] holds, in order. No rule asks this: it is for
    /// copying a store.
    fn deleted_children(&self, parent: &Txid) -> Result<Vec<Txid>, Self::Error>;

    /// Rows of an index up to a height, lowest first, behind `after`.
    fn by_height(
        &self,
        index: HeightIndex,
        until: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, Self::Error>;

    /// Whether an index has a transaction at a height.
    fn is_indexed(
        &self,
        index: HeightIndex,
        height: Height,
        txid: &Txid,
    ) -> Result<bool, Self::Error>;

    /// Transactions in the order of their ids, behind `after`.
    fn txids_after(&self, after: Option<&Txid>, limit: usize) -> Result<Vec<Txid>, Self::Error>;

    /// Outputs in order, behind `after`.
    fn outputs_after(
        &self,
        after: Option<&OutPoint>,
        limit: usize,
    ) -> Result<OutputPage, Self::Error>;

    /// A value of the store as a whole.
    fn state(&self, name: &str) -> Result<Option<Vec<u8>>, Self::Error>;

    /// The same; inside a write it stays as it is until the write is done, and others may do the same
    /// with it meanwhile.
    fn state_kept(&self, name: &str) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Such values whose names start with `prefix`, in order, behind `after`, at most `limit`.
    fn states(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, Vec<u8>)>, Self::Error>;

    /// Asks an engine to refuse this write where the store has other numbers than these. `false`
    /// where the engine leaves it to its caller to read and compare them.
    fn compares_numbers(&self, _numbers: &[(&'static str, u32)]) -> bool {
        false
    }

    /// Whether a move has the changes of this write listed, where the engine learnt it while it
    /// compared numbers; `None` where it leaves it to its caller to read that. Asked once the write has
    /// read what it rests on.
    fn lists_changes(&self) -> Result<Option<bool>, Self::Error> {
        Ok(None)
    }
}

/// The place of bodies that are too large for a row.
pub trait BodyFiles {
    /// Why a file could not be read.
    type Error;

    /// The bytes of a file that a record names. That there is none is an error.
    fn read(&self, txid: &Txid, kind: BlobKind) -> Result<Vec<u8>, Self::Error>;
}

/// Bodies of transactions, beside their records or in files. A file is compared with the checksum
/// of its record: nothing below a file tests its bytes, unlike those of a row.
pub fn read_bodies<R: NodeReads + ?Sized>(
    reads: &R,
    files: &dyn BodyFiles<Error = R::Error>,
    txids: &[Txid],
) -> Result<Vec<Option<NodeTx>>, R::Error> {
    let mut bodies = reads.bodies(txids)?;
    let absent: Vec<usize> = (0..txids.len()).filter(|&at| bodies[at].is_none()).collect();
    if absent.is_empty() {
        return Ok(bodies);
    }
    let ids: Vec<Txid> = absent.iter().map(|&at| txids[at]).collect();
    for (at, record) in absent.into_iter().zip(reads.records(&ids)?) {
        if let Some(record) = record {
            bodies[at] = read_file(reads, files, &txids[at], &record)?;
        }
    }
    Ok(bodies)
}

fn read_file<R: NodeReads + ?Sized>(
    reads: &R,
    files: &dyn BodyFiles<Error = R::Error>,
    txid: &Txid,
    record: &TxRecord,
) -> Result<Option<NodeTx>, R::Error> {
    let Some(kind) = record.blob else { return Ok(None) };
    let bytes = files.read(txid, kind)?;
    if record.file_checksum.is_some_and(|checksum| checksum != file_checksum(&bytes)) {
        return Err(wrong_checksum().into());
    }
    let body = decode_blob(*txid, kind, record.is_coinbase, &bytes)?;
    // A file from before there were checksums: bytes that have the id need no other proof; a node
    // may give another id, and then the outputs have to do.
    if record.file_checksum.is_none() && body.hashed_txid() != *txid {
        let slots = reads.outputs(&[(*txid, record.outputs)])?.pop().unwrap_or_default();
        check_body(&body, record, &slots)?;
    }
    Ok(Some(body))
}
