//! A conflict that is about to be resolved, written down before anything changes.

use minicbor::{Decoder, Encoder};
use sha2::{Digest, Sha256};

use crate::{
    chain::record::{Corrupt, INFALLIBLE, array_len, end, txid},
    types::{Height, Txid},
};

const INTENT: &str = "conflict intent";

/// Somebody is about to let these transactions win. Whoever starts after a crash finds it and goes
/// on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictIntent {
    /// Height at which they win.
    pub height: Height,
    /// The transactions, each once, in order.
    txids: Vec<Txid>,
}

impl ConflictIntent {
    /// An intent for transactions, whatever their order.
    #[must_use]
    pub fn new(height: Height, mut txids: Vec<Txid>) -> Self {
        txids.sort_unstable();
        txids.dedup();
        Self { height, txids }
    }

    /// The transactions that are to win.
    #[must_use]
    pub fn txids(&self) -> &[Txid] {
        &self.txids
    }

    /// The same transactions at the same height have the same name, so that asking twice leaves one
    /// intent.
    #[must_use]
    pub fn id(&self) -> [u8; 32] {
        Sha256::digest(self.to_bytes()).into()
    }

    /// Bytes on disk.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.txids.len() * 34);
        let mut e = Encoder::new(&mut out);
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            e.array(2)?.u32(self.height.get())?.array(self.txids.len() as u64)?;
            for txid in &self.txids {
                e.bytes(txid.as_bytes())?;
            }
            Ok(())
        };
        write().expect(INFALLIBLE);
        out
    }

    /// Inverse of [`ConflictIntent::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut d = Decoder::new(bytes);
        if array_len(&mut d, INTENT)? != 2 {
            return Err(Corrupt::new(INTENT, "not two fields"));
        }
        let height = d.u32().map_err(|error| Corrupt::new(INTENT, error))?;
        let mut txids = Vec::new();
        for _ in 0..array_len(&mut d, INTENT)? {
            txids.push(txid(&mut d, INTENT)?);
        }
        end(&d, bytes, INTENT)?;
        Ok(Self::new(Height::new(height), txids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_transactions_in_any_order_are_one_intent() {
        let [a, b] = [1, 2].map(|byte| Txid::from_bytes([byte; 32]));
        let intent = ConflictIntent::new(Height::new(7), vec![b, a, b]);
        assert_eq!(intent, ConflictIntent::new(Height::new(7), vec![a, b]));
        assert_ne!(intent.id(), ConflictIntent::new(Height::new(8), vec![a, b]).id());
        assert_eq!(ConflictIntent::from_bytes(&intent.to_bytes()).unwrap(), intent);
        assert_eq!(intent.to_bytes()[..3], [0x82, 7, 0x82]);
    }

    #[test]
    fn cut_bytes_are_refused() {
        let bytes = ConflictIntent::new(Height::new(7), vec![Txid::default()]).to_bytes();
        for len in 0..bytes.len() {
            assert!(ConflictIntent::from_bytes(&bytes[..len]).is_err());
        }
    }
}
