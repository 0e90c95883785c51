//! A cursor over the bytes of a block that answers with errors instead of panics.
//!
//! # Invariants
//!
//! * The offset never passes the end of the bytes.
//! * A count is only returned when the bytes left can hold that many items, so callers may reserve
//!   memory for it.

use super::DecodeError;

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset: offset.min(bytes.len()) }
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// The bytes between two offsets already passed.
    pub(super) fn between(&self, start: usize, end: usize) -> &'a [u8] {
        &self.bytes[start..end]
    }

    pub(super) fn skip(&mut self, len: usize) -> Result<(), DecodeError> {
        if len > self.remaining() {
            return Err(DecodeError::Truncated { offset: self.offset });
        }
        self.offset += len;
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let array = self.bytes[self.offset..]
            .first_chunk()
            .ok_or(DecodeError::Truncated { offset: self.offset })?;
        self.offset += N;
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|byte| byte[0])
    }

    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// A variable-length size. Only the shortest form is accepted: a longer one would make the hash
    /// of the bytes differ from the hash every other node computes.
    fn size(&mut self) -> Result<u64, DecodeError> {
        let offset = self.offset;
        let (value, least) = match self.u8()? {
            0xfd => (u64::from(u16::from_le_bytes(*self.array()?)), 0xfd),
            0xfe => (u64::from(u32::from_le_bytes(*self.array()?)), 0x1_0000),
            0xff => (self.u64()?, 0x1_0000_0000),
            small => (u64::from(small), 0),
        };
        if value < least { Err(DecodeError::LongSize { offset }) } else { Ok(value) }
    }

    /// How many items of at least `item_len` bytes follow.
    pub(super) fn count(&mut self, item_len: usize) -> Result<usize, DecodeError> {
        let offset = self.offset;
        let count = self.size()?;
        usize::try_from(count)
            .ok()
            .filter(|count| count.checked_mul(item_len).is_some_and(|len| len <= self.remaining()))
            .ok_or(DecodeError::Truncated { offset })
    }

    /// Skips a byte string with its length in front; answers where it lay.
    pub(super) fn string(&mut self) -> Result<std::ops::Range<usize>, DecodeError> {
        let len = self.count(1)?;
        let start = self.offset;
        self.offset += len;
        Ok(start..self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_must_be_in_their_shortest_form() {
        let accepted: [(&[u8], u64); 4] = [
            (&[0xfc], 0xfc),
            (&[0xfd, 0xfd, 0], 0xfd),
            (&[0xfe, 0, 0, 1, 0], 0x1_0000),
            (&[0xff, 0, 0, 0, 0, 1, 0, 0, 0], 0x1_0000_0000),
        ];
        for (bytes, value) in accepted {
            assert_eq!(Reader::new(bytes, 0).size(), Ok(value));
            let cut = Reader::new(&bytes[..bytes.len() - 1], 0).size();
            assert!(matches!(cut, Err(DecodeError::Truncated { .. })));
        }
        let refused: [&[u8]; 3] =
            [&[0xfd, 0xfc, 0], &[0xfe, 0xff, 0xff, 0, 0], &[0xff, 255, 255, 255, 255, 0, 0, 0, 0]];
        for bytes in refused {
            assert_eq!(Reader::new(bytes, 0).size(), Err(DecodeError::LongSize { offset: 0 }));
        }
    }

    #[test]
    fn counts_beyond_the_bytes_are_refused() {
        let huge = [0xff; 9];
        assert_eq!(Reader::new(&huge, 0).count(41), Err(DecodeError::Truncated { offset: 0 }));
        assert_eq!(Reader::new(&[2, 0, 0], 0).count(1), Ok(2));
        assert!(Reader::new(&[2, 0, 0], 0).count(2).is_err());
    }
}
