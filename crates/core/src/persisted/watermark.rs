//! How far a persister has come, as the place of its files says.

use minicbor::{Decoder, Encoder};

use super::{FileKind, envelope, subtree::block_hash};
use crate::{
    chain::record::{Corrupt, INFALLIBLE, end},
    network::Network,
    types::{BlockHash, Height},
};

/// Name of the file.
pub const WATERMARK_NAME: &str = "persister.watermark";

/// The newest block whose files, and those of all blocks below it that the place keeps, are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    /// The chain that the place belongs to.
    pub network: Network,
    /// The block; `None` while there is none.
    pub block: Option<(Height, BlockHash)>,
}

impl Watermark {
    /// The file: `[network]`, or `[network, height, block]`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        envelope::wrap(FileKind::Watermark, 64, |out| {
            let mut e = Encoder::new(out);
            let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
                e.array(if self.block.is_some() { 3 } else { 1 })?
                    .str(&self.network.to_string())?;
                if let Some((height, hash)) = &self.block {
                    e.u32(height.get())?.bytes(hash.as_bytes())?;
                }
                Ok(())
            };
            write().expect(INFALLIBLE);
        })
    }

    /// Inverse of [`Watermark::encode`].
    pub fn decode(file: &[u8]) -> Result<Self, Corrupt> {
        const KIND: FileKind = FileKind::Watermark;
        let what = KIND.what();
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(what, error);
        let body = envelope::unwrap(KIND, file)?;
        let mut d = Decoder::new(body);
        let has_block = match d.array().map_err(corrupt)? {
            Some(1) => false,
            Some(3) => true,
            _ => return Err(Corrupt::new(what, "neither one field nor three")),
        };
        let network = network(&mut d, what)?;
        let block = if has_block {
            let height = Height::new(d.u32().map_err(corrupt)?);
            Some((height, block_hash(&mut d, what)?))
        } else {
            None
        };
        end(&d, body, what)?;
        Ok(Self { network, block })
    }
}

pub(super) fn network(d: &mut Decoder<'_>, what: &'static str) -> Result<Network, Corrupt> {
    let text = d.str().map_err(|error| Corrupt::new(what, error))?;
    text.parse().map_err(|error| Corrupt::new(what, error))
}
