//! Contenders that want every output, and what they do to each other.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, MinedInfo, NodeError, NodeTx, SpendAndCreate, SpendError,
        SpendFlags, SpendRequest, SpendingData, UnspendRequest,
    },
};
use utxokeep_testkit::txstore::{seed, spending};
use utxokeep_txstore::{NodeStore, TxStore};

const PARENTS: u8 = 6;
const OUTPUTS: u8 = 6;
/// Steps of each contender once everything is taken.
const STEPS: u32 = 60;
const AT: Height = Height::new(5);

/// What became of a contender's wish for an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) output: OutPoint,
    pub(crate) contender: Txid,
    /// Who has it, as the store told the contender.
    pub(crate) winner: Txid,
}

fn id(kind: u8, parent: u8, output: u8, contender: u8) -> Txid {
    let mut bytes = [kind; 32];
    bytes[1..4].copy_from_slice(&[parent, output, contender]);
    // Spread over the locks of a store.
    let spread = [parent, output, contender].iter().fold(kind, |a, b| a.wrapping_mul(67) ^ b);
    bytes[0] = spread;
    Txid::from_bytes(bytes)
}

fn parent(number: u8) -> NodeTx {
    NodeTx { txid: id(1, number, 0, 0), ..seed(number, &[9; OUTPUTS as usize]) }
}

/// The transaction by which a contender takes an output.
fn wish(number: u8, output: u8, contender: u8) -> NodeTx {
    let tx = spending(contender, &[(&parent(number), u32::from(output))], &[4, 4]);
    NodeTx { txid: id(2, number, output, contender), ..tx }
}

/// Stores what is fought over.
pub(crate) fn prepare(store: &NodeStore) {
    let parents: Vec<_> =
        (0..PARENTS).map(|number| (parent(number), CreateOptions::default())).collect();
    for answer in store.create(&parents, AT).unwrap() {
        answer.unwrap();
    }
}

pub(crate) struct Contender {
    number: u8,
    random: u64,
}

impl Contender {
    pub(crate) fn new(number: u8) -> Self {
        Self { number, random: u64::from(number) + 1 }
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u8::try_from((self.random >> 33) % u64::from(limit)).unwrap()
    }

    fn any_wish(&mut self) -> NodeTx {
        wish(self.below(PARENTS), self.below(OUTPUTS), self.number)
    }

    /// Wants every output once, in an order of its own, while blocks and locks come and go.
    pub(crate) fn race(&mut self, store: &NodeStore) -> Vec<Outcome> {
        let mut wanted: Vec<(u8, u8)> =
            (0..PARENTS).flat_map(|p| (0..OUTPUTS).map(move |o| (p, o))).collect();
        for at in (1..wanted.len()).rev() {
            wanted.swap(at, usize::from(self.below(u8::try_from(at + 1).unwrap())));
        }
        let mut outcomes = Vec::new();
        while !wanted.is_empty() {
            let count = usize::from(1 + self.below(4)).min(wanted.len());
            let batch = wanted.split_off(wanted.len() - count);
            let txs: Vec<_> = batch.iter().map(|(p, o)| wish(*p, *o, self.number)).collect();
            outcomes.extend(self.take(store, &txs));
            self.disturb(store);
        }
        outcomes
    }

    fn take(&mut self, store: &NodeStore, txs: &[NodeTx]) -> Vec<Outcome> {
        let flags = SpendFlags { ignore_locked: true, ignore_conflicting: true };
        let options = CreateOptions::default();
        let answers = if self.below(2) == 0 {
            let items: Vec<_> = txs.iter().map(|tx| (tx.clone(), options.clone())).collect();
            store.spend_and_create_list(&items, AT, flags).unwrap().unwrap()
        } else {
            let how = SpendAndCreate { spend_only: false, create_only: false, flags };
            let one = |tx| store.spend_and_create(tx, AT, how, &options).unwrap();
            txs.iter().map(one).collect()
        };
        let outcome = |(tx, answer): (&NodeTx, Result<_, NodeError>)| {
            let winner = match answer {
                Ok(_) => tx.txid,
                Err(NodeError::Spend { errors, .. }) => match &errors[..] {
                    [(0, SpendError::Spent { by, .. })] => by.txid,
                    other => panic!("{other:?}"),
                },
                Err(error) => panic!("{error}"),
            };
            Outcome { output: tx.inputs[0].outpoint, contender: tx.txid, winner }
        };
        txs.iter().zip(answers).map(outcome).collect()
    }

