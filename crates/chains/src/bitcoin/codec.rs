//! Bitcoin's formats, for the ledger.

use std::ops::Range;

use utxokeep_core::{
    Network,
    wallet::{
        CannotBuild, ChainCodec, CodecError, DecodedTx, DerivedScript, DescriptorBranch,
        PsbtRequest, SignedPsbt, SpendLocks, UnsignedPsbt,
    },
};

use super::{
    build_psbt, decode_tx, derive_scripts, finalize_psbt, parse_descriptor, psbt::spend_locks,
    script_to_address,
};

/// Reads descriptors and transactions of Bitcoin's networks.
#[derive(Debug, Clone, Copy, Default)]
pub struct BitcoinCodec;

impl ChainCodec for BitcoinCodec {
    fn descriptor(
        &self,
        network: Network,
        text: &str,
    ) -> Result<Vec<DescriptorBranch>, CodecError> {
        parse_descriptor(text, network).map_err(CodecError::new)
    }

    fn derive(
        &self,
        network: Network,
        branch: &str,
        indexes: Range<u32>,
    ) -> Result<Vec<DerivedScript>, CodecError> {
        derive_scripts(branch, network, indexes).map_err(CodecError::new)
    }

    fn spend_locks(&self, network: Network, branch: &str) -> Result<Vec<SpendLocks>, CodecError> {
        spend_locks(branch, network).map_err(CodecError::new)
    }

    fn address(&self, network: Network, script: &[u8]) -> Option<String> {
        if network.is_cardano() { None } else { script_to_address(script, network) }
    }

    fn decode_tx(&self, network: Network, raw: &[u8]) -> Result<DecodedTx, CodecError> {
        if network.is_cardano() {
            return Err(CodecError::new(format!("transactions of {network} cannot be read here")));
        }
        decode_tx(raw).map_err(CodecError::new)
    }

    fn finalize(&self, network: Network, psbt: &str) -> Result<SignedPsbt, CodecError> {
        if network.is_cardano() {
            let what = format!("transactions of {network} cannot be built here");
            return Err(CodecError::new(what));
        }
        finalize_psbt(psbt).map_err(CodecError::new)
    }

    fn build(&self, request: &PsbtRequest) -> Result<UnsignedPsbt, CannotBuild> {
        if request.network.is_cardano() {
            let what = format!("transactions of {} cannot be built here", request.network);
            return Err(CodecError::new(what).into());
        }
        Ok(build_psbt(request)?)
    }
}
