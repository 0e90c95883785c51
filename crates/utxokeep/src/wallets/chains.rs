//! Blocks that somebody else brings: applied and taken off, for all wallets of a network.

use utxokeep_core::{Height, Network};
use utxokeep_wallet::{LinkedBlock, NewTx};

use super::{
    ApplyBlock, BlockApplied, BlockPlace, BlockTx, DisconnectBlock, LedgerTip, RollBack, TipAnswer,
    Wallets, WalletsError, now,
    records::{block_ref, tx_of_parts},
    texts,
};

impl Wallets {
    /// Finds a network by the names users give.
    pub fn find_network(chain: &str, network: &str) -> Result<Network, WalletsError> {
        Ok(Network::find(chain, network)?)
    }

    /// Applies the next block to all wallets of a network. A block that the ledger has passed goes to
    /// wallets whose rescan waits for it.
    pub fn apply_block(&self, request: &ApplyBlock) -> Result<BlockApplied, WalletsError> {
        let network = Self::find_network(&request.chain, &request.network)?;
        let of_chain = self.chain.as_ref().map(|index| index.settings().network());
        if self.follower().runs() && of_chain == Some(network) {
            return Err(WalletsError::FollowsChain);
        }
        let linked = linked(network, &request.block, request.parent.as_deref())?;
        let read = |tx: &BlockTx| match tx {
            BlockTx::Raw(hex) => self.tx_of_bytes(network, &texts::bytes("transactions", hex)?),
            BlockTx::Parts(parts) => tx_of_parts(network, parts),
        };
        let txs: Vec<NewTx> = request.transactions.iter().map(read).collect::<Result<_, _>>()?;
        if let Some(looked_at) = self.look_again(network, &linked, &txs)? {
            return Ok(looked_at);
        }
        let applied = self.ledger.apply_block(network, &linked, &txs, now())?;
        let mut set_aside = Vec::new();
        for wallet in applied.set_aside.keys() {
            set_aside.push(self.ledger.wallet(*wallet)?.name);
        }
        Ok(BlockApplied {
            is_already_applied: applied.already_applied,
            recorded: applied.recorded.values().map(Vec::len).sum(),
            tip: Some(LedgerTip::new(network, (linked.block.height, linked.block.hash))),
            set_aside,
        })
    }

    /// Gives a block that the ledger has passed to the wallets that lack it; `None` when there are
    /// none.
    fn look_again(
        &self,
        network: Network,
        linked: &LinkedBlock,
        txs: &[NewTx],
    ) -> Result<Option<BlockApplied>, WalletsError> {
        let tip = self.ledger.tip(network)?;
        let height = linked.block.height;
        if tip.is_none_or(|(tip, _)| height > tip) {
            return Ok(None);
        }
        let waiting = self.ledger.requested_rescans(network)?;
        let (mut recorded, mut set_aside, mut is_wanted) = (0, Vec::new(), false);
        for (wallet, _) in waiting.into_iter().filter(|(_, next)| *next == height) {
            is_wanted = true;
            let step = self.ledger.rescan_block(wallet, &linked.block, txs, now())?;
            recorded += step.recorded.len();
            if step.failed.is_some() {
                set_aside.push(self.ledger.wallet(wallet)?.name);
            }
        }
        let tip = tip.map(|tip| LedgerTip::new(network, tip));
        let looked_at = BlockApplied { is_already_applied: true, recorded, tip, set_aside };
        Ok(is_wanted.then_some(looked_at))
    }

    /// Takes the last block off a network; answers the last one now.
    pub fn disconnect_block(&self, request: &DisconnectBlock) -> Result<TipAnswer, WalletsError> {
        let network = Self::find_network(&request.chain, &request.network)?;
        let linked = linked(network, &request.block, request.parent.as_deref())?;
        self.ledger.disconnect_block(network, &linked, now())?;
        let below = linked.block.height.parent().zip(linked.parent);
        Ok(TipAnswer { tip: below.map(|tip| LedgerTip::new(network, tip)) })
    }

    /// Takes all blocks from a height on off a network; answers the last one now.
    pub fn roll_back(&self, request: &RollBack) -> Result<TipAnswer, WalletsError> {
        let network = Self::find_network(&request.chain, &request.network)?;
        if request.allow.iter().any(|name| name != "pruned") {
            return Err(WalletsError::field("allow", "only pruned can be allowed"));
        }
        let from = Height::new(request.from_height);
        let tip = if request.allow.is_empty() {
            self.ledger.rollback_from(network, from, now())?
        } else {
            self.ledger.rollback_below_pruned(network, from, now())?
        };
        Ok(TipAnswer { tip: tip.map(|tip| LedgerTip::new(network, tip)) })
    }
}

fn linked(
    network: Network,
    block: &BlockPlace,
    parent: Option<&str>,
) -> Result<LinkedBlock, WalletsError> {
    let block = block_ref(network, block)?;
    let parent = parent.map(|hash| texts::block_hash(network, hash)).transpose()?;
    Ok(LinkedBlock { block, parent })
}
