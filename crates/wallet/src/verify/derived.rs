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

/// Scripts of a page.
const PAGE_SCRIPTS: u32 = 1_000;

const UNREADABLE: &str = "the descriptor of a keychain can be read";
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
            let mut first = 0;
            while first < keychain.derived_count {
                let end = first.saturating_add(PAGE_SCRIPTS).min(keychain.derived_count);
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
