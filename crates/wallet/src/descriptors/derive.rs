//! Deriving scripts and watching them.

use rustc_hash::FxHashMap;
use utxokeep_core::wallet::{ChainCodec, DerivedScript};
use utxokeep_sql::Value;

use super::{INDEXES, RevealedAddress, WatchedDescriptor};
use crate::{LedgerError, rows, session::Session};

const UPDATE_REACH: &str = "UPDATE descriptors SET next_index = $3, derived_count = $4,
        skipped_count = skipped_count + $5, lookahead = $6, edge_index = $7
    WHERE wallet_id = $1 AND id = $2";
const SELECT_KNOWN: &str =
    "SELECT script, id, is_used FROM addresses WHERE wallet_id = $1 AND script IN";
const WATCH_AGAIN: &str = "UPDATE addresses SET is_archived = 0
    WHERE wallet_id = $1 AND is_archived = 1 AND id IN";
const INSERT_ADDRESSES: &str = "INSERT INTO addresses
    (wallet_id, id, script, address, spend_weight, is_used, created_at_us) VALUES";
const INSERT_SCRIPTS: &str = "INSERT INTO descriptor_scripts
    (wallet_id, descriptor_id, script_index, address_id) VALUES";

/// Scripts that one call derives: twice what is ever watched ahead. Nobody else writes meanwhile, so
/// that it must end soon.
const SCRIPTS_AT_ONCE_MAX: usize = 20_000;

/// What deriving came to.
#[derive(Debug, Default)]
struct Derived {
    scripts: Vec<DerivedScript>,
    /// The highest of them that was watched, and paid, before it was known to be the
    /// descriptor's.
    highest_used: Option<u32>,
}

impl Session<'_, '_> {
    /// Notes that scripts below `next_index` are in use, and watches those ahead of them. Returns
    /// the scripts that are new.
    pub(crate) fn derive_ahead(
        &mut self,
        codec: &dyn ChainCodec,
        descriptor: &mut WatchedDescriptor,
        next_index: u32,
    ) -> Result<Vec<DerivedScript>, LedgerError> {
        let Derived { scripts: mut all, highest_used: mut used } =
            self.derive_to(codec, descriptor, next_index)?;
        while let Some(index) = used {
            let more = self.derive_to(codec, descriptor, index + 1)?;
            used = more.highest_used;
            all.extend(more.scripts);
        }
        Ok(all)
    }

    /// Makes sure that a stored script is the one that its descriptor derives, and gives it the text
    /// that is derived. Whoever changed the row would be paid otherwise.
    pub(super) fn derived_again(
        &self,
        descriptor: &WatchedDescriptor,
        stored: RevealedAddress,
    ) -> Result<RevealedAddress, LedgerError> {
        let codec = self.codec.as_deref().ok_or(LedgerError::NoCodec)?;
        let index = stored.index;
        let derived = codec.derive(self.network, &descriptor.text, index..index + 1)?;
        match derived.into_iter().next() {
            Some(derived) if derived.script == stored.script => {
                Ok(RevealedAddress { address: derived.address, ..stored })
            }
            _ => Err(LedgerError::damaged(format!(
                "script {index} of keychain {} is not the one that its descriptor derives, and \
                 is not handed out",
                descriptor.id
            ))),
        }
    }

    fn derive_to(
        &mut self,
        codec: &dyn ChainCodec,
        descriptor: &mut WatchedDescriptor,
        next_index: u32,
    ) -> Result<Derived, LedgerError> {
        let limit = if descriptor.is_ranged { INDEXES } else { 1 };
        let next_index = next_index.min(limit).max(descriptor.next_index);
        let wanted = next_index.saturating_add(descriptor.lookahead).min(limit);
        let target = wanted.max(descriptor.derived_count);
        if next_index == descriptor.next_index && target == descriptor.derived_count {
            return Ok(Derived::default());
        }
        let range = descriptor.derived_count..target;
        let count = range.len();
        if count > SCRIPTS_AT_ONCE_MAX {
            return Err(LedgerError::argument(format!(
                "{count} scripts would be derived at once, at most {SCRIPTS_AT_ONCE_MAX} are; raise the \
                 next index in steps"
            )));
        }
        let scripts = codec.derive(self.network, &descriptor.text, range.clone())?;
        // A number may stand for no key, and then has no script; but none is given twice.
        let is_sorted = scripts.is_sorted_by(|one, next| one.index < next.index);
        if !is_sorted || scripts.iter().any(|derived| !range.contains(&derived.index)) {
            return Err(LedgerError::damaged("other scripts were derived than asked for"));
        }
        let highest_used = self.watch_scripts(descriptor.id, &scripts)?;
        descriptor.next_index = next_index;
        descriptor.derived_count = target;
        self.update_reach(descriptor, count - scripts.len())?;
        Ok(Derived { scripts, highest_used })
    }

    /// Stores how far a keychain reaches, and that so many more numbers stand for no script.
    pub(super) fn update_reach(
        &mut self,
        descriptor: &WatchedDescriptor,
        skipped: usize,
    ) -> Result<(), LedgerError> {
        let row = [
            self.id(),
            Value::from(descriptor.id),
            Value::from(descriptor.next_index),
            Value::from(descriptor.derived_count),
            Value::from(i64::try_from(skipped).unwrap_or(i64::MAX)),
            Value::from(descriptor.lookahead),
            Value::from(descriptor.edge_index),
        ];
        self.tx.execute(UPDATE_REACH, &row)?;
        Ok(())
    }

    /// Watches scripts of a keychain, many at a time. Returns the highest that was paid already.
    fn watch_scripts(
        &mut self,
        descriptor: i64,
        scripts: &[DerivedScript],
    ) -> Result<Option<u32>, LedgerError> {
        let mut known: FxHashMap<Vec<u8>, (i64, bool)> = FxHashMap::default();
        let keys: Vec<Value<'_>> = scripts.iter().map(|new| Value::from(&new.script)).collect();
        let wallet = [self.id()];
        self.tx.query_in(SELECT_KNOWN, "", &wallet, 1, &keys, |row| {
            known.insert(row.bytes(0)?.to_vec(), (row.int(1)?, rows::flag(row, 2)?));
            Ok(())
        })?;
        let ids: Vec<Value<'_>> = known.values().map(|(id, _)| Value::from(*id)).collect();
        self.tx.execute_in(WATCH_AGAIN, "", &wallet, 1, &ids)?;
        let now = Value::from(self.now.get());
        let mut highest_used = None;
        let (mut addresses, mut links) = (Vec::new(), Vec::new());
        for new in scripts {
            let (address, is_used) = if let Some(known) = known.get(&new.script) {
                *known
            } else {
                let id = self.next_address_id()?;
                addresses.extend([
                    wallet[0],
                    Value::from(id),
                    Value::from(&new.script),
                    Value::from(new.address.as_deref()),
                    Value::from(new.weight()),
                    Value::from(0i64),
                    now,
                ]);
                known.insert(new.script.clone(), (id, false));
                (id, false)
            };
            if is_used {
                highest_used = Some(new.index);
            }
            let (index, address) = (Value::from(new.index), Value::from(address));
            links.extend([wallet[0], Value::from(descriptor), index, address]);
        }
        self.tx.insert_rows(INSERT_ADDRESSES, "", 7, &addresses)?;
        self.tx.insert_rows(INSERT_SCRIPTS, "", 4, &links)?;
        Ok(highest_used)
    }
}
