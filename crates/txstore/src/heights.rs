//! What a store remembers of its chain, and of the runs over it.

use utxokeep_core::{
    Corrupt, Height, Txid,
    node::{ChainReport, ChangeSet, Heights, NamedState, NodeError, Sighting, Taken, Witness},
};

use crate::{
    backend::{StoreReads, Touched},
    engine::NodeStore,
    error::StoreError,
    store::BlockState,
};

const BLOCK_STATE: &str = "block_state";
pub(crate) const HEIGHTS: &str = "heights";

/// No transaction has this id. Whoever changes values of the store as a whole holds its lock.
pub(crate) const WHOLE_STORE: Txid = Txid::from_bytes([0xff; 32]);

pub(crate) fn read_block_state(view: &StoreReads<'_>) -> Result<Option<BlockState>, StoreError> {
    let Some(bytes) = view.state(BLOCK_STATE)? else { return Ok(None) };
    let state = bytes.split_first_chunk::<4>().and_then(|(height, time)| {
        let median_time = u32::from_be_bytes(time.try_into().ok()?);
        Some(BlockState { height: Height::new(u32::from_be_bytes(*height)), median_time })
    });
    Ok(Some(state.ok_or_else(|| Corrupt::new("block state", "not 8 bytes long"))?))
}

/// A store from before heights were remembered knows the block state only.
pub(crate) fn read_heights(view: &StoreReads<'_>) -> Result<Heights, StoreError> {
    if let Some(bytes) = view.state(HEIGHTS)? {
        return Ok(Heights::decode(&bytes)?);
    }
    let known = read_block_state(view)?;
    Ok(known.map_or_else(Heights::default, |state| Heights::of_block_state(state.height)))
}

impl NodeStore {
    /// Changes values of the store as a whole, one caller after the other.
    pub(crate) fn change_states<T>(
        &self,
        mut work: impl FnMut(&StoreReads<'_>) -> Result<(T, Vec<NamedState>), StoreError>,
    ) -> Result<T, StoreError> {
        let mut answer = None;
        self.backend.write(&Touched::Only(vec![WHOLE_STORE]), &mut |view| {
            let (done, states) = work(view)?;
            answer = Some(done);
            Ok(ChangeSet::of_states(states))
        })?;
        Ok(answer.expect("the engine ran the work"))
    }

    /// Takes reports, all in one commit.
    pub(crate) fn take_reports(
        &self,
        reports: &[ChainReport],
        now_ms: Option<u64>,
        beside: &[NamedState],
    ) -> Result<(Vec<Taken>, Heights), StoreError> {
        let jump_max = self.settings.policy.height_jump_blocks_max;
        self.change_states(|view| {
            let before = read_heights(view)?;
            let mut heights = before;
            let taken = reports.iter().map(|report| heights.take(*report, now_ms, jump_max));
            let taken: Vec<Taken> = taken.collect();
            let mut states = beside.to_vec();
            if heights != before {
                states.push((HEIGHTS.to_owned(), Some(heights.encode())));
            }
            Ok(((taken, heights), states))
        })
    }

    pub(crate) fn take_block_state(
        &self,
        state: BlockState,
    ) -> Result<Result<(), NodeError>, StoreError> {
        if state.height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        let mut value = state.height.to_key().to_vec();
        value.extend(state.median_time.to_be_bytes());
        let seen = Sighting { height: state.height, by: Witness::BlockState };
        let beside = vec![(BLOCK_STATE.to_owned(), Some(value))];
        self.take_reports(&[ChainReport::Newest(seen)], None, &beside)?;
        Ok(Ok(()))
    }
}
