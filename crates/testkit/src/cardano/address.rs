//! Addresses of every kind.

use super::cbor::{array, bytes, embedded, map, uint};

/// Who may spend, or who owns the stake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// The holder of the key with this hash.
    Key([u8; 28]),
    /// Whoever satisfies the script with this hash.
    Script([u8; 28]),
}

impl Credential {
    /// The hash alone.
    pub fn hash(&self) -> &[u8; 28] {
        match self {
            Self::Key(hash) | Self::Script(hash) => hash,
        }
    }

    /// The bit that tells scripts from keys, at its place in the first byte.
    fn flag(self, bit: u8) -> u8 {
        u8::from(matches!(self, Self::Script(_))) << bit
    }
}

/// Payment and stake credential. `network` is 1 for mainnet, 0 for test networks.
pub fn base(network: u8, payment: Credential, stake: Credential) -> Vec<u8> {
    let first = payment.flag(4) | stake.flag(5) | network;
    [&[first], payment.hash().as_slice(), stake.hash()].concat()
}

/// Payment credential, and the place of a stake registration: slot, transaction, certificate.
pub fn pointer(network: u8, payment: Credential, place: [u64; 3]) -> Vec<u8> {
    let mut address = vec![0x40 | payment.flag(4) | network];
    address.extend(payment.hash());
    for number in place {
        let septets = (u64::BITS - number.leading_zeros()).div_ceil(7).max(1);
        for septet in (0..septets).rev() {
            let bits = (number >> (7 * septet)).to_le_bytes()[0] & 0x7f;
            address.push(bits | u8::from(septet > 0) << 7);
        }
    }
    address
}

/// Payment credential only.
pub fn enterprise(network: u8, payment: Credential) -> Vec<u8> {
    [&[0x60 | payment.flag(4) | network], payment.hash().as_slice()].concat()
}

/// Stake credential only: never in an output, but in questions.
pub fn stake(network: u8, stake: Credential) -> Vec<u8> {
    [&[0xe0 | stake.flag(4) | network], stake.hash().as_slice()].concat()
}

/// How a Byron address is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByronKind {
    /// With an ordinary key.
    Key,
    /// With a redemption key of the pre-sale.
    Redeem,
}

/// A Byron address with the right checksum. `root` stands for the hash of its secrets; test networks
/// name their magic, mainnet names none.
pub fn byron(kind: ByronKind, root: [u8; 28], magic: Option<u32>) -> Vec<u8> {
    let magic: Vec<_> =
        magic.iter().map(|&magic| [uint(2), bytes(&uint(magic.into()))].concat()).collect();
    let kind = match kind {
        ByronKind::Key => 0,
        ByronKind::Redeem => 2,
    };
    let payload = array(&[bytes(&root), map(&magic), uint(kind)]);
    array(&[embedded(&payload), uint(crc32(&payload).into())])
}

/// The address with bytes behind its end, as some old outputs have them.
pub fn with_trailing_bytes(address: &[u8], extra: &[u8]) -> Vec<u8> {
    [address, extra].concat()
}

pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}
