//! Where the ledger's branch and that of a chain part.

use utxokeep_core::{BlockHash, Height, Network};
use utxokeep_sql::{Transaction, Value};

use super::{FollowError, FollowOptions, FollowedChain};
use crate::{Ledger, LedgerError, rows};

const SELECT_RECENT: &str = "SELECT r.height, r.hash
    FROM chains c JOIN recent_blocks r ON r.chain_id = c.id
    WHERE c.chain = $1 AND c.network = $2 AND r.height < $3 ORDER BY r.height DESC LIMIT $4";
const SELECT_STORED: &str = "SELECT b.height, b.hash
    FROM chains c JOIN blocks b ON b.chain_id = c.id
    WHERE c.chain = $1 AND c.network = $2 AND b.height < $3 AND b.is_claimed = 0
    ORDER BY b.height DESC LIMIT $4";
const SELECT_FIRST: &str = "SELECT first_height FROM chains WHERE chain = $1 AND network = $2";

/// Blocks that are read at once while a fork is searched.
const PAGE_ROWS: i64 = 500;

/// How the branch of a chain lies to that of the ledger, whose tip the chain does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fork {
    /// The chain contradicts nothing that the ledger remembers. It has fewer blocks.
    EndsLower,
    /// The chain has other blocks.
    Parted(Parted),
    /// The two have nothing in common.
    Nowhere,
}

/// Where two branches part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parted {
    /// Above the highest block that both have.
    Above((Height, BlockHash)),
    /// Below this one, the first that the ledger has followed.
    Below(Height),
}

impl Parted {
    /// The last block that both have, if the ledger has followed it.
    pub(super) fn shared(self) -> Option<(Height, BlockHash)> {
        match self {
            Self::Above(shared) => Some(shared),
            Self::Below(_) => None,
        }
    }

    /// Where the branches begin.
    pub(super) fn first(self) -> Height {
        match self {
            Self::Above((height, _)) => height.plus(1),
            Self::Below(first) => first,
        }
    }
}

impl Ledger {
    /// Compares what is remembered below `tip` with a chain that ends at `end`. A first block at
    /// height 0 is the same for all chains of a network, so that nothing starts over there.
    pub(super) fn fork(
        &self,
        options: &FollowOptions,
        tip: (Height, BlockHash),
        end: Height,
        chain: &dyn FollowedChain,
    ) -> Result<Fork, FollowError> {
        let hash_at = |height| chain.hash_at(height).map_err(FollowError::Chain);
        let mut is_contradicted = hash_at(tip.0)?.is_some_and(|hash| hash != tip.1);
        for statement in [SELECT_RECENT, SELECT_STORED] {
            let mut below = tip.0.min(end.plus(1));
            loop {
                let page = self.remembered(statement, options.network, below)?;
                let Some((lowest, _)) = page.last().copied() else { break };
                for (height, hash) in page {
                    match hash_at(height)? {
                        Some(same) if same == hash && is_contradicted => {
                            return Ok(Fork::Parted(Parted::Above((height, hash))));
                        }
                        Some(same) if same == hash && end < tip.0 => return Ok(Fork::EndsLower),
                        Some(same) if same == hash => {
                            return Ok(Fork::Parted(Parted::Above((height, hash))));
                        }
                        Some(_) => is_contradicted = true,
                        None => {}
                    }
                }
                below = lowest;
            }
        }
        if !is_contradicted && end < tip.0 {
            return Ok(Fork::EndsLower);
        }
        let first = self.followed_from(options.network)?.filter(|first| {
            let above_it = first.depth_below(tip.0).unwrap_or(0);
            *first > Height::GENESIS && above_it < options.start_over_blocks_max
        });
        match first {
            Some(first) if hash_at(first)?.is_some() => Ok(Fork::Parted(Parted::Below(first))),
            _ => Ok(Fork::Nowhere),
        }
    }

    /// Where a ledger without a tip starts. One that has followed before starts no higher than it
    /// did then: its wallets rely on those blocks.
    pub(super) fn start(
        &self,
        options: &FollowOptions,
        chain: &dyn FollowedChain,
    ) -> Result<Height, FollowError> {
        let Some(before) = self.followed_from(options.network)? else {
            return Ok(options.first_height);
        };
        let has_it = chain.hash_at(before).map_err(FollowError::Chain)?.is_some();
        Ok(if has_it { before.min(options.first_height) } else { options.first_height })
    }

    /// The first block that the ledger has followed, taken back or not.
    fn followed_from(&self, network: Network) -> Result<Option<Height>, LedgerError> {
        let names = [Value::from(network.chain()), Value::from(network.name())];
        let read = |tx: &mut Transaction<'_>| -> Result<_, LedgerError> {
            Ok(tx.query_opt(SELECT_FIRST, &names, |row| rows::height(row, 0))?)
        };
        Ok(self.read(read)?.flatten())
    }

    /// Blocks below a height, highest first.
    fn remembered(
        &self,
        statement: &str,
        network: Network,
        below: Height,
    ) -> Result<Vec<(Height, BlockHash)>, LedgerError> {
        let parameters = [
            Value::from(network.chain()),
            Value::from(network.name()),
            Value::from(below.get()),
            Value::from(PAGE_ROWS),
        ];
        let read = |tx: &mut Transaction<'_>| -> Result<_, LedgerError> {
            Ok(tx.query_all(statement, &parameters, |row| rows::tip(row, 0, 1))?)
        };
        Ok(self.read(read)?.into_iter().flatten().collect())
    }
}
