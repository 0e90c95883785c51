//! Followers on different branches share a ledger: it keeps the better one, and never goes to and
//! fro.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use utxokeep_core::{Block, BlockHash, ChainWork, Header, Height, OutPoint, Txid};
use utxokeep_testkit::RegtestA;
use utxokeep_wallet::{
    BlockBody, ChainError, FollowError, FollowOptions, FollowReport, FollowedChain, HistoryQuery,
    HistoryScope, Ledger, LinkedBlock, NewTx, WalletId, WorseBranch, block_ref, block_txs,
};

use crate::regtest::{
    chain::{NOW, TestChain, follow, hd_descriptors, open, wallet},
    following::{coins, expected},
};

/// The last block that the stale branch shares with the final chain, and where the former ends.
const SHARED: u32 = 206;
const STALE_END: u32 = 217;

/// The chain as it was before the node's last reorganisation.
fn stale() -> TestChain {
    let mut chain = TestChain::new();
    let hashes = RegtestA::default().stale_chain();
    assert_eq!(hashes.len(), STALE_END as usize + 1);
    hashes.into_iter().skip(1).for_each(|hash| chain.connect(hash));
    chain
}

fn cut(height: usize) -> TestChain {
    let mut chain = TestChain::whole();
    chain.cut_to(height);
    chain
}

fn tip(chain: &dyn FollowedChain) -> Option<(Height, BlockHash)> {
    chain.tip().unwrap()
}

fn waits(shared: u32, ledger: u32, chain: u32) -> FollowReport {
    let [ledger, chain] = [ledger, chain].map(Height::new);
    let worse_branch = Some(WorseBranch { shared: Some(Height::new(shared)), ledger, chain });
    FollowReport { worse_branch, ..FollowReport::default() }
}

/// Transactions of blocks, by id.
fn txs_of(chain: &TestChain, heights: std::ops::RangeInclusive<u32>) -> BTreeMap<Txid, NewTx> {
    let hash = |height| chain.hash_at(Height::new(height)).unwrap().unwrap();
    let txs = heights.flat_map(|height| block_txs(&chain.body_of(&hash(height))).unwrap());
    txs.map(|tx| (tx.txid, tx)).collect()
}

/// Transactions of the wallet in no block, with whether they are live.
fn unconfirmed(ledger: &Ledger, wallet: WalletId) -> BTreeMap<Txid, bool> {
    let query =
        HistoryQuery { scope: HistoryScope::Unconfirmed, limit: 1_000, ..Default::default() };
    let page = ledger.history(wallet, &query).unwrap();
    page.into_iter().map(|tx| (tx.txid, tx.state.is_live())).collect()
}

fn a_follower_on_a_worse_branch_takes_nothing_back(url: &str) {
    let ledger = open(url);
    let wallet = wallet(&ledger, "hd", &hd_descriptors());
    let stale = stale();
    follow(&ledger, &stale);
    // Shorter, then equal: the first seen is kept.
    for (cut_to, end) in [(216, 216), (217, 217)] {
        assert_eq!(follow(&ledger, &cut(cut_to)), waits(SHARED, STALE_END, end));
        assert_eq!(ledger.tip(RegtestA::NETWORK).unwrap(), tip(&stale));
    }
    let report = follow(&ledger, &cut(218));
    assert_eq!((report.undone, report.applied, report.worse_branch), (11, 12, None));
    // From now on the two followers are of one mind.
    for end in [218, 219, 230, 300, 300] {
        assert_eq!(follow(&ledger, &stale).undone, 0);
        assert_eq!(follow(&ledger, &cut(end)).undone, 0);
        assert_eq!(ledger.tip(RegtestA::NETWORK).unwrap(), tip(&cut(end)));
    }
    assert_eq!(coins(&ledger, wallet), expected(&TestChain::whole()));
    assert_eq!(ledger.verify(wallet).unwrap(), []);
    leftovers_are_those_of_lost_blocks(&ledger, wallet, &stale);
}

/// A payment of a lost block stays live unless a block spends what it spends, or its parent is gone.
fn leftovers_are_those_of_lost_blocks(ledger: &Ledger, wallet: WalletId, stale: &TestChain) {
    let lost = txs_of(stale, SHARED + 1..=STALE_END);
    let kept = txs_of(&TestChain::whole(), 0..=300);
    let spent: BTreeSet<OutPoint> = kept.values().flat_map(|tx| tx.inputs.clone()).collect();
    let mut checked = 0;
    for (txid, is_live) in unconfirmed(ledger, wallet) {
        let tx = lost.get(&txid).unwrap_or_else(|| panic!("{txid} was in no lost block"));
        assert!(!kept.contains_key(&txid));
        let has_rival = tx.inputs.iter().any(|input| spent.contains(input));
        let parents_live = tx.inputs.iter().all(|input| {
            let parent = input.txid();
            kept.contains_key(parent)
                || unconfirmed(ledger, wallet).get(parent).copied().unwrap_or(true)
        });
        assert_eq!(is_live, !tx.coinbase && !has_rival && parents_live, "{txid}");
        checked += 1;
    }
    assert!(checked > 10, "{checked} leftovers");
}

