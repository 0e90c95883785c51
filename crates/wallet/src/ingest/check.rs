//! What can be said about a transaction before the database is asked.

use rustc_hash::FxHashSet;
use utxokeep_core::{
    Network,
    wallet::{Amount, BadLabel},
};

use crate::{Credits, LedgerError, Limits, NewTx};

/// Refuses what is beyond the limits. What is in a block is there, however large.
pub(super) fn within_limits(new: &NewTx, limits: &Limits) -> Result<(), LedgerError> {
    let refuse = |what: String| Err(LedgerError::invalid_tx(what));
    if new.inputs.len() > limits.tx_inputs_max || new.outputs.len() > limits.tx_outputs_max {
        return refuse(format!(
            "it has {} inputs and {} outputs, at most {} and {} are allowed",
            new.inputs.len(),
            new.outputs.len(),
            limits.tx_inputs_max,
            limits.tx_outputs_max
        ));
    }
    if new.raw.as_ref().is_some_and(|raw| raw.len() > limits.raw_tx_bytes_max) {
        return refuse(format!("it is longer than {} bytes", limits.raw_tx_bytes_max));
    }
    Ok(())
}

/// Refuses what no chain can contain.
pub(crate) fn shape(new: &NewTx) -> Result<(), LedgerError> {
    let refuse = |what: String| Err(LedgerError::invalid_tx(what));
    if new.coinbase != new.inputs.is_empty() {
        return refuse("a coinbase, and only a coinbase, is given without inputs".to_owned());
    }
    let mut seen = FxHashSet::default();
    if let Some(twice) = new.inputs.iter().find(|input| !seen.insert(**input)) {
        return refuse(format!("it spends {twice} twice"));
    }
    if new.inputs.iter().any(|input| *input.txid() == new.txid) {
        return refuse("it spends from itself".to_owned());
    }
    let total = new.outputs.iter().map(|output| output.amount.get()).fold(0, u64::saturating_add);
    Amount::new(total)?;
    match &new.credits {
        Credits::Watched => Ok(()),
        Credits::Exactly(indexes) => credits(indexes.iter().copied(), new.outputs.len()),
        Credits::To(owners) => {
            let mut seen = FxHashSet::default();
            if let Some((twice, _)) = owners.iter().find(|(index, _)| !seen.insert(*index)) {
                return refuse(format!("output {twice} is credited twice"));
            }
            credits(owners.iter().map(|(index, _)| *index), new.outputs.len())
        }
    }
}

fn credits(mut indexes: impl Iterator<Item = u32>, outputs: usize) -> Result<(), LedgerError> {
    let outside = |index: &u32| usize::try_from(*index).is_ok_and(|index| index >= outputs);
    match indexes.find(outside) {
        Some(index) => Err(LedgerError::OutputOutOfRange { index, outputs }),
        None => Ok(()),
    }
}

/// Refuses a block that no chain can contain, whomever it concerns: an output that two of its
/// transactions spend, or a transaction that is in it twice.
pub(crate) fn block(network: Network, txs: &[NewTx]) -> Result<(), LedgerError> {
    let mut txids = FxHashSet::default();
    if let Some(twice) = txs.iter().find(|new| !txids.insert(new.txid)) {
        let what = format!("transaction {} is twice in the block", network.hash(twice.txid));
        return Err(LedgerError::InvalidBlock { what });
    }
    let mut spent = FxHashSet::default();
    for new in txs {
        // What one transaction spends twice is told where its shape is looked at.
        let own: FxHashSet<_> = new.inputs.iter().collect();
        if let Some(twice) = own.into_iter().find(|input| !spent.insert(**input)) {
            let twice = network.outpoint(twice);
            let what = format!("two transactions of the block spend {twice}");
            return Err(LedgerError::InvalidBlock { what });
        }
    }
    Ok(())
}

/// Refuses labels that are too long; characters count, not bytes.
pub(crate) fn label(label: &str, limits: &Limits) -> Result<(), LedgerError> {
    if label.contains('\0') {
        return Err(BadLabel::Nul.into());
    }
    let chars = label.chars().count();
    if chars > limits.label_chars_max {
        return Err(LedgerError::argument(format!(
            "the label has {chars} characters, at most {} are allowed",
            limits.label_chars_max
        )));
    }
    Ok(())
}
