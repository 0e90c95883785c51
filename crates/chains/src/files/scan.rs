//! Finds the blocks in a block file without reading their bodies.
//!
//! # Invariants
//!
//! * Each step moves forward, so the scan of any bytes ends.
//! * A frame is believed only when its header has a valid proof of work; everything else is
//!   searched for the next frame.

use utxokeep_core::{Header, Network};

use super::{
    ScanReport,
    storage::{Handle, Storage},
};
use crate::{
    SourceError,
    bitcoin::{HEADER_LEN, MAX_BLOCK_BYTES, decode_header_of},
};

/// Magic and length in front of each block.
const FRAME_BYTES: usize = 4 + 4;

/// A header and the count of transactions: no block is shorter.
const MIN_BLOCK_BYTES: usize = HEADER_LEN + 1;

/// The most that is read at once, where many small blocks share a read.
const WINDOW_BYTES: usize = 256 << 10;

/// The least that is read at once, where large blocks are passed over.
const WINDOW_BYTES_MIN: usize = 4 << 10;

/// A block in a file.
pub(super) struct Found {
    pub(super) header: Header,
    /// Where the block starts, behind its frame.
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// Scans one file, hands each block with a valid header to `found`, and tells `progress` how far it
/// is. The report has everything but the numbers of blocks and duplicates.
pub(super) fn scan(
    storage: &Storage,
    network: Network,
    found: &mut dyn FnMut(Found),
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<ScanReport, SourceError> {
    let mut scanner = Scanner {
        window: Window {
            handle: storage.handle()?,
            len: storage.len(),
            start: 0,
            bytes: vec![],
            size: WINDOW_BYTES_MIN,
        },
        network,
        magic: network.magic(),
        report: ScanReport::default(),
        seen: 0,
        progress,
    };
    scanner.refuse_other_networks(storage)?;
    let mut offset = 0;
    while offset < storage.len() {
        offset = scanner.step(offset, found)?;
        scanner.go_on(offset)?;
    }
    Ok(scanner.report)
}

struct Scanner<'a> {
    window: Window<'a>,
    network: Network,
    magic: [u8; 4],
    report: ScanReport,
    /// How far it has looked.
    seen: u64,
    progress: &'a mut dyn FnMut(u64) -> bool,
}

impl Scanner<'_> {
    /// Tells how far the scan is, and ends it when nobody wants it any more.
    fn go_on(&mut self, offset: u64) -> Result<(), SourceError> {
        self.seen = self.seen.max(offset.min(self.window.len));
        if (self.progress)(self.seen) { Ok(()) } else { Err(SourceError::Stopped) }
    }

    fn refuse_other_networks(&mut self, storage: &Storage) -> Result<(), SourceError> {
        let start = self.window.at(0, 4)?;
        // Files of Cardano have no magic, and one of a devnet would be what a node fills up with.
        let of_files = |other: &Network| !other.is_cardano() && start == other.magic();
        match Network::ALL.into_iter().find(of_files) {
            Some(found) if found != self.network => {
                Err(SourceError::WrongNetwork { path: storage.path().to_owned(), found })
            }
            _ => Ok(()),
        }
    }

    /// Handles what lies at `offset`; answers where to go on.
    fn step(&mut self, offset: u64, found: &mut dyn FnMut(Found)) -> Result<u64, SourceError> {
        let Some(len) = self.frame_at(offset)? else {
            return if self.is_cut_frame(offset)? {
                self.skip_truncated(offset)
            } else {
                self.skip_to_frame(offset)
            };
        };
        let start = offset + FRAME_BYTES as u64;
        let end = start + u64::from(len);
        if end > self.window.len {
            return self.skip_truncated(offset);
        }
        match decode_header_of(self.window.at(start, HEADER_LEN)?, self.network) {
            Ok(header) => {
                found(Found { header, offset: start, len });
                Ok(end)
            }
            Err(_) => self.skip_unproven(offset, end),
        }
    }

    /// The length of the block framed at `offset`; `None` when there is no credible frame.
    fn frame_at(&mut self, offset: u64) -> Result<Option<u32>, SourceError> {
        let frame = self.window.at(offset, FRAME_BYTES)?;
        let Some((magic, len)) = frame.split_first_chunk::<4>() else { return Ok(None) };
        let Some(len) = len.first_chunk().map(|len| u32::from_le_bytes(*len)) else {
            return Ok(None);
        };
        let credible = (MIN_BLOCK_BYTES..=MAX_BLOCK_BYTES).contains(&(len as usize));
        Ok((*magic == self.magic && credible).then_some(len))
    }

