//! Reading the ledger: pages of coins and transactions, single ones, and who replaced whom.

mod coins;
mod history;

pub use coins::{Coin, CoinQuery, CoinScope, WatchedOutput};
pub use history::{
    Direction, HistoryCursor, HistoryQuery, HistoryScope, OwnInput, Replacement, TxDetail,
    TxSummary,
};
