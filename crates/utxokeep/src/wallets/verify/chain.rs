//! A wallet, compared with the UTXO set of the chain database.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    BlockHash, Height, IndexKey, OutPoint,
    wallet::{BranchAbove, ConfirmedCoin, Difference, differences},
};
use utxokeep_index::{ChainIndex, Paging, View};
use utxokeep_kv::{Kv, RocksKv};
use utxokeep_wallet::{KnownBlock, OpenWallet, Unseen, Violation, Wallet};

use super::super::{ChainCompared, LedgerTip, WalletsError};

/// Addresses whose coins are compared at once.
const PAGE_ADDRESSES: usize = 100;
/// Outputs of one script that are read at once.
const PAGE_OUTPUTS: usize = 1_000;
/// Heights whose blocks are compared at once.
const PAGE_HEIGHTS: u32 = 10_000;
/// Outputs that a violation names.
const EXAMPLES_MAX: usize = 10;

/// A snapshot of the chain database.
type ChainView<'c> = View<'c, <RocksKv as Kv>::Snapshot<'c>>;

const FOLLOW_AGAIN: &str = "roll the ledger back to below this height (wallet disconnect) and let \
    it follow the chain again";

/// What to do when ledger and chain database are not at the same block.
const FOLLOW: &str = "let the ledger follow (wallet follow --until-tip) and verify again";
const CATCH_UP: &str = "the chain database ends lower: let it follow its node, and verify again";
const WORSE_BRANCH: &str = "the chain database is on a branch that is not better than the ledger's: \
    let it follow its node to the best one, or use another database, and verify again";

/// Compares the confirmed coins of a wallet with the outputs that the chain database has for its
/// scripts, both as of the last block that the wallet has looked at.
pub(super) fn compare(
    index: &ChainIndex<RocksKv>,
    wallet: &Wallet,
    ledger: &mut OpenWallet<'_, '_, '_>,
) -> Result<(ChainCompared, Vec<Violation>), WalletsError> {
    // The chain is read second, so that it is as far as the ledger or further.
    let view = index.view()?;
    let tip = shared_tip(&view, ledger, wallet)?;
    let unseen = ledger.unseen()?;
    let due = unseen.map_or(Some(tip.0), |unseen| unseen.from.parent());
    let compared = ChainCompared {
        tip: LedgerTip::new(wallet.network, tip),
        scripts: 0,
        outputs: 0,
        unseen_from_height: unseen.map(|unseen| unseen.from.get()),
        unseen_reason: unseen.map(|unseen| unseen.reason.name()),
    };
    let mut comparison = Comparison { wallet, view, compared, found: BTreeMap::new() };
    comparison.compare_blocks(ledger, tip.0)?;
    let comparison = comparison.compare_coins(ledger, due, unseen)?;
    Ok((comparison.compared, comparison.found.into_values().collect()))
}

/// The last block of the ledger, which the chain must have.
fn shared_tip(
    view: &ChainView<'_>,
    ledger: &mut OpenWallet<'_, '_, '_>,
    wallet: &Wallet,
) -> Result<(Height, BlockHash), WalletsError> {
    let text = |tip: (Height, _)| LedgerTip::new(wallet.network, tip).to_string();
    let or_none = |tip: Option<String>| tip.unwrap_or_else(|| "no block".to_owned());
    let end = view.tip().map(|(height, entry)| (height, entry.hash));
    let Some(tip) = ledger.tip() else {
        let chain = or_none(end.map(text));
        return Err(WalletsError::TipsDiffer { ledger: or_none(None), chain, advice: FOLLOW });
    };
    let known = view.block(tip.0)?.filter(|entry| entry.hash == tip.1);
    if known.is_some() {
        return Ok(tip);
    }
    let advice = match end {
        Some(end) => advice(view, ledger, tip.0, end.0)?,
        None => CATCH_UP,
    };
    let (ledger, chain) = (text(tip), or_none(end.map(text)));
    Err(WalletsError::TipsDiffer { ledger, chain, advice })
}

