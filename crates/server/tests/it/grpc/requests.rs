//! From the types of the store to messages, as a client makes them.

use utxokeep_core::{
    OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, NodeTx, SpendFlags, SpendRequest, SpendingData, UnspendRequest,
    },
};
use utxokeep_server::grpc::proto;

pub(crate) fn txids(txids: &[Txid]) -> Vec<Vec<u8>> {
    txids.iter().map(|txid| txid.as_bytes().to_vec()).collect()
}

pub(crate) fn outpoint(outpoint: &OutPoint) -> proto::OutPoint {
    proto::OutPoint { txid: outpoint.txid().as_bytes().to_vec(), vout: outpoint.index() }
}

pub(crate) fn output_ref(at: &OutPoint, hash: &[u8]) -> proto::OutputRef {
    proto::OutputRef { outpoint: Some(outpoint(at)), utxo_hash: hash.to_vec() }
}

pub(crate) fn block(block: &MinedBlock) -> proto::MinedBlock {
    proto::MinedBlock { id: block.id, height: block.height.get(), subtree: block.subtree }
}

pub(crate) fn flags(flags: SpendFlags) -> proto::SpendFlags {
    proto::SpendFlags {
        ignore_conflicting: flags.ignore_conflicting,
        ignore_locked: flags.ignore_locked,
    }
}

pub(crate) fn transaction(tx: &NodeTx) -> proto::Transaction {
    let output = |satoshis, script: &[u8]| proto::Output { satoshis, script: script.to_vec() };
    let inputs = tx.inputs.iter().map(|input| proto::Input {
        outpoint: Some(outpoint(&input.outpoint)),
        script: input.script.clone(),
        sequence: input.sequence,
        previous: input.previous.as_ref().map(|from| output(from.satoshis, &from.script)),
    });
    proto::Transaction {
        txid: tx.txid.as_bytes().to_vec(),
        version: tx.version,
        lock_time: tx.lock_time,
        is_coinbase: tx.is_coinbase,
        inputs: inputs.collect(),
        outputs: tx.outputs.iter().map(|to| output(to.satoshis, &to.script)).collect(),
        raw: Vec::new(),
    }
}

pub(crate) fn new_transaction(tx: &NodeTx, options: &CreateOptions) -> proto::NewTransaction {
    let options = proto::CreateOptions {
        mined: options.mined.iter().map(block).collect(),
        is_conflicting: options.is_conflicting,
        is_locked: options.is_locked,
        is_frozen: options.is_frozen,
        may_lack_previous: options.may_lack_previous,
        created_at_ms: options.created_at_ms,
    };
    proto::NewTransaction { transaction: Some(transaction(tx)), options: Some(options) }
}

pub(crate) fn new_transactions(txs: &[(NodeTx, CreateOptions)]) -> Vec<proto::NewTransaction> {
    txs.iter().map(|(tx, options)| new_transaction(tx, options)).collect()
}

pub(crate) fn spend(request: &SpendRequest) -> proto::Spend {
    let inputs = request.inputs.iter().map(|input| proto::SpendInput {
        output: Some(output_ref(&input.outpoint, &input.hash)),
        vin: input.vin,
    });
    proto::Spend {
        spender: request.spender.as_bytes().to_vec(),
        inputs: inputs.collect(),
        height: request.height.get(),
        flags: Some(flags(request.flags)),
    }
}

pub(crate) fn unspend(request: &UnspendRequest) -> proto::Unspend {
    let spender =
        |by: SpendingData| proto::Spender { txid: by.txid.as_bytes().to_vec(), vin: by.vin };
    proto::Unspend {
        output: Some(output_ref(&request.outpoint, &request.hash)),
        expected: request.expected.map(spender),
        set_locked: request.set_locked,
        height: request.height.get(),
    }
}
