//! Transactions of the usual size, and clients that store and spend them.

use std::{
    sync::{Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, NodeError, NodeInput, NodeOutput, NodeTx, PreviousOutput, SpendAndCreate,
        SpendFlags, SpendRequest,
    },
};
use utxokeep_records::{
    RecordStore,
    bench::{Recorder, Sample},
};

use super::{BenchCase, BenchError, BenchOperation};
use crate::{engine::NodeStore, store::TxStore};

const HEIGHT: Height = Height::new(100);

/// Outputs that are spent by [`BenchOperation::Spend`], [`BenchOperation::Independent`] and the first
/// of each chain.
const SPENT: u32 = 0;
const SPENT_BY_NEW: u32 = 1;
const SPENT_BY_CHAIN: u32 = 2;

/// Transactions that one client stores at most in one measurement.
const STORED_MAX: u64 = 100_000;

/// Calls that are noted for a bare client, by the operations in a call.
const fn noted_calls(batch: usize) -> u64 {
    if batch < 16 {
        16
    } else if batch < 512 {
        2
    } else {
        1
    }
}

/// An id that looks like a hash.
fn id(number: u64) -> Txid {
    let (mut bytes, mut state) = ([0; 32], number);
    for chunk in bytes.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    Txid::from_bytes(bytes)
}

/// One input, three outputs.
fn tx(number: u64, spends: OutPoint) -> NodeTx {
    let output = || NodeOutput { satoshis: 1_000, script: vec![0x76; 25] };
    NodeTx {
        txid: id(number),
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: vec![NodeInput {
            outpoint: spends,
            script: vec![0x48; 107],
            sequence: u32::MAX,
            previous: Some(PreviousOutput { satoshis: 1_000, script: vec![0x76; 25] }),
        }],
        outputs: vec![output(), output(), output()],
    }
}

/// What a client has stored, and how far it has spent it.
#[derive(Debug, Clone)]
struct Client {
    /// Numbers of its transactions begin here.
    base: u64,
    stored: u64,
    /// Numbers that are given out behind those that are stored.
    children: u64,
    spent: u64,
    spent_by_new: u64,
    chains: u64,
    /// The end of a chain that goes on with the next call.
    end: Option<u64>,
}

impl Client {
    const fn new(number: u64) -> Self {
        let base = number << 40;
        Self { base, stored: 0, children: 0, spent: 0, spent_by_new: 0, chains: 0, end: None }
    }

    fn child(&mut self) -> u64 {
        self.children += 1;
        self.base + (1 << 39) + self.children
    }

    /// One call; answers the operations, none where it has nothing left to spend.
    fn call(
        &mut self,
        store: &NodeStore,
        operation: BenchOperation,
        batch: usize,
    ) -> Result<usize, BenchError> {
        match operation {
            BenchOperation::Create => self.create(store, batch),
            BenchOperation::Spend => self.spend(store, batch),
            BenchOperation::Independent => self.independent(store, batch),
            BenchOperation::Chain => self.chain(store, batch),
        }
    }

    fn create(&mut self, store: &NodeStore, batch: usize) -> Result<usize, BenchError> {
        if self.stored >= STORED_MAX {
            return Ok(0);
        }
        let options = CreateOptions { may_lack_previous: true, ..CreateOptions::default() };
        let first = self.base + self.stored;
        // It spends nothing, so that only its own record is touched.
        let new = |number| {
            let tx = tx(number, OutPoint::new(id(number), 0));
            (NodeTx { inputs: Vec::new(), ..tx }, options.clone())
        };
        let txs: Vec<_> = (first..first + batch as u64).map(new).collect();
        all(store.create(&txs, HEIGHT)?)?;
        self.stored += batch as u64;
        Ok(batch)
    }

    /// Numbers of stored transactions whose output of one kind is unspent yet.
    fn take(&self, used: u64, count: usize) -> Option<std::ops::Range<u64>> {
        let until = used + count as u64;
        (until <= self.stored).then_some(self.base + used..self.base + until)
    }

    fn spend(&mut self, store: &NodeStore, batch: usize) -> Result<usize, BenchError> {
        let Some(parents) = self.take(self.spent, batch) else { return Ok(0) };
        let mut requests = Vec::with_capacity(batch);
        for parent in parents {
            let spender = tx(self.child(), OutPoint::new(id(parent), SPENT));
            let request = SpendRequest::of(&spender, HEIGHT, SpendFlags::default());
            requests.push(request.map_err(refused)?);
        }
        all(store.spend(&requests)?)?;
        self.spent += batch as u64;
        Ok(batch)
    }

    fn independent(&mut self, store: &NodeStore, batch: usize) -> Result<usize, BenchError> {
        let Some(parents) = self.take(self.spent_by_new, batch) else { return Ok(0) };
        let mut txs = Vec::with_capacity(batch);
        for parent in parents {
            txs.push(tx(self.child(), OutPoint::new(id(parent), SPENT_BY_NEW)));
        }
        store_list(store, txs)?;
        self.spent_by_new += batch as u64;
        Ok(batch)
    }

