//! A Bitcoin node in memory, which a test moves: its chain grows and forks, by hand or as the
//! simulator mines it, its mempool fills and empties, and its connections stall, are cut off, or end
//! because it restarts.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use utxokeep_chains::{
    Contact, LiveConnection, LiveError, LiveEvent, LiveSource, MempoolList, MempoolSource,
    Simulator, decode_block, decode_header, decode_tx,
};
use utxokeep_core::{BlockHash, ChainPoint, Header, Network, Txid};

/// Events that a connection has received before anybody asks for them.
const RECEIVED_EVENTS_MAX: usize = 3;

/// The node; clones are the same node.
#[derive(Debug, Clone, Default)]
pub struct SimulatedNode(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The followed chain by height.
    chain: Vec<BlockHash>,
    /// Every block that the node ever saw.
    known: BTreeMap<BlockHash, Known>,
    is_down: bool,
    is_stalled: bool,
    mempool: BTreeMap<Txid, Vec<u8>>,
    /// Changes of the mempool.
    sequence: u64,
    is_mempool_refused: bool,
    /// How often all connections were cut off.
    cuts: u64,
    connections: usize,
}

#[derive(Debug)]
struct Known {
    prev: BlockHash,
    height: usize,
    raw: Vec<u8>,
}

impl SimulatedNode {
    /// Keeps the first `keep` blocks of the chain and puts `blocks` behind them.
    pub fn switch_fork(&self, keep: usize, blocks: &[Vec<u8>]) {
        self.change(|state| {
            state.chain.truncate(keep);
            for raw in blocks {
                let header = decode_header(raw).expect("a simulated node gets real blocks");
                state.learn(&header, raw.clone());
                state.chain.push(header.hash);
                state.leave_mempool_for(raw);
            }
        });
    }

    /// Puts `blocks` behind the tip.
    pub fn append(&self, blocks: &[Vec<u8>]) {
        let keep = self.state().chain.len();
        self.switch_fork(keep, blocks);
    }

    /// Sees the next blocks that the simulator mines, and follows its best chain.
    pub fn mine(&self, simulator: &mut Simulator, blocks: usize) {
        for _ in 0..blocks {
            let (header, raw) = simulator.mine_next();
            self.change(|state| {
                state.learn(&header, raw.clone());
                if simulator.tip().hash == header.hash {
                    state.follow(header.hash);
                    state.leave_mempool_for(&raw);
                }
            });
        }
    }

    /// Puts a transaction into the mempool, which checks nothing; answers its id.
    pub fn enter_mempool(&self, raw: &[u8]) -> Txid {
        let txid = decode_tx(raw).expect("a simulated node gets real transactions").txid;
        self.change(|state| {
            state.mempool.insert(txid, raw.to_vec());
            state.sequence += 1;
        });
        txid
    }

    /// Drops a transaction from the mempool.
    pub fn leave_mempool(&self, txid: &Txid) {
        self.change(|state| {
            state.mempool.remove(txid);
            state.sequence += 1;
        });
    }

    /// Lets nobody list the mempool any more, or lets everybody again.
    pub fn refuse_mempool(&self, is_refused: bool) {
        self.change(|state| state.is_mempool_refused = is_refused);
    }

    /// Raw blocks of the chain, lowest first.
    #[must_use]
    pub fn blocks(&self) -> Vec<Vec<u8>> {
        let state = self.state();
        state.chain.iter().map(|hash| state.known[hash].raw.clone()).collect()
    }

    /// Says nothing any more, though connections stand.
    pub fn stall(&self) {
        self.change(|state| state.is_stalled = true);
    }

    /// Talks again.
    pub fn resume(&self) {
        self.change(|state| state.is_stalled = false);
    }

    /// Cuts all connections off.
    pub fn cut_off(&self) {
        self.change(|state| state.cuts += 1);
    }

    /// Stops: connections end, and new ones are refused until [`SimulatedNode::start`].
    pub fn stop(&self) {
        self.change(|state| {
            state.cuts += 1;
            state.is_down = true;
        });
    }

    /// Starts again after [`SimulatedNode::stop`], with the chain that it has.
    pub fn start(&self) {
        self.change(|state| state.is_down = false);
    }

    /// Connections that nobody has dropped.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.0.changed.notify_all();
    }
}

impl State {
    fn learn(&mut self, header: &Header, raw: Vec<u8>) {
        let height = self.known.get(&header.prev).map_or(0, |below| below.height + 1);
        self.known.insert(header.hash, Known { prev: header.prev, height, raw });
    }

    /// Makes a known block the tip.
    fn follow(&mut self, tip: BlockHash) {
        let (mut branch, mut at) = (Vec::new(), Some(tip));
        while let Some(hash) = at.filter(|hash| !self.has(hash)) {
            branch.push(hash);
            at = self.parent(&hash);
        }
        self.chain.truncate(at.map_or(0, |fork| self.known[&fork].height + 1));
        self.chain.extend(branch.into_iter().rev());
    }

    /// What a block holds is in the mempool no more.
    fn leave_mempool_for(&mut self, block: &[u8]) {
        let block = decode_block(block.to_vec(), Network::BitcoinRegtest);
        for tx in &block.expect("a simulated node gets real blocks").txs {
            self.sequence += u64::from(self.mempool.remove(&tx.txid).is_some());
        }
    }

