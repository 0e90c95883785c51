//! Whether a transaction can be where it is said to be, given what is stored around it.
//!
//! A claim that contradicts what is stored is refused. A block is right, so that claims about its
//! relatives which contradict it are taken back.

use utxokeep_core::{
    Txid,
    wallet::{Evidence, Relative, Surroundings, TxPlace, check_place},
};
use utxokeep_sql::{Row, SqlError, Value};

use crate::{
    LedgerError, NewTx, rows,
    session::{Session, StoredTx},
};

const PARENTS_HEAD: &str = "SELECT p.txid, p.block_height, p.block_position, p.is_coinbase,
        p.is_claimed FROM (VALUES";
const PARENTS_TAIL: &str = ") AS v CROSS JOIN transactions p
    WHERE p.chain_id = $1 AND p.txid = v.column1 AND p.wallet_id = $2
        AND p.block_height IS NOT NULL";
const CHILDREN: &str = "SELECT t.txid, t.block_height, t.block_position, t.is_coinbase,
        t.is_claimed
    FROM tx_inputs i JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
    WHERE i.prev_txid = $2 AND i.wallet_id = $1 AND i.claim = 1 AND t.block_height IS NOT NULL";
/// Claims of other wallets are their own affair.
const OCCUPANT: &str = "SELECT txid FROM transactions
    WHERE chain_id = $1 AND block_height = $3 AND block_position = $4 AND txid <> $5
        AND (wallet_id = $2 OR is_claimed = 0) LIMIT 1";

/// A stored relative, and whether its block is somebody's word.
struct Stored {
    relative: Relative,
    is_claimed: bool,
}

impl Session<'_, '_> {
    /// Refuses a claim that no chain can fulfil; takes claims back that a block has shown to be
    /// wrong.
    pub(super) fn check_place(
        &mut self,
        new: &NewTx,
        stored: Option<&StoredTx>,
        place: TxPlace,
    ) -> Result<(), LedgerError> {
        let is_known = stored.is_some_and(|stored| {
            stored.state.block() == Some(place.height)
                && (place.position.is_none() || stored.position == place.position)
        });
        if is_known {
            return Ok(());
        }
        let parents = self.parents_in_blocks(new)?;
        let children = self.children_in_blocks(&new.txid)?;
        match self.evidence {
            Evidence::Claim => self.check_claim(new, place, &parents, &children),
            Evidence::Block => {
                let is_after = |parent: &&Stored| {
                    let Relative { place: at, is_coinbase, .. } = parent.relative;
                    !place.can_spend_from(at, is_coinbase)
                };
                let is_before =
                    |child: &&Stored| !child.relative.place.can_spend_from(place, new.coinbase);
                let wrong = parents.iter().filter(is_after);
                let wrong = wrong.chain(children.iter().filter(is_before));
                for claim in wrong.filter(|relative| relative.is_claimed) {
                    let stored = self.known(&claim.relative.txid)?;
                    self.take_out(&stored, claim.relative.txid)?;
                }
                Ok(())
            }
        }
    }

    fn check_claim(
        &mut self,
        new: &NewTx,
        place: TxPlace,
        parents: &[Stored],
        children: &[Stored],
    ) -> Result<(), LedgerError> {
        let relatives = |stored: &[Stored]| -> Vec<Relative> {
            stored.iter().map(|stored| stored.relative).collect()
        };
        let (parents, children) = (relatives(parents), relatives(children));
        let around = Surroundings {
            is_coinbase: new.coinbase,
            network: self.network,
            parents: &parents,
            children: &children,
            occupant: self.occupant(&new.txid, place)?,
        };
        check_place(place, &around)
            .map_err(|source| LedgerError::BadPlace { txid: self.network.hash(new.txid), source })
    }

    fn parents_in_blocks(&mut self, new: &NewTx) -> Result<Vec<Stored>, SqlError> {
        let keys: Vec<Value<'_>> =
            new.inputs.iter().map(|input| Value::from(input.txid().as_bytes())).collect();
        let fixed = [Value::from(self.chain), self.id()];
        let mut parents = Vec::new();
        self.tx.query_rows(PARENTS_HEAD, PARENTS_TAIL, &fixed, 1, &keys, |row| {
            parents.push(read(row)?);
            Ok(())
        })?;
        Ok(parents)
    }

    fn children_in_blocks(&mut self, txid: &Txid) -> Result<Vec<Stored>, SqlError> {
        self.tx.query_all(CHILDREN, &[self.id(), Value::from(txid.as_bytes())], read)
    }

    /// Another transaction at the same position of the same block.
    fn occupant(&mut self, txid: &Txid, place: TxPlace) -> Result<Option<Txid>, SqlError> {
        let Some(position) = place.position else { return Ok(None) };
        let key = [
            Value::from(self.chain),
            self.id(),
            Value::from(place.height.get()),
            Value::from(position),
            Value::from(txid.as_bytes()),
        ];
        self.tx.query_opt(OCCUPANT, &key, |row| rows::txid(row, 0))
    }
}

fn read(row: &Row<'_>) -> Result<Stored, SqlError> {
    let height = rows::height(row, 1)?.ok_or_else(|| rows::bad("a block has no height"))?;
    let place = TxPlace { height, position: rows::position(row, 2)? };
    let relative = Relative { txid: rows::txid(row, 0)?, place, is_coinbase: rows::flag(row, 3)? };
    Ok(Stored { relative, is_claimed: rows::flag(row, 4)? })
}