/// A chain of empty blocks.
#[derive(Clone)]
struct Made {
    /// Hash and work of each block.
    blocks: Vec<(BlockHash, u8)>,
    tells_work: bool,
}

fn work(units: u32) -> ChainWork {
    let mut bytes = [0; 32];
    bytes[28..].copy_from_slice(&units.to_be_bytes());
    ChainWork::from_be_bytes(bytes)
}

impl Made {
    /// Three blocks that all chains share, then those of a branch, each with this much work.
    fn new(branch: u8, works: &[u8]) -> Self {
        let shared = (0..3u8).map(|at| (BlockHash::from_bytes([at; 32]), 1));
        let own = works.iter().zip(0u8..).map(|(work, at)| {
            let mut hash = [branch; 32];
            hash[0] = at;
            (BlockHash::from_bytes(hash), *work)
        });
        Self { blocks: shared.chain(own).collect(), tells_work: true }
    }

    fn without_work(self) -> Self {
        Self { tells_work: false, ..self }
    }
}

impl FollowedChain for Made {
    fn tip(&self) -> Result<Option<(Height, BlockHash)>, ChainError> {
        let last = u32::try_from(self.blocks.len() - 1)?;
        Ok(self.blocks.last().map(|(hash, _)| (Height::new(last), *hash)))
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, ChainError> {
        Ok(self.blocks.get(height.get() as usize).map(|(hash, _)| *hash))
    }

    fn total_work(&self, height: Height) -> Result<Option<ChainWork>, ChainError> {
        let below = self.blocks.iter().take(height.get() as usize + 1);
        let total = below.map(|(_, work)| u32::from(*work)).sum();
        Ok(self.tells_work.then(|| work(total)))
    }

    fn body(&self, _: Height, hash: &BlockHash) -> Result<Option<BlockBody>, ChainError> {
        let at = self.blocks.iter().position(|(own, _)| own == hash).unwrap();
        let prev = at.checked_sub(1).map_or(BlockHash::from_bytes([0; 32]), |at| self.blocks[at].0);
        let work = work(u32::from(self.blocks[at].1));
        let header = Header { hash: *hash, prev, time: 1, work, slot: None };
        let block = Block {
            header,
            claimed_height: None,
            is_boundary: false,
            txs: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            bytes: Vec::new(),
            bitcoin: None,
        };
        Ok(Some(BlockBody { block: block.into(), tx_places: Vec::new() }))
    }
}

fn go(ledger: &Ledger, chain: &dyn FollowedChain) -> (u64, u64) {
    let report = ledger.follow(chain, &FollowOptions::new(RegtestA::NETWORK), NOW).unwrap();
    (report.undone, report.applied)
}

fn work_outranks_height_where_it_is_known(url: &str) {
    let ledger = open(url);
    let (light, heavy) = (Made::new(7, &[1, 1, 1]), Made::new(8, &[9, 9]));
    assert_eq!(go(&ledger, &light), (0, 6));
    assert_eq!(go(&ledger, &heavy), (3, 2), "two heavy blocks are better than three light ones");
    assert_eq!(go(&ledger, &light), (0, 0));
    // A chain that does not tell its work is compared by height.
    assert_eq!(go(&ledger, &light.clone().without_work()), (2, 3));
    assert_eq!(go(&ledger, &heavy.clone().without_work()), (0, 0));
}

/// As one that an older version has followed, or whose blocks clients brought.
fn a_ledger_without_work_goes_by_height(url: &str) {
    let ledger = open(url);
    let (first, second) = (Made::new(7, &[1, 1]), Made::new(8, &[1, 9]));
    for height in 0..=4 {
        let height = Height::new(height);
        let hash = first.hash_at(height).unwrap().unwrap();
        let parent = height.parent().map(|below| first.hash_at(below).unwrap().unwrap());
        let block = block_ref(height, &first.body(height, &hash).unwrap().unwrap().block);
        ledger.apply_block(RegtestA::NETWORK, &LinkedBlock { block, parent }, &[], NOW).unwrap();
    }
    assert_eq!(go(&ledger, &second), (0, 0), "as many blocks");
    assert_eq!(go(&ledger, &Made::new(8, &[1, 1, 1])), (2, 3));
}

/// A chain of which the follower hears the last answer it needs while another one is at work.
struct Meanwhile<'m> {
    chain: &'m Made,
    happens: RefCell<Option<Box<dyn Fn() + 'm>>>,
}

impl FollowedChain for Meanwhile<'_> {
    fn tip(&self) -> Result<Option<(Height, BlockHash)>, ChainError> {
        self.chain.tip()
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, ChainError> {
        self.chain.hash_at(height)
    }

    fn total_work(&self, height: Height) -> Result<Option<ChainWork>, ChainError> {
        let answer = self.chain.total_work(height);
        if let Some(happens) = self.happens.borrow_mut().take() {
            happens();
        }
        answer
    }

    fn body(&self, height: Height, hash: &BlockHash) -> Result<Option<BlockBody>, ChainError> {
        self.chain.body(height, hash)
    }
}

