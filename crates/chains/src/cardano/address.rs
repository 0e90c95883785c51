//! Texts people use for owners on Cardano: addresses, stake addresses, credentials.
//!
//! # Invariants
//!
//! * A text is either refused with the reason or names exactly one owner; nothing is guessed.
//! * An address with bytes behind it, as the chain has from before Babbage, names the same owner as
//!   the address alone: both are read in their canonical form.

mod byron;
mod error;

use ::bitcoin::{
    base58,
    bech32::{self, Bech32, Hrp, primitives::decode::CheckedHrpstring},
};
use utxokeep_core::{
    IndexKey, Network, OwnerKeys,
    cardano::{Credential, CredentialKind, canonical_address},
    hex_decode, hex_encode,
};

pub use error::CardanoAddressError;

/// Longest base58 text that is read or written. Reading costs the square of the length; addresses
/// of Byron had to fit its transactions of 4,096 bytes.
const BASE58_CHARS_MAX: usize = 8_192;
/// Bytes that surely fit [`BASE58_CHARS_MAX`].
const BASE58_BYTES_MAX: usize = BASE58_CHARS_MAX * 8 / 11;

const HASH_LEN: usize = 28;
const HASH_END: usize = 1 + HASH_LEN;
const BASE_LEN: usize = HASH_END + HASH_LEN;

/// Whom outputs are asked for by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// One address, in its canonical form.
    Address(Vec<u8>),
    /// Every address that this credential may spend from.
    Payment(Credential),
    /// Every address whose rewards go to this credential.
    Stake(Credential),
}

impl Owner {
    /// What the rows of this owner are indexed by, and what else says whose they are.
    #[must_use]
    pub fn keys(&self, network: Network) -> OwnerKeys {
        match self {
            Self::Address(address) => OwnerKeys::address(network, address),
            Self::Payment(credential) => IndexKey::payment(credential).into(),
            Self::Stake(credential) => IndexKey::stake(credential).into(),
        }
    }

    /// What the rows of this owner are indexed by.
    #[must_use]
    pub fn index_key(&self, network: Network) -> IndexKey {
        self.keys(network).key
    }
}

/// The owner a text names on `network`: an address (bech32, base58 of Byron, or its bytes in
/// hexadecimal), a stake address, or a credential.
pub fn parse_owner(text: &str, network: Network) -> Result<Owner, CardanoAddressError> {
    if let Some(owner) = parse_tagged_credential(text) {
        return owner;
    }
    if let Some(bytes) = hex_decode(text).filter(|bytes| !bytes.is_empty()) {
        if bytes.len() == HASH_LEN {
            return Err(CardanoAddressError::BareCredential { text: text.to_owned() });
        }
        return owner_of_address(&bytes, text, network);
    }
    if is_bech32_like(text) {
        let (prefix, bytes) = bech32_parts(text)?;
        if let Some(owner) = credential_of(&prefix, &bytes)? {
            return Ok(owner);
        }
        if bech32_prefix(&canonical_address(&bytes)) != Some(prefix.as_str()) {
            return Err(CardanoAddressError::prefix(prefix));
        }
        return owner_of_address(&bytes, text, network);
    }
    if text.len() > BASE58_CHARS_MAX {
        return Err(CardanoAddressError::TooLong { chars: text.len(), max: BASE58_CHARS_MAX });
    }
    // Only Byron writes its addresses in base58.
    match base58::decode(text) {
        Ok(bytes) if bytes.first().is_some_and(|header| header >> 4 == 8) => {
            owner_of_address(&bytes, text, network)
        }
        _ => Err(CardanoAddressError::unreadable(text)),
    }
}

/// The credential a text names: in bech32, as `key:` or `script:` and its hash in hexadecimal, or
/// as the bare hash where `kind` says what it is of. A bare hash is a payment credential.
pub fn parse_credential(
    text: &str,
    kind: Option<CredentialKind>,
) -> Result<Owner, CardanoAddressError> {
    let owner = if let Some(owner) = parse_tagged_credential(text) {
        owner?
    } else if let Some(bytes) = hex_decode(text).filter(|bytes| !bytes.is_empty()) {
        let hash = hash_of(&bytes)?;
        let bare = || CardanoAddressError::BareCredential { text: text.to_owned() };
        Owner::Payment(Credential { kind: kind.ok_or_else(bare)?, hash })
    } else if is_bech32_like(text) {
        let (prefix, bytes) = bech32_parts(text)?;
        credential_of(&prefix, &bytes)?.ok_or_else(|| CardanoAddressError::prefix(prefix))?
    } else {
        return Err(CardanoAddressError::unreadable(text));
    };
    match (&owner, kind) {
        (Owner::Payment(found) | Owner::Stake(found), Some(kind)) if found.kind != kind => {
            Err(CardanoAddressError::KindConflict { text: text.to_owned(), found: found.kind })
        }
        _ => Ok(owner),
    }
}

/// The text of an address, of its canonical form: bech32, or base58 for Byron. What is no address
/// is written in hexadecimal.
#[must_use]
pub fn address_text(address: &[u8]) -> String {
    let canonical = canonical_address(address);
    let text = match form_of(&canonical) {
        Some(Form::Byron { .. }) => {
            (canonical.len() <= BASE58_BYTES_MAX).then(|| base58::encode(&canonical))
        }
        Some(Form::Shelley | Form::Stake) => {
            bech32_prefix(&canonical).and_then(|prefix| bech32_text(prefix, &canonical))
        }
        None => None,
    };
    text.unwrap_or_else(|| hex_encode(&canonical))
}

/// The text of a stake address: `stake1…` on the main network, `stake_test1…` elsewhere.
#[must_use]
pub fn stake_address_text(address: &[u8; 29]) -> String {
    address_text(address)
}

