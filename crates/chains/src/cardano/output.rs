//! Outputs from Shelley on: address, lovelace, assets, datum and script.
//!
//! # Invariants
//!
//! * Addresses, datums and scripts keep the bytes they have on chain. No address stops a block.
//! * Assets come out as the ledger keeps them: sorted, without quantities of zero, and with the
//!   last of entries that are written twice.

use std::ops::Range;

use minicbor::{Decoder, data::Type, decode::Error};
use utxokeep_core::{Asset, Datum};

use super::{
    cbor::{at_end, each, each_entry, embedded, fixed, raw_item, record},
    hash::blake2b_224,
};

/// Longest name an asset can have.
const NAME_BYTES_MAX: usize = 32;

/// An output as it is on chain.
#[derive(Debug, Default)]
pub(super) struct RawOutput<'b> {
    pub(super) address: &'b [u8],
    pub(super) value: u64,
    pub(super) assets: Vec<Asset<'b>>,
    pub(super) datum: Datum<'b>,
    /// CBOR of language and script, and the hash of the script.
    pub(super) script: Option<(&'b [u8], [u8; 28])>,
}

/// Reads an output in either of its forms.
pub(super) fn read_output<'b>(d: &mut Decoder<'b>) -> Result<RawOutput<'b>, Error> {
    match d.datatype()? {
        Type::Map | Type::MapIndef => read_map(d),
        _ => read_array(d),
    }
}

fn read_array<'b>(d: &mut Decoder<'b>) -> Result<RawOutput<'b>, Error> {
    let start = d.position();
    let mut output = RawOutput::default();
    let mut field = 0;
    let fields = each(d, |d| {
        match field {
            0 => output.address = d.bytes()?,
            1 => (output.value, output.assets) = read_value(d)?,
            2 => output.datum = Datum::Hash(fixed(d)?),
            _ => return Err(Error::message("output with too many items").at(d.position())),
        }
        field += 1;
        Ok(())
    })?;
    if fields < 2 {
        return Err(Error::message("output without address or value").at(start));
    }
    Ok(output)
}

fn read_map<'b>(d: &mut Decoder<'b>) -> Result<RawOutput<'b>, Error> {
    let start = d.position();
    let mut output = RawOutput::default();
    let mut seen = [false; 4];
    each_entry(d, |d| {
        let key_at = d.position();
        let key = d.u64()?;
        let is_seen = usize::try_from(key).ok().and_then(|key| seen.get_mut(key));
        match is_seen {
            Some(is_seen) if !*is_seen => *is_seen = true,
            _ => return Err(Error::message(format!("output with odd field {key}")).at(key_at)),
        }
        match key {
            0 => output.address = d.bytes()?,
            1 => (output.value, output.assets) = read_value(d)?,
            2 => output.datum = read_datum(d)?,
            _ => output.script = Some(read_script(d)?),
        }
        Ok(())
    })?;
    if !(seen[0] && seen[1]) {
        return Err(Error::message("output without address or value").at(start));
    }
    Ok(output)
}

/// Reads lovelace alone, or lovelace and assets.
fn read_value<'b>(d: &mut Decoder<'b>) -> Result<(u64, Vec<Asset<'b>>), Error> {
    if !matches!(d.datatype()?, Type::Array | Type::ArrayIndef) {
        return Ok((d.u64()?, Vec::new()));
    }
    let value = record(d, 2)?;
    let lovelace = d.u64()?;
    let mut assets = Assets::default();
    each_entry(d, |d| {
        let policy = fixed(d)?;
        let start = assets.entries.len();
        each_entry(d, |d| {
            let name_at = d.position();
            let name = d.bytes()?;
            if name.len() > NAME_BYTES_MAX {
                return Err(Error::message("asset name of more than 32 bytes").at(name_at));
            }
            assets.entries.push(Asset { policy, name, quantity: d.u64()? });
            Ok(())
        })?;
        assets.mentions.push((policy, start..assets.entries.len()));
        Ok(())
    })?;
    value.finish(d)?;
    Ok((lovelace, assets.settle()))
}

fn read_datum<'b>(d: &mut Decoder<'b>) -> Result<Datum<'b>, Error> {
    let option = record(d, 2)?;
    let kind_at = d.position();
    let datum = match d.u64()? {
        0 => Datum::Hash(fixed(d)?),
        1 => Datum::Inline(embedded(d)?),
        kind => return Err(Error::message(format!("datum of unknown kind {kind}")).at(kind_at)),
    };
    option.finish(d)?;
    Ok(datum)
}

fn read_script<'b>(d: &mut Decoder<'b>) -> Result<(&'b [u8], [u8; 28]), Error> {
    let bytes = embedded(d)?;
    let end = d.position();
    let mut d = Decoder::new(bytes);
    let mut hash = || {
        let script = record(&mut d, 2)?;
        let language = d.u8()?;
        let content = match language {
            0 => raw_item(&mut d)?,
            1..=3 => d.bytes()?,
            _ => return Err(Error::message(format!("script of unknown language {language}"))),
        };
        script.finish(&mut d)?;
        at_end(&d)?;
        Ok(blake2b_224(&[&[language], content]))
    };
    // The end of the inner bytes is not the end of the block.
    let hash = hash().map_err(|error| Error::message(format!("script: {error}")).at(end))?;
    Ok((bytes, hash))
}

/// The assets of one output, in the order they are written.
#[derive(Default)]
struct Assets<'b> {
    entries: Vec<Asset<'b>>,
    /// Every mention of a policy, and where its entries are.
    mentions: Vec<(&'b [u8; 28], Range<usize>)>,
}

