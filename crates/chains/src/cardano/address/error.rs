//! Why a text names no owner.

use ::bitcoin::bech32::primitives::decode::{CheckedHrpstringError, ChecksumError};
use utxokeep_core::{Network, cardano::CredentialKind};

/// Characters of a refused text that a message repeats.
const SHOWN_CHARS_MAX: usize = 128;

/// Why a text names no owner on a network of Cardano.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardanoAddressError {
    /// None of the forms that are read.
    #[error(
        "{text:?} names no owner; give an address (addr1…, addr_test1…, base58 of Byron, or its \
         bytes in hexadecimal), a stake address (stake1…, stake_test1…), or a credential \
         (addr_vkh1…, script1…, stake_vkh1…, key:HEX, script:HEX)"
    )]
    Unreadable {
        /// The text as given.
        text: String,
    },
    /// A bech32 text with a wrong check sum.
    #[error("the check sum of {text} is wrong: a character is mistyped or missing")]
    Checksum {
        /// The text as given.
        text: String,
    },
    /// A bech32 text that is broken in another way.
    #[error("{text} is not bech32: {source}")]
    Bech32 {
        /// The text as given.
        text: String,
        /// What the parser says.
        #[source]
        source: CheckedHrpstringError,
    },
    /// A bech32 text of something else, or whose prefix contradicts its bytes.
    #[error(
        "the prefix {prefix} does not fit what follows it; accepted are addr, addr_test, stake and \
         stake_test with an address of that network, and addr_vkh, addr_shared_vkh, script, \
         stake_vkh and stake_shared_vkh with a credential"
    )]
    Prefix {
        /// The prefix as given.
        prefix: String,
    },
    /// Bytes that are no address: too few, of an unknown kind, or with a wrong check sum.
    #[error("{text} holds no address: bytes are missing or wrong")]
    Malformed {
        /// The text as given.
        text: String,
    },
    /// A hash of 28 bytes that does not say what it is of.
    #[error(
        "{text} is a bare credential, not an address: say what it is the hash of, as key:{text} or \
         script:{text}"
    )]
    BareCredential {
        /// The text as given.
        text: String,
    },
    /// A credential of another length.
    #[error("a credential has 28 bytes, this one {len}")]
    HashLength {
        /// How many bytes it has.
        len: usize,
    },
    /// A credential that says what it is of, and is asked for as another kind.
    #[error("{text} is the hash of a {}; leave the kind out, or make it fit", kind_name(*found))]
    KindConflict {
        /// The text as given.
        text: String,
        /// What it is the hash of.
        found: CredentialKind,
    },
    /// A valid address of another network.
    #[error("address {text} is for {found}, not for {expected}; use an address of {expected}")]
    WrongNetwork {
        /// The address as given.
        text: String,
        /// The networks it is for.
        found: &'static str,
        /// The network it was expected on.
        expected: Network,
    },
    /// A text longer than any address.
    #[error("{chars} characters are too many for an address: {max} is the limit")]
    TooLong {
        /// Its length.
        chars: usize,
        /// The limit.
        max: usize,
    },
}

impl CardanoAddressError {
    pub(super) fn unreadable(text: &str) -> Self {
        Self::Unreadable { text: shown(text) }
    }

    pub(super) fn malformed(text: &str) -> Self {
        Self::Malformed { text: shown(text) }
    }

    pub(super) fn prefix(prefix: String) -> Self {
        Self::Prefix { prefix }
    }

    pub(super) fn bech32(text: &str, source: CheckedHrpstringError) -> Self {
        match source {
            CheckedHrpstringError::Checksum(ChecksumError::InvalidResidue) => {
                Self::Checksum { text: shown(text) }
            }
            source => Self::Bech32 { text: shown(text), source },
        }
    }

    pub(super) fn wrong_network(text: &str, is_mainnet: bool, expected: Network) -> Self {
        let found = if is_mainnet { "cardano/mainnet" } else { "Cardano's test networks" };
        Self::WrongNetwork { text: shown(text), found, expected }
    }
}

fn kind_name(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::Key => "key",
        CredentialKind::Script => "script",
    }
}

/// As much of a text as a message should repeat.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
