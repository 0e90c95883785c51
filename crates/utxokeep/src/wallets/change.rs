//! Where the change of a payment goes, decided before any coin is leased.

use utxokeep_core::wallet::ChangePolicy;
use utxokeep_wallet::{
    LedgerError, NextChange, OpenWallet, SelectionRequest, Wallet, suitable_change,
};

use super::{Units, Wallets, WalletsError, texts};

/// A place for change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChangePlace {
    /// The script that the client names.
    Named(Vec<u8>),
    /// A change keychain, with the script that comes next there.
    Keychain(NextChange),
}

impl ChangePlace {
    fn policy(&self) -> ChangePolicy {
        match self {
            Self::Named(script) => ChangePolicy::to(script, None),
            Self::Keychain(next) => ChangePolicy::to(&next.script, Some(next.spend_weight)),
        }
    }
}

impl Wallets {
    /// Decides where change goes, and sets from which amount on it is made. Of several change
    /// keychains one is preferred whose scripts look like the inputs.
    pub(super) fn settle_change(
        &self,
        open: &mut OpenWallet<'_, '_, '_>,
        wallet: &Wallet,
        request: &mut SelectionRequest,
        asked: Option<&str>,
        change_min: Option<Units>,
    ) -> Result<Option<ChangePlace>, WalletsError> {
        let policy = |place: Option<&ChangePlace>| {
            let policy = place.map_or_else(ChangePolicy::default, ChangePlace::policy);
            let min_value = policy.min_value.max(change_min.map_or(0, |min| min.0));
            ChangePolicy { min_value, ..policy }
        };
        if let Some(address) = asked {
            let script = texts::script(wallet.network, address)?;
            let guards = self.guards(wallet, request.allow);
            guards.check_change_script(&script).map_err(LedgerError::from)?;
            let place = ChangePlace::Named(script);
            request.change = policy(Some(&place));
            return Ok(Some(place));
        }
        let keychains = open.next_change()?;
        let mut place = keychains.first().cloned().map(ChangePlace::Keychain);
        request.change = policy(place.as_ref());
        // What change weighs may lead to other inputs. Where that goes round in circles, the last
        // place is as good as any.
        let attempts = if keychains.len() > 1 { keychains.len() } else { 0 };
        for _ in 0..attempts {
            let selected = open.select(request)?;
            let inputs = selected.coins.iter().map(|coin| coin.script.as_slice());
            let suitable = suitable_change(&keychains, inputs).cloned().map(ChangePlace::Keychain);
            if suitable == place {
                break;
            }
            place = suitable;
            request.change = policy(place.as_ref());
        }
        Ok(place)
    }

    /// The script for change, handed out if it comes from a keychain.
    pub(super) fn take_change_script(
        open: &mut OpenWallet<'_, '_, '_>,
        place: Option<&ChangePlace>,
    ) -> Result<Vec<u8>, WalletsError> {
        match place {
            None => Err(LedgerError::NoChangePlace.into()),
            Some(ChangePlace::Named(script)) => Ok(script.clone()),
            Some(ChangePlace::Keychain(next)) => {
                Ok(open.reveal_next_address(next.descriptor)?.script)
            }
        }
    }
}
