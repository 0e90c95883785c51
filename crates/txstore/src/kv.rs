//! The node store on ordered tables: RocksDB, or memory.

use std::sync::Arc;

use utxokeep_core::{
    Corrupt, Height, OutPoint, Txid,
    node::{
        Changes, CreateOptions, MinedInfo, NodeError, NodeTx, Policy, PreviousOutput, Slot, Source,
        SpendAndCreate, SpendFlags, SpendInput, SpendRequest, SpendView, Spent, Stored, TxRecord,
        UnspendRequest, Workspace, decode_body, decode_record, decode_slot, encode_body,
        encode_record, encode_slot,
    },
};
use utxokeep_kv::{Batch, Durability, Kv, Read, Scan, TableId};

use crate::{
    error::{OpenError, StoreError},
    locks::{Held, Locks},
    store::{BlockState, Decorated, Fields, PerItem, StoredTx, TxStore},
    tables::{
        BODIES, DELETED_CHILDREN, DUE, FORMAT_VERSION, META, PRESERVED, RECORDS, SLOTS, UNMINED,
        child_key, from_height_key, height_key,
    },
};

const FORMAT: &[u8] = b"format";
const BLOCK_STATE: &[u8] = b"block_state";

/// Nothing to load beforehand.
const NOTHING: (&[Txid], &[OutPoint]) = (&[], &[]);

/// Items that one call may have.
const ITEMS_MAX: usize = 100_000;

/// A node store on key-value tables.
#[derive(Debug)]
pub struct KvTxStore<K> {
    pub(crate) kv: Arc<K>,
    policy: Policy,
    durability: Durability,
    locks: Locks,
}

/// Records as the tables have them.
pub(crate) struct Rows<'r>(pub(crate) &'r dyn Read);

impl Source for Rows<'_> {
    type Error = StoreError;

    fn record(&self, txid: &Txid) -> Result<Option<TxRecord>, StoreError> {
        let bytes = self.0.get(RECORDS, txid.as_bytes())?;
        Ok(bytes.map(|bytes| decode_record(&bytes)).transpose()?)
    }

    fn slot(&self, outpoint: &OutPoint) -> Result<Option<Slot>, StoreError> {
        let bytes = self.0.get(SLOTS, &outpoint.to_key())?;
        Ok(bytes.map(|bytes| decode_slot(&bytes)).transpose()?)
    }

    fn records(&self, txids: &[Txid]) -> Result<Vec<Option<TxRecord>>, StoreError> {
        self.many(RECORDS, txids, |txid| txid.as_bytes().to_vec(), decode_record)
    }

    fn slots(&self, outpoints: &[OutPoint]) -> Result<Vec<Option<Slot>>, StoreError> {
        self.many(SLOTS, outpoints, |outpoint| outpoint.to_key().to_vec(), decode_slot)
    }

    fn body(&self, txid: &Txid) -> Result<Option<NodeTx>, StoreError> {
        let bytes = self.0.get(BODIES, txid.as_bytes())?;
        Ok(bytes.map(|bytes| decode_body(*txid, &bytes)).transpose()?)
    }

    fn is_deleted_child(&self, parent: &Txid, child: &Txid) -> Result<bool, StoreError> {
        Ok(self.0.get(DELETED_CHILDREN, &child_key(parent, child))?.is_some())
    }
}

impl Rows<'_> {
    /// Reads many rows in one pass, sorted by key.
    fn many<I, T: Clone>(
        &self,
        table: TableId,
        items: &[I],
        key: impl Fn(&I) -> Vec<u8>,
        decode: impl Fn(&[u8]) -> Result<T, Corrupt>,
    ) -> Result<Vec<Option<T>>, StoreError> {
        let mut sorted: Vec<_> = items.iter().map(key).zip(0usize..).collect();
        sorted.sort_unstable();
        let keys: Vec<&[u8]> = sorted.iter().map(|(key, _)| key.as_slice()).collect();
        let mut found = vec![None; items.len()];
        let mut damage = None;
        self.0.multi_get(
            table,
            &keys,
            &mut |number, value| match value.map(&decode).transpose() {
                Ok(row) => found[sorted[number].1] = row,
                Err(error) => damage = Some(error),
            },
        )?;
        damage.map_or(Ok(found), |error| Err(error.into()))
    }
}

