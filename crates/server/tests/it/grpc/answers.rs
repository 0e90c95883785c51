//! From messages to the types of the store, as a client reads them.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        BlobKind, MinedBlock, NodeError, NodeInput, NodeOutput, NodeTx, OutputRecord, OutputState,
        PreviousOutput, Reassignment, SpendError, SpendInput, SpendStatus, SpendView, SpendingData,
        Spent, Stored, TxRecord,
    },
};
use utxokeep_server::grpc::proto::{self, ErrorCode};
use utxokeep_txstore::StoredTx;

pub(crate) fn hash(bytes: &[u8]) -> [u8; 32] {
    bytes.try_into().unwrap()
}

pub(crate) fn txid(bytes: &[u8]) -> Txid {
    Txid::from_slice(bytes).unwrap()
}

pub(crate) fn txids(list: &[Vec<u8>]) -> Vec<Txid> {
    list.iter().map(|bytes| txid(bytes)).collect()
}

fn outpoint(at: Option<&proto::OutPoint>) -> OutPoint {
    let at = at.unwrap();
    OutPoint::new(txid(&at.txid), at.vout)
}

fn spender(by: &proto::Spender) -> SpendingData {
    SpendingData { txid: txid(&by.txid), vin: by.vin }
}

fn spend_error(error: &proto::Error) -> SpendError {
    let at = || outpoint(error.outpoint.as_ref());
    let by = || spender(error.spent_by.as_ref().unwrap());
    match error.code() {
        ErrorCode::UtxoNotFound => SpendError::NotFound(at()),
        ErrorCode::TxConflicting => SpendError::Conflicting(txid(&error.txid)),
        ErrorCode::TxCreating => SpendError::Creating(txid(&error.txid)),
        ErrorCode::TxLocked => SpendError::Locked(txid(&error.txid)),
        ErrorCode::TxCoinbaseImmature => SpendError::Immature {
            txid: txid(&error.txid),
            from: Height::new(error.from_height.unwrap()),
            at: Height::new(error.at_height.unwrap()),
        },
        ErrorCode::UtxoMismatch => SpendError::Mismatch(at()),
        ErrorCode::UtxoFrozen => match error.from_height {
            Some(from) => SpendError::FrozenUntil { outpoint: at(), from },
            None => SpendError::Frozen(at()),
        },
        ErrorCode::UtxoSpent => SpendError::Spent { outpoint: at(), by: by() },
        ErrorCode::UtxoSpenderPruned => SpendError::SpenderPruned { outpoint: at(), by: by() },
        other => panic!("{other:?} is not about an output: {error:?}"),
    }
}

pub(crate) fn node_error(error: &proto::Error) -> NodeError {
    let at = || outpoint(error.outpoint.as_ref());
    let found = match error.code() {
        ErrorCode::TxNotFound => NodeError::NotFound(txid(&error.txid)),
        ErrorCode::TxExists => NodeError::Exists(txid(&error.txid)),
        ErrorCode::InvalidRequest => {
            NodeError::Invalid(error.message.replacen("invalid request: ", "", 1))
        }
        ErrorCode::UtxoError => {
            let inputs = error.inputs.iter();
            let inputs =
                inputs.map(|input| (input.vin, spend_error(input.error.as_ref().unwrap())));
            NodeError::Spend { spender: txid(&error.txid), errors: inputs.collect() }
        }
        ErrorCode::ParentFailed => NodeError::ParentFailed(txid(&error.txid)),
        ErrorCode::UtxoAlreadyFrozen => NodeError::AlreadyFrozen(at()),
        ErrorCode::UtxoNotFrozen => NodeError::NotFrozen(at()),
        ErrorCode::HeightZero => match error.field.as_deref() {
            None => NodeError::HeightZero,
            Some("block.height") => NodeError::HeightMissing { field: "block.height" },
            Some("unmined_since_height") => {
                NodeError::HeightMissing { field: "unmined_since_height" }
            }
            Some(other) => panic!("{other} is no field that can be missing"),
        },
        ErrorCode::BlockHeight => NodeError::BlockHeight {
            id: error.block_id.unwrap(),
            known: Height::new(error.from_height.unwrap()),
            given: Height::new(error.at_height.unwrap()),
        },
        ErrorCode::InProgress => NodeError::InProgress,
        ErrorCode::Storage => {
            let said = error.message.split_once("to the blob store: ").unwrap().1;
            let reason = said.strip_suffix("; nothing was changed, try again").unwrap().to_owned();
            NodeError::Storage { txid: txid(&error.txid), reason }
        }
        ErrorCode::ConflictTooLarge => {
            NodeError::ConflictTooLarge(usize::try_from(error.limit.unwrap()).unwrap())
        }
        _ => NodeError::Output(spend_error(error)),
    };
    assert_eq!(found.to_string(), error.message, "the facts must say what the message says");
    found
}

pub(crate) fn item(result: proto::ItemResult) -> Result<(), NodeError> {
    match result.result.unwrap() {
        proto::item_result::Result::Ok(proto::Done {}) => Ok(()),
        proto::item_result::Result::Error(error) => Err(node_error(&error)),
    }
}

