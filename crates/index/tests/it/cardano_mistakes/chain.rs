//! A private chain to make mistakes on.

use utxokeep_chains::{BlockDecoder, cardano::Genesis};
use utxokeep_core::{Block, Height, IndexKey, Network, OutPoint, Txid, Window};
use utxokeep_index::{
    AddressPage, Applied, ApplyError, ChainIndex, ChainWriter, IndexSettings, Paging,
    tables::TABLES,
};
use utxokeep_kv::MemoryKv;
use utxokeep_testkit::cardano::{
    BlockSpec, Built, Credential, Era, OutSpec, TxIn, TxSpec, enterprise, fund_of, shelley_genesis,
};

pub(crate) const DEVNET: Network = Network::CardanoDevnet;
pub(crate) const EVERYTHING: Paging =
    Paging { after: None, skip: 0, limit: 1_000, reverse: false, scan_rows_max: u64::MAX };

/// An address with nothing but a key.
pub(crate) fn key(name: u8) -> Vec<u8> {
    enterprise(0, Credential::Key([name; 28]))
}

/// The first owner of everything.
pub(crate) fn treasury() -> Vec<u8> {
    key(0xee)
}

pub(crate) fn outpoint((txid, index): TxIn) -> OutPoint {
    OutPoint::new(Txid::from_bytes(txid), u32::try_from(index).unwrap())
}

/// Ten outputs of the same amount for `name`, from the first one on.
pub(crate) fn split(name: u8, amount: u64) -> TxSpec {
    let outputs: Vec<_> = (0..10).map(|_| OutSpec::new(&key(name), amount)).collect();
    TxSpec::new(&[fund_of(&treasury())], &outputs)
}

pub(crate) struct Chain {
    pub(crate) index: ChainIndex<MemoryKv>,
    pub(crate) writer: ChainWriter<MemoryKv>,
    pub(crate) built: Vec<Built>,
    pub(crate) era: Era,
}

impl Chain {
    /// A chain of one block in `era`.
    pub(crate) fn new(era: Era) -> Self {
        Self::with(era, |_| {})
    }

    pub(crate) fn with(era: Era, change: impl FnOnce(&mut IndexSettings)) -> Self {
        let genesis = shelley_genesis(10, &[(&treasury(), 1_000_000)]);
        let genesis = Genesis::from_files(None, genesis.as_bytes()).unwrap();
        let mut settings = IndexSettings::with_decoder(BlockDecoder::with_genesis(DEVNET, genesis));
        settings.stake_index = true;
        assert_eq!(settings.window, Window { prune_depth: 10, rollback_window: 20 });
        change(&mut settings);
        let index = ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap();
        let writer = ChainWriter::new(index.clone()).unwrap();
        let mut chain = Self { index, writer, built: Vec::new(), era };
        chain.push(&BlockSpec::first(era, Vec::new())).unwrap();
        chain
    }

    pub(crate) fn decode(&self, built: &Built) -> Block {
        self.index.settings().decoder.decode(built.raw.clone()).unwrap()
    }

    pub(crate) fn push(&mut self, spec: &BlockSpec) -> Result<Applied, ApplyError> {
        let built = spec.build();
        let applied = self.writer.apply(&self.decode(&built))?;
        self.built.push(built);
        Ok(applied)
    }

    /// A block with these transactions on top, and the block.
    pub(crate) fn mine(&mut self, txs: Vec<TxSpec>) -> Built {
        let spec = self.tip().next(self.era, txs);
        self.push(&spec).unwrap();
        self.tip().clone()
    }

    pub(crate) fn tip(&self) -> &Built {
        self.built.last().unwrap()
    }

    pub(crate) fn is_live(&self, output: TxIn) -> bool {
        let found = self.index.view().unwrap().utxo(outpoint(output)).unwrap();
        found.is_some_and(|utxo| utxo.spent.is_none())
    }

    /// Whether the output was never there at all.
    pub(crate) fn is_unknown(&self, output: TxIn) -> bool {
        self.index.view().unwrap().utxo(outpoint(output)).unwrap().is_none()
    }

    /// Whether a partial index refuses to say what it cannot know of the output.
    pub(crate) fn is_not_kept(&self, output: TxIn) -> bool {
        let found = self.index.view().unwrap().utxo(outpoint(output));
        matches!(found, Err(utxokeep_index::QueryError::OutputNotKept { .. }))
    }

    pub(crate) fn page(&self, owner: &IndexKey) -> AddressPage {
        self.index.view().unwrap().owner_utxos(owner, EVERYTHING, None).unwrap()
    }

    /// Live outputs of an address.
    pub(crate) fn outputs_of(&self, address: &[u8]) -> usize {
        self.page(&IndexKey::address(DEVNET, address)).utxos.len()
    }

    /// Undoes the newest blocks and applies them again; everything must be as it was each time.
    pub(crate) fn there_and_back(&mut self, depth: u32) {
        let digest = |chain: &Self| chain.index.view().unwrap().digest(true).unwrap();
        let before = digest(self);
        let target = before.point.height.minus(depth);
        let then = self.index.view().unwrap().at(target).unwrap().digest(true).unwrap();
        self.writer.rollback(target).unwrap();
        assert_eq!(digest(self), then, "rollback and time travel agree");
        self.verify();
        let blocks: Vec<_> = self.built.iter().map(|built| self.decode(built)).collect();
        for block in blocks.iter().filter(|block| block.claimed_height > Some(target.get())) {
            self.writer.apply(block).unwrap();
        }
        assert_eq!(digest(self), before);
        self.verify();
    }

    pub(crate) fn verify(&self) {
        let report = self.index.verify(&mut |_, _| {}).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }

    pub(crate) fn height(&self) -> Height {
        self.writer.tip().unwrap().height
    }
}
