//! Values of a store as a whole, which change one caller after the other.

use utxokeep_core::{
    Height, Txid,
    node::{BlockState, ChainReport, ChangeSet, Heights, NamedState, NodeError, Sighting, Witness},
};

use crate::{
    admit::Asks,
    backend::{StoreReads, Touched},
    engine::NodeStore,
    error::StoreError,
};

/// No transaction has this id. Whoever changes values of the store as a whole holds its lock.
pub(crate) const WHOLE_STORE: Txid = Txid::from_bytes([0xff; 32]);

impl NodeStore {
    /// Changes values of the store as a whole, one caller after the other.
    pub(crate) fn change_states<T>(
        &self,
        mut work: impl FnMut(&StoreReads<'_>) -> Result<(T, Vec<NamedState>), StoreError>,
    ) -> Result<T, StoreError> {
        let mut answer = None;
        self.commit(Asks::Place, &Touched::Only(vec![WHOLE_STORE]), &mut |view| {
            let (done, states) = work(view)?;
            answer = Some(done);
            Ok(ChangeSet::of_states(states))
        })?;
        Ok(answer.expect("the engine ran the work"))
    }

    /// Takes the block state, and that the chain has its height, in one commit.
    pub(crate) fn take_block_state(
        &self,
        state: BlockState,
    ) -> Result<Result<(), NodeError>, StoreError> {
        if state.height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        let seen = ChainReport::Newest(Sighting { height: state.height, by: Witness::BlockState });
        let jump_max = self.settings.policy.height_jump_blocks_max;
        self.change_states(|view| {
            let taken = Heights::take_all(view, &[seen], None, jump_max)?;
            Ok(((), [state.to_state()].into_iter().chain(taken.state).collect()))
        })?;
        Ok(Ok(()))
    }
}
