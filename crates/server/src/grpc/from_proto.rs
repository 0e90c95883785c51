//! From messages to the types of the store. Whatever breaks the contract is refused here.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, NodeInput, NodeOutput, NodeTx, PreviousOutput, SpendFlags,
        SpendInput, SpendRequest, SpendingData, UnspendRequest,
    },
};
use utxokeep_txstore::{BlockState, Fields};

use super::{
    fault::{Fault, Within, each, required},
    proto,
};

/// 32 bytes, which is what every hash and id has.
pub(super) fn hash(bytes: &[u8]) -> Result<[u8; 32], Fault> {
    bytes.try_into().map_err(|_| Fault::new(format!("{} bytes, 32 are expected", bytes.len())))
}

// By value, because lists are taken apart item by item.
#[allow(clippy::needless_pass_by_value, reason = "converters of lists take their items")]
pub(super) fn txid(bytes: Vec<u8>) -> Result<Txid, Fault> {
    hash(&bytes).map(Txid::from_bytes)
}

/// A height that no rule of the store asks for, so that it is asked for here.
pub(super) fn height(field: &str, height: u32) -> Result<Height, Fault> {
    if height == 0 {
        return Err(Fault::new("is missing or 0: give the height of a block")).within(field);
    }
    Ok(Height::new(height))
}

/// A limit, which must let something through.
pub(super) fn limit(field: &str, limit: u32, most: usize) -> Result<usize, Fault> {
    let value = usize::try_from(limit).unwrap_or(usize::MAX);
    if value == 0 || value > most {
        return Err(Fault::new(format!("is {limit}, from 1 to {most} is expected"))).within(field);
    }
    Ok(value)
}

pub(super) fn outpoint(outpoint: proto::OutPoint) -> Result<OutPoint, Fault> {
    Ok(OutPoint::new(txid(outpoint.txid).within("txid")?, outpoint.vout))
}

/// An output with its commitment.
pub(super) fn output_ref(output: proto::OutputRef) -> Result<(OutPoint, [u8; 32]), Fault> {
    let commitment = hash(&output.utxo_hash).within("utxo_hash")?;
    let at = required("outpoint", output.outpoint)?;
    Ok((outpoint(at).within("outpoint")?, commitment))
}

/// An output whose commitment may be left out.
pub(super) fn output_maybe_ref(
    output: proto::OutputRef,
) -> Result<(OutPoint, Option<[u8; 32]>), Fault> {
    if output.utxo_hash.is_empty() {
        let at = required("outpoint", output.outpoint)?;
        return Ok((outpoint(at).within("outpoint")?, None));
    }
    output_ref(output).map(|(outpoint, hash)| (outpoint, Some(hash)))
}

fn spender(spender: proto::Spender) -> Result<SpendingData, Fault> {
    Ok(SpendingData { txid: txid(spender.txid).within("txid")?, vin: spender.vin })
}

fn input(input: proto::Input) -> Result<NodeInput, Fault> {
    let at = required("outpoint", input.outpoint)?;
    Ok(NodeInput {
        outpoint: outpoint(at).within("outpoint")?,
        script: input.script,
        sequence: input.sequence,
        previous: input.previous.map(|previous| PreviousOutput {
            satoshis: previous.satoshis,
            script: previous.script,
        }),
    })
}

/// A transaction in bytes, whose id is computed. Whatever else is given must not contradict it.
fn raw_transaction(tx: proto::Transaction) -> Result<NodeTx, Fault> {
    let parsed = NodeTx::from_raw(&tx.raw);
    let parsed = parsed.map_err(|error| Fault::new(error.to_string())).within("raw")?;
    let has_fields = tx.version != 0 || tx.lock_time != 0 || tx.is_coinbase;
    if has_fields || !tx.inputs.is_empty() || !tx.outputs.is_empty() {
        return Err(Fault::new("is given beside other fields; send it alone")).within("raw");
    }
    if !tx.txid.is_empty() && txid(tx.txid).within("txid")? != parsed.txid {
        let id = parsed.txid;
        return Err(Fault::new(format!("is not that of the bytes, which is {id}"))).within("txid");
    }
    Ok(parsed)
}

fn transaction(tx: proto::Transaction) -> Result<NodeTx, Fault> {
    if !tx.raw.is_empty() {
        return raw_transaction(tx);
    }
    let output =
        |output: proto::Output| NodeOutput { satoshis: output.satoshis, script: output.script };
    Ok(NodeTx {
        txid: txid(tx.txid).within("txid")?,
        version: tx.version,
        lock_time: tx.lock_time,
        is_coinbase: tx.is_coinbase,
        inputs: each("inputs", tx.inputs, input)?,
        outputs: tx.outputs.into_iter().map(output).collect(),
    })
}

pub(super) fn mined_block(block: proto::MinedBlock) -> MinedBlock {
    MinedBlock { id: block.id, height: Height::new(block.height), subtree: block.subtree }
}

fn create_options(options: proto::CreateOptions) -> Result<CreateOptions, Fault> {
    let mined = each("mined", options.mined, |block| {
        height("height", block.height)?;
        Ok(mined_block(block))
    })?;
    Ok(CreateOptions {
        mined,
        is_conflicting: options.is_conflicting,
        is_locked: options.is_locked,
        is_frozen: options.is_frozen,
        may_lack_previous: options.may_lack_previous,
        created_at_ms: options.created_at_ms,
    })
}

pub(super) fn new_transaction(
    new: proto::NewTransaction,
) -> Result<(NodeTx, CreateOptions), Fault> {
    let tx = transaction(required("transaction", new.transaction)?).within("transaction")?;
    let options = create_options(new.options.unwrap_or_default()).within("options")?;
    Ok((tx, options))
}

pub(super) fn flags(flags: Option<proto::SpendFlags>) -> SpendFlags {
    let proto::SpendFlags { ignore_conflicting, ignore_locked } = flags.unwrap_or_default();
    SpendFlags { ignore_conflicting, ignore_locked }
}

pub(super) fn fields(fields: Option<proto::Fields>) -> Fields {
    let proto::Fields { body, slots } = fields.unwrap_or_default();
    Fields { body, slots }
}

fn spend_input(input: proto::SpendInput) -> Result<SpendInput, Fault> {
    let output = required("output", input.output)?;
    let (outpoint, hash) = output_ref(output).within("output")?;
    Ok(SpendInput { outpoint, hash, vin: input.vin })
}

pub(super) fn spend(spend: proto::Spend) -> Result<SpendRequest, Fault> {
    Ok(SpendRequest {
        spender: txid(spend.spender).within("spender")?,
        inputs: each("inputs", spend.inputs, spend_input)?,
        height: Height::new(spend.height),
        flags: flags(spend.flags),
    })
}

pub(super) fn unspend(unspend: proto::Unspend) -> Result<UnspendRequest, Fault> {
    let output = required("output", unspend.output)?;
    let (outpoint, hash) = output_ref(output).within("output")?;
    Ok(UnspendRequest {
        outpoint,
        hash,
        expected: unspend.expected.map(spender).transpose().within("expected")?,
        set_locked: unspend.set_locked,
        height: Height::new(unspend.height),
    })
}

pub(super) fn unmined(entry: proto::UnminedTransaction) -> Result<(Height, Txid), Fault> {
    Ok((Height::new(entry.since_height), txid(entry.txid).within("txid")?))
}

pub(super) fn block_state(state: proto::BlockState) -> BlockState {
    BlockState { height: Height::new(state.height), median_time: state.median_time }
}
