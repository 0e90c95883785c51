//! What a target says of the move that it belongs to.

use utxokeep_core::{Corrupt, Txid};

use super::walk::write_states;
use crate::{backend::StoreReads, engine::NodeStore, error::StoreError};

/// In a target: whose copy it becomes, and how far the move is.
pub(super) const MOVE: &str = "move";

/// In a target: what was taken off the list of the source, and may not be copied yet.
pub(super) const PENDING: &str = "move_pending";

/// The mark of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) from: String,
    /// The last transaction of the first pass that was copied; `None` at its start.
    pub(super) after: Option<Txid>,
    /// Whether the first pass is over.
    pub(super) is_copied: bool,
    /// Transactions that a later pass compared, if nothing differed that the source had not listed.
    pub(super) compared: Option<u64>,
}

impl Mark {
    /// Version, stage, last id (32 bytes), transactions compared (8 bytes), then the source.
    fn encode(&self) -> Vec<u8> {
        let stage = u8::from(self.after.is_some())
            | u8::from(self.is_copied) << 1
            | u8::from(self.compared.is_some()) << 2;
        let (after, compared) = (self.after.unwrap_or_default(), self.compared.unwrap_or(0));
        let numbers = [after.as_bytes().as_slice(), &compared.to_be_bytes()].concat();
        [&[2, stage], numbers.as_slice(), self.from.as_bytes()].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let damaged = || Corrupt::new("mark of a move", "not as written");
        let (&[version @ 1..=2, stage @ 0..=7], rest) =
            bytes.split_first_chunk::<2>().ok_or_else(damaged)?
        else {
            return Err(damaged());
        };
        let (after, rest) = rest.split_at_checked(32).ok_or_else(damaged)?;
        // The first version is from before there were lists.
        let (compared, from) = if version == 1 {
            (0, rest)
        } else {
            let (compared, from) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
            (u64::from_be_bytes(*compared), from)
        };
        let after = Txid::from_slice(after).filter(|_| stage & 1 == 1);
        let from = String::from_utf8(from.to_vec()).map_err(|_| damaged())?;
        let compared = (stage & 4 == 4).then_some(compared);
        Ok(Self { from, after, is_copied: stage & 2 == 2, compared })
    }

    pub(super) fn read(view: &StoreReads<'_>) -> Result<Option<Self>, StoreError> {
        let bytes = view.state(MOVE)?;
        Ok(bytes.map(|bytes| Self::decode(&bytes)).transpose()?)
    }

    pub(super) fn write(&self, target: &NodeStore) -> Result<(), StoreError> {
        write_states(target, &[(MOVE.to_owned(), Some(self.encode()))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_target_is_pinned() {
        let mark = Mark { from: "a".to_owned(), after: None, is_copied: false, compared: None };
        assert_eq!(mark.encode(), [&[2, 0][..], &[0; 40], b"a"].concat());
        let after = Some(Txid::from_bytes([7; 32]));
        let mark = Mark { after, is_copied: true, compared: Some(258), ..mark };
        let bytes = [&[2, 7][..], &[7; 32], &[0, 0, 0, 0, 0, 0, 1, 2], b"a"].concat();
        assert_eq!(mark.encode(), bytes);
        assert_eq!(Mark::decode(&bytes), Ok(mark.clone()));
        let before = [&[1, 3][..], &[7; 32], b"a"].concat();
        assert_eq!(Mark::decode(&before), Ok(Mark { compared: None, ..mark }));
        assert!(Mark::decode(&bytes[..30]).is_err());
    }
}
