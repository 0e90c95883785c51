//! What a tree cannot be had for, and what can be said of an output of which there is no record.

use utxokeep_core::Height;
use utxokeep_kv::Read;

use crate::{
    IndexSettings, View,
    error::{IndexError, IndexOpenError, MmrError},
    meta,
};

impl IndexSettings {
    /// Refuses a Merkle mountain range where the index would not see every output.
    pub fn check_mmr(&self) -> Result<(), IndexOpenError> {
        meta::check_mmr(self)
    }
}

impl<S: Read> View<'_, S> {
    /// Why there is no record of an output: it never existed, or it was spent so long ago that its
    /// record is deleted. Only where nothing was deleted yet the two can be told apart.
    pub(super) fn no_record(&self) -> Result<MmrError, IndexError> {
        let is_whole = meta::undo_base(&self.read)? == Height::GENESIS
            && meta::prune_cursor(&self.read)?.is_none();
        Ok(if is_whole { MmrError::NeverExisted } else { MmrError::Unknown })
    }
}
