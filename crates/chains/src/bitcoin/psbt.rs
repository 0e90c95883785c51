//! Unsigned transactions for signers: PSBT, version 0, as base64.
//!
//! # Invariants
//!
//! * Inputs pay for outputs, and what is left is the fee that was asked for.
//! * An input tells a signer what it spends: the output itself where a signature covers its
//!   amount, and the whole parent where that is known, or needed. Where all inputs are taproot no
//!   signer needs parents, and they are left out.
//! * Sequence numbers and lock time are those that the descriptors of the inputs ask for; a
//!   transaction that the next block cannot hold is refused unless that is allowed by name.

mod finalize;
mod locks;
mod read;

use ::bitcoin::{
    Amount, Script, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, XOnlyPublicKey,
    absolute, hashes::Hash as _, psbt::Psbt, transaction::Version,
};
use base64::Engine as _;
use miniscript::{Descriptor, descriptor::DefiniteDescriptorKey, psbt::PsbtExt as _};
pub use utxokeep_core::wallet::{PsbtInput, PsbtOutput, PsbtRequest, ScriptOrigin, UnsignedPsbt};
use utxokeep_core::{
    Network, OutPoint,
    wallet::{CannotBuild, CodecError, GuardRefusal, ScriptKind},
};

pub use self::finalize::finalize_psbt;
pub(super) use self::locks::spend_locks;
pub use self::read::{PsbtSummary, read_psbt};
use super::{
    DescriptorError, TxDecodeError,
    descriptor::{definite_at, parse_branch},
    tx::{read_tx, txid_of},
};

/// Inputs or outputs of one transaction.
const PARTS_MAX: usize = 10_000;

/// Why there is no PSBT.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PsbtError {
    /// A transaction spends something and pays something.
    #[error("a transaction has 1 to {PARTS_MAX} inputs and outputs")]
    Parts,
    /// A guard refuses the payment.
    #[error(transparent)]
    Guarded(#[from] GuardRefusal),
    /// A lock time cannot be a height and a time at once.
    #[error(
        "one part of the transaction asks for a lock time that is a height, another for one that is a time; spend these coins apart"
    )]
    MixedLockTimes,
    /// No way to spend from the descriptor is known.
    #[error("{outpoint} cannot be spent: its descriptor has no way that signatures open")]
    Unspendable {
        /// The output.
        outpoint: OutPoint,
    },
    /// The same output twice.
    #[error("{outpoint} is spent twice")]
    SpentTwice {
        /// The output.
        outpoint: OutPoint,
    },
    /// Inputs, outputs and fee do not add up.
    #[error("the inputs are {inputs}, but outputs and fee are {outputs} and {fee}")]
    Unbalanced {
        /// Sum of the inputs.
        inputs: u128,
        /// Sum of the outputs.
        outputs: u128,
        /// The fee that was asked for.
        fee: u64,
    },
    /// A signer needs the transaction that made an output.
    #[error(
        "signing for {outpoint} needs the transaction that made it; record that with its bytes"
    )]
    MissingParent {
        /// The output.
        outpoint: OutPoint,
    },
    /// The parent is another transaction, or its output differs.
    #[error("the transaction given as parent of {outpoint} does not make that output")]
    WrongParent {
        /// The output.
        outpoint: OutPoint,
    },
    /// The parent cannot be read.
    #[error("the parent of {outpoint} cannot be read")]
    UnreadableParent {
        /// The output.
        outpoint: OutPoint,
        /// Why.
        #[source]
        source: TxDecodeError,
    },
    /// A descriptor cannot be used.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// A script does not come from the descriptor it is said to come from.
    #[error("{what} does not have the script of its descriptor at index {index}")]
    WrongOrigin {
        /// Which input or output.
        what: String,
        /// Index in the descriptor.
        index: u32,
    },
    /// Signatures are missing, or do not fit.
    #[error("the PSBT is not completely signed: {reason}")]
    NotSigned {
        /// Of which inputs, and why.
        reason: String,
    },
    /// The text is no PSBT.
    #[error("the text is no PSBT: {reason}")]
    Unreadable {
        /// Why.
        reason: String,
    },
}

impl From<PsbtError> for CannotBuild {
    /// A guard is the same wherever it refuses.
    fn from(error: PsbtError) -> Self {
        match error {
            PsbtError::Guarded(refusal) => Self::Guarded(refusal),
            other => Self::Codec(CodecError::new(other)),
        }
    }
}

