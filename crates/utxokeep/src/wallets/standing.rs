//! Wallets that lack blocks which the ledger has passed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utxokeep_core::{ChainHash, Height, Network, wallet::WalletId};
use utxokeep_wallet::{Rescan, SetAside, Standing, Wallet};

use super::{Wallets, WalletsError, now};

/// Wallets that health names at most.
const NAMED_MAX: usize = 10;

/// A wallet to look at blocks again.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RescanWallet {
    /// Name of the wallet.
    pub wallet: String,
    /// The first block. When not given: where an earlier rescan stopped, the block since which a
    /// wallet that is set aside has not all, its birthday, or the first block of the ledger.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT"))]
    pub from_height: Option<u32>,
}

/// The block since which the wallet has not all: one that it could not take, the first that it did
/// not look at while it, or a keychain of it, was archived, or the first that it was pruned from, when
/// such blocks left the chain. Its coins may be spent, and nothing is paid from it until a rescan has
/// brought it to the tip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SetAsideInfo {
    /// Height of the block.
    pub height: u32,
    /// Hash of the block that the wallet could not take; absent for one that was restored or pruned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, nullable = false))]
    pub hash: Option<ChainHash>,
    /// What the ledger said.
    pub reason: String,
    /// When it happened.
    pub at_us: i64,
}

impl SetAsideInfo {
    fn new(network: Network, aside: SetAside) -> Self {
        let hash = aside.hash.map(|hash| network.hash(hash));
        let height = aside.height.get();
        Self { height, hash, reason: aside.reason, at_us: aside.at.get() }
    }
}

/// Blocks that the wallet looks at again, up to the tip of the ledger. Until then coins may be
/// missing, and coins that were found may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RescanInfo {
    /// The first one.
    pub from_height: u32,
    /// The next one; those below are done.
    pub next_height: u32,
}

impl From<Rescan> for RescanInfo {
    fn from(rescan: Rescan) -> Self {
        Self { from_height: rescan.from.get(), next_height: rescan.next.get() }
    }
}

/// How a wallet stands to the tip of the ledger; both are `None` when it has every block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StandingInfo {
    /// Why it gets no blocks.
    pub set_aside: Option<SetAsideInfo>,
    /// What it is going to look at.
    pub rescan: Option<RescanInfo>,
}

impl StandingInfo {
    pub(super) fn new(network: Network, standing: Standing) -> Self {
        Self {
            set_aside: standing.set_aside.map(|aside| SetAsideInfo::new(network, aside)),
            rescan: standing.rescan.map(RescanInfo::from),
        }
    }
}

/// How many wallets lack blocks, and the names of the first that are set aside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lagging {
    /// Wallets that are set aside.
    pub set_aside: usize,
    /// Wallets that are being scanned.
    pub rescans: usize,
    /// For people: who is set aside since when, and why.
    pub named: Vec<String>,
}

impl Wallets {
    /// Asks that a wallet looks at all blocks from a height up to the tip again. The program that
    /// follows the chain for this ledger does it.
    pub fn rescan_wallet(&self, request: &RescanWallet) -> Result<RescanInfo, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let from = self.rescan_start(&wallet, request.from_height.map(Height::new))?;
        Ok(self.ledger.request_rescan(wallet.id, from, now())?.into())
    }

    /// Where a rescan starts. Refused where the chain database has no block.
    pub fn rescan_start(
        &self,
        wallet: &Wallet,
        asked: Option<Height>,
    ) -> Result<Height, WalletsError> {
        let from = asked.map_or_else(|| self.ledger.rescan_start(wallet.id), Ok)?;
        let first = match &self.chain {
            Some(index) if index.settings().network() == wallet.network => {
                index.status()?.started_mid_chain_at
            }
            _ => None,
        };
        match first {
            Some(first) if from < first => {
                Err(WalletsError::BelowChain { from: from.get(), first: first.get() })
            }
            _ => Ok(from),
        }
    }

    /// How one wallet stands to the tip.
    pub(super) fn standing(&self, wallet: &Wallet) -> Result<StandingInfo, WalletsError> {
        Ok(StandingInfo::new(wallet.network, self.ledger.standing(wallet.id)?))
    }

    /// The standings of some wallets, without those that have every block.
    pub(super) fn standings(
        &self,
        wallets: &[Wallet],
    ) -> Result<BTreeMap<WalletId, StandingInfo>, WalletsError> {
        let (Some(first), Some(last)) = (wallets.first(), wallets.last()) else {
            return Ok(BTreeMap::new());
        };
        let mut found = BTreeMap::new();
        let mut after = Some(WalletId::new(first.id.get() - 1));
        loop {
            let page = self.ledger.lagging_wallets(after, usize::MAX)?;
            let Some(end) = page.last().map(|lagging| lagging.wallet) else { break };
            for lagging in page {
                if let Some(wallet) = wallets.iter().find(|wallet| wallet.id == lagging.wallet) {
                    let standing = StandingInfo::new(wallet.network, lagging.standing);
                    found.insert(lagging.wallet, standing);
                }
            }
            if end >= last.id {
                break;
            }
            after = Some(end);
        }
        Ok(found)
    }

    /// All wallets that lack blocks, for health and metrics.
    pub fn lagging(&self) -> Result<Lagging, WalletsError> {
        let mut all = Lagging::default();
        self.ledger.each_lagging_wallet(|lagging| {
            all.rescans += usize::from(lagging.standing.rescan.is_some());
            let Some(aside) = lagging.standing.set_aside else { return Ok(()) };
            all.set_aside += 1;
            if all.named.len() < NAMED_MAX {
                let name = lagging.name.escape_debug();
                all.named.push(format!("{name} since block {}: {}", aside.height, aside.reason));
            }
            Ok(())
        })?;
        Ok(all)
    }
}
