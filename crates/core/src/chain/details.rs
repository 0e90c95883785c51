//! What an output carries besides its address and amount: assets, datum, script.
//!
//! These are fields 2 to 7 of a record. They are encoded once, where a block is decoded, and
//! copied as bytes from there on; whoever needs to look inside parses them.

use minicbor::{Decoder, Encoder};

use super::record::{Corrupt, INFALLIBLE, array_len};

const WHAT: &str = "output details";

const ASSETS: u32 = 2;
const DATUM_HASH: u32 = 3;
const INLINE_DATUM: u32 = 4;
const SCRIPT_REF: u32 = 5;
const SCRIPT_HASH: u32 = 6;
const COLLATERAL_RETURN: u32 = 7;

/// Numbers of the fields that are details.
pub(crate) const FIELDS: std::ops::RangeInclusive<u32> = ASSETS..=COLLATERAL_RETURN;

/// A quantity of a native asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asset<'a> {
    /// Hash of the policy that governs it.
    pub policy: &'a [u8; 28],
    /// Name within the policy; any bytes, at most 32.
    pub name: &'a [u8],
    /// How many; never zero in a record.
    pub quantity: u64,
}

/// Which assets to look for: all of a policy, or one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssetFilter {
    /// Hash of the policy.
    pub policy: [u8; 28],
    /// Name within the policy; `None` for all.
    pub name: Option<Vec<u8>>,
}

impl AssetFilter {
    /// Whether an asset is one of those.
    #[must_use]
    pub fn matches(&self, asset: &Asset<'_>) -> bool {
        *asset.policy == self.policy && self.name.as_ref().is_none_or(|name| asset.name == name)
    }
}

/// What is attached to an output for scripts to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Datum<'a> {
    /// No datum is attached.
    #[default]
    None,
    /// The hash of it.
    Hash(&'a [u8; 32]),
    /// The thing itself, in its original bytes.
    Inline(&'a [u8]),
}

/// A script that other transactions may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptRef<'a> {
    /// CBOR of language and script, in its original bytes.
    pub bytes: &'a [u8],
    /// Hash of the script.
    pub hash: &'a [u8; 28],
}

/// Fields 2 to 7 of a record, as bytes; empty on chains that have none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Details<'a> {
    /// Pairs of field number and value, in ascending order.
    pub bytes: &'a [u8],
    /// How many pairs.
    pub fields: u8,
}

/// Details taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed<'a> {
    /// In order of policy and name.
    pub assets: Vec<Asset<'a>>,
    /// What is attached.
    pub datum: Datum<'a>,
    /// The script, if there is one.
    pub script: Option<ScriptRef<'a>>,
    /// The output gives back what a failed transaction had put up as collateral.
    pub is_collateral_return: bool,
}

impl Parsed<'_> {
    /// Appends the fields that are present; answers how many. Assets must be sorted, without
    /// zero quantities.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> u8 {
        let mut e = Encoder::new(out);
        let mut fields = 0;
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            if !self.assets.is_empty() {
                fields += 1;
                e.u32(ASSETS)?.array(self.assets.len() as u64)?;
                for asset in &self.assets {
                    e.array(3)?.bytes(asset.policy)?.bytes(asset.name)?.u64(asset.quantity)?;
                }
            }
            match self.datum {
                Datum::None => {}
                Datum::Hash(hash) => {
                    fields += 1;
                    e.u32(DATUM_HASH)?.bytes(hash)?;
                }
                Datum::Inline(bytes) => {
                    fields += 1;
                    e.u32(INLINE_DATUM)?.bytes(bytes)?;
                }
            }
            if let Some(script) = &self.script {
                fields += 2;
                e.u32(SCRIPT_REF)?.bytes(script.bytes)?;
                e.u32(SCRIPT_HASH)?.bytes(script.hash)?;
            }
            if self.is_collateral_return {
                fields += 1;
                e.u32(COLLATERAL_RETURN)?.bool(true)?;
            }
            Ok(())
        };
        write().expect(INFALLIBLE);
        fields
    }
}

impl<'a> Details<'a> {
    /// Whether any native asset is inside; costs nothing.
    #[must_use]
    pub fn has_assets(&self) -> bool {
        self.bytes.first().is_some_and(|&field| u32::from(field) == ASSETS)
    }

