//! Blocks that somebody else brings: applied and taken off, for all wallets of a network.

use utxokeep_core::{Height, Network};
use utxokeep_wallet::{LinkedBlock, NewTx};

use super::{
    ApplyBlock, BlockApplied, BlockPlace, BlockTx, DisconnectBlock, LedgerTip, RollBack, Wallets,
    WalletsError, now,
    records::{block_ref, tx_of_parts},
    texts,
};

impl Wallets {
    /// Finds a network by the names users give.
    pub fn find_network(chain: &str, network: &str) -> Result<Network, WalletsError> {
        Ok(Network::find(chain, network)?)
    }

    /// Applies the next block to all wallets of a network.
    pub fn apply_block(
        &self,
        network: Network,
        request: &ApplyBlock,
    ) -> Result<BlockApplied, WalletsError> {
        let linked = linked(network, &request.block, request.parent.as_deref())?;
        let read = |tx: &BlockTx| match tx {
            BlockTx::Raw(hex) => self.tx_of_bytes(network, &texts::bytes("transactions", hex)?),
            BlockTx::Parts(parts) => tx_of_parts(network, parts),
        };
        let txs: Vec<NewTx> = request.transactions.iter().map(read).collect::<Result<_, _>>()?;
        let applied = self.ledger.apply_block(network, &linked, &txs, now())?;
        let mut set_aside = Vec::new();
        for wallet in applied.set_aside.keys() {
            set_aside.push(self.ledger.wallet(*wallet)?.name);
        }
        Ok(BlockApplied {
            already_applied: applied.already_applied,
            recorded: applied.recorded.values().map(Vec::len).sum(),
            tip: Some(LedgerTip::new(network, (linked.block.height, linked.block.hash))),
            set_aside,
        })
    }

    /// Takes the last block off a network; answers the last one now.
    pub fn disconnect_block(
        &self,
        network: Network,
        request: &DisconnectBlock,
    ) -> Result<Option<LedgerTip>, WalletsError> {
        let linked = linked(network, &request.block, request.parent.as_deref())?;
        self.ledger.disconnect_block(network, &linked, now())?;
        let below = linked.block.height.parent().zip(linked.parent);
        Ok(below.map(|tip| LedgerTip::new(network, tip)))
    }

    /// Takes all blocks from a height on off a network; answers the last one now.
    pub fn roll_back(
        &self,
        network: Network,
        request: RollBack,
    ) -> Result<Option<LedgerTip>, WalletsError> {
        let tip = self.ledger.rollback_from(network, Height::new(request.from_height), now())?;
        Ok(tip.map(|tip| LedgerTip::new(network, tip)))
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
