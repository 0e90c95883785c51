//! Following goes on where it stopped, whatever happened to the chain in between.

use std::collections::BTreeSet;

use utxokeep_core::{BlockHash, Height};
use utxokeep_sql::{SqlError, Value};
use utxokeep_testkit::RegtestA;
use utxokeep_wallet::{
    BlockBody, BlockRef, ChainError, CoinQuery, ConfirmationRange, FollowError, FollowOptions,
    FollowReport, FollowedChain, Ledger, LinkedBlock, WalletId, block_ref, block_txs,
};

use crate::regtest::chain::{NOW, TestChain, follow, hd_descriptors, on_sqlite, open, wallet};

/// Confirmed unspent outputs.
pub(crate) fn coins(ledger: &Ledger, wallet: WalletId) -> BTreeSet<String> {
    let range = ConfirmationRange::at_least(1);
    let mut query = CoinQuery { range, ..CoinQuery::default() };
    let mut found = BTreeSet::new();
    loop {
        let page = ledger.coins(wallet, &query, NOW).unwrap();
        let Some(last) = page.last() else { return found };
        query.after = Some((last.amount, last.outpoint));
        found.extend(page.iter().map(|coin| {
            format!("{} {} {:?} {}", coin.outpoint, coin.amount, coin.height, coin.coinbase)
        }));
    }
}

/// What a ledger that saw nothing else has at the end of `chain`.
pub(crate) fn expected(chain: &TestChain) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    on_sqlite(|url| {
        let ledger = open(url);
        let wallet = wallet(&ledger, "plain", &hd_descriptors());
        follow(&ledger, chain);
        found = coins(&ledger, wallet);
    });
    assert!(found.len() > 100);
    found
}

fn a_ledger_that_stops_and_starts_misses_nothing(url: &str) {
    let chain = TestChain::whole();
    let wallet = wallet(&open(url), "hd", &hd_descriptors());
    let options = FollowOptions { blocks_max: 60, ..FollowOptions::new(RegtestA::NETWORK) };
    let mut rounds = 0;
    loop {
        let report = open(url).follow(&chain, &options, NOW).unwrap();
        if report.applied == 0 {
            break;
        }
        rounds += 1;
    }
    assert_eq!(rounds, 6);
    assert_eq!(coins(&open(url), wallet), expected(&chain));
}

/// Blocks of a branch that the chain does not have, from `height` up to 300.
fn apply_others(ledger: &Ledger, height: u32) {
    for raw in height..=300 {
        let height = Height::new(raw);
        let parent = ledger.tip(RegtestA::NETWORK).unwrap().map(|(_, hash)| hash);
        let mut hash = [0x5a; 32];
        hash[..4].copy_from_slice(&raw.to_be_bytes());
        let block = BlockRef { height, hash: BlockHash::from_bytes(hash), time: NOW };
        ledger.apply_block(RegtestA::NETWORK, &LinkedBlock { block, parent }, &[], NOW).unwrap();
    }
}

fn a_reorganisation_that_nobody_saw_is_undone_to_the_fork(url: &str) {
    let ledger = open(url);
    let wallet = wallet(&ledger, "hd", &hd_descriptors());
    let mut start = TestChain::whole();
    start.cut_to(230);
    follow(&ledger, &start);
    apply_others(&ledger, 231);
    // As many blocks as the ledger has, then one more.
    let report = follow(&ledger, &TestChain::whole());
    assert_eq!((report.undone, report.applied), (0, 0));
    ledger.rollback_from(RegtestA::NETWORK, Height::new(300), NOW).unwrap();
    let report = follow(&ledger, &TestChain::whole());
    assert_eq!((report.undone, report.applied), (69, 70));
    assert_eq!(coins(&ledger, wallet), expected(&TestChain::whole()));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
    assert_eq!(follow(&ledger, &TestChain::whole()).applied, 0);
}

/// As with a second follower whose chain database lags.
fn a_chain_that_ends_lower_on_the_same_branch_is_waited_for(url: &str) {
    let ledger = open(url);
    let wallet = wallet(&ledger, "hd", &hd_descriptors());
    follow(&ledger, &TestChain::whole());
    let (tip, found) = (ledger.tip(RegtestA::NETWORK).unwrap(), coins(&ledger, wallet));
    for height in [299, 230, 0] {
        let mut lagging = TestChain::whole();
        lagging.cut_to(height);
        let report = follow(&ledger, &lagging);
        assert_eq!((report.undone, report.applied), (0, 0));
        assert_eq!(report.chain_lacks, 300 - height as u64);
        assert_eq!(ledger.tip(RegtestA::NETWORK).unwrap(), tip);
    }
    assert_eq!(coins(&ledger, wallet), found);
    assert_eq!(follow(&ledger, &TestChain::whole()), FollowReport::default());
}