/// What to do when the chain database does not have the last block of the ledger: the one of the two
/// that is behind, or on the worse branch, has to move.
fn advice(
    view: &ChainView<'_>,
    ledger: &mut OpenWallet<'_, '_, '_>,
    tip: Height,
    end: Height,
) -> Result<&'static str, WalletsError> {
    let (mut ours, mut is_contradicted) = (BranchAbove::empty(), false);
    let mut above = tip.plus(1);
    // From the tip down to the highest block that both have.
    let shared = loop {
        let Some(last) = above.parent() else { break None };
        let first = Height::new(last.get().saturating_sub(PAGE_HEIGHTS - 1));
        let mut page = ledger.known_blocks(first, last)?;
        page.sort_unstable_by_key(|known| (std::cmp::Reverse(known.height), known.work.is_none()));
        page.dedup_by_key(|known| known.height);
        let mut shared = None;
        for known in page {
            let real = view.block(known.height)?.filter(|_| known.height <= end);
            if real.as_ref().is_some_and(|real| real.hash == known.hash) {
                shared = Some(known.height);
                break;
            }
            is_contradicted |= real.is_some();
            ours = ours.plus(known.work);
        }
        if shared.is_some() || first == Height::GENESIS {
            break shared;
        }
        above = first;
    };
    if !is_contradicted {
        return Ok(CATCH_UP);
    }
    let first = shared.map_or(0, |shared| shared.get() + 1);
    ours.blocks = (tip.get() + 1).saturating_sub(first);
    let total = |height: Height| view.block(height).map(|entry| entry.map(|entry| entry.work));
    let work = match shared {
        None => total(end)?,
        Some(shared) => total(end)?.zip(total(shared)?).and_then(|(all, below)| all.above(&below)),
    };
    let theirs = BranchAbove { blocks: (end.get() + 1).saturating_sub(first), work };
    Ok(if theirs.is_better_than(&ours) { FOLLOW } else { WORSE_BRANCH })
}

/// A comparison under way.
struct Comparison<'c> {
    wallet: &'c Wallet,
    view: ChainView<'c>,
    compared: ChainCompared,
    found: BTreeMap<&'static str, Violation>,
}

