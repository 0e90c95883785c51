//! The plain model: transactions in a map, and everything else worked out from them.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{OutPoint, Txid};
use utxokeep_wallet::{CoinClass, LeaseId, NewTx};

/// Where a transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    Pending,
    Waiting,
    Published,
    Block(u32),
    Replaced,
    Failed,
    Orphaned,
}

impl Stand {
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Waiting | Self::Published | Self::Block(_))
    }

    fn holds(self) -> bool {
        self.is_live() && self != Self::Waiting
    }
}

/// How a transaction is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    Here,
    Mempool,
    /// Somebody says that it is in the block at this height.
    Claim(u32),
}

/// The ledger must refuse too.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct No;

#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) txs: BTreeMap<Txid, (NewTx, Stand)>,
    /// What the chain holds, from [`FIRST`] on.
    pub(crate) blocks: Vec<Vec<NewTx>>,
    /// What the chain holds below, where the ledger never looked.
    pub(crate) early: BTreeMap<Txid, NewTx>,
    pub(crate) leases: BTreeMap<OutPoint, (LeaseId, i64)>,
    /// Those in blocks because somebody said so.
    claimed: BTreeSet<Txid>,
    /// What each replacement that waits, or did, was made to replace.
    links: BTreeMap<Txid, BTreeSet<Txid>>,
    /// The lowest and the highest block that the wallet was pruned from.
    pub(crate) pruned: Option<(u32, u32)>,
    pub(crate) rescan: Option<Rescan>,
}

/// Blocks that the wallet looks at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rescan {
    pub(crate) from: u32,
    pub(crate) next: u32,
    /// Blocks left the chain that it was pruned from: nothing is paid until the end.
    pub(crate) is_undone: bool,
}

/// First height of the chain.
pub(crate) const FIRST: u32 = 100;

impl Model {
    pub(crate) fn next_height(&self) -> u32 {
        FIRST + u32::try_from(self.blocks.len()).unwrap()
    }

    fn spends_from(&self, txid: &Txid) -> impl Iterator<Item = (&Txid, Stand)> {
        let txid = *txid;
        self.txs
            .iter()
            .filter(move |(_, (tx, _))| tx.inputs.iter().any(|input| *input.txid() == txid))
            .map(|(id, (_, stand))| (id, *stand))
    }

    /// All live transactions that depend on `roots`, without these.
    fn dependents(&self, roots: &BTreeSet<Txid>) -> BTreeSet<Txid> {
        let mut all = BTreeSet::new();
        let mut open: Vec<Txid> = roots.iter().copied().collect();
        while let Some(txid) = open.pop() {
            for (child, stand) in self.spends_from(&txid) {
                if stand.is_live() && !roots.contains(child) && all.insert(*child) {
                    open.push(*child);
                }
            }
        }
        all
    }

    /// The live transaction that holds an output, if one does.
    fn holder(&self, output: &OutPoint) -> Option<Txid> {
        let holds = |(tx, stand): &(NewTx, Stand)| stand.holds() && tx.inputs.contains(output);
        self.txs.iter().find(|(_, entry)| holds(entry)).map(|(txid, _)| *txid)
    }

    /// Whether `txid`, which waits, was declared to replace `rival`: it was made for that one, or
    /// both wait.
    fn is_linked(&self, txid: &Txid, rival: &Txid) -> bool {
        self.txs[rival].1 == Stand::Waiting
            || self.links.get(txid).is_some_and(|linked| linked.contains(rival))
    }

