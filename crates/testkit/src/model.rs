//! The reference model: a chain and its set in plain maps, slow and obvious.
//!
//! # Invariants
//!
//! * No code of the engine under test is used: the rules are written down a second time, one
//!   transaction after the other, on a copy of the set.
//! * Every applied block keeps its full effects, so any earlier set is found by taking them back.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    Block, BlockHash, Details, Height, Network, OutPoint, SetDigest, Totals, Txid, UtxoRecord,
};

/// A live output of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCoin {
    /// Output script.
    pub address: Vec<u8>,
    /// Amount.
    pub value: u64,
    /// Height of the block that created it.
    pub height: u32,
    /// Position of its transaction in that block.
    pub tx_index: u32,
    /// Created by a coinbase.
    pub is_coinbase: bool,
}

/// An applied block and everything it did.
#[derive(Debug, Clone)]
pub struct ModelBlock {
    /// Its hash.
    pub hash: BlockHash,
    /// Its time.
    pub time: u64,
    /// Every output it created.
    pub created: Vec<(OutPoint, ModelCoin)>,
    /// Every output it spent, as it was, and the spender.
    pub spent: Vec<(OutPoint, ModelCoin, Txid)>,
    /// Outputs that a repeated transaction replaced.
    pub replaced: Vec<(OutPoint, ModelCoin)>,
}

/// Why the model refuses a block: Bitcoin Core's name of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub &'static str);

/// A set of live outputs.
pub type ModelSet = BTreeMap<OutPoint, ModelCoin>;

/// A chain and its set.
#[derive(Debug, Clone)]
pub struct Model {
    network: Network,
    blocks: Vec<ModelBlock>,
    live: ModelSet,
}

impl Model {
    /// A chain without blocks.
    pub fn new(network: Network) -> Self {
        Self { network, blocks: Vec::new(), live: BTreeMap::new() }
    }

    /// Height of the newest block.
    pub fn tip(&self) -> Option<u32> {
        u32::try_from(self.blocks.len()).expect("test chains are short").checked_sub(1)
    }

    /// Applied blocks, by height.
    pub fn blocks(&self) -> &[ModelBlock] {
        &self.blocks
    }

    /// The set at the tip.
    pub fn live(&self) -> &ModelSet {
        &self.live
    }

    /// Connects a block on top of the tip; a refused block changes nothing.
    pub fn apply(&mut self, block: &Block) -> Result<(), Refusal> {
        let height = u32::try_from(self.blocks.len()).expect("test chains are short");
        no_duplicate_inputs(block)?;
        let carries_height = self.network.has_height_in_coinbase(Height::new(height));
        if carries_height && block.claimed_height != Some(height) {
            return Err(Refusal("bad-cb-height"));
        }
        let replaced = self.replaced(block, height)?;
        let mut live = self.live.clone();
        let mut done = ModelBlock {
            hash: block.header.hash,
            time: block.header.time,
            created: Vec::new(),
            spent: Vec::new(),
            replaced,
        };
        let mut fees = 0;
        for (tx_index, tx) in (0u32..).zip(&block.txs) {
            if !tx.is_coinbase {
                let spent = self.spend(&mut live, block.inputs_of(tx), height)?;
                let total: u64 = spent.iter().map(|(_, coin)| coin.value).sum();
                fees +=
                    total.checked_sub(tx.output_total).ok_or(Refusal("bad-txns-in-belowout"))?;
                done.spent.extend(spent.into_iter().map(|(name, coin)| (name, coin, tx.txid)));
            }
            for output in block.outputs_of(tx) {
                let coin = ModelCoin {
                    address: block.address_of(output).to_vec(),
                    value: output.value,
                    height,
                    tx_index,
                    is_coinbase: tx.is_coinbase,
                };
                let outpoint = OutPoint::new(tx.txid, output.index);
                live.insert(outpoint, coin.clone());
                done.created.push((outpoint, coin));
            }
        }
        let allowed = self.network.subsidy(Height::new(height)) + fees;
        if height > 0 && block.txs.first().is_some_and(|first| first.output_total > allowed) {
            return Err(Refusal("bad-cb-amount"));
        }
        self.live = live;
        self.blocks.push(done);
        Ok(())
    }

