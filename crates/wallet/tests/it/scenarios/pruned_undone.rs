//! Blocks that leave the chain although transactions were pruned from them: no balance is wrong
//! without a word, and a rescan makes it right.

use utxokeep_core::{BlockHash, Height, wallet::BadPrune};
use utxokeep_wallet::{
    Balance, BalanceQuery, BlockRef, Coin, CoinQuery, LackCause, LeaseId, LeaseTerms, LedgerError,
    LinkedBlock, Maturity, NewTx, PruneRule, Pruning, RecordOptions, Seen, Standing, WalletId,
    migrate, unmigrate,
};

use crate::scenarios::world::{NETWORK, SECOND, World, out, outside, pay};

crate::scenarios::on_both!(
    a_reorganisation_below_what_was_pruned_asks_for_a_rescan_that_makes_the_balance_right,
    what_no_block_holds_any_more_comes_back_from_the_archive,
    an_operator_cannot_take_back_pruned_blocks_unknowingly,
    blocks_above_what_was_pruned_leave_as_ever,
    a_reorganisation_below_all_that_was_pruned_needs_no_rescan,
    a_rescan_from_below_makes_a_pruned_wallet_whole,
    a_reorganisation_during_a_rescan_does_not_end_it_early,
    a_wallet_that_is_set_aside_looks_at_pruned_blocks_too,
    an_archived_wallet_looks_again_when_it_is_restored,
    a_wallet_that_lacks_blocks_is_not_pruned,
    what_is_in_a_block_by_somebodys_word_is_not_pruned,
    a_wallet_that_an_older_version_pruned_counts_as_pruned,
);

/// First block, and the one that spends the last coin of the family that is pruned.
const FIRST: u32 = 100;
const LAST_SPEND: u32 = 102;

/// A chain that can be changed from a height on, and two wallets that watch the same scripts.
struct Story {
    blocks: Vec<(LinkedBlock, Vec<NewTx>)>,
    branch: u8,
    /// It is never pruned.
    twin: WalletId,
    last: NewTx,
    spent: NewTx,
}

fn at(height: u32) -> Height {
    Height::new(height)
}

impl Story {
    /// Three connected payments, all spent, and one coin that stays.
    fn new(w: &World<'_>) -> Self {
        let twin = w.ledger.create_wallet("twin", NETWORK, w.now).unwrap().id;
        w.watch(twin, 0..10);
        let funding = pay(1, &[outside(1)], &[50]);
        let spent = pay(2, &[out(&funding, 0)], &[-9, 40]);
        let last = pay(3, &[out(&spent, 1)], &[-39]);
        let kept = pay(4, &[outside(4)], &[70]);
        let mut story = Self { blocks: Vec::new(), branch: 0, twin, last, spent };
        story.mine(w, &[&funding]);
        let (spent, last) = (story.spent.clone(), story.last.clone());
        story.mine(w, &[&spent]);
        story.mine(w, &[&last]);
        story.mine(w, &[&kept]);
        story.mine_to(w, 395);
        story
    }

    /// The same, with the family pruned.
    fn pruned(w: &World<'_>) -> Self {
        let story = Self::new(w);
        assert_eq!(prune(w, LAST_SPEND).unwrap(), 3);
        w.check();
        story
    }

    fn mine(&mut self, w: &World<'_>, txs: &[&NewTx]) {
        let height = FIRST + u32::try_from(self.blocks.len()).unwrap();
        let mut block = w.block_at(height);
        block.hash = BlockHash::from_bytes(
            [&block.hash.as_bytes()[..31], &[self.branch]].concat().try_into().unwrap(),
        );
        let parent = self.blocks.last().map(|(below, _)| below.block.hash);
        let linked = LinkedBlock { block, parent };
        let txs: Vec<NewTx> = txs.iter().copied().cloned().collect();
        w.ledger.apply_block(NETWORK, &linked, &txs, w.now).unwrap();
        self.blocks.push((linked, txs));
    }

    fn mine_to(&mut self, w: &World<'_>, height: u32) {
        while self.tip().height < at(height) {
            self.mine(w, &[]);
        }
    }

    fn tip(&self) -> BlockRef {
        self.blocks.last().unwrap().0.block
    }

    /// The chain leaves all blocks from `height` on.
    fn reorganise(&mut self, w: &World<'_>, height: u32) {
        self.blocks.truncate(usize::try_from(height - FIRST).unwrap());
        self.branch += 1;
        let tip = self.tip();
        w.ledger.rollback_to(NETWORK, (tip.height, tip.hash), w.now).unwrap();
    }

