//! Where change goes: the next script of a change keychain that looks like the inputs.
//!
//! Looking does not hand an address out. Whoever records or leases hands it out in the same
//! transaction, so that a plan or a refused call uses up no number.

use utxokeep_core::wallet::{ChainCodec, ScriptKind, WalletId};
use utxokeep_sql::Value;

use super::{CHANGE_KEYCHAIN, RevealedAddress};
use crate::{Ledger, LedgerError, rows, session::Session};

const SELECT_WEIGHT: &str = "SELECT spend_weight FROM addresses WHERE wallet_id = $1 AND id = $2";

/// The script that the next change would go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextChange {
    /// Number of the keychain.
    pub descriptor: i64,
    /// Number of the script in the keychain.
    pub index: u32,
    /// The script.
    pub script: Vec<u8>,
    /// Weight of an input that spends from it.
    pub spend_weight: u32,
}

impl Ledger {
    /// The next script of each change keychain, in the order they were added. Nothing is handed
    /// out; [`Ledger::reveal_next_address`] does that.
    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "a method's lifetimes are not general enough"
    )]
    pub fn next_change(&self, wallet: WalletId) -> Result<Vec<NextChange>, LedgerError> {
        self.read_wallet(wallet, |session| session.next_change())
    }
}

/// The change that suits inputs with these scripts: of their kind, else the first.
#[must_use]
pub fn suitable_change<'s>(
    all: &[NextChange],
    inputs: impl IntoIterator<Item = &'s [u8]>,
) -> Option<&NextChange> {
    let kind = ScriptKind::most_common(inputs);
    let alike = all.iter().find(|change| Some(ScriptKind::of(&change.script)) == kind);
    alike.or_else(|| all.first())
}

impl Session<'_, '_> {
    pub(crate) fn next_change(&mut self) -> Result<Vec<NextChange>, LedgerError> {
        let mut all = Vec::new();
        for keychain in self.descriptors()? {
            // Change that goes to an archived keychain would not be seen.
            if keychain.keychain != CHANGE_KEYCHAIN || keychain.archived_at.is_some() {
                continue;
            }
            let index = if keychain.is_ranged { keychain.next_index } else { 0 };
            // A keychain of which every number was handed out has no next script.
            let Some(found) = self.script_from(keychain.id, index)? else { continue };
            let RevealedAddress { index, address_id, script, .. } =
                self.derived_again(&keychain, found)?;
            let key = [self.id(), Value::from(address_id)];
            let spend_weight =
                self.tx.query_one(SELECT_WEIGHT, &key, |row| rows::u32_at(row, 0))?;
            all.push(NextChange { descriptor: keychain.id, index, script, spend_weight });
        }
        Ok(all)
    }

    /// Hands the script out, so that nobody else gets it.
    pub(crate) fn hand_out(
        &mut self,
        codec: &dyn ChainCodec,
        change: &NextChange,
    ) -> Result<(), LedgerError> {
        let mut keychain = self.descriptor(change.descriptor)?;
        if change.index >= keychain.next_index {
            self.derive_ahead(codec, &mut keychain, change.index + 1)?;
        }
        Ok(())
    }
}