impl<K: Kv> KvTxStore<K> {
    /// Opens a store on an engine that has all of [`crate::TABLES`].
    pub fn open(kv: K, policy: Policy, durability: Durability) -> Result<Self, OpenError> {
        match kv.get(META, FORMAT)? {
            None => {
                let mut batch = Batch::new();
                batch.put(META, FORMAT, &FORMAT_VERSION.to_be_bytes());
                kv.commit(batch, Durability::Synced)?;
            }
            Some(bytes) => {
                let found = bytes.try_into().map(u64::from_be_bytes);
                let found = found.map_err(|_| Corrupt::new("format version", "not 8 bytes long"));
                let found = found.map_err(StoreError::from)?;
                if found > FORMAT_VERSION {
                    return Err(OpenError::NewerFormat { found, known: FORMAT_VERSION });
                }
            }
        }
        Ok(Self { kv: Arc::new(kv), policy, durability, locks: Locks::new() })
    }

    /// Does `work` on what the held locks cover, and commits its changes.
    fn run<T>(
        &self,
        held: Held<'_>,
        work: impl FnOnce(&mut Workspace<'_, Rows<'_>>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let rows = Rows(self.kv.as_ref());
        let mut workspace = Workspace::new(&rows, self.policy);
        let answer = work(&mut workspace)?;
        self.write(&workspace.into_changes())?;
        drop(held);
        Ok(answer)
    }

    /// The same for each of many items, whose answers are independent.
    fn each<I, T>(
        &self,
        held: Held<'_>,
        items: &[I],
        (txids, outpoints): (&[Txid], &[OutPoint]),
        mut work: impl FnMut(
            &mut Workspace<'_, Rows<'_>>,
            &I,
        ) -> Result<Result<T, NodeError>, StoreError>,
    ) -> PerItem<T> {
        check_len(items.len())?;
        self.run(held, |workspace| {
            workspace.prefetch(txids, outpoints)?;
            items.iter().map(|item| work(workspace, item)).collect()
        })
    }

    fn write(&self, changes: &Changes) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new();
        for (txid, body) in &changes.bodies {
            match body {
                Some(body) => batch.put(BODIES, txid.as_bytes(), &encode_body(body)),
                None => batch.delete(BODIES, txid.as_bytes()),
            }
        }
        for (outpoint, slot) in &changes.slots {
            match slot {
                Some(slot) => batch.put(SLOTS, &outpoint.to_key(), &encode_slot(slot)),
                None => batch.delete(SLOTS, &outpoint.to_key()),
            }
        }
        for (txid, before, now) in &changes.records {
            if let Some(record) = now {
                batch.put(RECORDS, txid.as_bytes(), &encode_record(record));
            } else {
                batch.delete(RECORDS, txid.as_bytes());
                self.delete_markers(&mut batch, txid)?;
            }
            put_index_rows(&mut batch, txid, before.as_ref(), now.as_ref());
        }
        Ok(self.kv.commit(batch, self.durability)?)
    }

    /// Markers of a parent that goes are of no use to anybody.
    fn delete_markers(&self, batch: &mut Batch, parent: &Txid) -> Result<(), StoreError> {
        let mut until = parent.as_bytes().to_vec();
        until.extend([0xff; 33]);
        let scan = Scan {
            from: parent.as_bytes(),
            until: Some(&until),
            reverse: false,
            limit: usize::MAX,
            within_prefix: false,
        };
        self.kv.scan(DELETED_CHILDREN, &scan, &mut |key, _| {
            batch.delete(DELETED_CHILDREN, key);
            true
        })?;
        Ok(())
    }

