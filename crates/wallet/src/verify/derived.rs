//! Scripts of keychains, compared with what their descriptors derive, a page at a time.

use utxokeep_core::wallet::{ChainCodec, ScriptMismatch, StoredScript, script_mismatches};
use utxokeep_sql::{SqlError, Value};

use super::{Findings, rules::RESTORE};
use crate::{LedgerError, WatchedDescriptor, rows, session::Session};

const SELECT_SCRIPTS: &str = "SELECT s.script_index, a.script, a.address, a.spend_weight, \
    a.is_imported FROM descriptor_scripts s
    JOIN addresses a ON a.wallet_id = s.wallet_id AND a.id = s.address_id
    WHERE s.wallet_id = $1 AND s.descriptor_id = $2 AND s.script_index BETWEEN $3 AND $4
    ORDER BY s.script_index";

const SELECT_HIGHEST: &str = "SELECT MAX(script_index) FROM descriptor_scripts
    WHERE wallet_id = $1 AND descriptor_id = $2";

/// Scripts of a page.
const PAGE_SCRIPTS: u32 = 1_000;

const UNREADABLE: &str = "the descriptor of a keychain can be read";
const OTHER_FORM: &str = "a descriptor is stored in its one form, with its checksum";
const OTHER_RANGE: &str = "a keychain is ranged exactly if its descriptor is";
const DO_NOT_USE: &str = "somebody changed the database by hand: pay nothing to addresses of this \
    keychain until the ledger is restored from a copy; then let it follow the chain again";

impl Session<'_, '_> {
    /// Derives the scripts of every keychain, archived ones too; returns how many were compared.
    pub(super) fn verify_scripts(
        &mut self,
        codec: &dyn ChainCodec,
        findings: &mut Findings,
    ) -> Result<u64, LedgerError> {
        let mut compared = 0;
        for keychain in self.descriptors()? {
            match codec.descriptor(self.network, &keychain.text).as_deref() {
                Ok([only]) if only.text != keychain.text => {
                    let example = format!("keychain {}", keychain.id);
                    findings.add(OTHER_FORM, RESTORE, keychain.id, example);
                }
                Ok([only]) if only.is_ranged != keychain.is_ranged => {
                    let example = format!("keychain {}", keychain.id);
                    findings.add(OTHER_RANGE, RESTORE, keychain.id, example);
                }
                // One that cannot be read derives nothing, which is said below.
                _ => {}
            }
            // A count that somebody raised must not cost more than the rows that are there; that the
            // two fit is a rule of its own.
            let derived_count = keychain.derived_count.min(self.scripts_end(keychain.id)?);
            let mut first = 0;
            while first < derived_count {
                let end = first.saturating_add(PAGE_SCRIPTS).min(derived_count);
                match codec.derive(self.network, &keychain.text, first..end) {
                    Ok(derived) => {
                        let stored = self.stored_scripts(&keychain, first, end)?;
                        compared += u64::try_from(stored.len()).unwrap_or(u64::MAX);
                        for (index, mismatch) in script_mismatches(&derived, &stored) {
                            report(&keychain, index, mismatch, findings);
                        }
                    }
                    Err(error) => {
                        let example = format!("keychain {}: {error}", keychain.id);
                        findings.add(UNREADABLE, RESTORE, keychain.id, example);
                        break;
                    }
                }
                first = end;
            }
        }
        Ok(compared)
    }

    /// The number behind the highest script of a keychain that is stored.
    fn scripts_end(&mut self, keychain: i64) -> Result<u32, SqlError> {
        let key = [self.id(), Value::from(keychain)];
        let highest = self.tx.query_one(SELECT_HIGHEST, &key, |row| row.opt_int(0))?;
        let end = highest.map_or(0, |highest| highest.saturating_add(1));
        Ok(u32::try_from(end).unwrap_or(u32::MAX))
    }

    fn stored_scripts(
        &mut self,
        keychain: &WatchedDescriptor,
        first: u32,
        end: u32,
    ) -> Result<Vec<StoredScript>, SqlError> {
        let key = [self.id(), Value::from(keychain.id), Value::from(first), Value::from(end - 1)];
        self.tx.query_all(SELECT_SCRIPTS, &key, |row| {
            Ok(StoredScript {
                index: rows::u32_at(row, 0)?,
                script: row.bytes(1)?.to_vec(),
                address: row.opt_text(2)?.map(str::to_owned),
                spend_weight: rows::u32_at(row, 3)?,
                is_imported: rows::flag(row, 4)?,
            })
        })
    }
}

fn report(
    keychain: &WatchedDescriptor,
    index: u32,
    mismatch: ScriptMismatch,
    findings: &mut Findings,
) {
    let (rule, remedy) = match mismatch {
        ScriptMismatch::Script => {
            ("a script of a keychain is the one that its descriptor derives", DO_NOT_USE)
        }
        ScriptMismatch::Address => ("the text of an address is that of its script", DO_NOT_USE),
        ScriptMismatch::Weight => {
            ("the weight of an input is the one that its descriptor says", RESTORE)
        }
        ScriptMismatch::Missing => ("every script that a descriptor derives is stored", RESTORE),
    };
    findings.add(rule, remedy, keychain.id, format!("keychain {}, script {index}", keychain.id));
}
