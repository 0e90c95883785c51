//! From signatures to a transaction that can be sent.

use ::bitcoin::{Amount, consensus::serialize};
use miniscript::{bitcoin::secp256k1::Secp256k1, psbt::PsbtExt as _};
use utxokeep_core::wallet::SignedPsbt;

use super::{PsbtError, read::parse, txid_of};

/// Inputs that an error names.
const NAMED_INPUTS_MAX: usize = 5;

/// Puts the signatures of a PSBT in base64 together and checks that they open what is spent. Inputs
/// that were put together before stay as they are.
pub fn finalize_psbt(text: &str) -> Result<SignedPsbt, PsbtError> {
    let mut psbt = parse(text)?;
    let unsigned_txid = txid_of(&psbt.unsigned_tx.compute_txid());
    let fee = psbt.fee().ok().map(Amount::to_sat);
    let curve = Secp256k1::verification_only();
    let mut open = Vec::new();
    for at in 0..psbt.inputs.len() {
        let input = &psbt.inputs[at];
        if input.final_script_sig.is_some() || input.final_script_witness.is_some() {
            continue;
        }
        if let Err(error) = psbt.finalize_inp_mut(&curve, at) {
            open.push(format!("input {at}: {error}"));
        }
    }
    if !open.is_empty() {
        let more = open.len().saturating_sub(NAMED_INPUTS_MAX);
        open.truncate(NAMED_INPUTS_MAX);
        let mut reason = open.join("; ");
        if more > 0 {
            reason = format!("{reason}; and {more} more inputs");
        }
        return Err(PsbtError::NotSigned { reason });
    }
    // The fee is bounded by whoever sends the transaction.
    let raw = serialize(&psbt.extract_tx_unchecked_fee_rate());
    Ok(SignedPsbt { unsigned_txid, raw, fee })
}