/// Builds a PSBT. Inputs signal that the transaction may be replaced.
pub fn build_psbt(request: &PsbtRequest) -> Result<UnsignedPsbt, PsbtError> {
    check(request)?;
    let origins = request.inputs.iter().map(|input| definite(input, request.network));
    let origins = origins.collect::<Result<Vec<_>, _>>()?;
    let locks = locks::plan(request, &origins)?;
    request.guards.check_valid(locks.valid_from, request.next)?;
    let inputs = request.inputs.iter().zip(locks.sequences);
    let unsigned = Transaction {
        version: Version(locks.version.cast_signed()),
        lock_time: absolute::LockTime::from_consensus(locks.lock_time.number()),
        input: inputs
            .map(|(input, sequence)| unsigned_input(&input.outpoint, Sequence(sequence)))
            .collect(),
        output: request.outputs.iter().map(|output| tx_out(output.value, &output.script)).collect(),
    };
    request.guards.check_weight(unsigned.weight().to_wu())?;
    let unsigned_tx = ::bitcoin::consensus::serialize(&unsigned);
    let txid = txid_of(&unsigned.compute_txid());
    let mut psbt = Psbt::from_unsigned_tx(unsigned)
        .map_err(|error| PsbtError::Unreadable { reason: error.to_string() })?;
    let is_taproot = |input: &PsbtInput| ScriptKind::of(&input.script) == ScriptKind::Taproot;
    let needs_parents = !request.inputs.iter().all(is_taproot);
    for (at, (input, origin)) in request.inputs.iter().zip(&origins).enumerate() {
        fill_input(&mut psbt, at, input, origin.as_ref())?;
        if !needs_parents {
            psbt.inputs[at].non_witness_utxo = None;
        }
    }
    for (at, output) in request.outputs.iter().enumerate() {
        let Some(origin) = &output.origin else { continue };
        let branch = parse_branch(&origin.descriptor, request.network)?;
        let definite = definite_at(&branch, origin.index)?;
        psbt.update_output_with_descriptor(at, &definite).map_err(|_| PsbtError::WrongOrigin {
            what: format!("output {at}"),
            index: origin.index,
        })?;
    }
    let is_txid_final = request
        .inputs
        .iter()
        .all(|input| ScriptBuf::from(input.script.clone()).is_witness_program());
    let base64 = base64::engine::general_purpose::STANDARD.encode(psbt.serialize());
    Ok(UnsignedPsbt { base64, txid, is_txid_final, unsigned_tx, valid_from: locks.valid_from })
}

/// The descriptor of an input, with its keys.
fn definite(
    input: &PsbtInput,
    network: Network,
) -> Result<Option<Descriptor<DefiniteDescriptorKey>>, DescriptorError> {
    let Some(origin) = &input.origin else { return Ok(None) };
    definite_at(&parse_branch(&origin.descriptor, network)?, origin.index).map(Some)
}

fn check(request: &PsbtRequest) -> Result<(), PsbtError> {
    let fits = |len: usize| (1..=PARTS_MAX).contains(&len);
    if !fits(request.inputs.len()) || !fits(request.outputs.len()) {
        return Err(PsbtError::Parts);
    }
    let mut outpoints: Vec<&OutPoint> =
        request.inputs.iter().map(|input| &input.outpoint).collect();
    outpoints.sort_unstable();
    if let Some(pair) = outpoints.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(PsbtError::SpentTwice { outpoint: *pair[0] });
    }
    let inputs = request.inputs.iter().map(|input| u128::from(input.value)).sum();
    let outputs: u128 = request.outputs.iter().map(|output| u128::from(output.value)).sum();
    if inputs != outputs + u128::from(request.fee) {
        return Err(PsbtError::Unbalanced { inputs, outputs, fee: request.fee });
    }
    let outputs = request.outputs.iter().map(|output| (output.value, output.script.as_slice()));
    request.guards.check_outputs(outputs)?;
    for (at, output) in request.outputs.iter().enumerate() {
        if output.value > 0 && has_impossible_key(&output.script) {
            request.guards.refuse_unspendable(at, output.value)?;
        }
    }
    request.guards.check_fee_alone(request.fee)?;
    Ok(())
}

/// Whether a script pays to a key that is no point of the curve, so that nobody can sign for it.
fn has_impossible_key(script: &[u8]) -> bool {
    if let (ScriptKind::Taproot, [_, _, key @ ..]) = (ScriptKind::of(script), script) {
        return XOnlyPublicKey::from_slice(key).is_err();
    }
    let script = Script::from_bytes(script);
    script.is_p2pk() && script.p2pk_public_key().is_none()
}

fn fill_input(
    psbt: &mut Psbt,
    at: usize,
    input: &PsbtInput,
    definite: Option<&Descriptor<DefiniteDescriptorKey>>,
) -> Result<(), PsbtError> {
    let outpoint = input.outpoint;
    let output = tx_out(input.value, &input.script);
    let parent = match &input.parent {
        None => None,
        Some(raw) => {
            let parent =
                read_tx(raw).map_err(|source| PsbtError::UnreadableParent { outpoint, source })?;
            let place = usize::try_from(outpoint.index()).unwrap_or(usize::MAX);
            if txid_of(&parent.compute_txid()) != *outpoint.txid()
                || parent.output.get(place) != Some(&output)
            {
                return Err(PsbtError::WrongParent { outpoint });
            }
            Some(parent)
        }
    };
    let segwit = match definite {
        Some(definite) => definite.desc_type().segwit_version().is_some(),
        None => output.script_pubkey.is_witness_program(),
    };
    if !segwit && parent.is_none() {
        return Err(PsbtError::MissingParent { outpoint });
    }
    psbt.inputs[at].witness_utxo = segwit.then_some(output);
    psbt.inputs[at].non_witness_utxo = parent;
    if let (Some(definite), Some(origin)) = (definite, &input.origin) {
        psbt.update_input_with_descriptor(at, definite).map_err(|_| PsbtError::WrongOrigin {
            what: format!("input {at}"),
            index: origin.index,
        })?;
    }
    Ok(())
}

fn unsigned_input(outpoint: &OutPoint, sequence: Sequence) -> TxIn {
    let txid = ::bitcoin::Txid::from_byte_array(*outpoint.txid().as_bytes());
    TxIn {
        previous_output: ::bitcoin::OutPoint::new(txid, outpoint.index()),
        script_sig: ScriptBuf::new(),
        sequence,
        witness: Witness::new(),
    }
}

fn tx_out(value: u64, script: &[u8]) -> TxOut {
    TxOut { value: Amount::from_sat(value), script_pubkey: ScriptBuf::from(script.to_vec()) }
}

#[cfg(test)]
mod tests;