    pub(crate) fn record(&mut self, tx: &NewTx, met: Met, declared: bool) -> Result<(), No> {
        let was = self.txs.get(&tx.txid).map(|(_, stand)| *stand);
        let to = match (was, met) {
            (Some(Stand::Block(now)), Met::Claim(height)) if now != height => return Err(No),
            (_, Met::Claim(height)) => Stand::Block(height),
            (Some(Stand::Block(_) | Stand::Published), _) => was.unwrap(),
            (_, _) if tx.coinbase => return Err(No),
            (_, Met::Mempool) => Stand::Published,
            (Some(Stand::Replaced | Stand::Failed), Met::Here) => return Err(No),
            (Some(same), Met::Here) => same,
            (None, Met::Here) => Stand::Pending,
        };
        if was == Some(to) {
            self.settle(tx, to);
            return Ok(());
        }
        if let Stand::Block(height) = to
            && !self.misplaced(tx, height).is_empty()
        {
            return Err(No);
        }
        let mut losers = BTreeMap::new();
        let (mut rivals, mut refused) = (BTreeSet::new(), BTreeSet::new());
        let mut to = to;
        let shares = |other: &NewTx| other.inputs.iter().any(|input| tx.inputs.contains(input));
        for (txid, (other, stand)) in &self.txs {
            if *txid == tx.txid || !stand.is_live() || !shares(other) {
                continue;
            }
            rivals.insert(*txid);
            let waits = was == Some(Stand::Waiting);
            let declared = declared || (waits && self.is_linked(&tx.txid, txid));
            match (to, stand) {
                (_, Stand::Block(_)) => drop(refused.insert(*txid)),
                (Stand::Block(_) | Stand::Published, _) if declared => {
                    losers.insert(*txid, Stand::Replaced);
                }
                (Stand::Block(_), _) => {
                    losers.insert(*txid, Stand::Failed);
                }
                (_, Stand::Waiting) => {}
                (Stand::Pending | Stand::Waiting, _) if declared => to = Stand::Waiting,
                _ => drop(refused.insert(*txid)),
            }
        }
        let roots: BTreeSet<Txid> = losers.keys().copied().collect();
        let dependents = self.dependents(&roots);
        // What depends on a loser goes with it, whatever else it spends.
        if !refused.is_subset(&dependents) {
            return Err(No);
        }
        if to == Stand::Waiting {
            self.links.insert(tx.txid, rivals);
        }
        let in_block = |txid: &Txid| matches!(self.txs[txid].1, Stand::Block(_));
        if dependents.contains(&tx.txid) || dependents.iter().any(in_block) {
            return Err(No);
        }
        if !was.is_some_and(Stand::holds) {
            for input in &tx.inputs {
                let parent = input.txid();
                let dies = roots.contains(parent) || dependents.contains(parent);
                if self.txs.get(parent).is_some_and(|(_, stand)| !stand.is_live() || dies) {
                    return Err(No);
                }
            }
        }
        for (txid, stand) in losers.into_iter().chain(dependents.into_iter().map(failed)) {
            self.txs.get_mut(&txid).unwrap().1 = stand;
        }
        self.txs.insert(tx.txid, (tx.clone(), to));
        if matches!(to, Stand::Block(_)) {
            self.claimed.insert(tx.txid);
        }
        self.settle(tx, to);
        Ok(())
    }

    /// Parents that come too late for `tx` in the block at `height`, and children too early.
    fn misplaced(&self, tx: &NewTx, height: u32) -> Vec<Txid> {
        let is_parent = |txid: &Txid| tx.inputs.iter().any(|input| input.txid() == txid);
        let is_child = |other: &NewTx| other.inputs.iter().any(|input| *input.txid() == tx.txid);
        let misplaced = |(txid, (other, stand)): (&Txid, &(NewTx, Stand))| {
            let Stand::Block(at) = *stand else { return None };
            let too_late = at > height || (other.coinbase && at == height);
            let too_early = at < height || (tx.coinbase && at == height);
            let is_wrong = (is_parent(txid) && too_late) || (is_child(other) && too_early);
            is_wrong.then_some(*txid)
        };
        self.txs.iter().filter_map(misplaced).collect()
    }

    /// Somebody takes back that a transaction is in a block.
    pub(crate) fn unconfirm(&mut self, txid: &Txid) -> Result<(), No> {
        let Some((tx, Stand::Block(_))) = self.txs.get(txid) else {
            return self.txs.get(txid).map(drop).ok_or(No);
        };
        if !self.claimed.contains(txid) {
            return Err(No);
        }
        let dependents = self.dependents(&BTreeSet::from([*txid]));
        let in_block = |txid: &Txid| matches!(self.txs[txid].1, Stand::Block(_));
        if tx.coinbase && dependents.iter().any(in_block) {
            return Err(No);
        }
        self.detach(|_, other| other == txid);
        Ok(())
    }

    /// A block that spends a coin ends its lease.
    fn settle(&mut self, tx: &NewTx, stand: Stand) {
        if let Stand::Block(_) = stand {
            self.leases.retain(|output, _| !tx.inputs.contains(output));
        }
    }

    /// Whether the chain can hold `tx` on top of its blocks and of `below` in the same block.
    pub(crate) fn is_valid(&self, tx: &NewTx, below: &[NewTx], made: &[NewTx]) -> bool {
        let chain = || self.blocks.iter().flatten().chain(below).chain(self.early.values());
        let is_spent = |input| chain().any(|other| other.inputs.contains(input));
        let is_there = |txid: &Txid| chain().any(|other| other.txid == *txid);
        let has_parent = |input: &OutPoint| {
            is_there(input.txid()) || made.iter().all(|other| other.txid != *input.txid())
        };
        let is_fresh = |input: &OutPoint| {
            below.iter().any(|other| other.coinbase && other.txid == *input.txid())
        };
        let may_spend = |input| !is_spent(input) && has_parent(input) && !is_fresh(input);
        !is_there(&tx.txid) && tx.inputs.iter().all(may_spend)
    }

