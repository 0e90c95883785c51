//! Where the change of a payment goes, decided before any coin is leased.

use super::PaymentRequest;
use crate::{ChangePolicy, LedgerError, NextChange, OpenWallet, SelectionRequest, suitable_change};

/// A place for change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChangePlace {
    /// The script that the caller names.
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

impl OpenWallet<'_, '_, '_> {
    /// Decides where change goes, and sets from which amount on it is made. Of several change
    /// keychains one is preferred whose scripts look like the inputs.
    pub(super) fn settle_change(
        &mut self,
        request: &PaymentRequest,
    ) -> Result<(SelectionRequest, Option<ChangePlace>), LedgerError> {
        let mut selection = request.selection.clone();
        let policy = |place: Option<&ChangePlace>| {
            let policy = place.map_or_else(ChangePolicy::default, ChangePlace::policy);
            ChangePolicy { min_value: policy.min_value.max(request.change_min_value), ..policy }
        };
        if let Some(script) = &request.change_script {
            self.session.guards(selection.allow).check_change_script(script)?;
            let place = ChangePlace::Named(script.clone());
            selection.change = policy(Some(&place));
            return Ok((selection, Some(place)));
        }
        let keychains = self.next_change()?;
        let mut place = keychains.first().cloned().map(ChangePlace::Keychain);
        selection.change = policy(place.as_ref());
        // What change weighs may lead to other inputs. Where that goes round in circles, the last
        // place is as good as any.
        let attempts = if keychains.len() > 1 { keychains.len() } else { 0 };
        for _ in 0..attempts {
            let selected = self.select(&selection)?;
            let inputs = selected.coins.iter().map(|coin| coin.script.as_slice());
            let suitable = suitable_change(&keychains, inputs).cloned().map(ChangePlace::Keychain);
            if suitable == place {
                break;
            }
            place = suitable;
            selection.change = policy(place.as_ref());
        }
        Ok((selection, place))
    }

    /// The script for change, handed out if it comes from a keychain.
    pub(super) fn take_change_script(
        &mut self,
        place: Option<&ChangePlace>,
    ) -> Result<Vec<u8>, LedgerError> {
        match place {
            None => Err(LedgerError::NoChangePlace),
            Some(ChangePlace::Named(script)) => Ok(script.clone()),
            Some(ChangePlace::Keychain(next)) => {
                Ok(self.reveal_next_address(next.descriptor)?.script)
            }
        }
    }
}
