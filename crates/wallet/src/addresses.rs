//! Scripts that a wallet watches.

use utxokeep_core::{
    Height,
    wallet::{Micros, WalletId, estimated_spend_weight},
};
use utxokeep_sql::{Row, SqlError, Value};

use crate::{Address, Ledger, LedgerError, NewAddress, rows, session::Session};

const SELECT_ID: &str =
    "SELECT id, is_archived, is_imported FROM addresses WHERE script = $1 AND wallet_id = $2";
const INSERT: &str = "INSERT INTO addresses
    (wallet_id, id, script, address, spend_weight, is_used, created_at_us, is_imported)
    VALUES ($1, $2, $3, $4, $5, 0, $6, 1)";
const UPDATE: &str = "UPDATE addresses SET spend_weight = COALESCE($3, spend_weight),
        address = COALESCE(address, $4), is_archived = 0, is_imported = 1
    WHERE wallet_id = $1 AND id = $2";
const SELECT_PAGE: &str = "SELECT id, script, address, spend_weight, is_used, is_archived
    FROM addresses WHERE wallet_id = $1 AND id > $2 ORDER BY id LIMIT $3";

/// Bytes of a watched script. Longer ones do not fit into an index of `PostgreSQL`.
const SCRIPT_BYTES_MAX: usize = 1_000;
/// Outpoint, length of the script and sequence, of which each byte weighs four units.
const INPUT_WEIGHT_MIN: u32 = 4 * (36 + 1 + 4);
/// Characters of the text form of an address.
const ADDRESS_CHARS_MAX: usize = 1_000;

/// Addresses that are watched now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedAddresses {
    /// Their numbers, in the order given.
    pub ids: Vec<i64>,
    /// The first block to scan for what was paid to the new ones before; `None` when there is none.
    pub scan_from: Option<Height>,
}

impl Ledger {
    /// Watches scripts. Those that are watched already keep their number, and take the weight that
    /// is given. What was recorded before is not looked at again: the answer says from where to
    /// scan.
    pub fn add_addresses(
        &self,
        wallet: WalletId,
        addresses: &[NewAddress],
        now: Micros,
    ) -> Result<AddedAddresses, LedgerError> {
        for new in addresses {
            check(new)?;
        }
        self.write_wallet(wallet, now, |session| {
            let (mut ids, mut is_any_new) = (Vec::with_capacity(addresses.len()), false);
            for new in addresses {
                let (id, is_new) = session.add_address(new)?;
                ids.push(id);
                is_any_new |= is_new;
            }
            let scan_from = if is_any_new { session.scan_from()? } else { None };
            Ok(AddedAddresses { ids, scan_from })
        })
    }

    /// Watched addresses behind number `after`, in the order they were added.
    pub fn addresses(
        &self,
        wallet: WalletId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Address>, LedgerError> {
        let limit = self.page(limit);
        self.read_wallet(wallet, |session| Ok(session.addresses_page(after, limit)?))
    }
}

impl Session<'_, '_> {
    pub(crate) fn addresses_page(
        &mut self,
        after: i64,
        limit: Value<'_>,
    ) -> Result<Vec<Address>, SqlError> {
        let parameters = [self.id(), Value::from(after), limit];
        self.tx.query_all(SELECT_PAGE, &parameters, read_address)
    }

    /// Watches a script; its number, and whether it was not watched before.
    fn add_address(&mut self, new: &NewAddress) -> Result<(i64, bool), LedgerError> {
        let script = Value::from(&new.script);
        let key = [script, self.id()];
        let known = self.tx.query_opt(SELECT_ID, &key, |row| {
            Ok((row.int(0)?, rows::flag(row, 1)?, rows::flag(row, 2)?))
        })?;
        if let Some((id, is_archived, is_imported)) = known {
            let has_news = new.spend_weight.is_some() || new.address.is_some();
            if has_news || is_archived || !is_imported {
                let (weight, text) = (new.spend_weight, new.address.as_deref());
                let row = [self.id(), Value::from(id), Value::from(weight), Value::from(text)];
                self.tx.execute(UPDATE, &row)?;
            }
            return Ok((id, is_archived));
        }
        let id = self.next_address_id()?;
        let weight = new.spend_weight.unwrap_or_else(|| estimated_spend_weight(&new.script));
        self.tx.execute(
            INSERT,
            &[
                self.id(),
                Value::from(id),
                script,
                Value::from(new.address.as_deref()),
                Value::from(weight),
                Value::from(self.now.get()),
            ],
        )?;
        Ok((id, true))
    }
}

fn check(new: &NewAddress) -> Result<(), LedgerError> {
    if new.script.is_empty() || new.script.len() > SCRIPT_BYTES_MAX {
        return Err(LedgerError::argument(format!(
            "a watched script has 1 to {SCRIPT_BYTES_MAX} bytes"
        )));
    }
    if new.spend_weight.is_some_and(|weight| weight < INPUT_WEIGHT_MIN) {
        return Err(LedgerError::argument(format!(
            "an input weighs at least {INPUT_WEIGHT_MIN} weight units without what unlocks it; a \
             smaller spend weight would make payments that pay less than asked for"
        )));
    }
    let too_long =
        new.address.as_ref().is_some_and(|text| text.chars().count() > ADDRESS_CHARS_MAX);
    if too_long {
        return Err(LedgerError::argument(format!(
            "the text of an address has at most {ADDRESS_CHARS_MAX} characters"
        )));
    }
    Ok(())
}

fn read_address(row: &Row<'_>) -> Result<Address, SqlError> {
    Ok(Address {
        id: row.int(0)?,
        script: row.bytes(1)?.to_vec(),
        address: row.opt_text(2)?.map(str::to_owned),
        spend_weight: rows::u32_at(row, 3)?,
        used: rows::flag(row, 4)?,
        archived: rows::flag(row, 5)?,
    })
}
