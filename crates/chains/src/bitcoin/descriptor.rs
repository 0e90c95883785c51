//! Output descriptors, for watching only: texts in, scripts out.
//!
//! A descriptor with private keys is refused, and the answer names its public form: a ledger that
//! only watches must not be where secrets end up, and turning them silently into public keys would
//! teach people to paste secrets.
//!
//! # Invariants
//!
//! * A parsed descriptor has public keys of its network only, and every index from 0 to
//!   [`INDEX_MAX`] can be derived without secrets.
//! * Equal descriptors have equal texts: hardened steps are written `h`, and a check sum ends them.

mod error;

use std::ops::Range;

use ::bitcoin::{
    NetworkKind, TxIn,
    secp256k1::{All, Secp256k1},
};
use miniscript::{
    Descriptor, DescriptorPublicKey, ForEachKey,
    descriptor::{DefiniteDescriptorKey, XKeyNetwork, checksum},
};
use utxokeep_core::{
    Network,
    wallet::{DerivedScript, DescriptorBranch},
};

pub use self::error::DescriptorError;
use super::params_of;

/// Characters of a descriptor.
pub const DESCRIPTOR_CHARS_MAX: usize = 10_000;
/// The highest number of a script: keys above are hardened.
pub const INDEX_MAX: u32 = (1 << 31) - 1;
/// Keychains of one descriptor.
const BRANCHES_MAX: usize = 16;

/// The keychains of a descriptor: one for each path of `<0;1>`, or just one.
pub fn parse_descriptor(
    text: &str,
    network: Network,
) -> Result<Vec<DescriptorBranch>, DescriptorError> {
    let branches = parse(text, network)?;
    Ok(branches
        .iter()
        .map(|branch| DescriptorBranch {
            text: canonical_text(branch),
            is_ranged: branch.has_wildcard(),
        })
        .collect())
}

/// The scripts of a descriptor with one keychain, for a range of indexes. One that is not ranged
/// has a script at index 0 only.
pub fn derive_scripts(
    text: &str,
    network: Network,
    indexes: Range<u32>,
) -> Result<Vec<DerivedScript>, DescriptorError> {
    let branch = parse_branch(text, network)?;
    let limit = if branch.has_wildcard() { INDEX_MAX + 1 } else { 1 };
    let spend_weight = spend_weight(&branch);
    let secp = Secp256k1::verification_only();
    (indexes.start..indexes.end.min(limit))
        .map(|index| {
            let definite = definite_at(&branch, index)?;
            let script = definite.derived_descriptor(&secp).script_pubkey();
            let address = super::script_to_address(script.as_bytes(), network);
            Ok(DerivedScript { index, script: script.into_bytes(), address, spend_weight })
        })
        .collect()
}

/// A descriptor with one keychain.
pub(super) fn parse_branch(
    text: &str,
    network: Network,
) -> Result<Descriptor<DescriptorPublicKey>, DescriptorError> {
    let mut branches = parse(text, network)?;
    match (branches.pop(), branches.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => Err(DescriptorError::SeveralKeychains),
    }
}

pub(super) fn definite_at(
    branch: &Descriptor<DescriptorPublicKey>,
    index: u32,
) -> Result<Descriptor<DefiniteDescriptorKey>, DescriptorError> {
    branch
        .at_derivation_index(index)
        .map_err(|error| DescriptorError::NotDerivable { index, reason: error.to_string() })
}

fn parse(
    text: &str,
    network: Network,
) -> Result<Vec<Descriptor<DescriptorPublicKey>>, DescriptorError> {
    if network.is_cardano() {
        return Err(DescriptorError::NoDescriptors { network });
    }
    let text = text.trim();
    if text.len() > DESCRIPTOR_CHARS_MAX {
        return Err(DescriptorError::TooLong { chars_max: DESCRIPTOR_CHARS_MAX });
    }
    checksum::verify_checksum(text)
        .map_err(|error| DescriptorError::BadChecksum { reason: error.to_string() })?;
    let (descriptor, secrets) = Descriptor::parse_descriptor(&Secp256k1::<All>::new(), text)
        .map_err(|error| DescriptorError::Unreadable { reason: without_keys(&error) })?;
    if !secrets.is_empty() {
        return Err(DescriptorError::PrivateKeys { public_form: canonical_text(&descriptor) });
    }
    check_network(&descriptor, network)?;
    descriptor
        .sanity_check()
        .map_err(|error| DescriptorError::Unreadable { reason: error.to_string() })?;
    check_paths(&descriptor)?;
    let branches = descriptor
        .into_single_descriptors()
        .map_err(|error| DescriptorError::Unreadable { reason: error.to_string() })?;
    // Depth limits and hardened steps show at any index.
    for branch in &branches {
        definite_at(branch, INDEX_MAX)?;
    }
    Ok(branches)
}

/// The message of an error. A text that looks like a secret must not end up in a log.
fn without_keys(error: &miniscript::Error) -> String {
    let message = error.to_string();
    let names_a_secret = ["prv", "private", "secret"].iter().any(|word| message.contains(word));
    if names_a_secret { "one of its keys cannot be read".to_owned() } else { message }
}

fn check_network(
    descriptor: &Descriptor<DescriptorPublicKey>,
    network: Network,
) -> Result<(), DescriptorError> {
    let expected = NetworkKind::from(params_of(network));
    match descriptor.xkey_network() {
        XKeyNetwork::NoXKeys => Ok(()),
        XKeyNetwork::Single(found) if found == expected => Ok(()),
        XKeyNetwork::Single(_) | XKeyNetwork::Mixed => {
            Err(DescriptorError::WrongNetwork { expected: network })
        }
    }
}

/// All keys with several paths must have the same number of them, without hardened steps.
fn check_paths(descriptor: &Descriptor<DescriptorPublicKey>) -> Result<(), DescriptorError> {
    let mut counts = Vec::new();
    descriptor.for_each_key(|key| {
        if key.is_multipath() {
            counts.push(key.derivation_paths().len());
        }
        true
    });
    let first = counts.first().copied().unwrap_or(1);
    if first > BRANCHES_MAX || counts.iter().any(|count| *count != first) {
        return Err(DescriptorError::UnequalPaths { branches_max: BRANCHES_MAX });
    }
    Ok(())
}

fn canonical_text(descriptor: &Descriptor<DescriptorPublicKey>) -> String {
    // Without a check sum; apostrophes occur in no other place of a descriptor.
    let body = format!("{descriptor:#}").replace('\'', "h");
    let mut engine = checksum::Engine::new();
    match engine.input(&body) {
        Ok(()) => format!("{body}#{}", engine.checksum()),
        Err(_) => body,
    }
}

/// Weight of an input, at most: outpoint, sequence, empty script and the count of its witness
/// items, and what satisfies the descriptor.
fn spend_weight(branch: &Descriptor<DescriptorPublicKey>) -> Option<u32> {
    let satisfied = branch.max_weight_to_satisfy().ok()?;
    let whole = TxIn::default().segwit_weight().checked_add(satisfied)?;
    u32::try_from(whole.to_wu()).ok()
}

#[cfg(test)]
mod tests;
