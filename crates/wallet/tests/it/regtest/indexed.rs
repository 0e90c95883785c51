//! The chain index decides, the ledger follows: its log for hashes, block files for bodies.

use std::sync::Arc;

use utxokeep_chains::{BlockFiles, BlockList, BlockSource, decode_block, tx_places};
use utxokeep_core::{BlockHash, Height};
use utxokeep_index::{ChainIndex, ChainWriter, Follower, IndexSettings, View, tables::TABLES};
use utxokeep_kv::{Kv, MemoryKv};
use utxokeep_testkit::RegtestA;
use utxokeep_wallet::{BlockBody, ChainError, FollowOptions, FollowReport, FollowedChain};

use crate::regtest::{
    chain::{NOW, TestChain, hd_descriptors, open, wallet},
    following::{coins, expected},
};

/// A snapshot of the index, and the files it was made from.
struct Indexed<'i> {
    view: View<'i, <MemoryKv as Kv>::Snapshot<'i>>,
    files: &'i BlockFiles,
}

impl FollowedChain for Indexed<'_> {
    fn tip(&self) -> Result<Option<(Height, BlockHash)>, ChainError> {
        let point = self.view.point()?;
        Ok(Some((point.height, point.hash)))
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, ChainError> {
        Ok(self.view.block(height)?.map(|entry| entry.hash))
    }

    fn body(&self, _: Height, hash: &BlockHash) -> Result<Option<BlockBody>, ChainError> {
        let raw = self.files.raw(hash)?;
        let tx_places = tx_places(&raw)?;
        Ok(Some(BlockBody { block: Arc::new(decode_block(raw, RegtestA::NETWORK)?), tx_places }))
    }
}

fn the_ledger_goes_where_the_index_goes(url: &str) {
    let files = RegtestA::default().block_files();
    let settings = IndexSettings::new(RegtestA::NETWORK);
    let index = ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap();
    let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
    let ledger = open(url);
    let wallet = wallet(&ledger, "hd", &hd_descriptors());
    let options = FollowOptions::new(RegtestA::NETWORK);
    let mut total = FollowReport::default();
    for (at, header) in files.headers().iter().enumerate() {
        follower.accept(header, &files).unwrap();
        // It may look away for a while; reorganisations then come several blocks at a time.
        if at % 3 == 0 || at + 1 == files.headers().len() {
            let chain = Indexed { view: index.view().unwrap(), files: &files };
            let report = ledger.follow(&chain, &options, NOW).unwrap();
            assert_eq!(ledger.tip(RegtestA::NETWORK).unwrap(), chain.tip().unwrap());
            total.applied += report.applied;
            total.undone += report.undone;
        }
    }
    assert_eq!(total.applied - total.undone, 301);
    assert!(total.undone > 40 && follower.report().disconnected >= total.undone, "{total:?}");
    assert_eq!(coins(&ledger, wallet), expected(&TestChain::whole()));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

crate::regtest::on_both!(the_ledger_goes_where_the_index_goes);
