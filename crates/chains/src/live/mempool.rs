//! The port of every mempool: a node that lists the transactions that it would mine.
//!
//! # Rules
//!
//! Every implementation keeps them; `utxokeep_testkit::live` has a test of each.
//!
//! * A list is of one moment: it holds everything that the node's mempool held while its chain ended
//!   at [`MempoolList::tip`], and nothing that this chain contains.
//! * Two lists with the same tip and sequence hold the same transactions.
//! * Bytes are those of the transaction that was asked for. A transaction that has left the mempool
//!   since it was listed has none, which is no error.

use std::{collections::BTreeSet, fmt};

use utxokeep_core::{BlockHash, Txid};

use super::LiveError;

/// A node whose mempool can be listed.
pub trait MempoolSource: fmt::Debug + Send {
    /// Where the node is, for people.
    fn address(&self) -> String;

    /// What the mempool holds now. A list of more than `txs_max` transactions is refused.
    fn list(
        &mut self,
        txs_max: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<MempoolList, LiveError>;

    /// The bytes of transactions that were listed, in the order asked for.
    fn bodies(
        &mut self,
        txids: &[Txid],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Option<Vec<u8>>>, LiveError>;
}

/// The mempool of a node at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MempoolList {
    /// The newest block of the node's chain.
    pub tip: BlockHash,
    /// Differs after every change of the mempool, for as long as the node runs.
    pub sequence: u64,
    /// What it holds.
    pub txids: BTreeSet<Txid>,
}
