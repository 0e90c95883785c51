//! Reading a PSBT back: what it spends, pays and leaves as a fee.

use ::bitcoin::psbt::Psbt;
use base64::Engine as _;
use utxokeep_core::{OutPoint, Txid};

use super::{PsbtError, txid_of};

/// Characters of a PSBT in base64.
const BASE64_CHARS_MAX: usize = 16 << 20;

/// What a PSBT says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PsbtSummary {
    /// Id of the unsigned transaction.
    pub txid: Txid,
    /// What it spends, with the amount where the PSBT tells it.
    pub inputs: Vec<(OutPoint, Option<u64>)>,
    /// Amounts and scripts that it pays.
    pub outputs: Vec<(u64, Vec<u8>)>,
    /// What is left; `None` when an amount is missing.
    pub fee: Option<u64>,
    /// Inputs that name the keys they need.
    pub inputs_with_keys: usize,
    /// Whether every input may be replaced.
    pub is_replaceable: bool,
}

/// The PSBT of a text in base64.
pub(super) fn parse(text: &str) -> Result<Psbt, PsbtError> {
    let unreadable = |reason: String| PsbtError::Unreadable { reason };
    if text.len() > BASE64_CHARS_MAX {
        return Err(unreadable(format!("it is longer than {BASE64_CHARS_MAX} characters")));
    }
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text.trim())
        .map_err(|error| unreadable(error.to_string()))?;
    Psbt::deserialize(&bytes).map_err(|error| unreadable(error.to_string()))
}

/// Reads a PSBT in base64.
pub fn read_psbt(text: &str) -> Result<PsbtSummary, PsbtError> {
    let psbt = parse(text)?;
    let tx = &psbt.unsigned_tx;
    let inputs: Vec<(OutPoint, Option<u64>)> = tx
        .input
        .iter()
        .zip(&psbt.inputs)
        .map(|(input, known)| {
            let spent = &input.previous_output;
            let of_parent = known.non_witness_utxo.as_ref().and_then(|parent| {
                parent.output.get(usize::try_from(spent.vout).unwrap_or(usize::MAX))
            });
            let value = known.witness_utxo.as_ref().or(of_parent).map(|out| out.value.to_sat());
            (OutPoint::new(txid_of(&spent.txid), spent.vout), value)
        })
        .collect();
    let outputs: Vec<(u64, Vec<u8>)> = tx
        .output
        .iter()
        .map(|output| (output.value.to_sat(), output.script_pubkey.to_bytes()))
        .collect();
    let paid_in = inputs.iter().try_fold(0u64, |sum, (_, value)| sum.checked_add((*value)?));
    let paid_out = outputs.iter().try_fold(0u64, |sum, (value, _)| sum.checked_add(*value));
    Ok(PsbtSummary {
        txid: txid_of(&tx.compute_txid()),
        fee: paid_in.zip(paid_out).and_then(|(inside, out)| inside.checked_sub(out)),
        inputs,
        outputs,
        inputs_with_keys: psbt
            .inputs
            .iter()
            .filter(|input| !input.bip32_derivation.is_empty() || !input.tap_key_origins.is_empty())
            .count(),
        is_replaceable: tx.input.iter().all(|input| input.sequence.is_rbf()),
    })
}