impl Comparison<'_> {
    /// Compares coins as of the last block that the wallet has looked at.
    fn compare_coins(
        mut self,
        ledger: &mut OpenWallet<'_, '_, '_>,
        due: Option<Height>,
        unseen: Option<Unseen>,
    ) -> Result<Self, WalletsError> {
        let Some(due) = due else { return Ok(self) };
        // The wallet has to look at the blocks again before anything can be said about coins.
        if unseen.is_some() && self.view.floor()?.is_some_and(|floor| due < floor) {
            return Ok(self);
        }
        self.view = self.view.at(due)?;
        if let Some(entry) = self.view.block(due)? {
            self.compared.tip = LedgerTip::new(self.wallet.network, (due, entry.hash));
        }
        let mut after = 0;
        loop {
            let page = ledger.addresses(after, PAGE_ADDRESSES)?;
            let (Some(first), Some(last)) = (page.first(), page.last()) else { return Ok(self) };
            after = last.id;
            let (mut on_chain, mut stored) = (Vec::new(), Vec::new());
            let archived: BTreeSet<i64> =
                page.iter().filter(|address| address.archived).map(|address| address.id).collect();
            for address in page.iter().filter(|address| !address.archived) {
                on_chain.extend(self.outputs_of(&address.script)?);
            }
            for credited in ledger.confirmed_coins(first.id, last.id, due)? {
                // The script of another key, or of an archived keychain, is not watched: only this
                // output is looked up.
                if credited.script.is_some() || archived.contains(&credited.address_id) {
                    on_chain.extend(self.output(credited.coin.outpoint)?);
                }
                stored.push(credited.coin);
            }
            self.compared.scripts += u64::try_from(page.len()).unwrap_or(u64::MAX);
            self.compared.outputs += u64::try_from(on_chain.len()).unwrap_or(u64::MAX);
            for (outpoint, difference) in differences(stored, on_chain) {
                self.report(outpoint, difference);
            }
        }
    }

    /// All outputs to a script that the chain has at this block.
    fn outputs_of(&self, script: &[u8]) -> Result<Vec<ConfirmedCoin>, WalletsError> {
        let owner = IndexKey::address(self.wallet.network, script);
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let paging = Paging {
                after,
                skip: 0,
                limit: PAGE_OUTPUTS,
                reverse: false,
                scan_rows_max: u64::MAX,
            };
            let page = self.view.owner_utxos(owner, paging, None)?;
            found.extend(page.utxos.iter().filter(|utxo| utxo.address == script).map(coin));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }

    fn output(&self, outpoint: OutPoint) -> Result<Option<ConfirmedCoin>, WalletsError> {
        let found = self.view.utxo(outpoint)?.filter(|utxo| utxo.spent.is_none());
        Ok(found.as_ref().map(coin))
    }

    /// Compares every block that the ledger names, up to its tip, with the chain's.
    fn compare_blocks(
        &mut self,
        ledger: &mut OpenWallet<'_, '_, '_>,
        tip: Height,
    ) -> Result<(), WalletsError> {
        let mut first = 0;
        while first <= tip.get() {
            let last = first.saturating_add(PAGE_HEIGHTS - 1).min(tip.get());
            for known in ledger.known_blocks(Height::new(first), Height::new(last))? {
                if let Some(rule) = self.differing(&known)? {
                    self.add(rule, FOLLOW_AGAIN, format!("block {}", known.height));
                }
            }
            first = last + 1;
        }
        Ok(())
    }

    /// The rule that a block of the ledger breaks.
    fn differing(&self, known: &KnownBlock) -> Result<Option<&'static str>, WalletsError> {
        const OTHER_BLOCK: &str = "a block has the hash and the time that the chain says";
        const OTHER_WORK: &str = "a block has the work that the chain says";
        let Some(real) = self.view.block(known.height)? else { return Ok(Some(OTHER_BLOCK)) };
        let time = i64::try_from(real.time).ok().and_then(|secs| secs.checked_mul(1_000_000));
        let is_other_time = known.time.is_some_and(|known| Some(known.get()) != time);
        if real.hash != known.hash || is_other_time {
            return Ok(Some(OTHER_BLOCK));
        }
        let Some(work) = known.work else { return Ok(None) };
        let below = known.height.parent().map(|below| self.view.block(below)).transpose()?;
        let real = match below {
            None => Some(real.work),
            Some(below) => below.and_then(|below| real.work.above(&below.work)),
        };
        Ok((real != Some(work)).then_some(OTHER_WORK))
    }

    fn report(&mut self, outpoint: OutPoint, difference: Difference) {
        let (rule, remedy) = match difference {
            Difference::NotOnChain => (
                "the chain has every confirmed coin of the wallet",
                "the coin was never paid, or is spent: take a copy of the ledger, then scan the \
                 wallet again from below its block (wallet scan)",
            ),
            Difference::NotInLedger => (
                "the ledger has every output that the chain has for its scripts",
                "scan the wallet again from the block of the output or below (wallet scan)",
            ),
            Difference::Amount => (
                "a coin has the amount that the chain says",
                "restore the ledger from a copy, then let it follow the chain again",
            ),
            Difference::Block => (
                "a coin is in the block that the chain says",
                "take a copy of the ledger, then scan the wallet again from below both blocks \
                 (wallet scan)",
            ),
            Difference::Position => (
                "a transaction is at the place in its block that the chain says",
                "take a copy of the ledger, then scan the wallet again from below the block \
                 (wallet scan)",
            ),
        };
        let output = self.wallet.network.outpoint(&outpoint);
        self.add(rule, remedy, format!("output {output}"));
    }

    fn add(&mut self, rule: &'static str, remedy: &'static str, example: String) {
        let found = self.found.entry(rule).or_insert_with(|| Violation {
            rule,
            remedy,
            rows: 0,
            first_id: 0,
            examples: Vec::new(),
        });
        found.rows += 1;
        if found.examples.len() < EXAMPLES_MAX {
            found.examples.push(example);
        }
    }
}

fn coin(utxo: &utxokeep_index::Utxo) -> ConfirmedCoin {
    ConfirmedCoin {
        outpoint: utxo.outpoint,
        amount: utxo.value,
        height: utxo.created.height,
        is_coinbase: utxo.is_coinbase,
        position: Some(utxo.tx_index),
    }
}