    fn parent(&self, hash: &BlockHash) -> Option<BlockHash> {
        let prev = self.known.get(hash)?.prev;
        self.known.contains_key(&prev).then_some(prev)
    }

    fn check_mempool(&self) -> Result<(), LiveError> {
        if self.is_down {
            return Err(LiveError::Away("the simulated node is down".into()));
        }
        if self.is_mempool_refused {
            let cause = "the simulated node does not allow its mempool to be listed";
            return Err(LiveError::Refused(cause.into()));
        }
        Ok(())
    }

    /// Whether a block is on the chain.
    fn has(&self, hash: &BlockHash) -> bool {
        let known = self.known.get(hash);
        known.is_some_and(|known| self.chain.get(known.height) == Some(hash))
    }

    fn tip_height(&self) -> u64 {
        self.chain.len().saturating_sub(1) as u64
    }
}

impl LiveSource for SimulatedNode {
    fn address(&self) -> String {
        "a simulated node".to_owned()
    }

    fn connect(
        &self,
        points: &[ChainPoint],
        _: &dyn Fn() -> bool,
    ) -> Result<Box<dyn LiveConnection>, LiveError> {
        let mut state = self.state();
        if state.is_down {
            return Err(LiveError::Away("the simulated node is down".into()));
        }
        let found = points.iter().map(|point| point.hash).find(|hash| state.has(hash));
        if let (None, Some(newest)) = (found, points.first()) {
            let cause = "none of the points is on the chain of the simulated node".into();
            let is_behind = state.tip_height() < u64::from(newest.height.get());
            return Err(if is_behind {
                LiveError::Behind(cause)
            } else {
                LiveError::Refused(cause)
            });
        }
        state.connections += 1;
        Ok(Box::new(Connection {
            node: self.clone(),
            cuts: state.cuts,
            end: found,
            is_begun: false,
            is_tip_told: false,
            received: VecDeque::new(),
            contact: Contact { messages: 1, tip_height: state.tip_height() },
        }))
    }
}

impl MempoolSource for SimulatedNode {
    fn address(&self) -> String {
        LiveSource::address(self)
    }

    fn list(&mut self, txs_max: usize, _: &dyn Fn() -> bool) -> Result<MempoolList, LiveError> {
        let state = self.state();
        state.check_mempool()?;
        let tip = *state.chain.last().ok_or_else(|| LiveError::Away("it has no chain".into()))?;
        if state.mempool.len() > txs_max {
            return Err(LiveError::Away(format!("more than {txs_max} transactions").into()));
        }
        let txids: BTreeSet<Txid> = state.mempool.keys().copied().collect();
        Ok(MempoolList { tip, sequence: state.sequence, txids })
    }

    fn bodies(
        &mut self,
        txids: &[Txid],
        _: &dyn Fn() -> bool,
    ) -> Result<Vec<Option<Vec<u8>>>, LiveError> {
        let state = self.state();
        state.check_mempool()?;
        Ok(txids.iter().map(|txid| state.mempool.get(txid).cloned()).collect())
    }
}

#[derive(Debug)]
struct Connection {
    node: SimulatedNode,
    /// Cuts when it was opened: one more, and it is over.
    cuts: u64,
    /// Where the events that were received end.
    end: Option<BlockHash>,
    is_begun: bool,
    is_tip_told: bool,
    received: VecDeque<LiveEvent>,
    contact: Contact,
}

impl Connection {
    fn receive(&mut self, state: &State) {
        while self.received.len() < RECEIVED_EVENTS_MAX
            && let Some(event) = self.step(state)
        {
            self.received.push_back(event);
            self.contact.messages += 1;
            self.contact.tip_height = state.tip_height();
        }
    }

    fn step(&mut self, state: &State) -> Option<LiveEvent> {
        let mut end = self.end;
        while let Some(hash) = end.filter(|hash| !state.has(hash)) {
            end = state.parent(&hash);
        }
        if !self.is_begun || end != self.end {
            // The intersection is told even if the chain has changed since.
            let to = if self.is_begun { end } else { self.end };
            (self.end, self.is_begun, self.is_tip_told) = (to, true, false);
            return Some(LiveEvent::RolledBack(to));
        }
        let next = end.map_or(0, |hash| state.known[&hash].height + 1);
        if let Some(hash) = state.chain.get(next) {
            (self.end, self.is_tip_told) = (Some(*hash), false);
            return Some(LiveEvent::Block(state.known[hash].raw.clone()));
        }
        (!std::mem::replace(&mut self.is_tip_told, true)).then_some(LiveEvent::AtTip)
    }
}

impl LiveConnection for Connection {
    fn next(&mut self, wait: Duration) -> Result<Option<LiveEvent>, LiveError> {
        let shared = Arc::clone(&self.node.0);
        let until = Instant::now() + wait;
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let is_over = state.cuts != self.cuts;
            if !is_over && !state.is_stalled {
                self.receive(&state);
            }
            if let Some(event) = self.received.pop_front() {
                return Ok(Some(event));
            }
            if is_over {
                return Err(LiveError::Away("the simulated node cut the connection off".into()));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn contact(&self) -> Contact {
        self.contact
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.node.state().connections -= 1;
    }
}