    /// Rows of a table that is ordered by height, up to a height.
    fn heights(
        &self,
        table: TableId,
        until: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError> {
        let mut from = Vec::new();
        if let Some((height, txid)) = after {
            from.extend(height_key(height, &txid));
            from.push(0);
        }
        let until = until.get().checked_add(1).map(|next| Height::new(next).to_key());
        let scan = Scan {
            from: &from,
            until: until.as_ref().map(<[u8; 4]>::as_slice),
            reverse: false,
            limit,
            within_prefix: false,
        };
        let (mut found, mut is_damaged) = (Vec::new(), false);
        self.kv.scan(table, &scan, &mut |key, _| {
            match from_height_key(key) {
                Some(row) => found.push(row),
                None => is_damaged = true,
            }
            true
        })?;
        if is_damaged {
            return Err(Corrupt::new("index row", "not 36 bytes long").into());
        }
        Ok(found)
    }
}

fn check_len(found: usize) -> Result<(), StoreError> {
    if found > ITEMS_MAX {
        return Err(StoreError::TooManyItems { found, max: ITEMS_MAX });
    }
    Ok(())
}

/// The rows that a record has in the tables ordered by height.
pub(crate) fn index_rows(record: &TxRecord) -> [(TableId, Option<Height>); 3] {
    [(DUE, record.delete_at), (UNMINED, record.unmined_since), (PRESERVED, record.preserve_until)]
}

fn put_index_rows(
    batch: &mut Batch,
    txid: &Txid,
    before: Option<&TxRecord>,
    now: Option<&TxRecord>,
) {
    const NOTHING: [Option<Height>; 3] = [None; 3];
    let heights = |record: Option<&TxRecord>| {
        record.map_or(NOTHING, |record| index_rows(record).map(|(_, height)| height))
    };
    for ((table, old), new) in
        [DUE, UNMINED, PRESERVED].into_iter().zip(heights(before)).zip(heights(now))
    {
        if old == new {
            continue;
        }
        if let Some(old) = old {
            batch.delete(table, &height_key(old, txid));
        }
        if let Some(new) = new {
            batch.put(table, &height_key(new, txid), &[]);
        }
    }
}

/// Transactions that a spend touches.
fn touched(request: &SpendRequest) -> impl Iterator<Item = &Txid> {
    let parents = request.inputs.iter().map(|input| input.outpoint.txid());
    parents.chain(std::iter::once(&request.spender))
}

/// Transactions that storing one touches.
fn family(tx: &NodeTx) -> impl Iterator<Item = &Txid> {
    tx.spends().map(|input| input.outpoint.txid()).chain(std::iter::once(&tx.txid))
}

impl<K: Kv> TxStore for KvTxStore<K> {
    fn create(&self, txs: &[(NodeTx, CreateOptions)], height: Height) -> PerItem<()> {
        // Parents are changed only by a conflicting child, which they get to know of.
        let parents = txs.iter().filter(|(_, options)| options.is_conflicting);
        let parents = parents.flat_map(|(tx, _)| family(tx));
        let held = self.locks.lock(txs.iter().map(|(tx, _)| &tx.txid).chain(parents));
        let ids: Vec<Txid> = txs.iter().map(|(tx, _)| tx.txid).collect();
        self.each(held, txs, (&ids, &[]), |workspace, (tx, options)| {
            workspace.create(tx, height, options)
        })
    }

    fn get(&self, txids: &[Txid], fields: Fields) -> Result<Vec<Option<StoredTx>>, StoreError> {
        check_len(txids.len())?;
        let snapshot = self.kv.snapshot();
        let rows = Rows(&snapshot);
        let one = |txid: &Txid| -> Result<Option<StoredTx>, StoreError> {
            let Some(record) = rows.record(txid)? else { return Ok(None) };
            let body = if fields.body { rows.body(txid)? } else { None };
            let slots = if fields.slots {
                let outputs = (0..record.outputs).map(|vout| OutPoint::new(*txid, vout));
                Some(outputs.map(|outpoint| rows.slot(&outpoint)).collect::<Result<_, _>>()?)
            } else {
                None
            };
            Ok(Some(StoredTx { record, body, slots }))
        };
        txids.iter().map(one).collect()
    }

