//! Keychains whose payments came near the end of what was watched, over all wallets of a network.

use utxokeep_core::{Network, wallet::wider_lookahead};
use utxokeep_sql::Value;

use super::WatchedDescriptor;
use crate::{Ledger, LedgerError, rows};

const SELECT_CHAIN: &str = "SELECT id FROM chains WHERE chain = $1 AND network = $2";
const SELECT_NEAR_EDGE: &str = "SELECT w.name, d.id, d.edge_index, d.lookahead
    FROM descriptors d JOIN wallets w ON w.id = d.wallet_id
    WHERE w.chain_id = $1 AND d.edge_index IS NOT NULL
        AND w.archived_at_us IS NULL AND d.archived_at_us IS NULL ORDER BY d.wallet_id, d.id LIMIT $2";

/// A keychain that may have been paid beyond what it watches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NearEdge {
    /// Name of its wallet.
    pub wallet: String,
    /// Its number in the wallet.
    pub descriptor: i64,
    /// The script that was paid.
    pub index: u32,
    /// How many scripts are watched ahead.
    pub lookahead: u32,
}

impl WatchedDescriptor {
    /// The lookahead to raise it to, when its edge was reached.
    #[must_use]
    pub fn lookahead_to_raise_to(&self) -> Option<u32> {
        self.edge_index.map(|_| wider_lookahead(self.lookahead))
    }
}

impl Ledger {
    /// Keychains of a network whose edge was reached, up to a page of them.
    pub fn near_edge(&self, network: Network) -> Result<Vec<NearEdge>, LedgerError> {
        let names = [Value::from(network.chain()), Value::from(network.name())];
        let rows_max = self.page(usize::MAX);
        self.read(|tx| {
            let Some(chain) = tx.query_opt(SELECT_CHAIN, &names, |row| row.int(0))? else {
                return Ok(Vec::new());
            };
            let near = tx.query_all(SELECT_NEAR_EDGE, &[Value::from(chain), rows_max], |row| {
                Ok(NearEdge {
                    wallet: row.text(0)?.to_owned(),
                    descriptor: row.int(1)?,
                    index: rows::u32_at(row, 2)?,
                    lookahead: rows::u32_at(row, 3)?,
                })
            })?;
            Ok(near)
        })
    }
}
