//! Cardano's side of the rules: addresses, credentials, and what a change of era does to the set.
//!
//! Addresses are read leniently: before Babbage the ledger accepted bytes behind an address and
//! pointers that make no sense, so no address may ever stop a block. Records keep the bytes as they
//! are on chain; the index uses [`canonical_address`].

use std::borrow::Cow;

use minicbor::{Decoder, data::Tag};

/// Whether a credential is the hash of a key or of a script. Equal hashes of different kinds are
/// different credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CredentialKind {
    /// Hash of a verification key.
    Key,
    /// Hash of a script.
    Script,
}

/// Who may spend an output, or who earns its rewards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credential {
    /// What the hash is of.
    pub kind: CredentialKind,
    /// Blake2b-224 of the key or script.
    pub hash: [u8; 28],
}

impl Credential {
    /// The reward address of a stake credential.
    #[must_use]
    pub fn stake_address(&self, network_id: u8) -> [u8; 29] {
        let script_bit = match self.kind {
            CredentialKind::Key => 0,
            CredentialKind::Script => 0x10,
        };
        let mut address = [0xe0 | script_bit | (network_id & 0x0f); 29];
        address[1..].copy_from_slice(&self.hash);
        address
    }
}

/// The credentials inside an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Credentials {
    /// Who may spend; absent in Byron addresses.
    pub payment: Option<Credential>,
    /// Who earns rewards; only base addresses name one.
    pub stake: Option<Credential>,
}

const HASH_END: usize = 1 + 28;
const BASE_LEN: usize = HASH_END + 28;

/// The credentials inside an address; none in what is no Shelley address.
#[must_use]
pub fn credentials(address: &[u8]) -> Credentials {
    let Some(&header) = address.first() else { return Credentials::default() };
    let credential = |bit: u8, from: usize| {
        let hash = address.get(from..from + 28)?.try_into().ok()?;
        let is_script = header & bit != 0;
        let kind = if is_script { CredentialKind::Script } else { CredentialKind::Key };
        Some(Credential { kind, hash })
    };
    match header >> 4 {
        0..=3 => Credentials { payment: credential(0x10, 1), stake: credential(0x20, HASH_END) },
        4..=7 => Credentials { payment: credential(0x10, 1), stake: None },
        _ => Credentials::default(),
    }
}

/// The network an address is for, 1 on the main network; `None` for Byron addresses, which say it
/// elsewhere.
#[must_use]
pub fn address_network_id(address: &[u8]) -> Option<u8> {
    address.first().filter(|&&header| header >> 4 != 8).map(|header| header & 0x0f)
}

/// The form an address is indexed under, as the ledger sees it: bytes behind the address are cut
/// off, and a pointer with a field out of range points at (0, 0, 0). What is no address stays.
#[must_use]
pub fn canonical_address(address: &[u8]) -> Cow<'_, [u8]> {
    let Some(&header) = address.first() else { return Cow::Borrowed(address) };
    let cut = |len: usize| Cow::Borrowed(address.get(..len).unwrap_or(address));
    match header >> 4 {
        0..=3 => cut(BASE_LEN),
        4 | 5 => match pointer_end(address) {
            Some((end, true)) => cut(end),
            Some((_, false)) => {
                let mut fixed = address[..HASH_END].to_vec();
                fixed.extend_from_slice(&[0, 0, 0]);
                Cow::Owned(fixed)
            }
            None => Cow::Borrowed(address),
        },
        6 | 7 | 14 | 15 => cut(HASH_END),
        8 => {
            let mut d = Decoder::new(address);
            match d.skip() {
                Ok(()) => cut(d.position()),
                Err(_) => Cow::Borrowed(address),
            }
        }
        _ => Cow::Borrowed(address),
    }
}

/// Where the three numbers of a pointer end, and whether all are in range; `None` when they are
/// cut short.
fn pointer_end(address: &[u8]) -> Option<(usize, bool)> {
    let mut at = HASH_END;
    let mut is_in_range = true;
    for limit in [u128::from(u32::MAX), u128::from(u16::MAX), u128::from(u16::MAX)] {
        let mut number = 0u128;
        loop {
            let byte = *address.get(at)?;
            at += 1;
            number = number.saturating_mul(128).saturating_add(u128::from(byte & 0x7f));
            if byte & 0x80 == 0 {
                break;
            }
        }
        is_in_range &= number <= limit;
    }
    Some((at, is_in_range))
}

/// Whether a Byron address is a redeem address: one of the vouchers of the first sale.
#[must_use]
pub fn is_redeem_address(address: &[u8]) -> bool {
    const REDEEM: u64 = 2;
    let kind = || -> Result<u64, minicbor::decode::Error> {
        let mut outer = Decoder::new(address);
        outer.array()?;
        if outer.tag()? != Tag::new(24) {
            return Ok(0);
        }
        let mut inner = Decoder::new(outer.bytes()?);
        inner.array()?;
        inner.skip()?;
        inner.skip()?;
        inner.u64()
    };
    address.first().is_some_and(|header| header >> 4 == 8)
        && kind().is_ok_and(|kind| kind == REDEEM)
}

/// The number in front of a block that names its era.
pub mod era {
    /// Boundary block between two Byron epochs.
    pub const BYRON_BOUNDARY: u8 = 0;
    /// Byron.
    pub const BYRON: u8 = 1;
    /// Shelley.
    pub const SHELLEY: u8 = 2;
    /// Allegra.
    pub const ALLEGRA: u8 = 3;
    /// The last era this program knows: Conway.
    pub const LAST: u8 = 7;
}