    /// Goes on with the rescan of a wallet up to its end; answers how many blocks that took.
    fn rescan(&self, w: &World<'_>, wallet: WalletId) -> u32 {
        let mut blocks = 0;
        while let Some(rescan) = w.ledger.standing(wallet).unwrap().rescan {
            self.rescan_one(w, wallet, rescan.next);
            blocks += 1;
        }
        blocks
    }

    fn rescan_one(&self, w: &World<'_>, wallet: WalletId, next: Height) {
        let place = usize::try_from(next.get() - FIRST).unwrap();
        let (linked, txs) = &self.blocks[place];
        let step = w.ledger.rescan_block(wallet, &linked.block, txs, w.now).unwrap();
        assert_eq!(step.failed, None);
    }

    /// Both wallets have the same coins and balances, and every block.
    fn assert_same(&self, w: &World<'_>) {
        assert_eq!(everything(w, w.wallet), everything(w, self.twin));
        for wallet in [w.wallet, self.twin] {
            assert_eq!(w.ledger.standing(wallet).unwrap(), Standing::default());
        }
        w.check();
    }
}

fn everything(w: &World<'_>, wallet: WalletId) -> (Balance, Vec<Coin>) {
    let query = BalanceQuery { maturity: Maturity::blocks_above(0), ..BalanceQuery::default() };
    let mut coins = w.ledger.coins(wallet, &CoinQuery::default(), w.now).unwrap();
    coins.sort_by_key(|coin| coin.outpoint);
    for coin in &mut coins {
        coin.id = 0;
    }
    (w.ledger.balance(wallet, &query, w.now).unwrap(), coins)
}

fn confirmed(w: &World<'_>) -> u64 {
    everything(w, w.wallet).0.confirmed
}

fn up_to(height: u32) -> PruneRule {
    PruneRule { dead_before: None, confirmed_up_to: Some(at(height)), txs_max: 10 }
}

fn prune(w: &World<'_>, height: u32) -> Result<usize, LedgerError> {
    Ok(w.ledger.prune(w.wallet, &up_to(height), Pruning::Discard, w.now)?.len())
}

/// It says that it lacks blocks from `height` on, and pays nothing.
fn assert_set_aside(w: &World<'_>, height: u32) {
    let standing = w.ledger.standing(w.wallet).unwrap();
    let aside = standing.set_aside.unwrap();
    assert_eq!((aside.height, aside.hash), (at(height), None));
    assert!(aside.reason.contains("pruned"), "{}", aside.reason);
    assert_eq!(standing.rescan.unwrap().from, at(height));
    let terms = LeaseTerms::until(LeaseId::from_bytes([1; 32]), SECOND);
    let kept = out(&pay(4, &[outside(4)], &[70]), 0);
    let refused = w.ledger.acquire_leases(w.wallet, &[kept], &terms, w.now).unwrap_err();
    let LedgerError::NotRescanned { cause, .. } = refused else { panic!("{refused}") };
    assert_eq!(cause, LackCause::PrunedUndone);
}

fn a_reorganisation_below_what_was_pruned_asks_for_a_rescan_that_makes_the_balance_right(
    w: &mut World<'_>,
) {
    let mut story = Story::pruned(w);
    story.assert_same(w);
    story.reorganise(w, LAST_SPEND);
    assert_set_aside(w, FIRST);
    assert_eq!(w.ledger.standing(story.twin).unwrap(), Standing::default());
    // Another payment spends the coin; it pays change, so that the wallet meets it at once.
    let instead = pay(5, &[out(&story.spent, 1)], &[-10, 25]);
    story.mine(w, &[&instead]);
    story.mine(w, &[]);
    assert_set_aside(w, FIRST);
    w.check();
    assert_eq!(story.rescan(w, w.wallet), 4);
    assert_eq!(confirmed(w), 25);
    story.assert_same(w);
    // Nothing is pruned any more.
    w.ledger.rollback_from(NETWORK, at(LAST_SPEND), w.now).unwrap();
    assert_eq!(everything(w, w.wallet), everything(w, story.twin));
}

fn what_no_block_holds_any_more_comes_back_from_the_archive(w: &mut World<'_>) {
    let mut story = Story::pruned(w);
    story.reorganise(w, LAST_SPEND);
    story.mine(w, &[]);
    story.rescan(w, w.wallet);
    assert_eq!(confirmed(w), 40, "the chain has the coin");
    let options = RecordOptions::default();
    w.ledger.record(w.wallet, &story.last, Seen::Mempool, &options, w.now).unwrap();
    assert_eq!(confirmed(w), 0);
    story.assert_same(w);
}

