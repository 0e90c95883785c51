//! Fixtures and the reference model that the tests of utxokeep compare against.

mod answers;
pub mod bitcoind;
pub mod cardano;
pub mod cardano_node;
#[cfg(test)]
mod documents;
mod handmade;
mod hooked;
pub mod live;
mod model;
pub mod moto;
pub mod open_coins;
pub mod postgres;
pub mod pruner;
mod regtest;
mod signer;
mod skipped;
mod snapshot;
mod testdata;
pub mod txstore;

pub use answers::{
    ElectrsBalance, ElectrsScript, GetTxOut, MainnetTruth, MainnetTruthAt, RefusedByCore,
    ScanTxOutSet, ScannedTxOut, SpentTxOut, SpotCheck,
};
pub use handmade::{
    ANYONE, Archive, HandBlock, HandTx, NOBODY, height_script, mine, push_size, regtest_genesis,
    seal, sha256d,
};
pub use hooked::{Hook, HookedKv};
pub use model::{Model, ModelBlock, ModelCoin, ModelSet, Refusal, digest_of, totals_of, utxos_of};
pub use regtest::{Event, EventKind, RegtestA, Truth, sat};
pub use signer::Signer;
pub use skipped::skipped;
pub use snapshot::{Snapshot, SnapshotCoin, StoredScript};
pub use testdata::{csv, preview_immutable, testdata};