    /// Live outputs that the block would create again.
    fn replaced(&self, block: &Block, height: u32) -> Result<Vec<(OutPoint, ModelCoin)>, Refusal> {
        let mut replaced = Vec::new();
        for tx in &block.txs {
            for output in block.outputs_of(tx) {
                let outpoint = OutPoint::new(tx.txid, output.index);
                if let Some(coin) = self.live.get(&outpoint) {
                    replaced.push((outpoint, coin.clone()));
                }
            }
        }
        if !replaced.is_empty() && !self.network.may_overwrite(Height::new(height)) {
            return Err(Refusal("bad-txns-BIP30"));
        }
        Ok(replaced)
    }

    /// Takes the inputs of one transaction out of `live`.
    fn spend(
        &self,
        live: &mut ModelSet,
        inputs: &[OutPoint],
        height: u32,
    ) -> Result<Vec<(OutPoint, ModelCoin)>, Refusal> {
        let mut spent = Vec::new();
        for outpoint in inputs {
            let coin = live.remove(outpoint).ok_or(Refusal("bad-txns-inputs-missingorspent"))?;
            spent.push((*outpoint, coin));
        }
        let maturity = self.network.coinbase_maturity();
        if spent.iter().any(|(_, coin)| coin.is_coinbase && height - coin.height < maturity) {
            return Err(Refusal("bad-txns-premature-spend-of-coinbase"));
        }
        Ok(spent)
    }

    /// Takes back every block above `to`.
    pub fn rollback(&mut self, to: u32) {
        self.live = self.live_at(to);
        self.blocks.truncate(to as usize + 1);
    }

    /// The set after the block at `height`.
    pub fn live_at(&self, height: u32) -> ModelSet {
        let mut live = self.live.clone();
        for block in self.blocks.iter().skip(height as usize + 1).rev() {
            for (outpoint, coin, _) in &block.spent {
                live.insert(*outpoint, coin.clone());
            }
            for (outpoint, _) in &block.created {
                live.remove(outpoint);
            }
            for (outpoint, coin) in &block.replaced {
                live.insert(*outpoint, coin.clone());
            }
        }
        live
    }

    /// The newest spend of an output: the output, its spender and the spender's height.
    pub fn spend_of(&self, outpoint: &OutPoint) -> Option<(&ModelCoin, Txid, u32)> {
        let spends = (0u32..).zip(&self.blocks).filter_map(|(height, block)| {
            let found = block.spent.iter().find(|(name, _, _)| name == outpoint);
            found.map(|(_, coin, by)| (coin, *by, height))
        });
        spends.last()
    }

    /// Every output the chain ever created.
    pub fn ever_created(&self) -> BTreeSet<OutPoint> {
        self.blocks.iter().flat_map(|block| block.created.iter().map(|(name, _)| *name)).collect()
    }
}

/// No transaction may name an output twice; Bitcoin Core looks before anything else.
fn no_duplicate_inputs(block: &Block) -> Result<(), Refusal> {
    for tx in &block.txs {
        let inputs = block.inputs_of(tx);
        let distinct: BTreeSet<_> = inputs.iter().collect();
        if distinct.len() < inputs.len() {
            return Err(Refusal("bad-txns-inputs-duplicate"));
        }
    }
    Ok(())
}

/// Outputs of one script, in chain order.
pub fn utxos_of<'s>(set: &'s ModelSet, script: &[u8]) -> Vec<(&'s OutPoint, &'s ModelCoin)> {
    let mut utxos: Vec<_> = set.iter().filter(|(_, coin)| coin.address == script).collect();
    utxos.sort_by_key(|(outpoint, coin)| (coin.height, coin.tx_index, outpoint.index()));
    utxos
}

/// Every digest of a set.
pub fn digest_of(set: &ModelSet) -> SetDigest {
    let mut digest = SetDigest::new(Network::BitcoinRegtest, true, true);
    for (outpoint, coin) in set {
        let record = UtxoRecord {
            address: &coin.address,
            value: coin.value,
            details: Details::default(),
            height: Height::new(coin.height),
            place: None,
            tx_index: coin.tx_index,
            is_coinbase: coin.is_coinbase,
        };
        digest.add(*outpoint, &record).expect("a record without details is not damaged");
    }
    digest
}

/// Count, amount and size of a set.
pub fn totals_of(set: &ModelSet) -> Totals {
    Totals {
        txouts: set.len() as u64,
        total_amount: set.values().map(|coin| coin.value).sum(),
        bogosize: set.values().map(|coin| 50 + coin.address.len() as u64).sum(),
    }
}
