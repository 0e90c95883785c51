//! Simulated chains against a naive set of unspent outputs that knows the rules.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_chains::{
    BlockSource, HeavyBlocks, SimCoin, SimTip, Simulator, SimulatorConfig, SourceError, TxMix,
    decode_block, script_key, script_type,
};
use utxokeep_core::{
    BLOCK_WEIGHT_MAX, Block, BlockHash, Header, Height, IndexKey, OutPoint, SIGOP_COST_MAX, Tx,
    Txid,
};

#[derive(Clone, Copy)]
struct Coin {
    value: u64,
    height: Height,
    is_coinbase: bool,
    key: IndexKey,
}

/// The unspent outputs after one block.
#[derive(Clone, Default)]
struct State {
    height: Height,
    time: u64,
    coins: BTreeMap<OutPoint, Coin>,
}

impl State {
    fn add_outputs(&mut self, block: &Block, tx: &Tx) {
        for output in block.outputs_of(tx) {
            let coin = Coin {
                value: output.value,
                height: self.height,
                is_coinbase: tx.is_coinbase,
                key: script_key(block.address_of(output)),
            };
            let outpoint = OutPoint::new(tx.txid, output.index);
            assert!(self.coins.insert(outpoint, coin).is_none(), "{outpoint} exists already");
        }
    }
}

/// Checks each block against the state of its parent, whatever branch that is on.
#[derive(Default)]
struct Checker {
    states: BTreeMap<BlockHash, State>,
    best: BlockHash,
    heights_of: BTreeMap<Txid, BTreeSet<Height>>,
    same_block_spends: usize,
    losing_blocks: usize,
    reorgs: usize,
    gaps: usize,
    forms: BTreeSet<&'static str>,
}

impl Checker {
    /// States further below the tip than any branch starts.
    const KEPT: u32 = 12;

    fn check(&mut self, header: Header, raw: Vec<u8>) -> Block {
        let block = decode_block(raw, Simulator::NETWORK).unwrap();
        assert_eq!(block.header, header);
        let Some(parent) = self.states.get(&header.prev) else {
            assert_eq!(header.hash, Simulator::NETWORK.genesis_hash());
            let state = State { time: header.time, ..State::default() };
            self.best = header.hash;
            self.states.insert(header.hash, state);
            return block;
        };
        assert_eq!(header.time, parent.time + 600);
        let height = parent.height.plus(1);
        let mut state = State { height, time: header.time, coins: parent.coins.clone() };
        self.connect(&mut state, &block);
        self.choose(header, state);
        block
    }

    fn connect(&mut self, state: &mut State, block: &Block) {
        let mut fees = 0;
        for tx in &block.txs[1..] {
            let mut input_total = 0;
            for input in block.inputs_of(tx) {
                let coin = state.coins.remove(input).expect("inputs exist and are unspent");
                let age = coin.height.depth_below(state.height).unwrap();
                assert!(!coin.is_coinbase || age >= 100, "coinbase of age {age}");
                self.same_block_spends += usize::from(age == 0);
                input_total += coin.value;
            }
            assert!(input_total >= tx.output_total);
            fees += input_total - tx.output_total;
            state.add_outputs(block, tx);
            self.heights_of.entry(tx.txid).or_default().insert(state.height);
            let created = block.outputs_of(tx);
            let places = created.last().map_or(0, |output| output.index as usize + 1);
            self.gaps += usize::from(places > created.len());
        }
        let coinbase = &block.txs[0];
        let subsidy = Simulator::NETWORK.subsidy(state.height);
        assert_eq!(coinbase.output_total, subsidy + fees);
        state.add_outputs(block, coinbase);
        self.forms.extend(block.outputs.iter().map(|output| script_type(block.address_of(output))));
    }

    fn choose(&mut self, header: Header, state: State) {
        let height = state.height;
        if height > self.best_state().height {
            self.reorgs += usize::from(header.prev != self.best);
            self.best = header.hash;
        } else {
            self.losing_blocks += 1;
        }
        self.states.insert(header.hash, state);
        self.states.retain(|_, state| state.height.plus(Self::KEPT) >= height);
    }

    fn best_state(&self) -> &State {
        &self.states[&self.best]
    }

    fn run(&mut self, simulator: &mut Simulator, blocks: usize) {
        for _ in 0..blocks {
            let (header, raw) = simulator.mine_next();
            self.check(header, raw);
            assert_eq!(simulator.tip_height(), self.best_state().height);
            assert_eq!(simulator.tip().hash, self.best);
        }
    }
}

fn lively() -> SimulatorConfig {
    SimulatorConfig {
        txs_per_block: 2..14,
        reorg_percent: 25,
        coins_max: 600,
        addresses: 300,
        ..SimulatorConfig::default()
    }
}

#[test]
fn every_block_is_valid_on_its_branch_and_every_kind_of_event_occurs() {
    let config = lively();
    let mut simulator = Simulator::new(config.clone());
    let mut checker = Checker::default();
    checker.run(&mut simulator, 900);

    assert!(checker.reorgs > 20, "{} reorganisations", checker.reorgs);
    assert!(checker.losing_blocks > 50, "{} blocks off the best chain", checker.losing_blocks);
    assert!(checker.same_block_spends > 100, "{}", checker.same_block_spends);
    assert!(checker.gaps > 20, "{} transactions with unspendable outputs", checker.gaps);
    assert_eq!(checker.forms.len(), 9, "{:?}", checker.forms);
    let moved = checker.heights_of.values().filter(|heights| heights.len() > 1).count();
    assert!(moved > 10, "{moved} transactions came back at another height");
    let coins = &checker.best_state().coins;
    assert!(coins.values().any(|coin| coin.value == 0));
    assert!(coins.values().any(|coin| coin.key == script_key(&[])));
}

