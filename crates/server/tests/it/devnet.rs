//! A private Cardano chain of a few blocks, made by hand, with everything that outputs can have.

use serde_json::json;
use utxokeep_core::hex_encode;
use utxokeep_testkit::cardano::{
    BlockSpec, Built, ByronKind, Credential, DatumSpec, Era, OutSpec, ScriptSpec, TxSpec, base,
    byron, enterprise, fund_of,
};

/// A hash that is both of a key and of a script here.
pub(crate) const HASH: [u8; 28] = [0xa1; 28];
pub(crate) const STAKE: [u8; 28] = [0x57; 28];
pub(crate) const POLICY: [u8; 28] = [0xcc; 28];
/// A name that is no text.
pub(crate) const NAME: &[u8] = b"\xff\x00A";
pub(crate) const FUNDS: u64 = 45_000_000_000_000_000;
/// Outputs of Alice with a coin of [`POLICY`] each, behind one output without.
pub(crate) const COINS: usize = 25;
/// The datum of the contract: the empty constructor.
pub(crate) const DATUM: [u8; 3] = [0xd8, 0x79, 0x80];
/// Slots of an epoch.
const EPOCH_SLOTS: u64 = 3;

pub(crate) struct Devnet {
    pub(crate) blocks: Vec<Built>,
}

/// Key and stake key.
pub(crate) fn alice() -> Vec<u8> {
    base(0, Credential::Key(HASH), Credential::Key(STAKE))
}

/// The same key without a stake key.
pub(crate) fn alice_alone() -> Vec<u8> {
    enterprise(0, Credential::Key(HASH))
}

/// A script with the hash of Alice's key.
pub(crate) fn contract() -> Vec<u8> {
    enterprise(0, Credential::Script(HASH))
}

pub(crate) fn old() -> Vec<u8> {
    byron(ByronKind::Key, [0x07; 28], Some(42))
}

fn faucet() -> Vec<u8> {
    enterprise(0, Credential::Key([0xfa; 28]))
}

fn script() -> ScriptSpec {
    ScriptSpec::PlutusV3(vec![0x46, 1, 0, 0, 0x22, 0x49, 0x81])
}

/// Hash of the script that the contract offers.
pub(crate) fn script_hash() -> String {
    hex_encode(&script().hash())
}

/// The Shelley genesis file.
pub(crate) fn genesis() -> String {
    let funds = json!({ hex_encode(&faucet()): FUNDS });
    json!({
        "systemStart": "2024-01-01T00:00:00Z",
        "networkMagic": 42,
        "networkId": "Testnet",
        "securityParam": 10,
        "epochLength": EPOCH_SLOTS,
        "slotLength": 1,
        "initialFunds": funds,
        "protocolParams": {},
    })
    .to_string()
}

impl Devnet {
    /// Block 0 pays everybody, block 1 has a transaction that fails, block 2 spends Alice's first
    /// output, three more have nothing in them.
    pub(crate) fn new() -> Self {
        let funds = fund_of(&faucet());
        let mut outputs = vec![OutSpec::new(&alice(), 5_000_000)];
        for at in 0..COINS {
            let mut coin = OutSpec::new(&alice(), 2_000_000);
            coin.assets = vec![(POLICY, NAME.to_vec(), 1 + at as u64)];
            outputs.push(coin);
            outputs.push(OutSpec::new(&alice(), 1_000_000));
        }
        let mut other = OutSpec::new(&alice_alone(), 3_000_000);
        other.assets = vec![([0xdd; 28], Vec::new(), u64::MAX), (POLICY, Vec::new(), 9)];
        let mut locked = OutSpec::new(&contract(), 4_000_000);
        locked.datum = Some(DatumSpec::Inline(DATUM.to_vec()));
        locked.script = Some(script());
        outputs.extend([other, locked, OutSpec::new(&old(), 6_000_000)]);
        let paid: u64 = outputs.iter().map(|out| out.lovelace).sum();
        outputs.push(OutSpec::new(&faucet(), FUNDS - paid));
        let first = BlockSpec::first(Era::Babbage, vec![TxSpec::new(&[funds], &outputs)]).build();

        let collateral = first.output(0, outputs.len() as u64 - 2);
        let failing = TxSpec {
            inputs: vec![first.output(0, 1)],
            outputs: vec![OutSpec::new(&old(), 1), OutSpec::new(&old(), 2)],
            collateral: vec![collateral],
            collateral_return: Some(OutSpec::new(&contract(), 5_500_000)),
            total_collateral: Some(500_000),
            invalid: true,
            ..TxSpec::default()
        };
        let second = first.next(Era::Babbage, vec![failing]).build();
        let spend = TxSpec::new(&[first.output(0, 0)], &[OutSpec::new(&alice_alone(), 4_900_000)]);
        let third = second.next(Era::Conway, vec![spend]).build();
        let mut blocks = vec![first, second, third];
        for _ in 0..3 {
            let next = blocks[blocks.len() - 1].next(Era::Conway, Vec::new()).build();
            blocks.push(next);
        }
        Self { blocks }
    }

    /// Some of the blocks, as a file has them.
    pub(crate) fn bytes(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        self.blocks[range].iter().flat_map(|block| block.raw.clone()).collect()
    }

    pub(crate) fn tip_hash(&self) -> String {
        hex_encode(&self.blocks[self.blocks.len() - 1].hash)
    }

    /// The transaction of a block.
    pub(crate) fn txid(&self, block: usize) -> String {
        hex_encode(&self.blocks[block].txids[0])
    }
}
