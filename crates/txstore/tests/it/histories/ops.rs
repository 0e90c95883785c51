//! One step of a history, and what a store says to it.

use std::fmt::Debug;

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        ConflictIntent, CreateOptions, MinedInfo, NodeError, NodeTx, SpendAndCreate, SpendFlags,
        SpendRequest, UnspendRequest,
    },
};
use utxokeep_txstore::{BlockState, TxStore};

/// An output, and the commitment to it that the caller believes in.
pub(crate) type Named = (OutPoint, [u8; 32]);

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create(Vec<(NodeTx, CreateOptions)>, u32),
    Spend(Vec<SpendRequest>),
    Unspend(Vec<UnspendRequest>),
    Both(NodeTx, SpendAndCreate, CreateOptions, u32),
    List(Vec<(NodeTx, CreateOptions)>, SpendFlags, u32),
    Mine(Vec<Txid>, MinedInfo),
    Mark(Vec<Txid>, bool, u32),
    Lock(Vec<Txid>, bool, u32),
    Conflict(Vec<Txid>, bool, u32),
    Process(Vec<Txid>, u32),
    Begin(ConflictIntent),
    Complete(ConflictIntent),
    Freeze(Vec<Named>),
    Unfreeze(Vec<Named>),
    Reassign(Named, Vec<u8>, u32),
    Preserve(Vec<Txid>, u32),
    Expire(u32, usize),
    Delete(Vec<Txid>),
    BlockState(BlockState),
    Views(Vec<(OutPoint, Option<[u8; 32]>)>, u32),
    Decorate(Vec<OutPoint>),
    Parents(Vec<OutPoint>),
    Unmined(u32, usize),
    Pending(usize),
    Reopen,
}

/// An answer as text. Sentences for people are left out: both sides need not use the same.
pub(crate) fn said<T: Debug>(answer: Result<T, NodeError>) -> String {
    match answer {
        Err(NodeError::Invalid(_)) => "invalid".to_owned(),
        answer => format!("{answer:?}"),
    }
}

pub(crate) fn all_said<T: Debug>(answers: Vec<Result<T, NodeError>>) -> String {
    answers.into_iter().map(said).collect::<Vec<_>>().join(", ")
}

/// The answer to a list: refused whole, or one answer per item.
pub(crate) fn list_said<T: Debug>(answer: Result<Vec<Result<T, NodeError>>, NodeError>) -> String {
    match answer {
        Ok(answers) => all_said(answers),
        Err(error) => format!("whole: {}", said::<()>(Err(error))),
    }
}

/// Losers of a conflict come in any order.
pub(crate) fn losers_said(answer: Result<Vec<Txid>, NodeError>) -> String {
    said(answer.map(|mut losers| {
        losers.sort_unstable();
        losers
    }))
}

