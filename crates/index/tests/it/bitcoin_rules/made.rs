//! Transactions whose every field a test chooses, and a chain to put them on.

use utxokeep_chains::{decode_block, genesis_block};
use utxokeep_core::{Header, Height, Network, OutPoint, Txid};
use utxokeep_index::{Applied, ApplyError, ChainIndex, ChainWriter, IndexSettings, tables::TABLES};
use utxokeep_kv::MemoryKv;
use utxokeep_testkit::{ANYONE, height_script, mine, push_size, regtest_genesis, seal, sha256d};

const NETWORK: Network = Network::BitcoinRegtest;
/// Blocks that every test starts with: the coins of the first ones are mature.
pub(crate) const BLOCKS: u32 = 110;
/// What each coin of the first block holds.
pub(crate) const COIN: u64 = 1_000_000;
/// A sequence number without a relative lock, which lets lock times count.
pub(crate) const UNLOCKED: u32 = 0xffff_fffe;
pub(crate) const FINAL: u32 = 0xffff_ffff;

#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) spends: OutPoint,
    pub(crate) script: Vec<u8>,
    pub(crate) sequence: u32,
    /// The one item of its witness.
    pub(crate) witness: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub(crate) struct MadeTx {
    pub(crate) version: u32,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<(u64, Vec<u8>)>,
    pub(crate) lock_time: u32,
}

impl MadeTx {
    /// Spends outputs into one that anyone can spend.
    pub(crate) fn spending(outputs: &[OutPoint]) -> Self {
        let input = |spends: &OutPoint| Input {
            spends: *spends,
            script: vec![],
            sequence: FINAL,
            witness: None,
        };
        let inputs = outputs.iter().map(input).collect();
        Self { version: 2, inputs, outputs: vec![(1, ANYONE.to_vec())], lock_time: 0 }
    }

    pub(crate) fn locked(mut self, lock_time: u32, sequence: u32) -> Self {
        self.lock_time = lock_time;
        self.inputs.iter_mut().for_each(|input| input.sequence = sequence);
        self
    }

    fn bytes(&self, with_witness: bool) -> Vec<u8> {
        let mut bytes = self.version.to_le_bytes().to_vec();
        let has_witness = with_witness && self.inputs.iter().any(|input| input.witness.is_some());
        if has_witness {
            bytes.extend([0, 1]);
        }
        push_size(&mut bytes, self.inputs.len());
        for input in &self.inputs {
            bytes.extend(input.spends.txid().as_bytes());
            bytes.extend(input.spends.index().to_le_bytes());
            push_size(&mut bytes, input.script.len());
            bytes.extend(&input.script);
            bytes.extend(input.sequence.to_le_bytes());
        }
        push_size(&mut bytes, self.outputs.len());
        for (value, script) in &self.outputs {
            bytes.extend(value.to_le_bytes());
            push_size(&mut bytes, script.len());
            bytes.extend(script);
        }
        for input in self.inputs.iter().filter(|_| has_witness) {
            bytes.push(u8::from(input.witness.is_some()));
            if let Some(item) = &input.witness {
                push_size(&mut bytes, item.len());
                bytes.extend(item);
            }
        }
        bytes.extend(self.lock_time.to_le_bytes());
        bytes
    }

    /// Lengths without and with witnesses.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.bytes(false).len(), self.bytes(true).len())
    }

    pub(crate) fn txid(&self) -> Txid {
        Txid::from_bytes(sha256d(&self.bytes(false)))
    }

    pub(crate) fn output(&self, index: u32) -> OutPoint {
        OutPoint::new(self.txid(), index)
    }
}

/// A block to be tried: right in everything that a test does not change.
#[derive(Debug, Clone)]
pub(crate) struct Try {
    pub(crate) version: i32,
    pub(crate) time: u32,
    pub(crate) coinbase: MadeTx,
    pub(crate) txs: Vec<MadeTx>,
}

/// A chain that grows.
pub(crate) struct World {
    writer: ChainWriter<MemoryKv>,
    tips: Vec<Header>,
    /// Coins of the first block, one for each script that it was made with.
    pub(crate) coins: Vec<OutPoint>,
}

