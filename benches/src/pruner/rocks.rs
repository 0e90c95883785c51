//! Deletion on RocksDB beside the same rows read and deleted bare.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use utxokeep_core::{Height, OutPoint, Txid};
use utxokeep_kv::{Batch, Durability, Kv, OpenMode, Read, RocksKv, RocksOptions, TableId, Use};
use utxokeep_txstore::{NodeStore, PruneStore, StoreSettings, TABLES};

use super::{Family, Pace, fill, prune, rules};
use crate::output;

fn open_kv(dir: &Path) -> anyhow::Result<RocksKv> {
    let options = RocksOptions::within(256 << 20).for_use(Use::ManyWriters);
    Ok(RocksKv::open(dir, TABLES, options, OpenMode::Create)?)
}

pub(super) fn open(dir: &Path) -> anyhow::Result<Arc<NodeStore>> {
    Ok(Arc::new(open_with(dir, Durability::Buffered)?))
}

pub(super) fn open_with(dir: &Path, durability: Durability) -> anyhow::Result<NodeStore> {
    Ok(NodeStore::on_kv(open_kv(dir)?, StoreSettings::default(), durability)?)
}

/// Deletes the rows of these records without asking anything.
fn delete_bare(
    kv: &RocksKv,
    txids: &[Txid],
    children: u32,
    due: Height,
) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut batch = Batch::new();
    for txid in txids {
        batch.delete(TableId(1), txid.as_bytes());
        batch.delete(TableId(3), txid.as_bytes());
        for vout in 0..children {
            batch.delete(TableId(2), &OutPoint::new(*txid, vout).to_key());
        }
        batch.delete(TableId(4), &[due.to_key().as_slice(), txid.as_bytes()].concat());
    }
    kv.commit(batch, Durability::Buffered)?;
    Ok(started.elapsed())
}

/// Reads the rows of these records, then deletes them: what nobody who looks first can beat.
fn read_and_delete(
    kv: &RocksKv,
    txids: &[Txid],
    children: u32,
    due: Height,
) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut sorted: Vec<Txid> = txids.to_vec();
    sorted.sort_unstable();
    let keys: Vec<&[u8]> = sorted.iter().map(|txid| txid.as_bytes().as_slice()).collect();
    let mut bytes = 0;
    for table in [1, 3] {
        kv.multi_get(TableId(table), &keys, &mut |_, row| bytes += row.map_or(0, <[u8]>::len))?;
    }
    let outputs = sorted.iter().flat_map(|id| (0..children).map(|n| OutPoint::new(*id, n)));
    let outputs: Vec<_> = outputs.map(OutPoint::to_key).collect();
    let keys: Vec<&[u8]> = outputs.iter().map(<[u8; 36]>::as_slice).collect();
    kv.multi_get(TableId(2), &keys, &mut |_, row| bytes += row.map_or(0, <[u8]>::len))?;
    anyhow::ensure!(bytes > 0, "nothing was read");
    Ok(started.elapsed() + delete_bare(kv, txids, children, due)?)
}

/// Every way gets a chunk in turn, so that whatever else the machine does hits all alike. Loading
/// what is known of children counts as part of the first verified chunk.
pub(super) fn measure(dir: &Path, family: Family) -> anyhow::Result<()> {
    let (place, bare_place) = (dir.join("prune-store"), dir.join("prune-bare"));
    fill::parents(&*open(&bare_place)?, family)?;
    let kv = open_kv(&bare_place)?;
    let store = open(&place)?;
    fill::parents(&*store, family)?;
    let (children, due, chunk) = (family.children, family.due(), family.chunk());
    let [verified, unverified] = rules(due);
    let mut paces: [Pace; 4] = Default::default();
    let (mut after, mut loading) = (None, None);
    loop {
        let page = store.due(due, after, 2 * chunk)?;
        let txids: Vec<Txid> = page.iter().map(|(_, txid)| *txid).collect();
        if txids.len() < 2 * chunk {
            break;
        }
        let (first, second) = txids.split_at(chunk);
        let took = prune(&*store, first, &verified)?;
        loading.get_or_insert(took);
        paces[0].add(chunk, took)?;
        paces[1].add(chunk, prune(&*store, second, &unverified)?)?;
        paces[2].add(chunk, read_and_delete(&kv, first, children, due)?)?;
        paces[3].add(chunk, delete_bare(&kv, second, children, due)?)?;
        after = page.last().copied();
    }
    let [own, unverified, read, bare] = paces.each_ref().map(Pace::per_second);
    output::line(&format!(
        "{}: verified {own:.0}, unverified {unverified:.0} ({:.2}), bare reads and deletes of the \
         same rows {read:.0} ({:.2}), bare deletes {bare:.0} ({:.2}); first chunk {:.1?}",
        family.name(),
        own / unverified,
        own / read,
        own / bare,
        loading.unwrap_or_default()
    ));
    drop((store, kv));
    std::fs::remove_dir_all(&place)?;
    std::fs::remove_dir_all(&bare_place)?;
    Ok(())
}