    fn spend_views(
        &self,
        outputs: &[(OutPoint, Option<[u8; 32]>)],
        height: Height,
    ) -> PerItem<SpendView> {
        check_len(outputs.len())?;
        let snapshot = self.kv.snapshot();
        let rows = Rows(&snapshot);
        let mut workspace = Workspace::new(&rows, self.policy);
        let view = |(outpoint, hash): &(OutPoint, Option<[u8; 32]>)| {
            workspace.spend_view(outpoint, hash.as_ref(), height)
        };
        outputs.iter().map(view).collect()
    }

    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is not general enough"
    )]
    fn spend(&self, requests: &[SpendRequest]) -> PerItem<Spent> {
        let held = self.locks.lock(requests.iter().flat_map(touched));
        let ids: Vec<Txid> = requests.iter().flat_map(touched).copied().collect();
        let inputs = requests.iter().flat_map(|request| &request.inputs);
        let outputs: Vec<OutPoint> = inputs.map(|input| input.outpoint).collect();
        self.each(held, requests, (&ids, &outputs), |workspace, request| workspace.spend(request))
    }

    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is not general enough"
    )]
    fn unspend(&self, requests: &[UnspendRequest]) -> PerItem<bool> {
        let held = self.locks.lock(requests.iter().map(|request| request.outpoint.txid()));
        self.each(held, requests, NOTHING, |workspace, request| workspace.unspend(request))
    }

    fn spend_and_create(
        &self,
        tx: &NodeTx,
        height: Height,
        how: SpendAndCreate,
        options: &CreateOptions,
    ) -> Result<Result<Stored, NodeError>, StoreError> {
        let held = self.locks.lock(family(tx));
        self.run(held, |workspace| workspace.spend_and_create(tx, height, how, options))
    }

    fn spend_and_create_list(
        &self,
        txs: &[(NodeTx, CreateOptions)],
        height: Height,
        flags: SpendFlags,
    ) -> Result<Result<Vec<Result<Stored, NodeError>>, NodeError>, StoreError> {
        check_len(txs.len())?;
        let held = self.locks.lock(txs.iter().flat_map(|(tx, _)| family(tx)));
        let ids: Vec<Txid> = txs.iter().flat_map(|(tx, _)| family(tx)).copied().collect();
        let inputs = txs.iter().flat_map(|(tx, _)| tx.spends());
        // Outputs of the list itself are not there yet.
        let outputs: Vec<OutPoint> = inputs.map(|input| input.outpoint).collect();
        self.run(held, |workspace| {
            workspace.prefetch(&ids, &outputs)?;
            workspace.spend_and_create_list(txs, height, flags)
        })
    }

    fn set_mined(&self, txids: &[Txid], info: &MinedInfo) -> PerItem<Vec<u32>> {
        let held = self.locks.lock(txids);
        self.each(held, txids, (txids, &[]), |workspace, txid| workspace.set_mined(txid, info))
    }

    fn mark_on_longest_chain(
        &self,
        txids: &[Txid],
        on_longest_chain: bool,
        height: Height,
    ) -> PerItem<()> {
        let held = self.locks.lock(txids);
        self.each(held, txids, (txids, &[]), |workspace, txid| {
            workspace.mark_on_longest_chain(txid, on_longest_chain, height)
        })
    }

    fn set_locked(&self, txids: &[Txid], is_locked: bool, height: Height) -> PerItem<()> {
        let held = self.locks.lock(txids);
        self.each(held, txids, (txids, &[]), |workspace, txid| {
            workspace.set_locked(txid, is_locked, height)
        })
    }

    fn set_conflicting(
        &self,
        txids: &[Txid],
        is_conflicting: bool,
        height: Height,
    ) -> PerItem<(Vec<SpendInput>, Vec<Txid>)> {
        let held = self.locks.lock_all();
        self.each(held, txids, (txids, &[]), |workspace, txid| {
            workspace.set_conflicting(txid, is_conflicting, height)
        })
    }

    fn process_conflicting(
        &self,
        winners: &[Txid],
        height: Height,
    ) -> Result<Result<Vec<Txid>, NodeError>, StoreError> {
        check_len(winners.len())?;
        let _held = self.locks.lock_all();
        let rows = Rows(self.kv.as_ref());
        let mut workspace = Workspace::new(&rows, self.policy);
        let answer = workspace.process_conflicting(winners, height)?;
        if answer.is_ok() {
            self.write(&workspace.into_changes())?;
        }
        Ok(answer)
    }

    fn freeze(&self, outputs: &[(OutPoint, [u8; 32])]) -> PerItem<()> {
        let held = self.locks.lock(outputs.iter().map(|(outpoint, _)| outpoint.txid()));
        self.each(held, outputs, NOTHING, |workspace, (outpoint, hash)| {
            workspace.freeze(outpoint, hash)
        })
    }

    fn unfreeze(&self, outputs: &[(OutPoint, [u8; 32])]) -> PerItem<()> {
        let held = self.locks.lock(outputs.iter().map(|(outpoint, _)| outpoint.txid()));
        self.each(held, outputs, NOTHING, |workspace, (outpoint, hash)| {
            workspace.unfreeze(outpoint, hash)
        })
    }

    fn reassign(
        &self,
        outpoint: OutPoint,
        hash: [u8; 32],
        script: &[u8],
        height: Height,
    ) -> Result<Result<[u8; 32], NodeError>, StoreError> {
        let held = self.locks.lock([outpoint.txid()]);
        self.run(held, |workspace| workspace.reassign(&outpoint, &hash, script, height))
    }

    fn preserve(&self, txids: &[Txid], until: Height) -> Result<usize, StoreError> {
        check_len(txids.len())?;
        let held = self.locks.lock(txids);
        self.run(held, |workspace| {
            let mut preserved = 0;
            for txid in txids {
                preserved += usize::from(workspace.preserve(txid, until)?);
            }
            Ok(preserved)
        })
    }

    fn expire_preservations(&self, height: Height, limit: usize) -> Result<usize, StoreError> {
        let due = self.heights(PRESERVED, height, None, limit)?;
        // Whoever changed a record since is seen when it is loaded under its lock.
        let held = self.locks.lock(due.iter().map(|(_, txid)| txid));
        self.run(held, |workspace| {
            let mut expired = 0;
            for (_, txid) in &due {
                expired += usize::from(workspace.expire_preservation(txid, height)?);
            }
            Ok(expired)
        })
    }

    fn unmined(
        &self,
        cutoff: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError> {
        self.heights(UNMINED, cutoff, after, limit)
    }

    fn decorate(&self, outputs: &[OutPoint]) -> Result<Vec<Decorated>, StoreError> {
        check_len(outputs.len())?;
        let snapshot = self.kv.snapshot();
        let rows = Rows(&snapshot);
        let one = |outpoint: &OutPoint| -> Result<Decorated, StoreError> {
            let txid = outpoint.txid();
            let (Some(body), Some(record)) = (rows.body(txid)?, rows.record(txid)?) else {
                return Ok(Decorated::NoTransaction);
            };
            let Some(output) = body.outputs.get(outpoint.index() as usize) else {
                return Ok(Decorated::NoOutput);
            };
            let given = record.reassignments.iter().rfind(|r| r.vout == outpoint.index());
            let script = given.map_or(&output.script, |given| &given.script).clone();
            Ok(Decorated::Found(PreviousOutput { satoshis: output.satoshis, script }))
        };
        outputs.iter().map(one).collect()
    }

    fn delete(&self, txids: &[Txid]) -> Result<usize, StoreError> {
        check_len(txids.len())?;
        let held = self.locks.lock(txids);
        self.run(held, |workspace| {
            let mut deleted = 0;
            for txid in txids {
                deleted += usize::from(workspace.delete(txid)?);
            }
            Ok(deleted)
        })
    }

    fn block_state(&self) -> Result<Option<BlockState>, StoreError> {
        let Some(bytes) = self.kv.get(META, BLOCK_STATE)? else { return Ok(None) };
        let state = bytes.split_first_chunk::<4>().and_then(|(height, time)| {
            let median_time = u32::from_be_bytes(time.try_into().ok()?);
            Some(BlockState { height: Height::new(u32::from_be_bytes(*height)), median_time })
        });
        Ok(Some(state.ok_or_else(|| Corrupt::new("block state", "not 8 bytes long"))?))
    }

    fn set_block_state(&self, state: BlockState) -> Result<Result<(), NodeError>, StoreError> {
        if state.height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        let mut batch = Batch::new();
        let mut value = state.height.to_key().to_vec();
        value.extend(state.median_time.to_be_bytes());
        batch.put(META, BLOCK_STATE, &value);
        self.kv.commit(batch, self.durability)?;
        Ok(Ok(()))
    }
}
