//! The few CBOR steps that blocks of all eras are read with.
//!
//! # Invariants
//!
//! * Nothing is reserved for a count that the bytes only promise.
//! * Nothing recurses: what is not needed is skipped with a counter, however deep it nests.

use minicbor::{
    Decoder,
    data::{Tag, Type},
    decode::Error,
};

const SET: Tag = Tag::new(258);
const EMBEDDED: Tag = Tag::new(24);

/// Reads one item and answers its bytes.
pub(super) fn raw_item<'b>(d: &mut Decoder<'b>) -> Result<&'b [u8], Error> {
    let start = d.position();
    d.skip()?;
    Ok(&d.input()[start..d.position()])
}

/// Reads an array, with its length in front or with a break at its end; answers how many items it
/// has.
pub(super) fn each<'b>(
    d: &mut Decoder<'b>,
    mut item: impl FnMut(&mut Decoder<'b>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let len = d.array()?;
    items(d, len, &mut item)
}

/// Reads a set: an array that may carry a tag.
pub(super) fn each_of_set<'b>(
    d: &mut Decoder<'b>,
    item: impl FnMut(&mut Decoder<'b>) -> Result<(), Error>,
) -> Result<u64, Error> {
    if d.datatype()? == Type::Tag && d.tag()? != SET {
        return Err(Error::message("expected a set").at(d.position()));
    }
    each(d, item)
}

/// Reads a map; `entry` reads key and value.
pub(super) fn each_entry<'b>(
    d: &mut Decoder<'b>,
    mut entry: impl FnMut(&mut Decoder<'b>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let len = d.map()?;
    items(d, len, &mut entry)
}

fn items<'b>(
    d: &mut Decoder<'b>,
    len: Option<u64>,
    item: &mut impl FnMut(&mut Decoder<'b>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut count = 0;
    loop {
        match len {
            Some(len) if count == len => return Ok(count),
            None if ends(d)? => return Ok(count),
            _ => item(d)?,
        }
        count += 1;
    }
}

/// Whether an array or map without length ends here; steps over its end.
fn ends(d: &mut Decoder<'_>) -> Result<bool, Error> {
    let is_break = d.datatype()? == Type::Break;
    if is_break {
        d.set_position(d.position() + 1);
    }
    Ok(is_break)
}

/// Starts an array of a known number of items; [`Record::finish`] reads its end.
pub(super) fn record(d: &mut Decoder<'_>, fields: u64) -> Result<Record, Error> {
    let start = d.position();
    match d.array()? {
        Some(len) if len == fields => Ok(Record { is_open: false }),
        Some(len) => Err(Error::message(format!("expected {fields} items, found {len}")).at(start)),
        None => Ok(Record { is_open: true }),
    }
}

/// An array of a known number of items that is being read.
#[must_use]
pub(super) struct Record {
    is_open: bool,
}

impl Record {
    /// Reads the break at the end of an array without length.
    pub(super) fn finish(self, d: &mut Decoder<'_>) -> Result<(), Error> {
        if self.is_open && !ends(d)? {
            return Err(Error::message("too many items").at(d.position()));
        }
        Ok(())
    }
}

/// Reads a byte string of a known length.
pub(super) fn fixed<'b, const N: usize>(d: &mut Decoder<'b>) -> Result<&'b [u8; N], Error> {
    let start = d.position();
    let bytes = d.bytes()?;
    bytes
        .try_into()
        .map_err(|_| Error::message(format!("expected {N} bytes, found {}", bytes.len())).at(start))
}

/// Reads CBOR that is embedded as a tagged byte string; answers what is inside.
pub(super) fn embedded<'b>(d: &mut Decoder<'b>) -> Result<&'b [u8], Error> {
    let start = d.position();
    if d.tag()? != EMBEDDED {
        return Err(Error::message("expected embedded CBOR").at(start));
    }
    d.bytes()
}

/// Fails unless all bytes were read.
pub(super) fn at_end(d: &Decoder<'_>) -> Result<(), Error> {
    match d.input().len() - d.position() {
        0 => Ok(()),
        extra => Err(Error::message(format!("{extra} bytes too many")).at(d.position())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bytes: &[u8]) -> Result<Vec<u64>, Error> {
        let mut d = Decoder::new(bytes);
        let mut found = Vec::new();
        let count = each_of_set(&mut d, |d| {
            found.push(d.u64()?);
            Ok(())
        })?;
        assert_eq!(count, found.len() as u64);
        at_end(&d)?;
        Ok(found)
    }

    #[test]
    fn arrays_are_read_in_every_form_a_set_has() {
        for form in [
            &[0x82, 1, 2][..],
            &[0x9f, 1, 2, 0xff],
            &[0xd9, 1, 2, 0x82, 1, 2],
            &[0xd9, 1, 2, 0x9f, 1, 2, 0xff],
        ] {
            assert_eq!(numbers(form).unwrap(), [1, 2]);
            for cut in 0..form.len() {
                assert!(numbers(&form[..cut]).is_err(), "{form:?} cut at {cut}");
            }
        }
        assert!(numbers(&[0xd9, 1, 3, 0x80]).is_err(), "another tag");
        assert!(numbers(&[0x81, 1, 2]).is_err(), "bytes are left");
        let endless = [0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert!(numbers(&endless).unwrap_err().is_end_of_input());
    }

    #[test]
    fn records_have_exactly_their_items() {
        let read = |bytes: &[u8]| {
            let mut d = Decoder::new(bytes);
            let record = record(&mut d, 2)?;
            let pair = (d.u8()?, d.u8()?);
            record.finish(&mut d)?;
            at_end(&d)?;
            Ok::<_, Error>(pair)
        };
        assert_eq!(read(&[0x82, 1, 2]).unwrap(), (1, 2));
        assert_eq!(read(&[0x9f, 1, 2, 0xff]).unwrap(), (1, 2));
        for wrong in [&[0x81, 1][..], &[0x83, 1, 2, 3], &[0x9f, 1, 2, 3, 0xff], &[0x9f, 1, 0xff]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