/// The better branch arrives after the worse follower has decided that it is the better one.
fn a_decision_that_is_overtaken_is_made_again(url: &str) {
    let ledger = open(url);
    let (best, worse) = (Made::new(7, &[1, 1, 1, 1, 1]), Made::new(8, &[1, 1, 1]));
    let start = FollowOptions { blocks_max: 4, ..FollowOptions::new(RegtestA::NETWORK) };
    ledger.follow(&best, &start, NOW).unwrap();
    let overtakes = || assert_eq!(go(&ledger, &best), (0, 4));
    let chain = Meanwhile { chain: &worse, happens: RefCell::new(Some(Box::new(overtakes))) };
    assert_eq!(go(&ledger, &chain), (0, 0));
    assert!(chain.happens.borrow().is_none(), "the other follower was at work");
    assert_eq!(ledger.tip(RegtestA::NETWORK).unwrap(), tip(&best));
}

/// The twin: whoever decides, and goes back without looking at the tip again, ends on the worse one.
fn without_the_second_look_the_worse_branch_wins(url: &str) {
    let ledger = open(url);
    let (best, worse) = (Made::new(7, &[1, 1, 1, 1, 1]), Made::new(8, &[1, 1, 1]));
    let start = FollowOptions { blocks_max: 4, ..FollowOptions::new(RegtestA::NETWORK) };
    ledger.follow(&best, &start, NOW).unwrap();
    // Three blocks are more than the one that the ledger has above the fork.
    let decided = (Height::new(2), best.hash_at(Height::new(2)).unwrap().unwrap());
    assert_eq!(go(&ledger, &best), (0, 4));
    ledger.rollback_to(RegtestA::NETWORK, decided, NOW).unwrap();
    assert_eq!(go(&ledger, &worse), (0, 3));
    assert_eq!(ledger.tip(RegtestA::NETWORK).unwrap(), tip(&worse));
}

/// Both catch up at the same time, block by block.
fn followers_that_catch_up_on_two_branches_do_not_chase_each_other(url: &str) {
    let ledger = open(url);
    let (best, worse) = (Made::new(7, &[1; 40]), Made::new(8, &[1; 30]));
    let one = FollowOptions { blocks_max: 1, ..FollowOptions::new(RegtestA::NETWORK) };
    let run = |chain: &Made| {
        let mut undone = 0;
        loop {
            let report = ledger.follow(chain, &one, NOW).unwrap();
            undone += report.undone;
            if report == (FollowReport { undone: report.undone, ..FollowReport::default() })
                || report.worse_branch.is_some_and(|branch| branch.ledger.get() >= 42)
            {
                return undone;
            }
        }
    };
    let undone: u64 = std::thread::scope(|scope| {
        let threads = [&best, &worse].map(|chain| scope.spawn(|| run(chain)));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    go(&ledger, &best);
    assert_eq!(ledger.tip(RegtestA::NETWORK).unwrap(), tip(&best));
    // Each change is for the better, so that there are no more than the worse one has blocks, twice.
    assert!(undone <= 30 * 31, "{undone}");
}

/// Going back without being able to go forward would leave the ledger with less than it had.
fn a_better_branch_whose_bodies_are_missing_takes_nothing_back(url: &str) {
    struct Bodiless(Made);
    impl FollowedChain for Bodiless {
        fn tip(&self) -> Result<Option<(Height, BlockHash)>, ChainError> {
            self.0.tip()
        }
        fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, ChainError> {
            self.0.hash_at(height)
        }
        fn body(&self, height: Height, hash: &BlockHash) -> Result<Option<BlockBody>, ChainError> {
            let is_there = self.0.blocks.iter().take(4).any(|(own, _)| own == hash);
            if is_there { self.0.body(height, hash) } else { Ok(None) }
        }
    }
    let ledger = open(url);
    let (kept, better) = (Made::new(7, &[1, 1]), Made::new(8, &[1, 1, 1]));
    go(&ledger, &kept);
    let options = FollowOptions::new(RegtestA::NETWORK);
    let error = ledger.follow(&Bodiless(better.clone()), &options, NOW).unwrap_err();
    assert!(matches!(error, FollowError::MissingBody { height } if height.get() == 4), "{error}");
    assert_eq!(ledger.tip(RegtestA::NETWORK).unwrap(), tip(&kept));
    assert_eq!(go(&ledger, &better), (2, 3));
}

crate::regtest::on_both!(
    a_follower_on_a_worse_branch_takes_nothing_back,
    work_outranks_height_where_it_is_known,
    a_ledger_without_work_goes_by_height,
    a_decision_that_is_overtaken_is_made_again,
    without_the_second_look_the_worse_branch_wins,
    followers_that_catch_up_on_two_branches_do_not_chase_each_other,
    a_better_branch_whose_bodies_are_missing_takes_nothing_back,
);
