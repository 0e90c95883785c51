//! Answers: the JSON of command line and REST. Amounts are decimal strings, times microseconds
//! since 1970, hashes in the order people of the chain read them.

mod coins;
mod directory;
mod payments;
mod transactions;
mod upkeep;

use serde::Serialize;
use utxokeep_core::{BlockHash, ChainHash, Height, Network};

pub use self::{coins::*, directory::*, payments::*, transactions::*, upkeep::*};
use super::{SetAsideInfo, StandingInfo, once::Fields};

/// An answer that is stored with an idempotency key as JSON, and read back when the request comes
/// again. Its hashes are texts there, which only the network of the wallet tells how to read.
pub(super) trait StoredAnswer: Serialize + Sized {
    /// Reads the answer; says which field is wrong.
    fn read(fields: &Fields) -> Result<Self, String>;
}

/// One thing of a wallet, and what may make it out of date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OfWallet<T> {
    /// What was asked for.
    #[serde(flatten)]
    pub item: T,
    /// The wallet has not all blocks since this one, so that this may be out of date.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub set_aside: Option<SetAsideInfo>,
}

/// A page of a list.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Listed<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Goes on behind the last row; absent when this was the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub next_cursor: Option<String>,
    /// The wallet gets no blocks since this one, so that the rows may be out of date.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub set_aside: Option<SetAsideInfo>,
    /// Whether a list without pages may have more rows.
    #[serde(skip)]
    pub is_cut: bool,
}

impl<T> Listed<T> {
    /// A page of rows; a full one may have a next.
    pub(super) fn new<R>(
        rows: &[R],
        rows_max: usize,
        cursor: impl FnOnce(&R) -> String,
        item: impl FnMut(&R) -> T,
    ) -> Self {
        let next_cursor = rows.last().filter(|_| rows.len() >= rows_max).map(cursor);
        Self { items: rows.iter().map(item).collect(), next_cursor, set_aside: None, is_cut: false }
    }

    /// The same list, of a wallet that may be set aside.
    pub(super) fn of(self, standing: StandingInfo) -> Self {
        Self { set_aside: standing.set_aside, ..self }
    }

    /// A list that is one page.
    pub const fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None, set_aside: None, is_cut: false }
    }
}

/// How far the ledger has come on a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TipAnswer {
    /// The last block that was applied; `null` when there is none.
    pub tip: Option<LedgerTip>,
}

/// Labels of a wallet, one line of JSON each, as BIP-329 has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LabelLines(pub String);

/// The last block of a network that the ledger has applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LedgerTip {
    /// Its height.
    pub height: u32,
    /// Its hash.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub hash: ChainHash,
}

impl std::fmt::Display for LedgerTip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.height, self.hash)
    }
}

impl LedgerTip {
    pub(super) fn new(network: Network, tip: (Height, BlockHash)) -> Self {
        Self { height: tip.0.get(), hash: network.hash(tip.1) }
    }
}
