//! Every call of the contract: which records it touches, and which rule decides.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        BlockState, ChangeSet, ConflictIntent, CreateOptions, HeightIndex, MinedInfo, NodeError,
        NodeTx, PreviousOutput, SpendAndCreate, SpendFlags, SpendInput, SpendRequest, SpendView,
        Spent, Stored, TxRecord, UnspendRequest,
    },
};

use utxokeep_kv::Trouble;

use crate::{
    admit::Asks,
    backend::Touched,
    engine::{NOTHING, NodeStore},
    error::StoreError,
    facts::Work,
    meter,
    records::CreationLock,
    sample::Sample,
    store::{Decorated, Fields, ParentOutput, PerItem, StoredTx, TxStore},
};

const CONFLICT_INTENT: &str = "conflict_intent/";

/// Transactions that a spend touches.
fn touched(request: &SpendRequest) -> impl Iterator<Item = &Txid> {
    let parents = request.inputs.iter().map(|input| input.outpoint.txid());
    parents.chain(std::iter::once(&request.spender))
}

/// Transactions that storing one touches.
fn family(tx: &NodeTx) -> impl Iterator<Item = &Txid> {
    tx.spends().map(|input| input.outpoint.txid()).chain(std::iter::once(&tx.txid))
}

fn only<'t>(txids: impl IntoIterator<Item = &'t Txid>) -> Touched {
    Touched::Only(txids.into_iter().copied().collect())
}

fn intent_name(id: &[u8; 32]) -> String {
    use std::fmt::Write as _;
    let mut name = CONFLICT_INTENT.to_owned();
    for byte in id {
        write!(name, "{byte:02x}").expect("writing to a string does not fail");
    }
    name
}

impl TxStore for NodeStore {
    fn trouble(&self) -> Option<Trouble> {
        self.find_trouble()
    }

    fn sample(&self) -> Result<Option<Sample>, StoreError> {
        self.take_sample().map(Some)
    }

    fn create(&self, txs: &[(NodeTx, CreateOptions)], height: Height) -> PerItem<()> {
        meter::creating(txs.len());
        // Parents get to know of a conflicting child, and may bear the marker of one that was pruned.
        let ids: Vec<Txid> = txs.iter().flat_map(|(tx, _)| family(tx)).copied().collect();
        self.each(&only(&ids), txs, (&ids, &[]), |workspace, (tx, options)| {
            workspace.create(tx, height, options)
        })
    }

    fn get(&self, txids: &[Txid], fields: Fields) -> Result<Vec<Option<StoredTx>>, StoreError> {
        self.check_len(txids.len())?;
        self.read(|facts| {
            let mut bodies = if fields.body { facts.bodies(txids)? } else { Vec::new() };
            let records = facts.view.records(txids)?;
            let mut outputs = Vec::new();
            for (txid, record) in txids.iter().zip(&records).filter(|_| fields.slots) {
                let count = record.as_ref().map_or(0, |record| record.outputs);
                outputs.extend((0..count).map(|vout| OutPoint::new(*txid, vout)));
            }
            // One read for the outputs of all of them.
            let mut slots = facts.view.outputs_at(&outputs)?.into_iter();
            let stored = |(at, record): (usize, Option<TxRecord>)| {
                let record = record?;
                let count = record.outputs as usize;
                let slots = fields.slots.then(|| slots.by_ref().take(count).collect());
                let body = bodies.get_mut(at).and_then(Option::take);
                Some(StoredTx { record, body, slots })
            };
            Ok(records.into_iter().enumerate().map(stored).collect())
        })
    }

