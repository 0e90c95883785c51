//! Genesis files of private chains.

use super::{TxIn, blake256};

/// Epochs of the chains that [`shelley_genesis`] describes, in slots of a second.
pub const DEVNET_EPOCH_SLOTS: u64 = 500;
/// First second of those chains.
pub const DEVNET_START: u64 = 1_600_000_000;

/// The Shelley genesis file of a private chain with these first owners and security parameter.
pub fn shelley_genesis(security_blocks: u32, funds: &[(&[u8], u64)]) -> String {
    let funds: Vec<String> = funds
        .iter()
        .map(|(address, lovelace)| {
            format!("\"{}\": {lovelace}", utxokeep_core::hex_encode(address))
        })
        .collect();
    format!(
        r#"{{
  "networkMagic": 42, "networkId": "Testnet", "systemStart": "2020-09-13T12:26:40Z",
  "securityParam": {security_blocks}, "epochLength": {DEVNET_EPOCH_SLOTS}, "slotLength": 1,
  "activeSlotsCoeff": 0.05, "maxLovelaceSupply": 45000000000000000,
  "initialFunds": {{ {} }},
  "protocolParams": {{ "protocolVersion": {{ "major": 7, "minor": 0 }} }}, "staking": {{}}
}}"#,
        funds.join(", ")
    )
}

/// The output that a first owner has.
pub fn fund_of(address: &[u8]) -> TxIn {
    (blake256(address), 0)
}
