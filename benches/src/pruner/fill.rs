//! Transactions to be deleted, and others to be spent.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        CreateOptions, MinedBlock, NodeInput, NodeOutput, NodeTx, PreviousOutput, SpendFlags,
        SpendRequest,
    },
};
use utxokeep_txstore::TxStore;

use super::{Family, MINED};

const PARENT: u64 = 1 << 50;
const CHILD: u64 = 1 << 51;
const COIN: u64 = 1 << 52;
const SPENDER: u64 = 1 << 53;
const GRANDPARENT: u64 = 1 << 54;

fn id(kind: u64, number: u64) -> Txid {
    let mut bytes = [0; 32];
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ kind;
    for chunk in bytes.chunks_exact_mut(8) {
        z = (z ^ (z >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(number + kind);
        chunk.copy_from_slice(&z.to_le_bytes());
    }
    Txid::from_bytes(bytes)
}

fn tx(txid: Txid, spends: &[OutPoint], outputs: u32) -> NodeTx {
    let input = |outpoint: &OutPoint| NodeInput {
        outpoint: *outpoint,
        script: vec![0x48; 107],
        sequence: u32::MAX,
        previous: Some(PreviousOutput { satoshis: 1_000, script: vec![0x76; 25] }),
    };
    let output = || NodeOutput { satoshis: 1_000, script: vec![0x76; 25] };
    NodeTx {
        txid,
        version: 1,
        lock_time: 0,
        is_coinbase: false,
        inputs: spends.iter().map(input).collect(),
        outputs: std::iter::repeat_with(output).take(outputs as usize).collect(),
    }
}

/// Stores transactions of one block, many at a time, and spends what they spend.
fn fill(store: &dyn TxStore, height: u32, txs: impl Iterator<Item = NodeTx>) -> anyhow::Result<()> {
    let at = Height::new(height);
    let block = MinedBlock { id: height, height: at, subtree: 0 };
    let options =
        CreateOptions { mined: vec![block], may_lack_previous: true, ..CreateOptions::default() };
    let mut page = Vec::new();
    let write = |page: &mut Vec<NodeTx>| -> anyhow::Result<()> {
        let requests: Vec<SpendRequest> = page
            .iter()
            .filter(|tx| !tx.inputs.is_empty())
            .map(|tx| SpendRequest::of(tx, at, SpendFlags::default()))
            .collect::<Result<_, _>>()?;
        let items: Vec<_> = page.drain(..).map(|tx| (tx, options.clone())).collect();
        let made = store.create(&items, at)?;
        anyhow::ensure!(made.iter().all(Result::is_ok), "a transaction was refused");
        if !requests.is_empty() {
            store.spend(&requests)?;
        }
        Ok(())
    };
    for tx in txs {
        page.push(tx);
        if page.len() == 1_000 {
            write(&mut page)?;
        }
    }
    write(&mut page)
}

/// Parents of one input each, whose outputs are spent by one child each.
pub(super) fn parents(store: &dyn TxStore, family: Family) -> anyhow::Result<()> {
    let Family { parents, children, blocks } = family;
    // Gone since long, as most parents of what is due are.
    let spent = |n| [OutPoint::new(id(GRANDPARENT, n), 0)];
    fill(store, MINED, (0..parents).map(|n| tx(id(PARENT, n), &spent(n), children)))?;
    for block in 0..blocks {
        let all = (0..parents).flat_map(|n| (0..children).map(move |vout| (n, vout)));
        let of_block =
            all.filter(|(n, vout)| (*n + u64::from(*vout)) % u64::from(blocks) == u64::from(block));
        let child = |(n, vout): (u64, u32)| {
            let child = id(CHILD, n * u64::from(children) + u64::from(vout));
            tx(child, &[OutPoint::new(id(PARENT, n), vout)], 1)
        };
        fill(store, MINED + block, of_block.map(child))?;
    }
    Ok(())
}

/// Parents of two outputs and their children, all in one block, which no other number repeats.
pub(super) fn block(
    store: &dyn TxStore,
    number: u64,
    parents: u64,
    height: u32,
) -> anyhow::Result<()> {
    let all = number * parents..(number + 1) * parents;
    fill(store, height, all.clone().map(|n| tx(id(PARENT, n), &[], 2)))?;
    let children = all.flat_map(|n| (0..2).map(move |vout| (n, vout)));
    let child = |(n, vout): (u64, u32)| {
        tx(id(CHILD, n * 2 + u64::from(vout)), &[OutPoint::new(id(PARENT, n), vout)], 1)
    };
    fill(store, height, children.map(child))
}

/// Transactions with coins to spend.
pub(super) fn coins(store: &dyn TxStore, count: u64) -> anyhow::Result<()> {
    fill(store, MINED, (0..count).map(|n| tx(id(COIN, n), &[], 2)))
}

/// A transaction that spends one of those coins.
pub(super) fn spender(number: u64) -> NodeTx {
    tx(id(SPENDER, number), &[OutPoint::new(id(COIN, number), 0)], 1)
}

/// A chain of transactions in one block, each spending the one before.
pub(super) fn chain(
    store: &dyn TxStore,
    number: u64,
    length: u64,
    height: u32,
) -> anyhow::Result<()> {
    let name = |at: u64| id(PARENT | CHILD, number * length + at);
    for at in 0..length {
        let spends: Vec<OutPoint> =
            at.checked_sub(1).map(|before| OutPoint::new(name(before), 0)).into_iter().collect();
        fill(store, height, std::iter::once(tx(name(at), &spends, 1)))?;
    }
    Ok(())
}