    fn chain(&mut self, store: &NodeStore, batch: usize) -> Result<usize, BenchError> {
        let mut spends = if let Some(end) = self.end {
            OutPoint::new(id(end), SPENT)
        } else {
            let Some(mut parents) = self.take(self.chains, 1) else { return Ok(0) };
            self.chains += 1;
            OutPoint::new(id(parents.next().unwrap_or_default()), SPENT_BY_CHAIN)
        };
        let (mut txs, mut end) = (Vec::with_capacity(batch), None);
        for _ in 0..batch {
            let child = self.child();
            txs.push(tx(child, spends));
            spends = OutPoint::new(id(child), SPENT);
            end = Some(child);
        }
        store_list(store, txs)?;
        self.end = end;
        Ok(batch)
    }
}

/// Spends and stores: a list in one commit, a single transaction by itself.
fn store_list(store: &NodeStore, mut txs: Vec<NodeTx>) -> Result<(), BenchError> {
    let (options, flags) = (CreateOptions::default(), SpendFlags::default());
    if txs.len() == 1 {
        let how = SpendAndCreate { spend_only: false, create_only: false, flags };
        let tx = txs.remove(0);
        return store.spend_and_create(&tx, HEIGHT, how, &options)?.map_err(refused).map(drop);
    }
    let txs: Vec<_> = txs.into_iter().map(|tx| (tx, options.clone())).collect();
    all(store.spend_and_create_list(&txs, HEIGHT, flags)?.map_err(refused)?)
}

fn all<T>(answers: Vec<Result<T, NodeError>>) -> Result<(), BenchError> {
    answers.into_iter().try_for_each(|answer| answer.map(drop)).map_err(refused)
}

/// An operation that was refused is no figure.
fn refused(error: NodeError) -> BenchError {
    BenchError::Refused(error)
}

/// Clients of one case, and what they have stored.
pub(super) struct Clients<'c> {
    case: &'c BenchCase<'c>,
    clients: Vec<Client>,
}

impl<'c> Clients<'c> {
    pub(super) fn new(case: &'c BenchCase<'c>) -> Self {
        Self { case, clients: (0..case.clients as u64).map(Client::new).collect() }
    }

    /// One call of each client, which is not measured.
    pub(super) fn call_once(&mut self, store: &NodeStore) -> Result<(), BenchError> {
        let once = BenchCase { lasts: Duration::ZERO, ..*self.case };
        self.measure_for(&once, store, BenchOperation::Create).map(drop)
    }

    /// Operations in a second over all clients, and the most calls that one of them made.
    pub(super) fn measure(
        &mut self,
        store: &NodeStore,
        operation: BenchOperation,
    ) -> Result<(f64, u64), BenchError> {
        self.measure_for(self.case, store, operation)
    }

    fn measure_for(
        &mut self,
        case: &BenchCase<'_>,
        store: &NodeStore,
        operation: BenchOperation,
    ) -> Result<(f64, u64), BenchError> {
        let (ended, failed) = (Mutex::new((0, 0)), Mutex::new(None));
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for client in &mut self.clients {
                let (ended, failed) = (&ended, &failed);
                scope.spawn(move || match run(client, store, operation, case, begin) {
                    Ok((operations, calls)) => {
                        let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                        *ended = (ended.0 + operations, ended.1.max(calls));
                    }
                    Err(error) => {
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                });
            }
        });
        let seconds = begin.elapsed().as_secs_f64();
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let (operations, calls) = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        #[expect(clippy::cast_precision_loss, reason = "a rate, of far fewer than 2^52")]
        let rate = operations as f64 / seconds;
        Ok((rate, calls))
    }
}

/// Operations and calls of one client.
fn run(
    client: &mut Client,
    store: &NodeStore,
    operation: BenchOperation,
    case: &BenchCase<'_>,
    begin: Instant,
) -> Result<(u64, u64), BenchError> {
    let (mut operations, mut calls) = (0, 0);
    while (begin.elapsed() < case.lasts || calls == 0) && !case.stop.load(Ordering::Relaxed) {
        let done = client.call(store, operation, case.batch)?;
        if done == 0 {
            break;
        }
        operations += done as u64;
        calls += 1;
    }
    Ok((operations, calls))
}

/// Calls of the store as its engine sees them.
pub(super) fn samples(
    store: &NodeStore,
    recorder: &Recorder<dyn RecordStore>,
    operation: BenchOperation,
    batch: usize,
) -> Result<Vec<Sample>, BenchError> {
    // A client that nobody else is, for each operation.
    let mut client = Client::new((1 << 20) + operation as u64);
    let mut samples = Vec::new();
    // The first calls may find out what later ones know.
    for call in 0..=noted_calls(batch) {
        let (made, mut before) = recorder.record(|| -> Result<(), BenchError> {
            if operation != BenchOperation::Create {
                client.create(store, batch)?;
            }
            if operation == BenchOperation::Chain && batch == 1 {
                client.chain(store, batch)?;
            }
            Ok(())
        });
        made?;
        if operation == BenchOperation::Chain && batch > 1 {
            // It begins with what was stored a moment ago.
            (client.end, client.chains) = (None, client.stored - 1);
        }
        let (done, work) = recorder.record(|| client.call(store, operation, batch));
        done?;
        if operation == BenchOperation::Create {
            before = utxokeep_records::bench::Trace::default();
        }
        if call > 0 {
            samples.push(Sample::new(&before, &work));
        }
    }
    Ok(samples)
}