    /// Changes of parents that no winner depends on.
    fn disturb(&mut self, store: &NodeStore) {
        let [a, b] = [self.below(PARENTS), self.below(PARENTS)].map(|number| parent(number).txid);
        match self.below(5) {
            0 => drop(store.set_locked(&[b, a], self.below(2) == 0, AT).unwrap()),
            1 => drop(store.mark_on_longest_chain(&[a, b], self.below(2) == 0, AT).unwrap()),
            2 => drop(store.set_conflicting(&[a], self.below(2) == 0, AT).unwrap()),
            _ => drop(store.set_mined(&[a, b, a], &self.block()).unwrap()),
        }
    }

    fn block(&mut self) -> MinedInfo {
        let id = u32::from(self.below(4));
        MinedInfo {
            block: MinedBlock { id, height: Height::new(5 + id), subtree: 0 },
            on_longest_chain: true,
            unset: self.below(3) == 0,
            unmined_since: Height::new(9),
        }
    }

    /// Does anything to anybody.
    pub(crate) fn riot(&mut self, store: &NodeStore) {
        for _ in 0..STEPS {
            let tx = self.any_wish();
            let outpoint = tx.inputs[0].outpoint;
            let hash = parent(outpoint.txid().as_bytes()[1]).utxo_hash(outpoint.index()).unwrap();
            match self.below(10) {
                0 => {
                    let flags = SpendFlags { ignore_locked: true, ignore_conflicting: true };
                    let request = SpendRequest::of(&tx, AT, flags).unwrap();
                    drop(store.spend(&[request.clone(), request]).unwrap());
                }
                1 => drop(self.take_any(store)),
                2 => {
                    let by = wish(
                        outpoint.txid().as_bytes()[1],
                        u8::try_from(outpoint.index()).unwrap(),
                        self.below(16),
                    );
                    let request = UnspendRequest {
                        outpoint,
                        hash,
                        expected: Some(SpendingData { txid: by.txid, vin: 0 }),
                        set_locked: None,
                        height: AT,
                    };
                    drop(store.unspend(&[request]).unwrap());
                }
                3 => drop(store.freeze(&[(outpoint, hash)]).unwrap()),
                4 => drop(store.unfreeze(&[(outpoint, hash)]).unwrap()),
                5 => drop(store.delete(&[tx.txid, tx.txid]).unwrap()),
                6 | 7 => {
                    let options =
                        CreateOptions { is_conflicting: true, ..CreateOptions::default() };
                    drop(store.create(&[(tx.clone(), options)], AT).unwrap());
                    drop(store.process_conflicting(&[tx.txid], AT).unwrap());
                }
                8 => {
                    store.preserve(&[*outpoint.txid(), tx.txid], Height::new(20)).unwrap();
                    store.expire_preservations(Height::new(20), 3).unwrap();
                }
                _ => self.disturb(store),
            }
        }
    }

    /// Takes an output, if it can be had.
    fn take_any(&mut self, store: &NodeStore) -> bool {
        let how =
            SpendAndCreate { spend_only: false, create_only: false, flags: SpendFlags::default() };
        let tx = self.any_wish();
        store.spend_and_create(&tx, AT, how, &CreateOptions::default()).unwrap().is_ok()
    }
}

/// Every output has one winner, everybody was told the same, and the store says so too.
pub(crate) fn check_race(store: &NodeStore, outcomes: &[Outcome], contenders: u8) {
    let outputs = usize::from(PARENTS) * usize::from(OUTPUTS);
    assert_eq!(outcomes.len(), outputs * usize::from(contenders));
    for number in 0..PARENTS {
        for index in 0..OUTPUTS {
            let output = OutPoint::new(parent(number).txid, u32::from(index));
            let told: Vec<_> = outcomes.iter().filter(|o| o.output == output).collect();
            let winners: Vec<_> = told.iter().filter(|o| o.winner == o.contender).collect();
            assert_eq!(winners.len(), 1, "{output}: {winners:?}");
            let winner = winners[0].winner;
            assert!(told.iter().all(|o| o.winner == winner), "{output}: {told:?}");
            let view = store.spend_views(&[(output, None)], AT).unwrap().remove(0).unwrap();
            assert_eq!(view.by, Some(SpendingData { txid: winner, vin: 0 }));
        }
    }
    let report = store.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let stored = outputs + usize::from(PARENTS);
    assert_eq!(report.transactions, stored as u64, "losers left nothing");
}

/// Counters, indexes and outputs agree. Spenders may be unknown: the riot deletes some, and lets
/// others spend that are never stored.
pub(crate) fn check_riot(store: &NodeStore) {
    let report = store.verify().unwrap();
    let wrong: Vec<_> = report.findings.iter().filter(|f| !f.detail.ends_with("unknown")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
