//! Cutting a wrapped block into the bytes of its transactions and those around them.
//!
//! From Shelley on a transaction has a body, witnesses and perhaps metadata, which lie apart; in Byron
//! it is one piece.

use minicbor::{Decoder, decode::Error};
use utxokeep_core::{cardano::era, persisted::CutPiece};

use super::{
    CardanoDecodeError,
    cbor::{each, each_entry, record},
    wrapper::{Wrapped, malformed},
};

/// Where the pieces of a block lie, in order; they cover all of its bytes.
pub fn cut_block(raw: &[u8]) -> Result<Vec<CutPiece>, CardanoDecodeError> {
    let wrapped = Wrapped::read(raw)?;
    let mut d = wrapped.decoder();
    let mut cut = Cut { pieces: Vec::new(), at: 0 };
    cut.read(&mut d, wrapped.era).map_err(|error| malformed(wrapped.era, raw.len(), &error))?;
    cut.frame_until(raw.len());
    Ok(cut.pieces)
}

struct Cut {
    pieces: Vec<CutPiece>,
    /// Bytes that belong to a piece already.
    at: usize,
}

impl Cut {
    fn read(&mut self, d: &mut Decoder<'_>, era: u8) -> Result<(), Error> {
        // The array around the block and its header are the first frame.
        let fields = d.array()?;
        if fields == Some(0) {
            return Err(Error::message("a block of nothing"));
        }
        d.skip()?;
        match era {
            era::BYRON_BOUNDARY => Ok(()),
            era::BYRON => {
                let _body = record(d, 4)?;
                self.array(d)
            }
            _ => {
                self.array(d)?;
                self.array(d)?;
                self.metadata(d)
            }
        }
    }

    /// An array of one piece for each transaction.
    fn array(&mut self, d: &mut Decoder<'_>) -> Result<(), Error> {
        let mut tx = 0;
        each(d, |d| {
            let start = d.position();
            d.skip()?;
            self.piece(tx, start, d.position());
            tx += 1;
            Ok(())
        })?;
        Ok(())
    }

    /// A map from the number of a transaction to its metadata. A number that is no transaction's stays
    /// in the frame.
    fn metadata(&mut self, d: &mut Decoder<'_>) -> Result<(), Error> {
        let txs = self.pieces.iter().filter_map(|piece| match piece {
            CutPiece::Tx(tx, _) => Some(*tx),
            CutPiece::Frame(_) => None,
        });
        let last = txs.max();
        each_entry(d, |d| {
            let start = d.position();
            let tx = d.u64()?;
            d.skip()?;
            if let Some(tx) = u32::try_from(tx).ok().filter(|tx| Some(*tx) <= last) {
                self.piece(tx, start, d.position());
            }
            Ok(())
        })?;
        Ok(())
    }

    fn piece(&mut self, tx: u32, start: usize, end: usize) {
        self.frame_until(start);
        self.pieces.push(CutPiece::Tx(tx, start..end));
        self.at = end;
    }

    fn frame_until(&mut self, end: usize) {
        if self.at < end {
            self.pieces.push(CutPiece::Frame(self.at..end));
            self.at = end;
        }
    }
}
