//! Operations on the chain index. All of them read.
//!
//! # Invariants
//!
//! * An answer comes from one snapshot, and names the block it is true of.
//! * Amounts are in the smallest unit of the chain, on every face.

mod error;
mod outputs;
mod owners;
mod state;

use serde::Deserialize;
use utxokeep_core::{BlockName, BlockNameError, Network};
use utxokeep_index::{ChainIndex, QueryError, View};
use utxokeep_kv::{Kv, RocksKv};

use super::{Mark, Part, Visitor};
use crate::{
    config::RestConfig,
    cursor::Cursor,
    follow::SourceState,
    json::{Partial, Point},
};

pub use error::ChainReadError;
pub use outputs::{ShowUtxo, UtxoAnswer, UtxoRequest};
pub use owners::{
    Address, BalanceAnswer, BalanceRequest, Credential, Order, Owner, OwnerBalance, OwnerUtxos,
    Script, UtxosAnswer, UtxosRequest, Whose,
};
pub use state::{
    Block, BlockAnswer, BlockRequest, Digest, DigestAnswer, DigestRequest, NoRequest, Status, Tip,
};

/// Shows every operation of the chain index to a visitor.
pub fn operations(visitor: &mut impl Visitor<Chain>) {
    visitor.operation::<state::Status>();
    visitor.operation::<state::Tip>();
    visitor.operation::<state::Block>();
    visitor.operation::<state::Digest>();
    visitor.operation::<outputs::ShowUtxo>();
    visitor.operation::<owners::OwnerUtxos<owners::Address>>();
    visitor.operation::<owners::OwnerBalance<owners::Address>>();
    visitor.operation::<owners::OwnerUtxos<owners::Credential>>();
    visitor.operation::<owners::OwnerBalance<owners::Credential>>();
    visitor.operation::<owners::OwnerUtxos<owners::Script>>();
    visitor.operation::<owners::OwnerBalance<owners::Script>>();
}

/// A chain index to ask; clones are the same.
#[derive(Debug, Clone)]
pub struct Chain {
    index: ChainIndex<RocksKv>,
    limits: ChainLimits,
    source: Option<SourceState>,
}

impl Part for Chain {
    type Error = ChainReadError;
}

/// A snapshot of a chain index.
type Snapshot<'c> = View<'c, <RocksKv as Kv>::Snapshot<'c>>;

impl Chain {
    /// Answers from an index, within limits.
    #[must_use]
    pub const fn new(index: ChainIndex<RocksKv>, limits: ChainLimits) -> Self {
        Self { index, limits, source: None }
    }

    /// The same, beside a source that is followed into the index.
    #[must_use]
    pub fn with_source(self, source: Option<SourceState>) -> Self {
        Self { source, ..self }
    }

    /// The index.
    #[must_use]
    pub const fn index(&self) -> &ChainIndex<RocksKv> {
        &self.index
    }

    fn network(&self) -> Network {
        self.index.settings().network()
    }

    /// A snapshot that stands at the block asked about, or at the one of a cursor; else at the tip.
    fn view_at(
        &self,
        at: Option<&At>,
        cursor: Option<&Cursor>,
    ) -> Result<Snapshot<'_>, ChainReadError> {
        let view = self.index.view().map_err(QueryError::from)?;
        Ok(view.standing(at.map(|At(name)| name), cursor.map(|cursor| cursor.block))?)
    }

    /// What every answer from a view begins with: its block, and what the database keeps.
    fn standing(&self, view: &Snapshot<'_>) -> Result<(Point, Option<Partial>), ChainReadError> {
        Ok((Point::new(&view.point()?, self.network()), Partial::new(view.partial())))
    }
}

/// The mark of an answer that is true of a block.
fn exactly(point: &Point) -> Mark {
    Mark { hash: point.hash.clone(), is_exact: true }
}

/// How much one answer may take.
#[derive(Debug, Clone, Copy)]
pub struct ChainLimits {
    /// Rows of a page that names no size.
    pub page_size_default: u64,
    /// The most rows of a page.
    pub page_size_max: u64,
    /// The most rows that a page may pass over.
    pub scan_rows_max: u64,
    /// The most rows that a balance may add up.
    pub balance_rows_max: u64,
    /// Whether an answer may read the whole set.
    pub may_read_set: bool,
}

impl ChainLimits {
    /// Of one process that asks for itself.
    pub const ALONE: Self = Self {
        page_size_default: 100,
        page_size_max: 100_000,
        scan_rows_max: u64::MAX,
        balance_rows_max: u64::MAX,
        may_read_set: true,
    };

    /// Of a server that many ask.
    #[must_use]
    pub fn of_server(config: &RestConfig) -> Self {
        let page_size_max = u64::from(config.page_rows_max.get());
        Self {
            page_size_default: u64::from(config.page_rows_default.get()).min(page_size_max),
            page_size_max,
            scan_rows_max: u64::from(config.scan_rows_max.get()),
            balance_rows_max: u64::from(config.balance_rows_max.get()),
            may_read_set: false,
        }
    }
}

/// The block that a question names.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct At(pub BlockName);

impl TryFrom<String> for At {
    type Error = BlockNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl std::str::FromStr for At {
    type Err = BlockNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