fn transaction(tx: proto::Transaction) -> NodeTx {
    let inputs = tx.inputs.into_iter().map(|input| NodeInput {
        outpoint: outpoint(input.outpoint.as_ref()),
        script: input.script,
        sequence: input.sequence,
        previous: input
            .previous
            .map(|from| PreviousOutput { satoshis: from.satoshis, script: from.script }),
    });
    let outputs = tx.outputs.into_iter();
    let outputs = outputs.map(|to| NodeOutput { satoshis: to.satoshis, script: to.script });
    NodeTx {
        txid: txid(&tx.txid),
        version: tx.version,
        lock_time: tx.lock_time,
        is_coinbase: tx.is_coinbase,
        inputs: inputs.collect(),
        outputs: outputs.collect(),
    }
}

fn record(record: proto::Record) -> TxRecord {
    let blob = match record.body_place() {
        proto::BodyPlace::Unspecified => panic!("the place of the body is missing"),
        proto::BodyPlace::Inline => None,
        proto::BodyPlace::TxFile => Some(BlobKind::Tx),
        proto::BodyPlace::OutputsFile => Some(BlobKind::Outputs),
    };
    let blocks = record.blocks.iter().map(|block| MinedBlock {
        id: block.id,
        height: Height::new(block.height),
        subtree: block.subtree,
    });
    let reassignments = record.reassignments.into_iter().map(|given| Reassignment {
        vout: given.vout,
        old: hash(&given.old_utxo_hash),
        new: hash(&given.new_utxo_hash),
        script: given.script,
        height: Height::new(given.height),
    });
    TxRecord {
        is_coinbase: record.is_coinbase,
        is_conflicting: record.is_conflicting,
        is_locked: record.is_locked,
        spendable_at: record.spendable_from_height.map(Height::new),
        outputs: record.outputs,
        utxos: record.utxos,
        spent: record.spent,
        spent_at: record.spent_at_height.map(Height::new),
        blocks: blocks.collect(),
        unmined_since: record.unmined_since_height.map(Height::new),
        created_at_ms: record.created_at_ms,
        delete_at: record.delete_at_height.map(Height::new),
        preserve_until: record.preserve_until_height.map(Height::new),
        kept_for_child_until: record.kept_for_child_until_height.map(Height::new),
        conflicting_children: txids(&record.conflicting_children),
        reassignments: reassignments.collect(),
        deleted_children: record.deleted_children,
        blob,
        // The contract does not show it.
        file_checksum: None,
        is_creating: record.is_creating,
    }
}

fn slot(slot: &proto::Slot) -> OutputRecord {
    let state = match slot.state() {
        proto::SlotState::Unspecified => panic!("the state is missing"),
        proto::SlotState::Unspent => OutputState::Unspent,
        proto::SlotState::Frozen => OutputState::Frozen,
        proto::SlotState::Spent => OutputState::Spent(spender(slot.spent_by.as_ref().unwrap())),
    };
    OutputRecord { hash: hash(&slot.utxo_hash), state, spendable_at: slot.spendable_from_height }
}

pub(crate) fn stored_tx(tx: proto::StoredTransaction) -> StoredTx {
    let record = record(tx.record.unwrap());
    let slots = tx.slots.map(|slots| {
        let mut all = vec![None; record.outputs as usize];
        for found in &slots.slots {
            all[found.vout as usize] = Some(slot(found));
        }
        all
    });
    StoredTx { record, body: tx.body.map(transaction), slots }
}

pub(crate) fn spend_view(view: &proto::SpendView) -> SpendView {
    let status = match view.status() {
        proto::SpendStatus::Ok => SpendStatus::Ok,
        proto::SpendStatus::Spent => SpendStatus::Spent,
        proto::SpendStatus::Immature => SpendStatus::Immature,
        proto::SpendStatus::NotFound => SpendStatus::NotFound,
        proto::SpendStatus::Frozen => SpendStatus::Frozen,
        proto::SpendStatus::Conflicting => SpendStatus::Conflicting,
        proto::SpendStatus::Creating => SpendStatus::Creating,
        proto::SpendStatus::Locked => SpendStatus::Locked,
    };
    SpendView { status, by: view.spent_by.as_ref().map(spender) }
}

pub(crate) fn spent(spent: &proto::Spent) -> Spent {
    let parents = spent.parents.iter();
    Spent {
        newly: spent.newly_spent,
        parent_blocks: parents.map(|p| (txid(&p.txid), p.block_ids.clone())).collect(),
    }
}

pub(crate) fn stored(result: proto::StoredResult) -> Result<Stored, NodeError> {
    match result.result.unwrap() {
        proto::stored_result::Result::Ok(stored) => {
            let done = spent(&stored.spent.unwrap());
            Ok(if stored.existed { Stored::Existed(done) } else { Stored::New(done) })
        }
        proto::stored_result::Result::Error(error) => Err(node_error(&error)),
    }
}

pub(crate) fn spend_input(input: &proto::SpendInput) -> SpendInput {
    let output = input.output.as_ref().unwrap();
    SpendInput {
        outpoint: outpoint(output.outpoint.as_ref()),
        hash: hash(&output.utxo_hash),
        vin: input.vin,
    }
}