#[test]
fn equal_seeds_give_equal_chains_and_others_differ() {
    let hashes = |seed| {
        let mut simulator = Simulator::new(SimulatorConfig { seed, ..lively() });
        (0..250).map(|_| simulator.mine_next().0.hash).collect::<Vec<_>>()
    };
    assert_eq!(hashes(5), hashes(5));
    assert_ne!(hashes(5)[1], hashes(6)[1]);
}

#[test]
fn first_arrival_is_the_first_block_of_the_network() {
    let mut simulator = Simulator::new(SimulatorConfig::default());
    let header = simulator.next().unwrap().unwrap();
    assert_eq!(header.hash, Simulator::NETWORK.genesis_hash());
    assert_eq!(simulator.tip_height(), Height::GENESIS);
    assert!(decode_block(simulator.raw(&header.hash).unwrap(), Simulator::NETWORK).is_ok());
}

#[test]
fn source_keeps_a_window_of_blocks_and_forgets_the_rest() {
    let mut simulator = Simulator::new(lively());
    let headers: Vec<_> = (0..200).map(|_| simulator.next().unwrap().unwrap()).collect();
    let newest = headers.last().unwrap();
    assert!(simulator.raw(&newest.hash).is_ok());
    let oldest = simulator.raw(&headers[0].hash);
    assert!(matches!(oldest, Err(SourceError::UnknownBlock { .. })));
    let kept = headers.iter().filter(|header| simulator.raw(&header.hash).is_ok()).count();
    assert!((30..80).contains(&kept), "{kept} blocks kept");
}

#[test]
fn resumed_chain_goes_on_from_the_coins_of_its_scripts() {
    let config = lively();
    let mut checker = Checker::default();
    checker.run(&mut Simulator::new(config.clone()), 300);

    let keys: BTreeSet<_> =
        Simulator::scripts(&config).iter().map(|script| script_key(script)).collect();
    let state = checker.best_state();
    let coins: Vec<SimCoin> = state
        .coins
        .iter()
        .map(|(outpoint, coin)| {
            assert!(keys.contains(&coin.key), "every spendable output pays to the pool");
            let Coin { value, height, is_coinbase, .. } = *coin;
            SimCoin { outpoint: *outpoint, value, height, is_coinbase }
        })
        .collect();
    let tip = SimTip { height: state.height, hash: checker.best, time: state.time };

    let mut resumed = Simulator::resume(config.clone(), tip, coins.clone());
    let (header, raw) = resumed.mine_next();
    assert_eq!(header.prev, tip.hash);
    assert!(checker.check(header, raw).txs.len() > 2, "there are coins to spend at once");
    checker.run(&mut resumed, 300);
    assert!(resumed.tip_height() > tip.height.plus(150));

    // The order in which the coins are given does not matter.
    let reversed = coins.into_iter().rev().collect();
    assert_eq!(Simulator::resume(config, tip, reversed).mine_next().0, header);
}

#[test]
fn heavy_blocks_come_at_their_heights() {
    let mix = TxMix {
        wide_percent: 100,
        wide_outputs: 400..=400,
        fan_in_percent: 0,
        fan_in_inputs: 1..=1,
        is_signed: false,
    };
    let heavy = HeavyBlocks { from_height: 111, every: 10, phase: 3, txs: 5..=5, mix };
    let config = SimulatorConfig { heavy: vec![heavy], reorg_percent: 0, ..lively() };
    let mut simulator = Simulator::new(config);
    let mut checker = Checker::default();
    for height in 0..=130u32 {
        let (header, raw) = simulator.mine_next();
        let outputs = checker.check(header, raw).outputs.len();
        assert_eq!(outputs > 1_900, matches!(height, 113 | 123), "height {height}: {outputs}");
    }
}

/// The first heavy blocks of each kind come from height 111 on.
#[test]
fn blocks_to_measure_with_keep_the_limits_of_bitcoin() {
    let mut simulator = Simulator::new(SimulatorConfig::bench());
    let mut largest = 0;
    for _ in 0..160 {
        let header = simulator.next().unwrap().unwrap();
        let block = decode_block(simulator.raw(&header.hash).unwrap(), Simulator::NETWORK).unwrap();
        let facts = block.bitcoin.as_ref().unwrap();
        let stripped = u64::from(facts.stripped_bytes);
        let weight = 3 * stripped + block.bytes.len() as u64;
        assert!(weight <= BLOCK_WEIGHT_MAX && 4 * stripped <= BLOCK_WEIGHT_MAX, "{weight}");
        // What is not in plain sight comes on top: at most one operation behind most inputs.
        let inputs = u32::try_from(block.inputs.len()).unwrap();
        let cost = 4 * facts.legacy_sigops + inputs;
        assert!(cost <= SIGOP_COST_MAX, "{cost}");
        largest = largest.max(weight);
    }
    assert!(largest > BLOCK_WEIGHT_MAX / 4 * 3, "{largest}");
}
