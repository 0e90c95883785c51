//! Operations on the node store. All of them read.
//!
//! # Invariants
//!
//! * A transaction is named by its id as nodes print it, in questions and in answers.
//! * Nothing here makes a store: a place that holds none is refused when it is opened.

mod error;
mod explain;
mod lock;
mod show;
mod status;

use std::sync::Arc;

use serde::Deserialize;
use utxokeep_core::Txid;
use utxokeep_txstore::{Fields, NodeStore, StoredTx, TxStore as _};

use super::{Part, Visitor};

pub use error::TransactionReadError;
pub use explain::{ExplainRequest, ExplainTransaction, Explanation, KeptFor};
pub use lock::{CreationLockAnswer, ShowLock};
pub use show::{OutputAnswer, ShowTransaction, TransactionAnswer, TransactionBlock};
pub use status::{Counted, NodeStoreStatus, ShowStatus};

/// Shows every operation of the node store to a visitor.
pub fn operations(visitor: &mut impl Visitor<Transactions>) {
    visitor.operation::<ShowTransaction>();
    visitor.operation::<ExplainTransaction>();
    visitor.operation::<ShowLock>();
    visitor.operation::<ShowStatus>();
}

const TAG: &str = "transactions";

/// A node store to ask; clones are the same.
#[derive(Debug, Clone)]
pub struct Transactions {
    store: Arc<NodeStore>,
    engine: String,
    safety_window_blocks: u32,
}

impl Part for Transactions {
    type Error = TransactionReadError;
}

impl Transactions {
    /// Answers from the store at `url`. A child protects its parent for `safety_window_blocks`.
    #[must_use]
    pub fn new(store: Arc<NodeStore>, url: &str, safety_window_blocks: u32) -> Self {
        let engine = url.split(':').next().unwrap_or_default().to_owned();
        Self { store, engine, safety_window_blocks }
    }

    fn find(&self, txid: Txid, fields: Fields) -> Result<StoredTx, TransactionReadError> {
        let found = self.store.get(&[txid], fields)?.pop().flatten();
        found.ok_or(TransactionReadError::Unknown { txid })
    }
}

/// Which transaction.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TransactionRequest {
    /// The transaction, as nodes print it.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID"))]
    #[cfg_attr(feature = "schema", schema(value_type = String, pattern = "^[0-9a-fA-F]{64}$"))]
    tx_hash: TxName,
}

/// A transaction id as nodes print it: 64 hexadecimal digits, reversed.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub struct TxName(pub Txid);

impl std::str::FromStr for TxName {
    type Err = TransactionReadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |_| TransactionReadError::BadTxid { text: text.to_owned() };
        Txid::from_reversed_hex(text).map(Self).map_err(bad)
    }
}

impl TryFrom<String> for TxName {
    type Error = TransactionReadError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}