impl<'b> Assets<'b> {
    /// Brings the entries into the ledger's form.
    fn settle(self) -> Vec<Asset<'b>> {
        let mut assets = if self.is_sorted() { self.entries } else { self.sorted() };
        assets.retain(|asset| asset.quantity != 0);
        assets
    }

    fn is_sorted(&self) -> bool {
        let is_rising =
            |names: &Range<usize>| self.entries[names.clone()].is_sorted_by(|a, b| a.name < b.name);
        self.mentions.is_sorted_by(|a, b| a.0 < b.0)
            && self.mentions.iter().all(|(_, names)| is_rising(names))
    }

    /// Sorts, and drops what a later entry of the same key replaces. As in any map, the later one
    /// wins: for a policy with all its names, and for a name.
    fn sorted(mut self) -> Vec<Asset<'b>> {
        self.mentions.sort_by_key(|(policy, _)| *policy);
        let mut assets: Vec<Asset<'b>> = Vec::new();
        for same_policy in self.mentions.chunk_by(|a, b| a.0 == b.0) {
            let Some((_, names)) = same_policy.last() else { continue };
            let names = &mut self.entries[names.clone()];
            names.sort_by_key(|asset| asset.name);
            for same_name in names.chunk_by(|a, b| a.name == b.name) {
                assets.extend(same_name.last());
            }
        }
        assets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: [u8; 28] = [1; 28];
    const HIGH: [u8; 28] = [2; 28];

    type Names<'a> = &'a [(&'static [u8], u64)];

    fn settled(policies: &[(&'static [u8; 28], Names<'_>)]) -> Vec<Asset<'static>> {
        let mut assets = Assets::default();
        for (policy, names) in policies {
            let start = assets.entries.len();
            let entries = names.iter().map(|&(name, quantity)| Asset { policy, name, quantity });
            assets.entries.extend(entries);
            assets.mentions.push((policy, start..assets.entries.len()));
        }
        assets.settle()
    }

    #[test]
    fn assets_are_sorted_and_without_zeros() {
        let found = settled(&[(&HIGH, &[(b"b", 1), (b"", 2), (b"zero", 0)]), (&LOW, &[(b"z", 3)])]);
        let expected = [
            Asset { policy: &LOW, name: b"z", quantity: 3 },
            Asset { policy: &HIGH, name: b"", quantity: 2 },
            Asset { policy: &HIGH, name: b"b", quantity: 1 },
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_later_of_two_equal_keys_wins() {
        let names = settled(&[(&LOW, &[(b"a", 1), (b"b", 2), (b"a", 3)])]);
        let quantities: Vec<_> = names.iter().map(|asset| (asset.name, asset.quantity)).collect();
        assert_eq!(quantities, [(&b"a"[..], 3), (b"b", 2)]);
        let policies = settled(&[(&LOW, &[(b"a", 1)]), (&HIGH, &[]), (&LOW, &[(b"b", 2)])]);
        assert_eq!(policies, [Asset { policy: &LOW, name: b"b", quantity: 2 }]);
        let to_nothing = settled(&[(&LOW, &[(b"a", 1)]), (&LOW, &[])]);
        assert_eq!(to_nothing, []);
        let to_zero = settled(&[(&LOW, &[(b"a", 1)]), (&LOW, &[(b"a", 0)])]);
        assert_eq!(to_zero, []);
    }

    #[test]
    fn both_forms_of_an_output_and_their_damages() {
        let array = [0x83, 0x41, 9, 5, 0x58, 32];
        let array = [&array[..], &[7; 32]].concat();
        let output = read_output(&mut Decoder::new(&array)).unwrap();
        assert_eq!((output.address, output.value), (&[9][..], 5));
        assert_eq!(output.datum, Datum::Hash(&[7; 32]));

        // A datum of 42 and a native script, fields from back to front.
        let script = [3, 0xd8, 24, 0x44, 0x82, 0, 0x81, 6];
        let map = [&[0xa4][..], &script, &[2, 0x82, 1, 0xd8, 24, 0x42, 0x18, 42, 1, 5, 0, 0x40]];
        let map = map.concat();
        let output = read_output(&mut Decoder::new(&map)).unwrap();
        assert_eq!((output.address, output.value), (&[][..], 5));
        assert_eq!(output.datum, Datum::Inline(&[0x18, 42]));
        let hash = blake2b_224(&[&[0, 0x81, 6]]);
        assert_eq!(output.script, Some((&[0x82, 0, 0x81, 6][..], hash)));

        for whole in [&array, &map] {
            for cut in 0..whole.len() {
                assert!(read_output(&mut Decoder::new(&whole[..cut])).is_err());
            }
        }
        for wrong in [
            &[0x81, 0x40][..],
            &[0xa1, 0, 0x40],
            &[0xa2, 0, 0x40, 0, 0x40],
            &[0xa3, 0, 0x40, 1, 5, 4, 0],
            &[0xa3, 0, 0x40, 1, 5, 2, 0x82, 2, 0],
            &[0xa3, 0, 0x40, 1, 5, 3, 0xd8, 24, 0x43, 0x82, 4, 0x40],
            &[0x84, 0x40, 5, 0, 0],
            &[0x82, 0x40, 0x20],
        ] {
            assert!(read_output(&mut Decoder::new(wrong)).is_err(), "{wrong:02x?}");
        }
    }
}