fn an_operator_cannot_take_back_pruned_blocks_unknowingly(w: &mut World<'_>) {
    let mut story = Story::pruned(w);
    let before = everything(w, w.wallet);
    for height in [LAST_SPEND, FIRST, 0] {
        let refused = w.ledger.rollback_from(NETWORK, at(height), w.now).unwrap_err();
        let LedgerError::ReachesPruned { pruned, wallets, .. } = &refused else {
            panic!("{refused}")
        };
        assert_eq!((pruned.lowest(), pruned.highest()), (at(FIRST), at(LAST_SPEND)));
        assert_eq!(wallets, &["one"]);
        assert!(refused.to_string().contains("from 103 on at the lowest"), "{refused}");
    }
    assert_eq!(everything(w, w.wallet), before);
    story.assert_same(w);
    let tip = w.ledger.rollback_below_pruned(NETWORK, at(LAST_SPEND), w.now).unwrap();
    assert_eq!(tip.unwrap().0, at(LAST_SPEND - 1));
    assert_set_aside(w, FIRST);
    story.blocks.truncate(2);
    assert_eq!(story.rescan(w, w.wallet), 2);
    assert_eq!((confirmed(w), w.ledger.standing(w.wallet).unwrap()), (40, Standing::default()));
    w.check();
}

fn blocks_above_what_was_pruned_leave_as_ever(w: &mut World<'_>) {
    let mut story = Story::pruned(w);
    story.reorganise(w, LAST_SPEND + 1);
    story.assert_same(w);
    w.ledger.rollback_from(NETWORK, at(LAST_SPEND + 1), w.now).unwrap();
    story.assert_same(w);
}

fn a_reorganisation_below_all_that_was_pruned_needs_no_rescan(w: &mut World<'_>) {
    let story = Story::pruned(w);
    w.ledger.rollback_below_pruned(NETWORK, at(FIRST), w.now).unwrap();
    assert_eq!(w.ledger.standing(w.wallet).unwrap(), Standing::default());
    for (linked, txs) in &story.blocks[..3] {
        w.ledger.apply_block(NETWORK, linked, txs, w.now).unwrap();
    }
    assert_eq!(confirmed(w), 0);
    let tip = w.ledger.rollback_from(NETWORK, at(LAST_SPEND), w.now).unwrap();
    assert_eq!(tip.unwrap().0, at(LAST_SPEND - 1));
    let kept = pay(4, &[outside(4)], &[70]);
    assert!(w.ledger.transaction(w.wallet, &kept.txid).is_ok());
    story.assert_same(w);
}

fn a_rescan_from_below_makes_a_pruned_wallet_whole(w: &mut World<'_>) {
    let mut story = Story::pruned(w);
    // One that starts too high brings back a part.
    w.ledger.request_rescan(w.wallet, at(FIRST + 1), w.now).unwrap();
    story.rescan(w, w.wallet);
    story.assert_same(w);
    let refused = w.ledger.rollback_from(NETWORK, at(LAST_SPEND), w.now);
    assert!(matches!(refused, Err(LedgerError::ReachesPruned { .. })), "{refused:?}");
    w.ledger.request_rescan(w.wallet, at(FIRST), w.now).unwrap();
    story.rescan(w, w.wallet);
    story.assert_same(w);
    story.reorganise(w, LAST_SPEND);
    story.assert_same(w);
}

fn a_reorganisation_during_a_rescan_does_not_end_it_early(w: &mut World<'_>) {
    let mut story = Story::pruned(w);
    story.reorganise(w, LAST_SPEND);
    let instead = pay(5, &[out(&story.spent, 1)], &[-10, 25]);
    story.mine(w, &[&instead]);
    story.mine(w, &[]);
    // One block is looked at again, then the chain is another one once more.
    story.rescan_one(w, w.wallet, at(FIRST));
    story.reorganise(w, LAST_SPEND);
    assert_set_aside(w, FIRST);
    story.mine(w, &[]);
    assert_eq!(story.rescan(w, w.wallet), 2, "it goes on where it was");
    w.ledger.record(w.wallet, &instead, Seen::Mempool, &RecordOptions::default(), w.now).unwrap();
    let found = everything(w, w.wallet).0;
    assert_eq!((found.confirmed, found.trusted_unconfirmed), (0, 25));
    w.check();
    // A rescan that has passed what leaves the chain has brought everything back.
    story.reorganise(w, LAST_SPEND);
    assert_eq!(w.ledger.standing(w.wallet).unwrap(), Standing::default());
}