impl World {
    pub(crate) fn new(blocks: u32, scripts: &[&[u8]]) -> Self {
        let index = ChainIndex::open(MemoryKv::new(TABLES), IndexSettings::new(NETWORK)).unwrap();
        let mut writer = ChainWriter::new(index).unwrap();
        writer.apply(&decode_block(genesis_block(NETWORK), NETWORK).unwrap()).unwrap();
        let (mut tips, mut coins) = (vec![regtest_genesis()], Vec::new());
        for height in 1..=blocks {
            let rewards: Vec<_> = scripts.iter().map(|script| (COIN, *script)).collect();
            let block = mine(tips.last().unwrap(), height, 1, &rewards, &[]);
            writer.apply(&decode_block(block.raw, NETWORK).unwrap()).unwrap();
            if height == 1 {
                let index = 0..u32::try_from(scripts.len()).unwrap();
                coins = index.map(|index| OutPoint::new(block.coinbase, index)).collect();
            }
            tips.push(block.header);
        }
        Self { writer, tips, coins }
    }

    pub(crate) fn height(&self) -> u32 {
        u32::try_from(self.tips.len()).unwrap()
    }

    /// Median time of the last eleven blocks.
    pub(crate) fn median(&self) -> u32 {
        let mut times: Vec<u64> = self.tips.iter().rev().take(11).map(|tip| tip.time).collect();
        times.sort_unstable();
        u32::try_from(times[times.len() / 2]).unwrap()
    }

    /// The next block, with these transactions.
    pub(crate) fn next(&self, txs: &[MadeTx]) -> Try {
        let spends = OutPoint::new(Txid::from_bytes([0; 32]), u32::MAX);
        let script = [height_script(self.height()), vec![1, 7]].concat();
        let input = Input { spends, script, sequence: FINAL, witness: None };
        let (inputs, outputs) = (vec![input], vec![(0, ANYONE.to_vec())]);
        Try {
            version: 4,
            time: u32::try_from(self.tips.last().unwrap().time + 600).unwrap(),
            coinbase: MadeTx { version: 2, inputs, outputs, lock_time: 0 },
            txs: txs.to_vec(),
        }
    }

    fn apply(&mut self, block: &Try) -> Result<Applied, ApplyError> {
        let (header, raw) = self.sealed(block);
        let outcome = self.writer.apply(&decode_block(raw, NETWORK).unwrap());
        if outcome.is_ok() {
            self.tips.push(header);
        }
        outcome
    }

    /// Bytes and header of a block on the tip. Witnesses change neither hash nor header.
    pub(crate) fn sealed(&self, block: &Try) -> (Header, Vec<u8>) {
        let txs = std::iter::once(&block.coinbase).chain(&block.txs);
        let txs: Vec<_> = txs.map(|tx| (tx.bytes(false), tx.bytes(true))).collect();
        let sealed = seal(self.tips.last().unwrap(), block.version, block.time, &txs);
        (sealed.header, sealed.raw)
    }

    /// The writer, for a follower.
    pub(crate) fn into_writer(self) -> ChainWriter<MemoryKv> {
        self.writer
    }

    /// A block that is taken, and stays.
    pub(crate) fn grow(&mut self, block: &Try) {
        self.apply(block).unwrap();
    }

    /// A block that is taken, and goes again.
    pub(crate) fn takes(&mut self, block: &Try) {
        self.grow(block);
        self.tips.pop();
        self.writer.rollback(Height::new(self.height() - 1)).unwrap();
    }

    /// A block that is refused with a reason of Bitcoin Core.
    pub(crate) fn refuses(&mut self, block: &Try, expected: &str) {
        match self.apply(block) {
            Err(ApplyError::Invalid { reason, .. }) => {
                let reason = reason.to_string();
                assert_eq!(reason.split(": ").next(), Some(expected), "{reason}");
            }
            other => panic!("{other:?}, expected {expected}"),
        }
        let tip = self.tips.last().unwrap().hash;
        assert_eq!(self.writer.tip().unwrap().hash, tip, "nothing was changed");
    }
}
