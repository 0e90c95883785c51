//! A transaction that is to be signed: what it is built of, and what comes out.

use std::fmt;

use super::{
    codec::CodecError,
    guard::{GuardRefusal, PaymentGuards},
    locks::{CoinAge, LockTime, NextBlock, ValidFrom},
};
use crate::{
    network::Network,
    types::{OutPoint, Txid},
};

/// Which descriptor a script comes from, so that a signer finds its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptOrigin {
    /// Text of one keychain.
    pub descriptor: String,
    /// Number of the script.
    pub index: u32,
}

/// An output to spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PsbtInput {
    /// The output.
    pub outpoint: OutPoint,
    /// Its amount.
    pub value: u64,
    /// Its script.
    pub script: Vec<u8>,
    /// The transaction that made it, where it is known; without segwit it must be.
    pub parent: Option<Vec<u8>>,
    /// Where its script comes from.
    pub origin: Option<ScriptOrigin>,
    /// The block that holds it, if there is one.
    pub age: Option<CoinAge>,
    /// Sequence number in a transaction that this one replaces. It is kept unless the descriptor
    /// needs another one.
    pub sequence: Option<u32>,
}

/// An output to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PsbtOutput {
    /// Its amount.
    pub value: u64,
    /// Its script.
    pub script: Vec<u8>,
    /// Where its script comes from; tells a signer that it is change.
    pub origin: Option<ScriptOrigin>,
}

/// A transaction to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PsbtRequest {
    /// The network.
    pub network: Network,
    /// What it spends.
    pub inputs: Vec<PsbtInput>,
    /// What it pays, change included.
    pub outputs: Vec<PsbtOutput>,
    /// The fee that must be left between them.
    pub fee: u64,
    /// Lock time that is asked for; the descriptors of the inputs may need a later one.
    pub lock_time: LockTime,
    /// Version of the transaction that this one replaces. It is kept unless an input needs a
    /// higher one.
    pub kept_version: Option<u32>,
    /// The block that could hold it at the earliest.
    pub next: NextBlock,
    /// What is checked before anything is built.
    pub guards: PaymentGuards,
}

/// An unsigned transaction.
#[derive(Clone, PartialEq, Eq)]
pub struct UnsignedPsbt {
    /// The PSBT in base64.
    pub base64: String,
    /// Id of the transaction before it is signed.
    pub txid: Txid,
    /// Whether signing keeps the id: all inputs are spent by witnesses alone.
    pub is_txid_final: bool,
    /// The transaction without signatures.
    pub unsigned_tx: Vec<u8>,
    /// The first block that may hold it.
    pub valid_from: ValidFrom,
}

impl fmt::Debug for UnsignedPsbt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnsignedPsbt({})", self.txid)
    }
}

/// Why a transaction was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CannotBuild {
    /// A guard refuses the payment.
    #[error(transparent)]
    Guarded(#[from] GuardRefusal),
    /// The formats of the chain do not allow it.
    #[error(transparent)]
    Codec(#[from] CodecError),
}
