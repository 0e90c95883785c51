//! One transaction, with its outputs as they stand.

use serde::Serialize;
use utxokeep_core::{
    ErrorKind, Height, Txid, hex_encode,
    node::{NodeTx, OutputRecord, OutputState},
};
use utxokeep_txstore::{Fields, StoredTx};

use super::{TAG, TransactionReadError, TransactionRequest, Transactions, TxName};
use crate::{
    json::Units,
    ops::{About, Answer, Answered, Known, Lines, Operation, Refusal},
};

pub(super) const UNKNOWN: Refusal = (
    ErrorKind::NotFound,
    "`unknown_transaction`: it never was in the node store, or it was pruned",
);

/// One output as it stands.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = TransactionOutput))]
pub struct OutputAnswer {
    /// Position among the outputs of the transaction.
    output_index: u32,
    /// Amount in satoshi, as a decimal string; `null` while the body is not there.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "5000000000"))]
    amount: Option<Units>,
    /// `unspent`, `spent`, `frozen`, or `unspendable` for one that nobody can spend.
    #[cfg_attr(feature = "schema", schema(example = "unspent"))]
    state: &'static str,
    /// Hash by which the store and its clients make sure that they mean the same output.
    utxo_hash: Option<String>,
    /// Transaction that spent it.
    spent_tx_hash: Option<String>,
    /// Position of the input that spent it.
    spent_input_index: Option<u32>,
    /// Height from which it can be spent, if that lies ahead or did.
    spendable_from_height: Option<u32>,
}

impl OutputAnswer {
    fn new(index: u32, slot: Option<&OutputRecord>, body: Option<&NodeTx>) -> Self {
        let state = match slot.map(|slot| slot.state) {
            None => "unspendable",
            Some(OutputState::Unspent) => "unspent",
            Some(OutputState::Frozen) => "frozen",
            Some(OutputState::Spent(_)) => "spent",
        };
        let by = slot.and_then(OutputRecord::spent_by);
        let output = body.and_then(|body| body.outputs.get(index as usize));
        Self {
            output_index: index,
            amount: output.map(|output| Units(output.satoshis.into())),
            state,
            utxo_hash: slot.map(|slot| hex_encode(&slot.hash)),
            spent_tx_hash: by.map(|by| by.txid.to_string()),
            spent_input_index: by.map(|by| by.vin),
            spendable_from_height: slot.and_then(|slot| slot.spendable_at),
        }
    }
}

/// A block that holds a transaction.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TransactionBlock {
    /// Number that the node gave the block.
    id: u32,
    /// Height of the block.
    height: u32,
    /// Position of the subtree that holds the transaction.
    subtree: u32,
}

/// A transaction with everything the store knows of it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = StoredTransaction))]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct TransactionAnswer {
    /// The transaction.
    tx_hash: String,
    /// Whether it is a coinbase.
    is_coinbase: bool,
    /// Whether it conflicts with one that won.
    is_conflicting: bool,
    /// Whether its outputs are locked against being spent.
    is_locked: bool,
    /// Whether it is in a block of the best chain.
    is_mined: bool,
    /// Fee in satoshi, as a decimal string; `null` for a coinbase, or while the body is not there.
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "226"))]
    fee: Option<Units>,
    /// Number of its inputs.
    input_count: Option<usize>,
    /// Number of its outputs.
    output_count: u32,
    /// Those that can be spent at all.
    outputs_spendable: u32,
    /// Those that are spent.
    outputs_spent: u32,
    /// The blocks it is in.
    blocks: Vec<TransactionBlock>,
    /// Height since which it counts as unmined.
    unmined_since_height: Option<u32>,
    /// Height at which its last output was spent.
    spent_at_height: Option<u32>,
    /// Height from which its outputs can be spent.
    spendable_from_height: Option<u32>,
    /// Height from which the pruner may delete it.
    delete_at_height: Option<u32>,
    /// Height until which an operator keeps it.
    preserve_until_height: Option<u32>,
    /// Height until which it is kept for an unmined child.
    kept_for_child_until_height: Option<u32>,
    /// Transactions that conflict with it.
    conflicting_children: Vec<String>,
    /// Children that were pruned.
    deleted_children: u32,
    /// Where its body is: `record` or `blob_store`.
    #[cfg_attr(feature = "schema", schema(example = "record"))]
    body: &'static str,
    /// Its outputs, in order.
    outputs: Vec<OutputAnswer>,
}