    /// Whether the file ends inside the frame that starts at `offset`.
    fn is_cut_frame(&mut self, offset: u64) -> Result<bool, SourceError> {
        let magic = self.magic;
        let frame = self.window.at(offset, FRAME_BYTES)?;
        Ok(frame.len() < FRAME_BYTES && frame.iter().zip(magic).all(|(byte, part)| *byte == part))
    }

    /// Counts what lies between `offset` and the next magic, at least one byte.
    fn skip_to_frame(&mut self, offset: u64) -> Result<u64, SourceError> {
        let mut skipped = Skipped::default();
        skipped.count(self.window.at(offset, 1)?);
        let next = self.find_magic(offset + 1, &mut skipped)?;
        self.report.garbage_bytes += skipped.garbage;
        self.report.padding_bytes += skipped.padding;
        Ok(next.unwrap_or(self.window.len))
    }

    /// Passes a frame that reaches beyond the end of the file: half a block when nothing follows,
    /// some other bytes when frames do.
    fn skip_truncated(&mut self, offset: u64) -> Result<u64, SourceError> {
        if self.find_magic(offset + 1, &mut Skipped::default())?.is_some() {
            return self.skip_to_frame(offset);
        }
        self.report.truncated += 1;
        Ok(self.window.len)
    }

    /// Passes a frame without proof of work: a whole block when the next magic comes behind it,
    /// other bytes that happen to look like a frame when it comes before.
    fn skip_unproven(&mut self, offset: u64, end: u64) -> Result<u64, SourceError> {
        match self.find_magic(offset + 1, &mut Skipped::default())? {
            Some(next) if next < end => self.skip_to_frame(offset),
            _ => {
                self.report.bad_headers += 1;
                Ok(end)
            }
        }
    }

    /// The place of the next magic at or after `offset`, counting the bytes before it.
    fn find_magic(
        &mut self,
        mut offset: u64,
        skipped: &mut Skipped,
    ) -> Result<Option<u64>, SourceError> {
        let (magic, file_len) = (self.magic, self.window.len);
        while offset < file_len {
            let bytes = self.window.some(offset)?;
            if let Some(at) = bytes.windows(4).position(|four| four == magic) {
                skipped.count(&bytes[..at]);
                return Ok(Some(offset + at as u64));
            }
            let is_end = offset + bytes.len() as u64 == file_len;
            // The last three bytes may be the start of a magic that the next window completes.
            let passed = if is_end { bytes.len() } else { bytes.len() - 3 };
            skipped.count(&bytes[..passed]);
            offset += passed as u64;
            self.go_on(offset)?;
        }
        Ok(None)
    }
}

#[derive(Default)]
struct Skipped {
    garbage: u64,
    padding: u64,
}

impl Skipped {
    fn count(&mut self, bytes: &[u8]) {
        let zeros: u64 = bytes.iter().map(|byte| u64::from(*byte == 0)).sum();
        self.padding += zeros;
        self.garbage += bytes.len() as u64 - zeros;
    }
}

/// A part of the file in memory.
struct Window<'a> {
    handle: Handle<'a>,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
    /// How much the next read takes: grows while frames are near each other, and shrinks while they
    /// are far apart.
    size: usize,
}

impl Window<'_> {
    /// At least four bytes from `offset` on, or all that are left. What was read already is not read
    /// again: the next frame is mostly near.
    fn some(&mut self, offset: u64) -> Result<&[u8], SourceError> {
        let skip = offset.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        match skip.and_then(|skip| self.bytes.len().checked_sub(skip)) {
            Some(ready) if ready >= 4 => self.at(offset, ready),
            _ => self.at(offset, WINDOW_BYTES),
        }
    }

    /// Up to `want` bytes from `offset` on; fewer only at the end of the file.
    fn at(&mut self, offset: u64, want: usize) -> Result<&[u8], SourceError> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let want = want.min(left);
        let skip = offset.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        if let Some(skip) = skip.filter(|skip| skip.saturating_add(want) <= self.bytes.len()) {
            return Ok(&self.bytes[skip..skip + want]);
        }
        let passed_over = offset.saturating_sub(self.start + self.bytes.len() as u64);
        self.size = if passed_over >= self.size as u64 {
            (self.size / 4).max(WINDOW_BYTES_MIN)
        } else {
            (self.size * 4).min(WINDOW_BYTES)
        };
        self.bytes.resize(self.size.max(want).min(left), 0);
        self.start = offset;
        self.handle.read_exact(offset, &mut self.bytes)?;
        Ok(&self.bytes[..want])
    }
}