fn a_reorganisation_below_the_first_followed_block_starts_over(url: &str) {
    let ledger = open(url);
    let wallet = wallet(&ledger, "hd", &hd_descriptors());
    apply_others(&ledger, 290);
    ledger.rollback_from(RegtestA::NETWORK, Height::new(300), NOW).unwrap();
    let (network, chain) = (RegtestA::NETWORK, TestChain::whole());
    // More than any chain reorganises is another chain.
    let options = FollowOptions { start_over_blocks_max: 9, ..FollowOptions::new(network) };
    let error = ledger.follow(&chain, &options, NOW).unwrap_err();
    assert!(error.to_string().contains("wallet disconnect 0"), "{error}");
    assert_eq!(ledger.tip(network).unwrap().unwrap().0.get(), 299);

    let first_height = Height::new(295);
    let options =
        FollowOptions { start_over_blocks_max: 10, first_height, ..FollowOptions::new(network) };
    // Its wallets rely on the blocks from 290 on, whatever is asked for now.
    let report = ledger.follow(&chain, &options, NOW).unwrap();
    assert_eq!((report.undone, report.applied), (10, 11));
    assert_eq!(ledger.tip(network).unwrap(), chain.tip().unwrap());
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

fn a_wallet_that_comes_later_is_scanned(url: &str) {
    let ledger = open(url);
    let chain = TestChain::whole();
    follow(&ledger, &chain);
    let wallet = wallet(&ledger, "late", &hd_descriptors());
    assert!(coins(&ledger, wallet).is_empty());
    for raw in 0..=chain.tip().unwrap().unwrap().0.get() {
        let height = Height::new(raw);
        let body = chain.body_of(&chain.hash_at(height).unwrap().unwrap());
        let block = block_ref(height, &body.block);
        ledger.scan_block(wallet, &block, &block_txs(&body).unwrap(), NOW).unwrap();
    }
    assert_eq!(coins(&ledger, wallet), expected(&chain));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
}

/// A chain whose answers are wrong in one way.
struct Broken {
    chain: TestChain,
    body: fn(&TestChain, &BlockHash) -> Option<BlockBody>,
    hash: fn(BlockHash) -> BlockHash,
}

impl FollowedChain for Broken {
    fn tip(&self) -> Result<Option<(Height, BlockHash)>, ChainError> {
        self.chain.tip()
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, ChainError> {
        Ok(self.chain.hash_at(height)?.map(self.hash))
    }

    fn body(&self, _: Height, hash: &BlockHash) -> Result<Option<BlockBody>, ChainError> {
        Ok((self.body)(&self.chain, hash))
    }
}

fn a_chain_that_does_not_fit_changes_nothing(url: &str) {
    let ledger = open(url);
    let mut start = TestChain::whole();
    start.cut_to(20);
    follow(&ledger, &start);
    let tip = ledger.tip(RegtestA::NETWORK).unwrap();
    let follow = |body: fn(&TestChain, &BlockHash) -> Option<BlockBody>,
                  hash: fn(BlockHash) -> BlockHash| {
        let chain = Broken { chain: TestChain::whole(), body, hash };
        let error = ledger.follow(&chain, &FollowOptions::new(RegtestA::NETWORK), NOW).unwrap_err();
        assert_eq!(ledger.tip(RegtestA::NETWORK).unwrap(), tip);
        error
    };
    let missing = follow(|_, _| None, |hash| hash);
    assert!(matches!(missing, FollowError::MissingBody { height } if height.get() == 21));
    let wrong = follow(|chain, _| Some(chain.body_of(&RegtestA::NETWORK.genesis_hash())), |h| h);
    assert!(matches!(wrong, FollowError::WrongBody { height } if height.get() == 21));
    let other = follow(|_, _| None, |hash| BlockHash::from_bytes(hash.as_bytes().map(|b| !b)));
    assert!(matches!(other, FollowError::NoCommonBlock { tip } if tip.get() == 20));
}

fn only_the_newest_blocks_are_remembered(url: &str) {
    const INSERT: &str = "INSERT INTO recent_blocks (chain_id, height, hash)
        SELECT id, $1, $2 FROM chains";
    const HEIGHTS: &str = "SELECT height FROM recent_blocks ORDER BY height";
    let ledger = open(url);
    wallet(&ledger, "any", &[]);
    for height in [999u32, 1_000, 1_001] {
        let row = [Value::from(height), Value::from(&[7; 32])];
        let written: Result<u64, SqlError> = ledger.database().write(|tx| tx.execute(INSERT, &row));
        assert_eq!(written.unwrap(), 1);
    }
    let block =
        BlockRef { height: Height::new(6_000), hash: BlockHash::from_bytes([8; 32]), time: NOW };
    let linked = LinkedBlock { block, parent: None };
    ledger.apply_block(RegtestA::NETWORK, &linked, &[], NOW).unwrap();
    let left: Result<Vec<i64>, SqlError> =
        ledger.database().read(|tx| tx.query_all(HEIGHTS, &[], |row| row.int(0)));
    assert_eq!(left.unwrap(), [1_001, 6_000]);
}

crate::regtest::on_both!(
    a_ledger_that_stops_and_starts_misses_nothing,
    a_reorganisation_that_nobody_saw_is_undone_to_the_fork,
    a_chain_that_ends_lower_on_the_same_branch_is_waited_for,
    a_reorganisation_below_the_first_followed_block_starts_over,
    a_wallet_that_comes_later_is_scanned,
    a_chain_that_does_not_fit_changes_nothing,
    only_the_newest_blocks_are_remembered,
);