    /// A block that is followed: whatever it holds is true. `txs` has parents before children.
    pub(crate) fn connect(&mut self, txs: Vec<NewTx>) {
        self.look_at(self.next_height(), &txs);
        self.blocks.push(txs);
    }

    /// Takes what a block says for true, whatever was said about its height.
    fn look_at(&mut self, height: u32, txs: &[NewTx]) {
        for tx in txs {
            self.prove(tx, Stand::Block(height));
        }
        let held: BTreeSet<Txid> = txs.iter().map(|tx| tx.txid).collect();
        self.detach(|at, txid| at == height && !held.contains(txid));
    }

    fn tip(&self) -> Option<u32> {
        self.next_height().checked_sub(1).filter(|tip| *tip >= FIRST)
    }

    /// Somebody asks for a rescan, which goes on if it has not come to `from` yet.
    pub(crate) fn request_rescan(&mut self, from: u32) {
        if self.rescan.is_none_or(|rescan| rescan.next > from) {
            let is_undone = self.rescan.is_some_and(|rescan| rescan.is_undone);
            self.rescan = Some(Rescan { from, next: from, is_undone });
        }
    }

    /// The next block of the rescan is looked at.
    pub(crate) fn rescan_block(&mut self) {
        let height = self.rescan.unwrap().next;
        let txs = self.blocks[usize::try_from(height - FIRST).unwrap()].clone();
        self.look_at(height, &txs);
        self.rescan.as_mut().unwrap().next += 1;
        self.end_rescan();
    }

    /// A rescan above the tip is over, and has brought back what was pruned above its start.
    fn end_rescan(&mut self) {
        let Some(rescan) = self.rescan.filter(|rescan| Some(rescan.next) > self.tip()) else {
            return;
        };
        self.rescan = None;
        self.pruned = self.pruned.filter(|(lowest, _)| rescan.from > *lowest);
    }

    /// Transactions leave the ledger. None of them may be missed by what stays.
    pub(crate) fn prune(&mut self, gone: &BTreeSet<Txid>, up_to: u32) {
        for txid in gone {
            let (tx, stand) = &self.txs[txid];
            let Stand::Block(height) = *stand else { panic!("{stand:?} was pruned") };
            assert!(height <= up_to && !self.claimed.contains(txid));
            for index in 0u32..u32::try_from(tx.outputs.len()).unwrap() {
                if tx.outputs[usize::try_from(index).unwrap()].script[0] != 0x52 {
                    let holder = self.holder(&OutPoint::new(*txid, index));
                    assert!(holder.is_some_and(|holder| gone.contains(&holder)), "a coin is lost");
                }
            }
            self.pruned = Some(match self.pruned {
                None => (height, height),
                Some((lowest, highest)) => (lowest.min(height), highest.max(height)),
            });
        }
        self.txs.retain(|txid, _| !gone.contains(txid));
        for txid in gone {
            self.links.remove(txid);
        }
    }

    /// The chain holds `tx`, and so all it spends from; whoever wants the same is wrong.
    fn prove(&mut self, tx: &NewTx, to: Stand) {
        let was = self.txs.get(&tx.txid).map(|(_, stand)| *stand);
        if was != Some(to) {
            if let Stand::Block(height) = to {
                let wrong = self.misplaced(tx, height);
                let claimed = self.claimed.clone();
                self.detach(|_, other| wrong.contains(other) && claimed.contains(other));
                self.prove_parents(tx);
            }
            let waits = was == Some(Stand::Waiting);
            let shares = |other: &NewTx| other.inputs.iter().any(|input| tx.inputs.contains(input));
            let losers: BTreeSet<Txid> = self
                .txs
                .iter()
                .filter(|(id, (other, stand))| **id != tx.txid && stand.is_live() && shares(other))
                .map(|(id, _)| *id)
                .collect();
            let dependents = self.dependents(&losers);
            let end = |id: Txid| {
                let is_replaced = waits && self.is_linked(&tx.txid, &id);
                (id, if is_replaced { Stand::Replaced } else { Stand::Failed })
            };
            let losers: Vec<_> = losers.into_iter().map(end).collect();
            for (txid, stand) in losers.into_iter().chain(dependents.into_iter().map(failed)) {
                self.txs.get_mut(&txid).unwrap().1 = stand;
            }
            self.txs.insert(tx.txid, (tx.clone(), to));
        }
        self.claimed.remove(&tx.txid);
        self.settle(tx, to);
    }

