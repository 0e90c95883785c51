//! The chain as the ledger sees it at one moment, and ledgers that watch the node's wallets.

use std::{ops::Range, sync::Arc};

use serde::Deserialize;
use utxokeep_chains::{BitcoinCodec, BlockFiles, BlockSource, decode_block, tx_places};
use utxokeep_core::{BlockHash, Height};
use utxokeep_sql::{Database, Durability, Options};
use utxokeep_testkit::{RegtestA, postgres::TestDatabase};
use utxokeep_wallet::{
    BlockBody, ChainError, FollowOptions, FollowReport, FollowedChain, LeaseClock, Ledger, Limits,
    Micros, NewDescriptor, WalletId,
};

pub(crate) const NOW: Micros = Micros::new(1_800_000_000_000_000);

/// A chain that tests move block by block.
pub(crate) struct TestChain {
    files: BlockFiles,
    hashes: Vec<BlockHash>,
}

impl TestChain {
    /// The first block only.
    pub(crate) fn new() -> Self {
        let hashes = vec![RegtestA::NETWORK.genesis_hash()];
        Self { files: RegtestA::default().block_files(), hashes }
    }

    /// All blocks of the final chain.
    pub(crate) fn whole() -> Self {
        Self { hashes: RegtestA::default().active_chain(), ..Self::new() }
    }

    pub(crate) fn connect(&mut self, hash: BlockHash) {
        self.hashes.push(hash);
    }

    pub(crate) fn disconnect(&mut self, hash: BlockHash) {
        assert_eq!(self.hashes.pop(), Some(hash));
    }

    pub(crate) fn cut_to(&mut self, height: usize) {
        self.hashes.truncate(height + 1);
    }

    pub(crate) fn body_of(&self, hash: &BlockHash) -> BlockBody {
        let raw = self.files.raw(hash).unwrap();
        let tx_places: Vec<Range<usize>> = tx_places(&raw).unwrap();
        BlockBody { block: Arc::new(decode_block(raw, RegtestA::NETWORK).unwrap()), tx_places }
    }
}

impl FollowedChain for TestChain {
    fn tip(&self) -> Result<Option<(Height, BlockHash)>, ChainError> {
        let last = u32::try_from(self.hashes.len() - 1)?;
        Ok(self.hashes.last().map(|hash| (Height::new(last), *hash)))
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, ChainError> {
        Ok(self.hashes.get(height.get() as usize).copied())
    }

    fn body(&self, _: Height, hash: &BlockHash) -> Result<Option<BlockBody>, ChainError> {
        Ok(Some(self.body_of(hash)))
    }
}

#[derive(Deserialize)]
struct Described {
    desc: String,
}

#[derive(Deserialize)]
struct HdDescriptor {
    desc: String,
    internal: bool,
}

#[derive(Deserialize)]
struct ListDescriptors {
    descriptors: Vec<HdDescriptor>,
}

#[derive(Deserialize)]
struct HdWallet {
    listdescriptors: ListDescriptors,
}

#[derive(Deserialize)]
struct WalletFinal {
    hd: HdWallet,
}

/// Descriptors of the node's wallet that only watches.
pub(crate) fn watch_descriptors() -> Vec<NewDescriptor> {
    let all: Vec<Described> = RegtestA::default().json("watch_descriptors.json");
    all.into_iter().map(|described| NewDescriptor::new(described.desc)).collect()
}

/// Descriptors of the node's own wallet, in their public form.
pub(crate) fn hd_descriptors() -> Vec<NewDescriptor> {
    let WalletFinal { hd } = RegtestA::default().json("wallet_final.json.xz");
    let of = |described: HdDescriptor| NewDescriptor {
        keychain: Some(u32::from(described.internal)),
        ..NewDescriptor::new(described.desc)
    };
    hd.listdescriptors.descriptors.into_iter().map(of).collect()
}

pub(crate) fn open(url: &str) -> Ledger {
    let options = Options::default().with(|settings| settings.durability = Durability::Relaxed);
    let database = Database::open(url, &options).unwrap();
    let ledger = Ledger::open(database, Limits::default(), NOW).unwrap();
    ledger.with_codec(Arc::new(BitcoinCodec)).with_lease_clock(LeaseClock::Caller)
}

/// A wallet with these descriptors.
pub(crate) fn wallet(ledger: &Ledger, name: &str, descriptors: &[NewDescriptor]) -> WalletId {
    let wallet = ledger.create_wallet(name, RegtestA::NETWORK, NOW).unwrap().id;
    for new in descriptors {
        ledger.add_descriptor(wallet, new, NOW).unwrap();
    }
    wallet
}

pub(crate) fn follow(ledger: &Ledger, chain: &TestChain) -> FollowReport {
    ledger.follow(chain, &FollowOptions::new(RegtestA::NETWORK), NOW).unwrap()
}

/// Runs a test on a new `SQLite` file.
pub(crate) fn on_sqlite(test: impl FnOnce(&str)) {
    let dir = tempfile::tempdir().unwrap();
    test(&format!("sqlite:{}", dir.path().join("wallet.db").display()));
}

/// Runs a test on a new `PostgreSQL` database.
pub(crate) fn on_postgres(test: impl FnOnce(&str)) {
    if let Some(database) = TestDatabase::create_or_skip() {
        test(database.url());
    }
}

/// Instantiates tests for both engines.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $name() { $crate::regtest::chain::on_sqlite(super::$name); })+
        }
        mod postgres {
            $(#[test] fn $name() { $crate::regtest::chain::on_postgres(super::$name); })+
        }
    };
}
pub(crate) use on_both;
