//! From the texts people use for owners and assets to what the index is asked by.

use serde::Deserialize;
use utxokeep_chains::{
    AddressError,
    cardano::{
        AssetParseError, CardanoAddressError, Owner, parse_asset, parse_credential, parse_owner,
    },
    parse_address_or_script,
};
use utxokeep_core::{AssetFilter, ErrorKind, Height, Network, OwnerKeys, cardano::CredentialKind};

/// What a credential is the hash of, where its text does not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A verification key.
    Key,
    /// A script.
    Script,
}

impl From<Kind> for CredentialKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Key => Self::Key,
            Kind::Script => Self::Script,
        }
    }
}

/// No record of an output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "output {tx_hash}:{index} is not known at height {height}: it was not created by then, cannot be \
     spent, or was spent so long ago that its record is gone"
)]
pub struct UnknownOutput {
    /// Transaction that should have created it.
    pub tx_hash: String,
    /// Position among the outputs of that transaction.
    pub index: u32,
    /// The height asked about.
    pub height: Height,
}

/// Why a text names no owner or asset of a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// No owner on Bitcoin.
    #[error(transparent)]
    Bitcoin(#[from] AddressError),
    /// No owner on Cardano.
    #[error(transparent)]
    Cardano(#[from] CardanoAddressError),
    /// No asset.
    #[error(transparent)]
    Asset(#[from] AssetParseError),
    /// The chain has no credentials.
    #[error("{network} has no credentials; ask by address or script")]
    NoCredentials {
        /// The network.
        network: Network,
    },
    /// The chain has no native assets.
    #[error("{network} has no native assets; leave the asset out")]
    NoAssets {
        /// The network.
        network: Network,
    },
}

impl UnknownOutput {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::NotFound
    }
}

impl OwnerError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }

    /// Whether the text is fine, but of another network.
    #[must_use]
    pub const fn is_wrong_network(&self) -> bool {
        matches!(
            self,
            Self::Bitcoin(AddressError::WrongNetwork { .. })
                | Self::Cardano(CardanoAddressError::WrongNetwork { .. })
        )
    }
}

/// Whom a text stands for: an address; on Bitcoin also a script in hexadecimal; on Cardano also a
/// stake address or a credential. A credential in bare hexadecimal needs its `kind`.
pub fn find_owner(
    text: &str,
    kind: Option<Kind>,
    network: Network,
) -> Result<OwnerKeys, OwnerError> {
    match kind {
        Some(_) => find_credential(text, kind, network),
        None if network.is_cardano() => Ok(parse_owner(text, network)?.keys(network)),
        None => Ok(OwnerKeys::address(network, &parse_address_or_script(text, network)?)),
    }
}

/// Whom a text stands for that names a credential, or a stake address.
pub fn find_credential(
    text: &str,
    kind: Option<Kind>,
    network: Network,
) -> Result<OwnerKeys, OwnerError> {
    if !network.is_cardano() {
        return Err(OwnerError::NoCredentials { network });
    }
    let owner = match parse_owner(text, network) {
        Ok(owner @ Owner::Stake(_)) if kind.is_none() => owner,
        Err(error @ CardanoAddressError::WrongNetwork { .. }) => return Err(error.into()),
        _ => parse_credential(text, kind.map(CredentialKind::from))?,
    };
    Ok(owner.keys(network))
}

/// Which asset, or all assets of which policy, a text stands for.
pub fn find_asset(text: &str, network: Network) -> Result<AssetFilter, OwnerError> {
    if !network.is_cardano() {
        return Err(OwnerError::NoAssets { network });
    }
    let asset = parse_asset(text)?;
    Ok(AssetFilter { policy: asset.policy, name: asset.name })
}

#[cfg(test)]
mod tests {
    use utxokeep_core::IndexTag;

    use super::*;

    const PREVIEW: Network = Network::CardanoPreview;
    const HASH: &str = "9493315cd92eb5d8c4304e67b7e16ae36d61d34502694657811a2c8e";
    const STAKE: &str = "stake_test1uqehkck0lajq8gr28t9uxnuvgcqrc6070x3k9r8048z8y5gssrtvn";

    #[test]
    fn a_bare_credential_needs_its_kind_and_kinds_are_kept_apart() {
        let tag = |text: &str, kind| find_owner(text, kind, PREVIEW).map(|owner| owner.key.tag);
        assert_eq!(tag(HASH, Some(Kind::Key)), Ok(IndexTag::PaymentKey));
        assert_eq!(tag(HASH, Some(Kind::Script)), Ok(IndexTag::PaymentScript));
        assert_eq!(tag(&format!("script:{HASH}"), None), Ok(IndexTag::PaymentScript));
        assert_eq!(tag(STAKE, None), Ok(IndexTag::StakeKey));
        assert_eq!(find_credential(STAKE, None, PREVIEW), find_owner(STAKE, None, PREVIEW));
        assert!(tag(HASH, None).unwrap_err().to_string().contains("key:"));
        let wrong = find_credential(STAKE, None, Network::CardanoMainnet).unwrap_err();
        assert!(wrong.is_wrong_network(), "{wrong}");
    }

    #[test]
    fn bitcoin_has_neither_credentials_nor_assets() {
        let regtest = Network::BitcoinRegtest;
        let credential = find_owner(HASH, Some(Kind::Key), regtest).unwrap_err();
        assert!(credential.to_string().contains("bitcoin/regtest has no credentials"));
        let asset = find_asset(HASH, regtest).unwrap_err();
        assert!(asset.to_string().contains("no native assets"), "{asset}");
        assert_eq!(find_asset(HASH, PREVIEW).unwrap().name, None);
    }
}