/// Does an operation on a store; what it said.
pub(crate) fn apply(store: &dyn TxStore, op: &Op) -> String {
    let at = Height::new;
    match op {
        Op::Create(txs, height) => all_said(store.create(txs, at(*height)).unwrap()),
        Op::Spend(requests) => all_said(store.spend(requests).unwrap()),
        Op::Unspend(requests) => all_said(store.unspend(requests).unwrap()),
        Op::Both(tx, how, options, height) => {
            said(store.spend_and_create(tx, at(*height), *how, options).unwrap())
        }
        Op::List(txs, flags, height) => {
            list_said(store.spend_and_create_list(txs, at(*height), *flags).unwrap())
        }
        Op::Mine(txids, info) => all_said(store.set_mined(txids, info).unwrap()),
        Op::Mark(txids, on, height) => {
            all_said(store.mark_on_longest_chain(txids, *on, at(*height)).unwrap())
        }
        Op::Lock(txids, on, height) => all_said(store.set_locked(txids, *on, at(*height)).unwrap()),
        Op::Conflict(txids, on, height) => {
            all_said(store.set_conflicting(txids, *on, at(*height)).unwrap())
        }
        Op::Process(winners, height) => {
            losers_said(store.process_conflicting(winners, at(*height)).unwrap())
        }
        Op::Begin(intent) => format!("{:?}", store.begin_conflict_intent(intent).unwrap()),
        Op::Complete(intent) => {
            store.complete_conflict_intent(&intent.id()).unwrap();
            String::new()
        }
        Op::Freeze(outputs) => all_said(store.freeze(outputs).unwrap()),
        Op::Unfreeze(outputs) => all_said(store.unfreeze(outputs).unwrap()),
        Op::Reassign((outpoint, hash), script, height) => {
            said(store.reassign(*outpoint, *hash, script, at(*height)).unwrap())
        }
        Op::Preserve(txids, until) => store.preserve(txids, at(*until)).unwrap().to_string(),
        Op::Expire(height, limit) => {
            store.expire_preservations(at(*height), *limit).unwrap().to_string()
        }
        Op::Delete(txids) => store.delete(txids).unwrap().to_string(),
        Op::BlockState(state) => {
            let answer = said(store.set_block_state(*state).unwrap());
            format!("{answer}, {:?}", store.block_state().unwrap())
        }
        Op::Views(outputs, height) => all_said(store.spend_views(outputs, at(*height)).unwrap()),
        Op::Decorate(outputs) => format!("{:?}", store.decorate(outputs).unwrap()),
        Op::Parents(outputs) => format!("{:?}", store.parent_outputs(outputs).unwrap()),
        Op::Unmined(cutoff, page) => format!("{:?}", unmined(store, at(*cutoff), *page)),
        Op::Pending(limit) => format!("{:?}", store.pending_conflict_intents(*limit).unwrap()),
        Op::Reopen => String::new(),
    }
}

/// Everything that is unmined, page by page.
fn unmined(store: &dyn TxStore, cutoff: Height, page: usize) -> Vec<(u32, Txid)> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let rows = store.unmined(cutoff, after, page).unwrap();
        let Some(last) = rows.last() else { return found };
        after = Some(*last);
        found.extend(rows.iter().map(|(height, txid)| (height.get(), *txid)));
    }
}

fn family(tx: &NodeTx) -> Vec<Txid> {
    let parents = tx.inputs.iter().map(|input| *input.outpoint.txid());
    parents.chain([tx.txid]).collect()
}

impl Op {
    /// Transactions that it may have changed; `None` where any may be.
    pub(crate) fn touched(&self) -> Option<Vec<Txid>> {
        let of = |outputs: &[Named]| outputs.iter().map(|(at, _)| *at.txid()).collect();
        let mut touched: Vec<Txid> = match self {
            Self::Process(..) | Self::Conflict(..) | Self::Expire(..) | Self::Reopen => {
                return None;
            }
            Self::Create(txs, _) | Self::List(txs, ..) => {
                txs.iter().flat_map(|(tx, _)| family(tx)).collect()
            }
            Self::Both(tx, ..) => family(tx),
            Self::Spend(requests) => {
                let inputs = requests.iter().flat_map(|request| &request.inputs);
                inputs.map(|input| *input.outpoint.txid()).collect()
            }
            Self::Unspend(requests) => requests.iter().map(|r| *r.outpoint.txid()).collect(),
            Self::Mine(txids, _)
            | Self::Mark(txids, ..)
            | Self::Lock(txids, ..)
            | Self::Preserve(txids, _)
            | Self::Delete(txids) => txids.clone(),
            Self::Freeze(outputs) | Self::Unfreeze(outputs) => of(outputs),
            Self::Reassign(output, ..) => of(&[*output]),
            Self::Begin(_)
            | Self::Complete(_)
            | Self::BlockState(_)
            | Self::Views(..)
            | Self::Decorate(_)
            | Self::Parents(_)
            | Self::Unmined(..)
            | Self::Pending(_) => Vec::new(),
        };
        touched.sort_unstable();
        touched.dedup();
        Some(touched)
    }
}