/// Bech32 of bytes; `None` when they are too many for its check sum.
pub(super) fn bech32_text(prefix: &str, bytes: &[u8]) -> Option<String> {
    bech32::encode_lower::<Bech32>(Hrp::parse(prefix).ok()?, bytes).ok()
}

/// What well-formed address bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Shelley,
    Stake,
    Byron { is_for_mainnet: bool },
}

/// What a canonical address is; `None` when it is no address.
fn form_of(canonical: &[u8]) -> Option<Form> {
    let header = *canonical.first()?;
    let kind = header >> 4;
    if kind == 8 {
        return byron::is_for_mainnet(canonical)
            .map(|is_for_mainnet| Form::Byron { is_for_mainnet });
    }
    let is_whole = match kind {
        0..=3 => canonical.len() == BASE_LEN,
        // Three numbers, each ending in a byte without the top bit.
        4 | 5 => canonical.iter().skip(HASH_END).filter(|&byte| byte & 0x80 == 0).count() == 3,
        6 | 7 | 14 | 15 => canonical.len() == HASH_END,
        _ => false,
    };
    let form = if kind >= 14 { Form::Stake } else { Form::Shelley };
    (is_whole && header & 0x0f <= 1).then_some(form)
}

/// The bech32 prefix that fits the header of an address of Shelley.
fn bech32_prefix(canonical: &[u8]) -> Option<&'static str> {
    let header = *canonical.first()?;
    match (header >> 4, header & 0x0f) {
        (0..=7, 1) => Some("addr"),
        (0..=7, 0) => Some("addr_test"),
        (14 | 15, 1) => Some("stake"),
        (14 | 15, 0) => Some("stake_test"),
        _ => None,
    }
}

fn owner_of_address(
    bytes: &[u8],
    text: &str,
    network: Network,
) -> Result<Owner, CardanoAddressError> {
    let canonical = canonical_address(bytes);
    let form = form_of(&canonical).ok_or_else(|| CardanoAddressError::malformed(text))?;
    let is_mainnet = match form {
        // NOTE: any magic will do on a test network. The ledger does not compare it, and the
        // preview chain has outputs at addresses that were made for other test networks.
        Form::Byron { is_for_mainnet } => is_for_mainnet,
        Form::Shelley | Form::Stake => canonical[0] & 0x0f == 1,
    };
    if is_mainnet != (network == Network::CardanoMainnet) {
        return Err(CardanoAddressError::wrong_network(text, is_mainnet, network));
    }
    match form {
        Form::Stake => {
            let kind =
                if canonical[0] >> 4 == 15 { CredentialKind::Script } else { CredentialKind::Key };
            Ok(Owner::Stake(Credential { kind, hash: hash_of(&canonical[1..])? }))
        }
        Form::Shelley | Form::Byron { .. } => Ok(Owner::Address(canonical.into_owned())),
    }
}

/// `key:HEX` and `script:HEX`; `None` when the text is of another form.
fn parse_tagged_credential(text: &str) -> Option<Result<Owner, CardanoAddressError>> {
    let (kind, hash) = text.split_once(':')?;
    let kind = match kind {
        "key" => CredentialKind::Key,
        "script" => CredentialKind::Script,
        _ => return None,
    };
    let bytes = hex_decode(hash).ok_or_else(|| CardanoAddressError::unreadable(text));
    let hash = bytes.and_then(|bytes| hash_of(&bytes));
    Some(hash.map(|hash| Owner::Payment(Credential { kind, hash })))
}

/// The credential of a bech32 text with this prefix; `None` when the prefix is of no credential.
fn credential_of(prefix: &str, bytes: &[u8]) -> Result<Option<Owner>, CardanoAddressError> {
    let (owner, kind): (fn(Credential) -> Owner, _) = match prefix {
        "addr_vkh" | "addr_shared_vkh" => (Owner::Payment, CredentialKind::Key),
        "script" => (Owner::Payment, CredentialKind::Script),
        "stake_vkh" | "stake_shared_vkh" => (Owner::Stake, CredentialKind::Key),
        _ => return Ok(None),
    };
    Ok(Some(owner(Credential { kind, hash: hash_of(bytes)? })))
}

fn hash_of(bytes: &[u8]) -> Result<[u8; HASH_LEN], CardanoAddressError> {
    bytes.try_into().map_err(|_| CardanoAddressError::HashLength { len: bytes.len() })
}

/// Whether a text can only be meant as bech32: letters of one case, then the separator. No base58
/// address starts that way.
fn is_bech32_like(text: &str) -> bool {
    text.rsplit_once('1').is_some_and(|(prefix, _)| {
        let is_all = |case: fn(&u8) -> bool| prefix.bytes().all(|byte| case(&byte) || byte == b'_');
        !prefix.is_empty() && (is_all(u8::is_ascii_lowercase) || is_all(u8::is_ascii_uppercase))
    })
}

/// Prefix and bytes of a bech32 text, with its check sum verified.
fn bech32_parts(text: &str) -> Result<(String, Vec<u8>), CardanoAddressError> {
    let parsed = CheckedHrpstring::new::<Bech32>(text)
        .map_err(|source| CardanoAddressError::bech32(text, source))?;
    let prefix = parsed.hrp().to_lowercase();
    let bytes: Vec<u8> = parsed.byte_iter().collect();
    // Bits that are left over must be zero, or several texts would stand for the same bytes.
    if bech32_text(&prefix, &bytes) != Some(text.to_ascii_lowercase()) {
        return Err(CardanoAddressError::malformed(text));
    }
    Ok((prefix, bytes))
}
