//! Deriving scripts and watching them.

use utxokeep_core::wallet::{ChainCodec, DerivedScript};
use utxokeep_sql::Value;

use super::{INDEXES, WatchedDescriptor};
use crate::{LedgerError, NewAddress, rows, session::Session};

const UPDATE_COUNTS: &str = "UPDATE descriptors SET next_index = $3, derived_count = $4,
        skipped_count = skipped_count + $5
    WHERE wallet_id = $1 AND id = $2";
const INSERT_SCRIPTS: &str = "INSERT INTO descriptor_scripts
    (wallet_id, descriptor_id, script_index, address_id) VALUES";
const SELECT_HIGHEST_USED: &str = "SELECT MAX(s.script_index)
    FROM descriptor_scripts s
    JOIN addresses a ON a.wallet_id = s.wallet_id AND a.id = s.address_id
    WHERE s.wallet_id = $1 AND s.descriptor_id = $2 AND a.is_used = 1";

/// Scripts that one call derives: ten times what is ever watched ahead.
const SCRIPTS_AT_ONCE_MAX: usize = 100_000;

impl Session<'_, '_> {
    /// Notes that scripts below `next_index` are in use, and watches those ahead of them. Returns
    /// the scripts that are new.
    pub(super) fn derive_ahead(
        &mut self,
        codec: &dyn ChainCodec,
        descriptor: &mut WatchedDescriptor,
        next_index: u32,
    ) -> Result<Vec<DerivedScript>, LedgerError> {
        let mut all = self.derive_to(codec, descriptor, next_index)?;
        let mut is_new = !all.is_empty();
        // A script may have been watched, and paid, before it was known to be the descriptor's.
        while is_new {
            let key = [self.id(), Value::from(descriptor.id)];
            let used = self.tx.query_one(SELECT_HIGHEST_USED, &key, |row| {
                row.opt_int(0)?.map(|_| rows::u32_at(row, 0)).transpose()
            })?;
            let more = match used {
                Some(index) => self.derive_to(codec, descriptor, index + 1)?,
                None => Vec::new(),
            };
            is_new = !more.is_empty();
            all.extend(more);
        }
        Ok(all)
    }

    fn derive_to(
        &mut self,
        codec: &dyn ChainCodec,
        descriptor: &mut WatchedDescriptor,
        next_index: u32,
    ) -> Result<Vec<DerivedScript>, LedgerError> {
        let limit = if descriptor.is_ranged { INDEXES } else { 1 };
        let next_index = next_index.min(limit).max(descriptor.next_index);
        let wanted = next_index.saturating_add(descriptor.lookahead).min(limit);
        let target = wanted.max(descriptor.derived_count);
        if next_index == descriptor.next_index && target == descriptor.derived_count {
            return Ok(Vec::new());
        }
        let range = descriptor.derived_count..target;
        let count = range.len();
        if count > SCRIPTS_AT_ONCE_MAX {
            return Err(LedgerError::argument(format!(
                "{count} scripts would be derived at once, at most {SCRIPTS_AT_ONCE_MAX} are"
            )));
        }
        let scripts = codec.derive(self.network, &descriptor.text, range.clone())?;
        // A number may stand for no key, and then has no script; but none is given twice.
        let is_sorted = scripts.is_sorted_by(|one, next| one.index < next.index);
        if !is_sorted || scripts.iter().any(|derived| !range.contains(&derived.index)) {
            return Err(LedgerError::damaged("other scripts were derived than asked for"));
        }
        let mut links = Vec::with_capacity(count * 4);
        for derived in &scripts {
            let address = self.add_address(&NewAddress {
                script: derived.script.clone(),
                address: derived.address.clone(),
                spend_weight: derived.spend_weight,
            })?;
            let index = Value::from(derived.index);
            links.extend([self.id(), Value::from(descriptor.id), index, Value::from(address)]);
        }
        self.tx.insert_rows(INSERT_SCRIPTS, "", 4, &links)?;
        descriptor.next_index = next_index;
        descriptor.derived_count = target;
        let skipped = i64::try_from(count - scripts.len()).unwrap_or(i64::MAX);
        let row = [
            self.id(),
            Value::from(descriptor.id),
            Value::from(next_index),
            Value::from(target),
            Value::from(skipped),
        ];
        self.tx.execute(UPDATE_COUNTS, &row)?;
        Ok(scripts)
    }
}