    /// Takes the bytes apart.
    pub fn parse(&self) -> Result<Parsed<'a>, Corrupt> {
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(WHAT, error);
        let wrong = |field: u32| Corrupt::new(WHAT, format!("field {field} is malformed"));
        let mut d = Decoder::new(self.bytes);
        let mut parsed = Parsed::default();
        let (mut script, mut script_hash) = (None, None);
        for _ in 0..self.fields {
            match d.u32().map_err(corrupt)? {
                ASSETS => parsed.assets = decode_assets(&mut d)?,
                DATUM_HASH => {
                    let hash = d.bytes().map_err(corrupt)?;
                    parsed.datum = Datum::Hash(hash.try_into().map_err(|_| wrong(DATUM_HASH))?);
                }
                INLINE_DATUM => parsed.datum = Datum::Inline(d.bytes().map_err(corrupt)?),
                SCRIPT_REF => script = Some(d.bytes().map_err(corrupt)?),
                SCRIPT_HASH => {
                    let hash = d.bytes().map_err(corrupt)?;
                    script_hash = Some(hash.try_into().map_err(|_| wrong(SCRIPT_HASH))?);
                }
                COLLATERAL_RETURN => parsed.is_collateral_return = d.bool().map_err(corrupt)?,
                other => return Err(Corrupt::new(WHAT, format!("unknown field {other}"))),
            }
        }
        parsed.script = match (script, script_hash) {
            (Some(bytes), Some(hash)) => Some(ScriptRef { bytes, hash }),
            (None, None) => None,
            _ => return Err(wrong(SCRIPT_HASH)),
        };
        Ok(parsed)
    }
}

fn decode_assets<'a>(d: &mut Decoder<'a>) -> Result<Vec<Asset<'a>>, Corrupt> {
    let corrupt = |error: minicbor::decode::Error| Corrupt::new(WHAT, error);
    let mut assets = Vec::new();
    for _ in 0..array_len(d, WHAT)? {
        if array_len(d, WHAT)? != 3 {
            return Err(Corrupt::new(WHAT, "an asset is not a triple"));
        }
        let policy = d.bytes().map_err(corrupt)?.try_into();
        let policy = policy.map_err(|_| Corrupt::new(WHAT, "a policy is not 28 bytes long"))?;
        let name = d.bytes().map_err(corrupt)?;
        assets.push(Asset { policy, name, quantity: d.u64().map_err(corrupt)? });
    }
    Ok(assets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_bytes_are_pinned_and_round_trip() {
        let full = Parsed {
            assets: vec![
                Asset { policy: &[1; 28], name: b"", quantity: 5 },
                Asset { policy: &[1; 28], name: b"ab", quantity: u64::MAX },
            ],
            datum: Datum::Inline(&[0x18, 0x2a]),
            script: Some(ScriptRef { bytes: &[0x82, 0, 0], hash: &[3; 28] }),
            is_collateral_return: true,
        };
        let mut bytes = Vec::new();
        let fields = full.encode_into(&mut bytes);
        let policy = format!("581c{}", "01".repeat(28));
        let expected = format!(
            "028283{policy}400583{policy}4261621bffffffffffffffff0442182a054382000006581c{}07f5",
            "03".repeat(28)
        );
        assert_eq!(crate::hex_encode(&bytes), expected);
        let details = Details { bytes: &bytes, fields };
        assert!(details.has_assets());
        assert_eq!((fields, details.parse().unwrap()), (5, full));
        for cut in 0..bytes.len() {
            assert!(Details { bytes: &bytes[..cut], fields }.parse().is_err());
        }

        let hash = Parsed { datum: Datum::Hash(&[9; 32]), ..Parsed::default() };
        let mut bytes = Vec::new();
        let fields = hash.encode_into(&mut bytes);
        assert_eq!(bytes[..3], [3, 0x58, 32]);
        let details = Details { bytes: &bytes, fields };
        assert!(!details.has_assets());
        assert_eq!(details.parse(), Ok(hash));
        assert_eq!(Details::default().parse(), Ok(Parsed::default()));
    }
}