    fn spend_views(
        &self,
        outputs: &[(OutPoint, Option<[u8; 32]>)],
        height: Height,
    ) -> PerItem<SpendView> {
        self.check_len(outputs.len())?;
        self.read(|facts| {
            let mut workspace = facts.workspace();
            let ids: Vec<Txid> = outputs.iter().map(|(outpoint, _)| *outpoint.txid()).collect();
            let outpoints: Vec<OutPoint> = outputs.iter().map(|(outpoint, _)| *outpoint).collect();
            workspace.prefetch(&ids, &outpoints)?;
            let view = |(outpoint, hash): &(OutPoint, Option<[u8; 32]>)| {
                workspace.spend_view(outpoint, hash.as_ref(), height)
            };
            outputs.iter().map(view).collect()
        })
    }

    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is not general enough"
    )]
    fn spend(&self, requests: &[SpendRequest]) -> PerItem<Spent> {
        let inputs = requests.iter().flat_map(|request| &request.inputs);
        let outputs: Vec<OutPoint> = inputs.map(|input| input.outpoint).collect();
        let ids: Vec<Txid> = outputs.iter().map(|outpoint| *outpoint.txid()).collect();
        let touched = only(requests.iter().flat_map(touched));
        self.each(&touched, requests, (&ids, &outputs), |workspace, request| {
            workspace.spend(request)
        })
    }

    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is not general enough"
    )]
    fn unspend(&self, requests: &[UnspendRequest]) -> PerItem<bool> {
        let outputs: Vec<OutPoint> = requests.iter().map(|request| request.outpoint).collect();
        let ids: Vec<Txid> = outputs.iter().map(|outpoint| *outpoint.txid()).collect();
        let touched = only(&ids);
        self.each(&touched, requests, (&ids, &outputs), |workspace, request| {
            workspace.unspend(request)
        })
    }

    fn spend_and_create(
        &self,
        tx: &NodeTx,
        height: Height,
        how: SpendAndCreate,
        options: &CreateOptions,
    ) -> Result<Result<Stored, NodeError>, StoreError> {
        self.check_len(tx.inputs.len())?;
        meter::creating(1);
        let ids: Vec<Txid> = family(tx).copied().collect();
        let outputs: Vec<OutPoint> = tx.spends().map(|input| input.outpoint).collect();
        self.change(&only(&ids), |workspace| {
            workspace.prefetch(&ids, &outputs)?;
            workspace.spend_and_create(tx, height, how, options)
        })
    }

    fn spend_and_create_list(
        &self,
        txs: &[(NodeTx, CreateOptions)],
        height: Height,
        flags: SpendFlags,
    ) -> Result<Result<Vec<Result<Stored, NodeError>>, NodeError>, StoreError> {
        self.check_len(txs.len())?;
        meter::creating(txs.len());
        let ids: Vec<Txid> = txs.iter().flat_map(|(tx, _)| family(tx)).copied().collect();
        let inputs = txs.iter().flat_map(|(tx, _)| tx.spends());
        // Outputs of the list itself are not there yet.
        let outputs: Vec<OutPoint> = inputs.map(|input| input.outpoint).collect();
        self.change(&only(&ids), |workspace| {
            workspace.prefetch(&ids, &outputs)?;
            workspace.spend_and_create_list(txs, height, flags)
        })
    }

    fn set_mined(&self, txids: &[Txid], info: &MinedInfo) -> PerItem<Vec<u32>> {
        self.each(&only(txids), txids, (txids, &[]), |workspace, txid| {
            workspace.set_mined(txid, info)
        })
    }

    fn mark_on_longest_chain(
        &self,
        txids: &[Txid],
        on_longest_chain: bool,
        height: Height,
    ) -> PerItem<()> {
        self.each(&only(txids), txids, (txids, &[]), |workspace, txid| {
            workspace.mark_on_longest_chain(txid, on_longest_chain, height)
        })
    }

    fn set_locked(&self, txids: &[Txid], is_locked: bool, height: Height) -> PerItem<()> {
        self.each(&only(txids), txids, (txids, &[]), |workspace, txid| {
            workspace.set_locked(txid, is_locked, height)
        })
    }

    fn set_conflicting(
        &self,
        txids: &[Txid],
        is_conflicting: bool,
        height: Height,
    ) -> PerItem<(Vec<SpendInput>, Vec<Txid>)> {
        self.each(&Touched::Unknown, txids, (txids, &[]), |workspace, txid| {
            workspace.set_conflicting(txid, is_conflicting, height)
        })
    }

    fn process_conflicting(
        &self,
        winners: &[Txid],
        height: Height,
    ) -> Result<Result<Vec<Txid>, NodeError>, StoreError> {
        self.check_len(winners.len())?;
        self.decide(&Touched::Unknown, |workspace| {
            let answer = workspace.process_conflicting(winners, height)?;
            let is_allowed = answer.is_ok();
            Ok((answer, is_allowed))
        })
    }

    fn begin_conflict_intent(&self, intent: &ConflictIntent) -> Result<[u8; 32], StoreError> {
        self.check_len(intent.txids().len())?;
        let id = intent.id();
        self.set_state(&intent_name(&id), Some(&intent.to_bytes()))?;
        Ok(id)
    }

    fn complete_conflict_intent(&self, id: &[u8; 32]) -> Result<(), StoreError> {
        self.set_state(&intent_name(id), None)
    }

    fn pending_conflict_intents(&self, limit: usize) -> Result<Vec<ConflictIntent>, StoreError> {
        self.read(|facts| {
            let found = facts.view.states(CONFLICT_INTENT, None, limit)?;
            found.iter().map(|(_, bytes)| Ok(ConflictIntent::from_bytes(bytes)?)).collect()
        })
    }

    fn freeze(&self, outputs: &[(OutPoint, [u8; 32])]) -> PerItem<()> {
        let touched = only(outputs.iter().map(|(outpoint, _)| outpoint.txid()));
        self.each(&touched, outputs, NOTHING, |workspace, (outpoint, hash)| {
            workspace.freeze(outpoint, hash)
        })
    }

    fn unfreeze(&self, outputs: &[(OutPoint, [u8; 32])]) -> PerItem<()> {
        let touched = only(outputs.iter().map(|(outpoint, _)| outpoint.txid()));
        self.each(&touched, outputs, NOTHING, |workspace, (outpoint, hash)| {
            workspace.unfreeze(outpoint, hash)
        })
    }

    fn reassign(
        &self,
        outpoint: OutPoint,
        hash: [u8; 32],
        script: &[u8],
        height: Height,
    ) -> Result<Result<[u8; 32], NodeError>, StoreError> {
        self.change(&only([outpoint.txid()]), |workspace| {
            workspace.reassign(&outpoint, &hash, script, height)
        })
    }

    fn preserve(&self, txids: &[Txid], until: Height) -> Result<usize, StoreError> {
        self.count(txids, |workspace, txid| workspace.preserve(txid, until))
    }

    fn expire_preservations(&self, height: Height, limit: usize) -> Result<usize, StoreError> {
        let due = self.read(|facts| {
            let limit = limit.min(self.settings.items_max);
            let mut due = facts.view.by_height(HeightIndex::Preserved, height, None, limit)?;
            due.extend(facts.view.by_height(HeightIndex::KeptForChild, height, None, limit)?);
            Ok(due)
        })?;
        let mut due: Vec<Txid> = due.into_iter().map(|(_, txid)| txid).collect();
        due.sort_unstable();
        due.dedup();
        due.truncate(limit);
        // Whoever changed a record since is seen when it is loaded under its lock.
        self.count(&due, |workspace, txid| workspace.expire_preservation(txid, height))
    }

    fn unmined(
        &self,
        cutoff: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError> {
        let limit = limit.min(self.settings.items_max);
        self.read(|facts| facts.view.by_height(HeightIndex::Unmined, cutoff, after, limit))
    }

    fn decorate(&self, outputs: &[OutPoint]) -> Result<Vec<Decorated>, StoreError> {
        self.check_len(outputs.len())?;
        self.read(|facts| {
            let mut ids: Vec<Txid> = outputs.iter().map(|outpoint| *outpoint.txid()).collect();
            ids.sort_unstable();
            ids.dedup();
            let (bodies, records) = (facts.bodies(&ids)?, facts.view.records(&ids)?);
            let one = |outpoint: &OutPoint| {
                let at = ids.binary_search(outpoint.txid()).ok()?;
                let (body, record) = (bodies[at].as_ref()?, records[at].as_ref()?);
                let Some(output) = body.outputs.get(outpoint.index() as usize) else {
                    return Some(Decorated::NoOutput);
                };
                let given = record.reassignments.iter().rfind(|r| r.vout == outpoint.index());
                let script = given.map_or(&output.script, |given| &given.script).clone();
                Some(Decorated::Found(PreviousOutput { satoshis: output.satoshis, script }))
            };
            let answers = outputs.iter().map(one);
            Ok(answers.map(|answer| answer.unwrap_or(Decorated::NoTransaction)).collect())
        })
    }

    fn parent_outputs(&self, outputs: &[OutPoint]) -> Result<Vec<ParentOutput>, StoreError> {
        self.check_len(outputs.len())?;
        self.read(|facts| {
            let ids: Vec<Txid> = outputs.iter().map(|outpoint| *outpoint.txid()).collect();
            let one = |(outpoint, record): (&OutPoint, Option<TxRecord>)| {
                let Some(record) = record else { return ParentOutput::NoTransaction };
                if outpoint.index() >= record.outputs {
                    return ParentOutput::NoOutput;
                }
                match record.blocks.iter().map(|block| block.height).min() {
                    Some(height) => ParentOutput::Mined(height),
                    None => ParentOutput::NotMined,
                }
            };
            Ok(outputs.iter().zip(facts.view.records(&ids)?).map(one).collect())
        })
    }

    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is not general enough"
    )]
    fn delete(&self, txids: &[Txid]) -> Result<usize, StoreError> {
        self.count(txids, |workspace, txid| workspace.delete(txid))
    }

    fn creation_lock(&self, txid: &Txid) -> Result<Option<CreationLock>, StoreError> {
        self.backend.creation_lock(txid)
    }

    fn block_state(&self) -> Result<Option<BlockState>, StoreError> {
        self.read(|facts| BlockState::read(facts.view))
    }

    fn set_block_state(&self, state: BlockState) -> Result<Result<(), NodeError>, StoreError> {
        self.take_block_state(state)
    }
}

impl NodeStore {
    /// Writes a value of the store as a whole.
    pub(crate) fn set_state(&self, name: &str, value: Option<&[u8]>) -> Result<(), StoreError> {
        self.commit(Asks::Place, &Touched::Only(Vec::new()), &mut |_| {
            let states = vec![(name.to_owned(), value.map(<[u8]>::to_vec))];
            Ok(ChangeSet::of_states(states))
        })
    }

    /// Does something to each transaction; answers to how many it did.
    pub(crate) fn count(
        &self,
        txids: &[Txid],
        mut work: impl FnMut(&mut Work<'_, '_>, &Txid) -> Result<bool, StoreError>,
    ) -> Result<usize, StoreError> {
        let answers = self.each(&only(txids), txids, (txids, &[]), |workspace, txid| {
            work(workspace, txid).map(Ok)
        })?;
        // Only for want of time: what is done can be done again.
        let done: Result<Vec<bool>, NodeError> = answers.into_iter().collect();
        let done = done.map_err(|_| StoreError::Contended)?;
        Ok(done.into_iter().filter(|is_done| *is_done).count())
    }
}
