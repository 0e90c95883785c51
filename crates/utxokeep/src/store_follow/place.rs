//! Where a node store stands on the chain, as a row of the store.

use utxokeep_core::{BlockHash, Corrupt, Height};
use utxokeep_index::Cursor;
use utxokeep_txstore::{NodeStore, PruneStore as _, StoreError};

/// Name of the row.
const ROW: &str = "chain_follow";

/// First byte of its value.
const VERSION: u8 = 1;

/// A block that the store has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FollowPlace {
    pub(super) height: Height,
    pub(super) hash: BlockHash,
    /// Everything below is done. Of this block any part may be there.
    pub(super) is_in_hand: bool,
}

impl FollowPlace {
    fn encode(self) -> Vec<u8> {
        let mut bytes = vec![VERSION, u8::from(self.is_in_hand)];
        bytes.extend(self.height.to_key());
        bytes.extend(self.hash.as_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let damaged = || Corrupt::new("place of the node store on the chain", "malformed");
        let (head, rest) = bytes.split_at_checked(2).ok_or_else(damaged)?;
        let (height, hash) = rest.split_at_checked(4).ok_or_else(damaged)?;
        let is_in_hand = match head {
            [VERSION, 0] => false,
            [VERSION, 1] => true,
            _ => return Err(damaged()),
        };
        let height = Height::from_key(height).ok_or_else(damaged)?;
        let hash = BlockHash::from_slice(hash).ok_or_else(damaged)?;
        Ok(Self { height, hash, is_in_hand })
    }

    /// The cursor of a store that is done with the block.
    pub(super) fn cursor(self) -> Cursor {
        Cursor::at(self.height, self.hash)
    }
}

/// Where a store stands; `None` where it never followed.
pub(super) fn read(store: &NodeStore) -> Result<Option<FollowPlace>, StoreError> {
    let mut found = None;
    store.read_states(&mut |states| {
        found = states.state(ROW)?.map(|bytes| FollowPlace::decode(&bytes)).transpose()?;
        Ok(())
    })?;
    Ok(found)
}

/// Writes where a store stands. At the start of the chain there is no row.
pub(super) fn write(store: &NodeStore, place: Option<FollowPlace>) -> Result<(), StoreError> {
    let value = place.map(FollowPlace::encode);
    store.update_states(&mut |_| Ok(vec![(ROW.to_owned(), value.clone())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_is_pinned() {
        let hash = BlockHash::from_bytes([7; 32]);
        let place = FollowPlace { height: Height::new(258), hash, is_in_hand: true };
        let bytes = format!("010100000102{}", "07".repeat(32));
        assert_eq!(utxokeep_core::hex_encode(&place.encode()), bytes);
        assert_eq!(FollowPlace::decode(&place.encode()), Ok(place));
        let done = FollowPlace { is_in_hand: false, ..place };
        assert_eq!(FollowPlace::decode(&done.encode()), Ok(done));
        for end in 0..38 {
            assert!(FollowPlace::decode(&place.encode()[..end]).is_err(), "{end}");
        }
        let mut newer = place.encode();
        newer[0] = 2;
        assert!(FollowPlace::decode(&newer).is_err());
    }
}