    fn prove_parents(&mut self, tx: &NewTx) {
        for input in &tx.inputs {
            let Some((parent, stand)) = self.txs.get(input.txid()).cloned() else { continue };
            let is_in_doubt =
                matches!(stand, Stand::Pending | Stand::Waiting | Stand::Replaced | Stand::Failed);
            if is_in_doubt {
                self.prove_parents(&parent);
                self.prove(&parent, Stand::Published);
            }
        }
    }

    /// All blocks from `height` on leave the chain.
    pub(crate) fn disconnect_from(&mut self, height: u32) {
        self.blocks.truncate(usize::try_from(height - FIRST).unwrap());
        self.detach(|at, _| at >= height);
        self.end_rescan();
        match self.pruned {
            Some((lowest, highest)) if lowest < height && height <= highest => {
                if self.rescan.is_none_or(|rescan| rescan.from > lowest) {
                    self.rescan = Some(Rescan { from: lowest, next: lowest, is_undone: true });
                }
                self.rescan.as_mut().unwrap().is_undone = true;
                self.pruned = Some((lowest, height - 1));
            }
            Some((lowest, _)) if lowest >= height => self.pruned = None,
            _ => {}
        }
    }

    /// Takes transactions out of their blocks.
    fn detach(&mut self, leaves: impl Fn(u32, &Txid) -> bool) {
        let mut orphans = BTreeSet::new();
        for (txid, (tx, stand)) in &mut self.txs {
            if !matches!(*stand, Stand::Block(at) if leaves(at, txid)) {
                continue;
            }
            self.claimed.remove(txid);
            *stand = if tx.coinbase { Stand::Orphaned } else { Stand::Published };
            if tx.coinbase {
                orphans.insert(*txid);
            }
        }
        for txid in self.dependents(&orphans) {
            self.txs.get_mut(&txid).unwrap().1 = Stand::Failed;
        }
    }

    pub(crate) fn abandon(&mut self, txid: &Txid) -> Result<(), No> {
        let stand = self.txs.get(txid).map(|(_, stand)| *stand);
        if !matches!(stand, Some(Stand::Pending | Stand::Waiting | Stand::Published)) {
            return Err(No);
        }
        let mut all = self.dependents(&BTreeSet::from([*txid]));
        // A block that spends from what is in no block: somebody left a transaction out.
        if all.iter().any(|txid| matches!(self.txs[txid].1, Stand::Block(_))) {
            return Err(No);
        }
        all.insert(*txid);
        for txid in all {
            self.txs.get_mut(&txid).unwrap().1 = Stand::Failed;
        }
        Ok(())
    }

    /// Whether only coins of the wallet pay for `tx` and for all its ancestors in no block.
    fn is_trusted(&self, tx: &NewTx, owns: &impl Fn(&OutPoint) -> bool) -> bool {
        tx.inputs.iter().all(|input| {
            owns(input)
                && match &self.txs[input.txid()] {
                    (_, Stand::Block(_)) => true,
                    (parent, Stand::Published) => self.is_trusted(parent, owns),
                    _ => false,
                }
        })
    }

    /// Every unspent output of the wallet that counts, with its class.
    pub(crate) fn coins(&self, is_own: impl Fn(&[u8]) -> bool) -> BTreeMap<OutPoint, Seen> {
        let owns = |output: &OutPoint| {
            let index = usize::try_from(output.index()).unwrap();
            self.txs
                .get(output.txid())
                .is_some_and(|(tx, _)| tx.outputs.get(index).is_some_and(|o| is_own(&o.script)))
        };
        let mut coins = BTreeMap::new();
        for (txid, (tx, stand)) in &self.txs {
            let class = match stand {
                Stand::Pending => CoinClass::Pending,
                Stand::Published if self.is_trusted(tx, &owns) => CoinClass::Trusted,
                Stand::Published => CoinClass::Untrusted,
                // Without a tip nothing has a confirmation.
                Stand::Block(_) if self.blocks.is_empty() => continue,
                Stand::Block(_) => CoinClass::Confirmed,
                _ => continue,
            };
            for (index, output) in (0u32..).zip(&tx.outputs) {
                let outpoint = OutPoint::new(*txid, index);
                if is_own(&output.script) && self.holder(&outpoint).is_none() {
                    coins.insert(outpoint, Seen { amount: output.amount.get(), class });
                }
            }
        }
        coins
    }
}

fn failed(txid: Txid) -> (Txid, Stand) {
    (txid, Stand::Failed)
}

/// A coin as the wallet sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) amount: u64,
    pub(crate) class: CoinClass,
}
