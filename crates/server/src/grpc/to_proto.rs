//! From the types of the store to messages.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        BlobKind, ConflictIntent, MinedBlock, NodeInput, NodeOutput, NodeTx, OutputRecord,
        OutputState, Reassignment, SpendInput, SpendStatus, SpendView, SpendingData, Spent, Stored,
        TxRecord,
    },
};
use utxokeep_txstore::{BlockState, StoredTx};

use super::proto;

pub(super) fn txid(txid: &Txid) -> Vec<u8> {
    txid.as_bytes().to_vec()
}

pub(super) fn txids(list: &[Txid]) -> Vec<Vec<u8>> {
    list.iter().map(txid).collect()
}

pub(super) fn outpoint(outpoint: &OutPoint) -> proto::OutPoint {
    proto::OutPoint { txid: txid(outpoint.txid()), vout: outpoint.index() }
}

pub(super) fn spender(by: &SpendingData) -> proto::Spender {
    proto::Spender { txid: txid(&by.txid), vin: by.vin }
}

fn output(satoshis: u64, script: Vec<u8>) -> proto::Output {
    proto::Output { satoshis, script }
}

fn input(input: NodeInput) -> proto::Input {
    proto::Input {
        outpoint: Some(outpoint(&input.outpoint)),
        script: input.script,
        sequence: input.sequence,
        previous: input.previous.map(|previous| output(previous.satoshis, previous.script)),
    }
}

fn transaction(tx: NodeTx) -> proto::Transaction {
    let of = |NodeOutput { satoshis, script }: NodeOutput| output(satoshis, script);
    proto::Transaction {
        txid: txid(&tx.txid),
        version: tx.version,
        lock_time: tx.lock_time,
        is_coinbase: tx.is_coinbase,
        inputs: tx.inputs.into_iter().map(input).collect(),
        outputs: tx.outputs.into_iter().map(of).collect(),
        raw: Vec::new(),
    }
}

fn mined_block(block: MinedBlock) -> proto::MinedBlock {
    proto::MinedBlock { id: block.id, height: block.height.get(), subtree: block.subtree }
}

fn reassignment(given: Reassignment) -> proto::Reassignment {
    proto::Reassignment {
        vout: given.vout,
        old_utxo_hash: given.old.to_vec(),
        new_utxo_hash: given.new.to_vec(),
        script: given.script,
        height: given.height.get(),
    }
}

fn record(record: TxRecord) -> proto::Record {
    let body_place = match record.blob {
        None => proto::BodyPlace::Inline,
        Some(BlobKind::Tx) => proto::BodyPlace::TxFile,
        Some(BlobKind::Outputs) => proto::BodyPlace::OutputsFile,
    };
    proto::Record {
        is_coinbase: record.is_coinbase,
        is_conflicting: record.is_conflicting,
        is_locked: record.is_locked,
        spendable_from_height: record.spendable_at.map(Height::get),
        outputs: record.outputs,
        utxos: record.utxos,
        spent: record.spent,
        spent_at_height: record.spent_at.map(Height::get),
        blocks: record.blocks.into_iter().map(mined_block).collect(),
        unmined_since_height: record.unmined_since.map(Height::get),
        created_at_ms: record.created_at_ms,
        delete_at_height: record.delete_at.map(Height::get),
        preserve_until_height: record.preserve_until.map(Height::get),
        kept_for_child_until_height: record.kept_for_child_until.map(Height::get),
        is_creating: record.is_creating,
        conflicting_children: txids(&record.conflicting_children),
        reassignments: record.reassignments.into_iter().map(reassignment).collect(),
        deleted_children: record.deleted_children,
        body_place: body_place.into(),
    }
}

fn slot(vout: u32, slot: &OutputRecord) -> proto::Slot {
    let state = match slot.state {
        OutputState::Unspent => proto::SlotState::Unspent,
        OutputState::Frozen => proto::SlotState::Frozen,
        OutputState::Spent(_) => proto::SlotState::Spent,
    };
    proto::Slot {
        vout,
        utxo_hash: slot.hash.to_vec(),
        state: state.into(),
        spent_by: slot.spent_by().as_ref().map(spender),
        spendable_from_height: slot.spendable_at,
    }
}

pub(super) fn stored_transaction(tx: StoredTx) -> proto::StoredTransaction {
    let slots = tx.slots.map(|slots| {
        let slots = (0u32..).zip(&slots);
        let slots = slots.filter_map(|(vout, found)| found.as_ref().map(|found| slot(vout, found)));
        proto::Slots { slots: slots.collect() }
    });
    proto::StoredTransaction {
        record: Some(record(tx.record)),
        body: tx.body.map(transaction),
        slots,
    }
}

pub(super) fn spend_view(view: &SpendView) -> proto::SpendView {
    let status = match view.status {
        SpendStatus::Ok => proto::SpendStatus::Ok,
        SpendStatus::Spent => proto::SpendStatus::Spent,
        SpendStatus::Immature => proto::SpendStatus::Immature,
        SpendStatus::NotFound => proto::SpendStatus::NotFound,
        SpendStatus::Frozen => proto::SpendStatus::Frozen,
        SpendStatus::Conflicting => proto::SpendStatus::Conflicting,
        SpendStatus::Creating => proto::SpendStatus::Creating,
        SpendStatus::Locked => proto::SpendStatus::Locked,
    };
    proto::SpendView { status: status.into(), spent_by: view.by.as_ref().map(spender) }
}

pub(super) fn spent(spent: Spent) -> proto::Spent {
    let parents = spent.parent_blocks.into_iter();
    let parents =
        parents.map(|(parent, block_ids)| proto::ParentBlocks { txid: txid(&parent), block_ids });
    proto::Spent { newly_spent: spent.newly, parents: parents.collect() }
}

pub(super) fn stored(stored: Stored) -> proto::Stored {
    let (existed, done) = match stored {
        Stored::New(done) => (false, done),
        Stored::Existed(done) => (true, done),
    };
    proto::Stored { existed, spent: Some(spent(done)) }
}

pub(super) fn relatives((spends, children): (Vec<SpendInput>, Vec<Txid>)) -> proto::Relatives {
    let spends = spends.iter().map(|input| proto::SpendInput {
        output: Some(proto::OutputRef {
            outpoint: Some(outpoint(&input.outpoint)),
            utxo_hash: input.hash.to_vec(),
        }),
        vin: input.vin,
    });
    proto::Relatives { spends: spends.collect(), children: txids(&children) }
}

pub(super) fn conflict_intent(intent: &ConflictIntent) -> proto::ConflictIntent {
    proto::ConflictIntent { txids: txids(intent.txids()), height: intent.height.get() }
}

pub(super) fn unmined((since, id): &(Height, Txid)) -> proto::UnminedTransaction {
    proto::UnminedTransaction { since_height: since.get(), txid: txid(id) }
}

pub(super) fn block_state(state: BlockState) -> proto::BlockState {
    proto::BlockState { height: state.height.get(), median_time: state.median_time }
}
