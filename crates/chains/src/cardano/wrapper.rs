//! What is around a block: its era in front, other blocks behind.

use minicbor::{Decoder, decode::Error};
use utxokeep_core::cardano::era;

use super::CardanoDecodeError;

/// Blocks over this many bytes are refused: twice what Byron allows, and later eras allow less.
pub const MAX_BLOCK_BYTES: usize = 4 << 20;

/// A block with the number of its era taken off.
pub(super) struct Wrapped<'b> {
    pub(super) era: u8,
    raw: &'b [u8],
    content_at: usize,
}

impl<'b> Wrapped<'b> {
    /// Reads the array of two and the era.
    pub(super) fn read(raw: &'b [u8]) -> Result<Self, CardanoDecodeError> {
        if raw.len() > MAX_BLOCK_BYTES {
            return Err(CardanoDecodeError::TooLarge { len: raw.len() });
        }
        let mut d = Decoder::new(raw);
        let tag = read_tag(&mut d).map_err(|error| {
            if error.is_end_of_input() {
                CardanoDecodeError::Truncated { len: raw.len() }
            } else {
                CardanoDecodeError::NoWrapper
            }
        })?;
        match u8::try_from(tag) {
            Ok(era) if era <= era::LAST => Ok(Self { era, raw, content_at: d.position() }),
            _ => Err(CardanoDecodeError::UnknownEra { tag }),
        }
    }

    /// A decoder that stands where the content starts.
    pub(super) fn decoder(&self) -> Decoder<'b> {
        let mut d = Decoder::new(self.raw);
        d.set_position(self.content_at);
        d
    }
}

fn read_tag(d: &mut Decoder<'_>) -> Result<u64, Error> {
    if d.array()? != Some(2) {
        return Err(Error::message("expected an array of two"));
    }
    d.u64()
}

/// Turns the complaint of the CBOR decoder into an error about a block of `len` bytes.
pub(super) fn malformed(era: u8, len: usize, error: &Error) -> CardanoDecodeError {
    if error.is_end_of_input() {
        CardanoDecodeError::Truncated { len }
    } else {
        CardanoDecodeError::Malformed { era, reason: error.to_string() }
    }
}

/// Cuts a row of wrapped blocks, as files of a node hold them, without looking inside. Ends after
/// the first error.
pub fn split_blocks(bytes: &[u8]) -> SplitBlocks<'_> {
    SplitBlocks { rest: bytes }
}

/// Wrapped blocks in a row; see [`split_blocks`].
#[derive(Debug, Clone)]
pub struct SplitBlocks<'b> {
    rest: &'b [u8],
}

impl<'b> Iterator for SplitBlocks<'b> {
    type Item = Result<&'b [u8], CardanoDecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        // A block that never ends must not be searched for its end in all of a large file.
        let limit = rest.len().min(MAX_BLOCK_BYTES + 1);
        let cut = Wrapped::read(&rest[..limit.min(MAX_BLOCK_BYTES)]).and_then(|wrapped| {
            let mut d = Decoder::new(&rest[..limit]);
            match d.skip() {
                Ok(()) if d.position() <= MAX_BLOCK_BYTES => Ok(d.position()),
                Ok(()) => Err(CardanoDecodeError::TooLarge { len: d.position() }),
                Err(error) if error.is_end_of_input() && limit < rest.len() => {
                    Err(CardanoDecodeError::TooLarge { len: limit })
                }
                Err(error) => Err(malformed(wrapped.era, limit, &error)),
            }
        });
        Some(cut.map(|end| {
            let (block, rest) = rest.split_at(end);
            self.rest = rest;
            block
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wrapped block of one number; enough for what does not look inside.
    const TINY: [u8; 3] = [0x82, 6, 0];

    #[test]
    fn blocks_in_a_row_are_cut_apart() {
        let row = [TINY, [0x82, 7, 1], TINY].concat();
        let blocks: Result<Vec<_>, _> = split_blocks(&row).collect();
        assert_eq!(blocks.unwrap(), [&TINY[..], &[0x82, 7, 1], &TINY]);
        assert_eq!(split_blocks(&[]).count(), 0);
    }

    #[test]
    fn cutting_stops_at_the_first_error() {
        let truncated = [&TINY[..], &[0x82, 6]].concat();
        let mut blocks = split_blocks(&truncated);
        assert_eq!(blocks.next(), Some(Ok(&TINY[..])));
        assert_eq!(blocks.next(), Some(Err(CardanoDecodeError::Truncated { len: 2 })));
        assert_eq!(blocks.next(), None);
        let garbage = [&TINY[..], &[0x00]].concat();
        assert_eq!(split_blocks(&garbage).nth(1), Some(Err(CardanoDecodeError::NoWrapper)));
    }

    #[test]
    fn a_block_without_an_end_is_not_searched_for_it() {
        let mut endless = vec![0x82, 6, 0x9f];
        endless.resize(2 * MAX_BLOCK_BYTES, 0);
        let first = split_blocks(&endless).next().unwrap();
        assert_eq!(first, Err(CardanoDecodeError::TooLarge { len: MAX_BLOCK_BYTES + 1 }));
        let raw = vec![0; MAX_BLOCK_BYTES + 1];
        let refused = Wrapped::read(&raw).map(|_| ());
        assert_eq!(refused, Err(CardanoDecodeError::TooLarge { len: raw.len() }));
    }

    #[test]
    fn an_unknown_era_says_what_to_do() {
        let error = Wrapped::read(&[0x82, 8, 0]).map(|_| ()).unwrap_err();
        assert_eq!(error, CardanoDecodeError::UnknownEra { tag: 8 });
        assert!(error.to_string().contains("update utxokeep"), "{error}");
        let long = Wrapped::read(&[0x82, 0x19, 1, 2, 0]).map(|_| ()).unwrap_err();
        assert_eq!(long, CardanoDecodeError::UnknownEra { tag: 258 });
    }
}
