//! Reads write-ahead logs of RocksDB without RocksDB, to say what lies behind damage.
//!
//! A log is a row of blocks of 32 KiB. Each holds pieces: check sum, length, kind, bytes. A record
//! is one piece or several, and is one batch of writes. This reader goes on behind a piece that is
//! not right, or at the next block.
//!
//! It is stricter than RocksDB, which takes zeros for the end of a block and goes on in the next
//! one, takes a wrong length in the last block for a torn end, and never ends where the kind of a
//! piece is one of logs that are used again.

use std::{fs::File, io, io::Read, path::Path};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
/// Pieces that also name their log, written when log files are used again.
const RECYCLED_HEADER_BYTES: usize = 11;
const MASK_DELTA: u32 = 0xa282_ead8;

/// What a log holds at one place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'l> {
    /// A whole record.
    Record(&'l [u8]),
    /// Something that cannot be read. What stands behind it in the same block may be skipped.
    Damage(&'static str),
    /// The file ends in the middle of a piece, as a crash leaves it.
    TornTail,
}

/// Which part of a record a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    First,
    Middle,
    Last,
    /// About the log, not about rows.
    Note,
}

impl Kind {
    const fn of(byte: u8) -> Option<(Self, usize)> {
        Some(match byte {
            1 => (Self::Whole, HEADER_BYTES),
            2 => (Self::First, HEADER_BYTES),
            3 => (Self::Middle, HEADER_BYTES),
            4 => (Self::Last, HEADER_BYTES),
            5 => (Self::Whole, RECYCLED_HEADER_BYTES),
            6 => (Self::First, RECYCLED_HEADER_BYTES),
            7 => (Self::Middle, RECYCLED_HEADER_BYTES),
            8 => (Self::Last, RECYCLED_HEADER_BYTES),
            9 | 10 | 130 => (Self::Note, HEADER_BYTES),
            11 | 131 => (Self::Note, RECYCLED_HEADER_BYTES),
            _ => return None,
        })
    }
}

/// Hands every place of the log to `visit`, with its offset in the file. Answers how long the file
/// is, and where space begins that was reserved and never written.
pub(super) fn read(
    path: &Path,
    visit: &mut dyn FnMut(u64, Found<'_>),
) -> io::Result<(u64, Option<u64>)> {
    let mut file = File::open(path)?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let mut record = Record::default();
    let mut gap = None;
    let mut start = 0u64;
    loop {
        block.clear();
        let read = file.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        if read == 0 {
            break;
        }
        // Space that was reserved and never written has nothing behind it.
        if let Some(offset) = gap.filter(|_| block.iter().any(|byte| *byte != 0)) {
            record.is_open = false;
            visit(offset, Found::Damage("zeros with something behind them"));
            gap = None;
        }
        gap = gap.or(read_block(&block, start, &mut record, visit));
        start += read as u64;
    }
    if record.is_open {
        visit(record.offset, Found::TornTail);
    }
    Ok((start, gap))
}

/// A record whose pieces are being put together.
#[derive(Default)]
struct Record {
    bytes: Vec<u8>,
    offset: u64,
    is_open: bool,
}

impl Record {
    /// Where a record begins that goes on at `offset`, or begins there.
    const fn begin(&self, offset: u64) -> u64 {
        if self.is_open { self.offset } else { offset }
    }

    fn damage(&mut self, offset: u64, what: &'static str, visit: &mut dyn FnMut(u64, Found<'_>)) {
        visit(self.begin(offset), Found::Damage(what));
        self.is_open = false;
    }
}

/// Answers where space begins that was never written, if there is some.
fn read_block(
    block: &[u8],
    start: u64,
    record: &mut Record,
    visit: &mut dyn FnMut(u64, Found<'_>),
) -> Option<u64> {
    let is_last = block.len() < BLOCK_BYTES;
    let mut at = 0;
    while block.len() - at >= HEADER_BYTES {
        let offset = start + at as u64;
        let header = &block[at..];
        let sum = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let len = usize::from(u16::from_le_bytes([header[4], header[5]]));
        if sum == 0 && len == 0 && header[6] == 0 {
            if header.iter().all(|byte| *byte == 0) {
                return Some(record.begin(offset));
            }
            record.damage(offset, "zeros with something behind them", visit);
            return None;
        }
        let Some((kind, header_len)) = Kind::of(header[6]) else {
            record.damage(offset, "a piece of an unknown kind", visit);
            return None;
        };
        let Some(payload) = header.get(header_len..header_len + len) else {
            if is_last && !has_sound_piece(&header[1..]) {
                visit(record.begin(offset), Found::TornTail);
                record.is_open = false;
            } else {
                record.damage(offset, "a piece that is longer than its block", visit);
            }
            return None;
        };
        at += header_len + len;
        if masked(crc32c::crc32c(&header[6..header_len + len])) != sum {
            record.damage(offset, "a check sum that does not match", visit);
            // The length may be right all the same: then a sound piece follows.
            if is_sound(&block[at..]) {
                continue;
            }
            return None;
        }
        if record.is_open && matches!(kind, Kind::Whole | Kind::First) {
            record.damage(offset, "a record without its end", visit);
        }
        match kind {
            Kind::Note => {}
            Kind::Whole => {
                record.is_open = false;
                visit(offset, Found::Record(payload));
            }
            Kind::First => {
                record.bytes.clear();
                record.bytes.extend_from_slice(payload);
                record.offset = offset;
                record.is_open = true;
            }
            Kind::Middle | Kind::Last if !record.is_open => {
                record.damage(offset, "a piece without its beginning", visit);
            }
            Kind::Middle => record.bytes.extend_from_slice(payload),
            Kind::Last => {
                record.bytes.extend_from_slice(payload);
                record.is_open = false;
                visit(record.offset, Found::Record(&record.bytes));
            }
        }
    }
    if is_last && block[at..].iter().any(|byte| *byte != 0) {
        visit(record.begin(start + at as u64), Found::TornTail);
        record.is_open = false;
    }
    None
}

/// Whether a whole piece stands anywhere in these bytes: then they are not what a crash tore off.
fn has_sound_piece(bytes: &[u8]) -> bool {
    (0..bytes.len()).any(|at| is_sound(&bytes[at..]))
}

fn is_sound(piece: &[u8]) -> bool {
    let Some((header, _)) = piece.split_first_chunk::<HEADER_BYTES>() else { return false };
    let [a, b, c, d, low, high, kind] = *header;
    let Some((_, header_len)) = Kind::of(kind) else { return false };
    let end = header_len + usize::from(u16::from_le_bytes([low, high]));
    let sum = u32::from_le_bytes([a, b, c, d]);
    if end == header_len {
        // Too little to tell it from chance.
        return false;
    }
    piece.get(6..end).is_some_and(|checked| masked(crc32c::crc32c(checked)) == sum)
}

const fn masked(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(MASK_DELTA)
}