fn a_wallet_that_is_set_aside_looks_at_pruned_blocks_too(w: &mut World<'_>) {
    let mut story = Story::pruned(w);
    // Its rescan stops at the first block: a row has no number left.
    let broken = "UPDATE wallets SET next_utxo_id = 9223372036854775807 WHERE name = 'one'";
    let mended = "UPDATE wallets SET next_utxo_id = 100 WHERE name = 'one'";
    let change = |sql: &str| {
        let done: Result<u64, utxokeep_sql::SqlError> =
            w.ledger.database().write(|tx| tx.execute(sql, &[]));
        assert_eq!(done.unwrap(), 1);
    };
    change(broken);
    w.ledger.request_rescan(w.wallet, at(FIRST), w.now).unwrap();
    let (first, txs) = &story.blocks[0];
    let step = w.ledger.rescan_block(w.wallet, &first.block, txs, w.now).unwrap();
    assert!(step.failed.is_some());
    let aside = w.ledger.standing(w.wallet).unwrap();
    assert!(aside.set_aside.is_some() && aside.rescan.is_none());
    change(mended);
    story.reorganise(w, LAST_SPEND);
    story.mine(w, &[]);
    let asked = w.ledger.request_rescan(w.wallet, at(LAST_SPEND), w.now).unwrap();
    assert_eq!(asked.from, at(FIRST));
    story.rescan(w, w.wallet);
    assert_eq!((confirmed(w), w.ledger.standing(w.wallet).unwrap()), (40, Standing::default()));
    w.check();
}

fn an_archived_wallet_looks_again_when_it_is_restored(w: &mut World<'_>) {
    use utxokeep_wallet::ArchiveBlocker::{Coins, Unconfirmed};
    let mut story = Story::pruned(w);
    w.ledger.archive_wallet(w.wallet, &[Coins, Unconfirmed], w.now).unwrap();
    story.reorganise(w, LAST_SPEND);
    let instead = pay(5, &[out(&story.spent, 1)], &[-10, 25]);
    story.mine(w, &[&instead]);
    assert!(w.ledger.requested_rescans(NETWORK).unwrap().is_empty(), "it waits");
    w.ledger.restore_wallet(w.wallet, w.now).unwrap();
    assert_set_aside(w, FIRST);
    story.rescan(w, w.wallet);
    story.assert_same(w);
}

fn a_wallet_that_lacks_blocks_is_not_pruned(w: &mut World<'_>) {
    let story = Story::new(w);
    w.ledger.request_rescan(w.wallet, at(FIRST), w.now).unwrap();
    let refused = prune(w, LAST_SPEND).unwrap_err();
    assert!(
        matches!(refused, LedgerError::BadPrune(BadPrune::NotRescanned { next }) if next == at(FIRST)),
        "{refused}"
    );
    story.rescan(w, w.wallet);
    assert_eq!(prune(w, LAST_SPEND).unwrap(), 3);
    story.assert_same(w);
}

fn what_is_in_a_block_by_somebodys_word_is_not_pruned(w: &mut World<'_>) {
    let early = pay(6, &[outside(6)], &[30]);
    let spend = pay(7, &[out(&early, 0)], &[-29]);
    let mut story = Story::new(w);
    let seen = Seen::Block(w.block_at(50), None);
    w.ledger.record(w.wallet, &early, seen, &RecordOptions::default(), w.now).unwrap();
    story.mine(w, &[&spend]);
    story.mine_to(w, 396 + 288);
    // The three others go; what spends the claimed coin stays with it.
    assert_eq!(prune(w, 396).unwrap(), 3);
    for tx in [&early, &spend] {
        assert!(w.ledger.transaction(w.wallet, &tx.txid).is_ok());
    }
    w.check();
}

fn a_wallet_that_an_older_version_pruned_counts_as_pruned(w: &mut World<'_>) {
    let story = Story::pruned(w);
    unmigrate(w.ledger.database(), 14).unwrap();
    migrate(w.ledger.database(), w.now).unwrap();
    let refused = w.ledger.rollback_from(NETWORK, at(LAST_SPEND), w.now).unwrap_err();
    let LedgerError::ReachesPruned { pruned, wallets, .. } = refused else { panic!("{refused}") };
    assert_eq!((pruned.lowest(), pruned.highest()), (at(FIRST), at(395 - 100)));
    assert_eq!(wallets, ["one"], "the twin has every row");
    w.ledger.rollback_below_pruned(NETWORK, at(LAST_SPEND), w.now).unwrap();
    assert_set_aside(w, FIRST);
    drop(story);
}