impl TransactionAnswer {
    fn new(txid: Txid, stored: &StoredTx) -> Self {
        let record = &stored.record;
        let slots = stored.slots.as_deref().unwrap_or_default();
        let body = stored.body.as_ref();
        let blocks = record.blocks.iter().map(|block| TransactionBlock {
            id: block.id,
            height: block.height.get(),
            subtree: block.subtree,
        });
        let outputs =
            (0u32..).zip(slots).map(|(at, slot)| OutputAnswer::new(at, slot.as_ref(), body));
        Self {
            tx_hash: txid.to_string(),
            is_coinbase: record.is_coinbase,
            is_conflicting: record.is_conflicting,
            is_locked: record.is_locked,
            is_mined: record.is_mined(),
            fee: body.and_then(NodeTx::fee).map(|fee| Units(fee.into())),
            input_count: body.map(|body| body.inputs.len()),
            output_count: record.outputs,
            outputs_spendable: record.utxos,
            outputs_spent: record.spent,
            blocks: blocks.collect(),
            unmined_since_height: record.unmined_since.map(Height::get),
            spent_at_height: record.spent_at.map(Height::get),
            spendable_from_height: record.spendable_at.map(Height::get),
            delete_at_height: record.delete_at.map(Height::get),
            preserve_until_height: record.preserve_until.map(Height::get),
            kept_for_child_until_height: record.kept_for_child_until.map(Height::get),
            conflicting_children: record.conflicting_children.iter().map(Txid::to_string).collect(),
            deleted_children: record.deleted_children,
            body: record.blob.map_or("record", |_| "blob_store"),
            outputs: outputs.collect(),
        }
    }

    fn state(&self) -> String {
        let mut words = vec![if self.is_mined { "mined" } else { "unmined" }];
        words.extend(self.is_coinbase.then_some("coinbase"));
        words.extend(self.is_conflicting.then_some("conflicting"));
        words.extend(self.is_locked.then_some("locked"));
        words.join(", ")
    }
}

impl Answer for TransactionAnswer {
    fn show(&self, lines: &mut Lines) {
        lines.field("transaction", &self.tx_hash).field("state", self.state());
        for block in &self.blocks {
            lines.field("block", format_args!("{} at height {}", block.id, block.height));
        }
        let heights = [
            ("unmined since", self.unmined_since_height),
            ("spent at", self.spent_at_height),
            ("spendable from", self.spendable_from_height),
            ("delete at", self.delete_at_height),
            ("preserved until", self.preserve_until_height),
            ("kept for a child until", self.kept_for_child_until_height),
        ];
        for (label, height) in heights {
            if let Some(height) = height {
                lines.field(label, format_args!("height {height}"));
            }
        }
        let place = if self.body == "record" { "beside its record" } else { "in the blob store" };
        lines.optional("fee", self.fee).field("body", place);
        let (spent, of, all) = (self.outputs_spent, self.outputs_spendable, self.output_count);
        lines.field("outputs", format_args!("{all}, of which {of} can be spent and {spent} are"));
        for child in &self.conflicting_children {
            lines.field("conflicts with", child);
        }
        for output in &self.outputs {
            let amount = output.amount.map_or_else(|| "?".to_owned(), |amount| amount.to_string());
            let by = output.spent_tx_hash.as_ref().zip(output.spent_input_index);
            let by = by.map_or_else(String::new, |(txid, vin)| format!(" by {txid} input {vin}"));
            let (index, state) = (output.output_index, output.state);
            lines.row(format!("  {index:>5}  {amount:>16} sat  {state}{by}"));
        }
    }
}

/// One transaction.
#[derive(Debug)]
pub enum ShowTransaction {}

impl Operation for ShowTransaction {
    type Part = Transactions;
    type Request = TransactionRequest;
    type Answer = TransactionAnswer;

    const ABOUT: About = About {
        command: "tx show",
        path: "/api/v1/transactions/{tx_hash}",
        tag: TAG,
        summary: "Show a transaction with its outputs as they stand",
        refusals: &[UNKNOWN],
        ..About::READ
    };

    fn run(
        transactions: &Transactions,
        TransactionRequest { tx_hash: TxName(txid) }: TransactionRequest,
        _: Known<'_>,
    ) -> Result<Answered<TransactionAnswer>, TransactionReadError> {
        let stored = transactions.find(txid, Fields { body: true, slots: true })?;
        Ok(TransactionAnswer::new(txid, &stored).into())
    }
}
