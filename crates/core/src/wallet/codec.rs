//! What the ledger asks of the formats of a chain, so that it needs none of their libraries.

use std::{cmp::Ordering, error::Error, fmt, ops::Range};

use super::{
    locks::SpendLocks,
    status::{Event, TxState},
    unsigned::{CannotBuild, PsbtRequest, UnsignedPsbt},
};
use crate::{
    network::Network,
    types::{OutPoint, Txid},
};

/// One keychain of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptorBranch {
    /// Text of this keychain alone, in its one canonical form, with a check sum.
    pub text: String,
    /// Whether it stands for many scripts, numbered from 0, or for one.
    pub is_ranged: bool,
}

/// A script that a descriptor stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedScript {
    /// Place in the range of the descriptor, counted from 0.
    pub index: u32,
    /// Output script.
    pub script: Vec<u8>,
    /// Its address, where there is such a form.
    pub address: Option<String>,
    /// Weight of an input that spends from it, at most.
    pub spend_weight: Option<u32>,
}

/// A transaction read from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedTx {
    /// Its id.
    pub txid: Txid,
    /// What it spends, in order; nothing for a coinbase.
    pub inputs: Vec<OutPoint>,
    /// Amounts and scripts of its outputs.
    pub outputs: Vec<(u64, Vec<u8>)>,
    /// Whether it is a coinbase.
    pub is_coinbase: bool,
    /// How many inputs carry a signature script or a witness.
    pub signed_inputs: usize,
    /// How many parts of witnesses are there, empty ones not counted: a signature that is missing
    /// among several leaves one empty or out.
    pub witness_parts: usize,
    /// Sequence number of each input, in order; nothing for a coinbase.
    pub sequences: Vec<u32>,
    /// Its lock time, as the number in its bytes.
    pub lock_time: u32,
    /// From version 2 on, sequence numbers can be relative locks.
    pub version: u32,
}

impl DecodedTx {
    /// Whether bytes that somebody claims, with `event`, are better than the `stored` ones of the
    /// same transaction, which was in `state` until now.
    ///
    /// Fewer signed inputs are never better. What was seen outranks what was only made. Between
    /// equals more of a witness is better, and as much of it that comes later.
    #[must_use]
    pub fn is_better_than(&self, stored: &Self, event: Event, state: TxState) -> bool {
        match self.signed_inputs.cmp(&stored.signed_inputs) {
            Ordering::Greater => return true,
            Ordering::Less => return false,
            Ordering::Equal => {}
        }
        let is_seen = event != Event::Create;
        match state {
            TxState::Pending if is_seen => true,
            // Those that a block may have brought stay.
            TxState::Confirmed(_) => false,
            TxState::Unconfirmed if !is_seen => false,
            _ => self.witness_parts >= stored.witness_parts,
        }
    }
}

/// A PSBT whose signatures were put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedPsbt {
    /// Id of the transaction before it was signed.
    pub unsigned_txid: Txid,
    /// The transaction as it is sent.
    pub raw: Vec<u8>,
    /// What it pays to miners; `None` when the PSBT does not say what an input holds.
    pub fee: Option<u64>,
}

/// Why a text or bytes could not be read; the source tells.
#[derive(Debug)]
pub struct CodecError(Box<dyn Error + Send + Sync>);

impl CodecError {
    /// Wraps the chain's own error.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for CodecError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Reads the formats of a chain. All answers are functions of the arguments.
pub trait ChainCodec: fmt::Debug + Send + Sync {
    /// Checks a descriptor and splits it into its keychains, in order.
    fn descriptor(&self, network: Network, text: &str)
    -> Result<Vec<DescriptorBranch>, CodecError>;

    /// The scripts of one keychain with these numbers, ascending; only 0 when it is not ranged. A
    /// number for which there is no key is left out.
    fn derive(
        &self,
        network: Network,
        branch: &str,
        indexes: Range<u32>,
    ) -> Result<Vec<DerivedScript>, CodecError>;

    /// The locks of every way to spend from one keychain; just none where one way needs none.
    /// Nothing when no way is known. All scripts of a keychain have the same.
    fn spend_locks(&self, network: Network, branch: &str) -> Result<Vec<SpendLocks>, CodecError>;

    /// The address of a script, where there is such a form and the chain's tools know it.
    fn address(&self, network: Network, script: &[u8]) -> Option<String>;

    /// Reads a transaction.
    fn decode_tx(&self, network: Network, raw: &[u8]) -> Result<DecodedTx, CodecError>;

    /// Puts the signatures of a PSBT in base64 together. One that lacks signatures is refused. A codec
    /// that only reads refuses.
    fn finalize(&self, network: Network, _psbt: &str) -> Result<SignedPsbt, CodecError> {
        Err(CodecError::new(format!("transactions of {network} cannot be built here")))
    }

    /// Builds the transaction of a payment, to be signed. A codec that only reads refuses.
    fn build(&self, request: &PsbtRequest) -> Result<UnsignedPsbt, CannotBuild> {
        let what = format!("transactions of {} cannot be built here", request.network);
        Err(CodecError::new(what).into())
    }
}