/// What the ledger removes from the set, without a transaction, before the first block of an era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EraRemoval {
    /// Outputs of nothing: Shelley does not allow them.
    pub zero_values: bool,
    /// Vouchers that nobody redeemed in Byron: Allegra returns them to the reserves.
    pub redeem_addresses: bool,
}

impl EraRemoval {
    /// What is removed between a block of era `from` and its child of era `to`.
    #[must_use]
    pub const fn between(from: u8, to: u8) -> Option<Self> {
        let removal = Self {
            zero_values: from < era::SHELLEY && to >= era::SHELLEY,
            redeem_addresses: from < era::ALLEGRA && to >= era::ALLEGRA,
        };
        if removal.zero_values || removal.redeem_addresses { Some(removal) } else { None }
    }

    /// Whether an output goes. `is_from_byron` says whether it was unspent when Byron ended.
    #[must_use]
    pub fn takes(&self, value: u64, address: &[u8], is_from_byron: bool) -> bool {
        (self.zero_values && value == 0)
            || (self.redeem_addresses && is_from_byron && is_redeem_address(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(header: u8, tail: &[u8]) -> Vec<u8> {
        let mut address = vec![header];
        address.extend([0x11; 28]);
        address.extend_from_slice(tail);
        address
    }

    #[test]
    fn credentials_of_every_kind_of_address() {
        use CredentialKind::{Key, Script};
        let stake = [0x22; 28];
        for (header, payment, with_stake) in [
            (0x01, Key, Some(Key)),
            (0x10, Script, Some(Key)),
            (0x21, Key, Some(Script)),
            (0x31, Script, Some(Script)),
        ] {
            let found = credentials(&address(header, &stake));
            assert_eq!(found.payment, Some(Credential { kind: payment, hash: [0x11; 28] }));
            assert_eq!(found.stake, with_stake.map(|kind| Credential { kind, hash: stake }));
        }
        for (header, kind) in [(0x40, Key), (0x51, Script), (0x60, Key), (0x71, Script)] {
            let found = credentials(&address(header, &[1, 2, 3]));
            assert_eq!(found.payment, Some(Credential { kind, hash: [0x11; 28] }));
            assert_eq!(found.stake, None);
        }
        for bytes in [&[][..], &[0x01, 2, 3], &[0x82, 0xd8], &address(0xe1, &[])] {
            assert_eq!(credentials(bytes), Credentials::default());
        }
        let stake = Credential { kind: Script, hash: [7; 28] };
        assert_eq!(stake.stake_address(1)[..2], [0xf1, 7]);
    }

    #[test]
    fn malformed_addresses_are_cut_and_bad_pointers_point_nowhere() {
        let canonical = |address: &[u8]| canonical_address(address).into_owned();
        let base = address(0x01, &[0x22; 28]);
        let with_garbage = [base.as_slice(), &[9; 22]].concat();
        assert_eq!(canonical(&with_garbage), base);
        let enterprise = address(0x61, &[]);
        assert_eq!(canonical(&address(0x61, &[0x33; 5])), enterprise);
        let pointer = address(0x41, &[0x81, 0x01, 2, 3]);
        assert_eq!(canonical(&[pointer.as_slice(), &[4]].concat()), pointer);
        // 2^35 does not fit the slot of a pointer; 2^16 not its transaction index.
        let nowhere = address(0x41, &[0, 0, 0]);
        let slot = address(0x41, &[0x81, 0x80, 0x80, 0x80, 0x80, 0x00, 2, 3]);
        let index = address(0x41, &[1, 0x84, 0x80, 0x00, 3]);
        assert_eq!((canonical(&slot), canonical(&index)), (nowhere.clone(), nowhere));
        for odd in [&[][..], &[0x01], &address(0x41, &[0x81]), &[0x82, 0xd8], &[0x90, 1]] {
            assert_eq!(canonical(odd), odd, "what is no address stays");
        }
    }

    #[test]
    fn redeem_addresses_are_told_from_ordinary_ones() {
        let byron = |kind: u8| {
            let mut inner = vec![0x83, 0x58, 28];
            inner.extend([5; 28]);
            inner.extend([0xa0, kind]);
            let mut address = vec![0x82, 0xd8, 24, 0x58, u8::try_from(inner.len()).unwrap()];
            address.extend(inner);
            address.push(0);
            address
        };
        assert!(is_redeem_address(&byron(2)));
        assert!(!is_redeem_address(&byron(0)));
        assert!(!is_redeem_address(&byron(2)[..20]));
        assert!(!is_redeem_address(&address(0x61, &[])));
    }

    #[test]
    fn eras_drop_zero_values_at_shelley_and_vouchers_at_allegra() {
        assert_eq!(EraRemoval::between(era::BYRON, era::BYRON), None);
        assert_eq!(EraRemoval::between(era::ALLEGRA, 4), None);
        let shelley = EraRemoval::between(era::BYRON, era::SHELLEY).unwrap();
        assert!(shelley.zero_values && !shelley.redeem_addresses);
        let allegra = EraRemoval::between(era::SHELLEY, era::ALLEGRA).unwrap();
        assert!(!allegra.zero_values && allegra.redeem_addresses);
        let straight = EraRemoval::between(era::BYRON_BOUNDARY, 5).unwrap();
        assert!(straight.zero_values && straight.redeem_addresses);
        let ordinary = address(0x61, &[]);
        assert!(straight.takes(0, &ordinary, false) && !straight.takes(1, &ordinary, true));
    }
}
