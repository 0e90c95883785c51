//! Checks of a wallet: its rows among themselves, its bytes, and the chain's own UTXO set.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::IgnoredAny;
use utxokeep_core::{
    Height, IndexKey, OutPoint,
    wallet::{ConfirmedCoin, Difference, differences},
};
use utxokeep_index::{Paging, View};
use utxokeep_kv::{Kv, RocksKv};
use utxokeep_wallet::{LedgerError, OpenWallet, Violation, Wallet};

use super::{
    ChainCompared, LedgerTip, Verified, VerifyWallet, ViolationInfo, Wallets, WalletsError, now,
    texts,
};

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

impl Wallets {
    /// Checks that everything stored about a wallet fits together, and to the chain if asked.
    pub fn verify_wallet(
        &self,
        name: &str,
        request: VerifyWallet,
    ) -> Result<Verified, WalletsError> {
        let wallet = self.wallet(name)?;
        let mut compared = None;
        let mut violations: Vec<ViolationInfo> = Vec::new();
        if request.with_chain {
            let (chain, found) = self.compare_with_chain(&wallet)?;
            compared = Some(chain);
            violations.extend(found.into_iter().map(ViolationInfo::from));
        }
        let checked = self.ledger.verification(wallet.id)?;
        violations.extend(checked.violations.into_iter().map(ViolationInfo::from));
        let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
        let unreadable = self.ledger.verify_texts(wallet.id, is_json)?;
        violations.extend(unreadable.into_iter().map(ViolationInfo::from));
        Ok(Verified {
            is_sound: violations.is_empty(),
            violations,
            transactions: checked.transactions,
            transactions_decoded: checked.decoded,
            scripts_derived: checked.scripts,
            definitions_compared: checked.definitions,
            chain: compared,
        })
    }

    /// Compares the confirmed coins of a wallet with the outputs that the chain database has for
    /// its scripts, both as of the last block that the ledger has applied.
    fn compare_with_chain(
        &self,
        wallet: &Wallet,
    ) -> Result<(ChainCompared, Vec<Violation>), WalletsError> {
        if wallet.archived_at.is_some() {
            return Err(LedgerError::WalletArchived.into());
        }
        let index = self.chain.as_ref().ok_or(WalletsError::NoChain)?;
        let network = index.settings().network();
        if network != wallet.network {
            let what = format!("the chain database follows {network}, not {}", wallet.network);
            return Err(WalletsError::field("with_chain", what));
        }
        let status = index.status()?;
        if status.started_mid_chain_at.is_some() || status.filter_entries > 0 {
            return Err(WalletsError::PartialChain);
        }
        self.ledger.view(wallet.id, now(), |ledger| {
            // The chain is read second, so that it is as far as the ledger or further.
            let (tip, view) = at_ledger_tip(index.view()?, ledger, wallet)?;
            Comparison::new(wallet, view, tip).run(ledger)
        })
    }
}

/// Moves the snapshot of the chain to the last block of the ledger, which it must have.
fn at_ledger_tip<'c>(
    view: ChainView<'c>,
    ledger: &OpenWallet<'_, '_, '_>,
    wallet: &Wallet,
) -> Result<(LedgerTip, ChainView<'c>), WalletsError> {
    let text = |tip: (Height, _)| LedgerTip::new(wallet.network, tip).to_string();
    let chain = view.tip().map(|(height, entry)| text((height, entry.hash)));
    let differ = |ledger: Option<String>| WalletsError::TipsDiffer {
        ledger: ledger.unwrap_or_else(|| "no block".to_owned()),
        chain: chain.clone().unwrap_or_else(|| "no block".to_owned()),
    };
    let Some((height, hash)) = ledger.tip() else { return Err(differ(None)) };
    let known = view.block(height)?.filter(|entry| entry.hash == hash);
    if known.is_none() {
        return Err(differ(Some(text((height, hash)))));
    }
    Ok((LedgerTip::new(wallet.network, (height, hash)), view.at(height)?))
}

/// A comparison under way.
struct Comparison<'c> {
    wallet: &'c Wallet,
    view: ChainView<'c>,
    compared: ChainCompared,
    found: BTreeMap<&'static str, Violation>,
}

impl<'c> Comparison<'c> {
    fn new(wallet: &'c Wallet, view: ChainView<'c>, tip: LedgerTip) -> Self {
        let compared = ChainCompared { tip, scripts: 0, outputs: 0 };
        Self { wallet, view, compared, found: BTreeMap::new() }
    }

    fn run(
        mut self,
        ledger: &mut OpenWallet<'_, '_, '_>,
    ) -> Result<(ChainCompared, Vec<Violation>), WalletsError> {
        self.compare_blocks(ledger)?;
        let mut after = 0;
        loop {
            let page = ledger.addresses(after, PAGE_ADDRESSES)?;
            let (Some(first), Some(last)) = (page.first(), page.last()) else { break };
            after = last.id;
            let (mut on_chain, mut stored) = (Vec::new(), Vec::new());
            let archived: BTreeSet<i64> =
                page.iter().filter(|address| address.archived).map(|address| address.id).collect();
            for address in page.iter().filter(|address| !address.archived) {
                on_chain.extend(self.outputs_of(&address.script)?);
            }
            for credited in ledger.confirmed_coins(first.id, last.id)? {
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
        Ok((self.compared, self.found.into_values().collect()))
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
            let page = self.view.owner_utxos(&owner, paging, None)?;
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
    fn compare_blocks(&mut self, ledger: &mut OpenWallet<'_, '_, '_>) -> Result<(), WalletsError> {
        let tip = self.compared.tip.height;
        let mut first = 0;
        while first <= tip {
            let last = first.saturating_add(PAGE_HEIGHTS - 1).min(tip);
            for known in ledger.known_blocks(Height::new(first), Height::new(last))? {
                let real = self.view.block(known.height)?;
                let is_same = real.is_some_and(|real| {
                    let time = i64::try_from(real.time).ok().and_then(|s| s.checked_mul(1_000_000));
                    real.hash == known.hash
                        && known.time.is_none_or(|known| Some(known.get()) == time)
                });
                if !is_same {
                    let remedy = "roll the ledger back to below this height (wallet disconnect) \
                         and let it follow the chain again";
                    let rule = "a block has the hash and the time that the chain says";
                    self.add(rule, remedy, format!("block {}", known.height));
                }
            }
            first = last + 1;
        }
        Ok(())
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
        let output = texts::outpoint_text(self.wallet.network, &outpoint);
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
