//! What the check of the tree does where the window is too large for memory, and where the engine
//! fails.

use utxokeep_chains::{Simulator, SimulatorConfig, decode_block};
use utxokeep_core::Network;
use utxokeep_kv::{Batch, Durability, Kv as _, KvError, MemoryKv, TableId, Visitor};

use super::*;
use crate::{
    ChainIndex, ChainWriter, IndexSettings, View,
    tables::{DELTA, TABLES},
    verify::Finding,
};

const NETWORK: Network = Network::BitcoinRegtest;

fn index(rule: MmrRule) -> ChainIndex<MemoryKv> {
    let settings = IndexSettings::new(NETWORK).with(|settings| settings.mmr = Some(rule));
    let index = ChainIndex::open(MemoryKv::new(TABLES), settings).unwrap();
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let mut simulator = Simulator::new(SimulatorConfig {
        seed: 17,
        txs_per_block: 3..7,
        reorg_percent: 0,
        ..SimulatorConfig::default()
    });
    for _ in 0..60 {
        writer.apply(&decode_block(simulator.mine_next().1, NETWORK).unwrap()).unwrap();
    }
    index
}

fn verified<S: Read>(view: &View<'_, S>, rows_max: usize) -> Result<Vec<Finding>, IndexError> {
    let mut progress = |_: &'static str, _: u64| {};
    let mut check = Check::new(view, VerifyReport::default(), &mut progress);
    verify_within(&mut check, rows_max)?;
    Ok(check.report.findings)
}

/// The peaks that the oldest delta names are in no root of the window.
#[test]
fn a_window_that_is_too_large_is_gone_back_through_in_steps() {
    for rule in [MmrRule::Tombstone, MmrRule::Utreexo] {
        let index = index(rule);
        let view = index.view().unwrap();
        for rows_max in [0, 1, 40, REWOUND_ROWS_MAX] {
            assert_eq!(verified(&view, rows_max).unwrap(), [], "{rule} {rows_max}");
        }
        drop(view);
        let oldest = Height::new(1);
        let kv = index.engine();
        let mut delta = read_delta(kv, oldest).unwrap();
        delta.mmr.as_mut().unwrap().peaks_before.push([7; 32]);
        let mut batch = Batch::new();
        DELTA.put(&mut batch, &oldest, &delta);
        kv.commit(batch, Durability::Synced).unwrap();
        let view = index.view().unwrap();
        for (rows_max, expected) in [
            (0, "going back to height 0 does not give the peaks it had"),
            (REWOUND_ROWS_MAX, "undoing height 1 does not give the peaks from before it"),
        ] {
            let found = verified(&view, rows_max).unwrap();
            let is_named = found.iter().any(|finding| finding.detail.contains(expected));
            assert!(is_named, "{rule} {rows_max}: {found:?}");
        }
    }
}

/// Tables whose disk fails.
struct Failing<'r, R>(&'r R, TableId);

impl<R: Read> Failing<'_, R> {
    fn may_read(&self, table: TableId) -> Result<(), KvError> {
        if table == self.1 { Err(KvError::Poisoned) } else { Ok(()) }
    }
}

impl<R: Read> Read for Failing<'_, R> {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.may_read(table)?;
        self.0.get(table, key)
    }

    fn multi_get(
        &self,
        table: TableId,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), KvError> {
        self.may_read(table)?;
        self.0.multi_get(table, keys, found)
    }

    // What goes through whole tables succeeds: only single reads fail.
    fn scan(
        &self,
        table: TableId,
        scan: &Scan<'_>,
        visit: &mut Visitor<'_>,
    ) -> Result<usize, KvError> {
        self.0.scan(table, scan, visit)
    }
}

/// A disk that fails is no damage of the tree.
#[test]
fn an_engine_that_fails_is_an_error_and_no_finding() {
    let index = index(MmrRule::Tombstone);
    for table in [MMR_PLACES.id(), MMR_NODES.id(), DELTA.id()] {
        let read = Failing(index.engine(), table);
        let view = View::new(read, index.settings()).unwrap();
        let result = verified(&view, REWOUND_ROWS_MAX);
        assert!(matches!(result, Err(IndexError::Kv(KvError::Poisoned))), "{table:?}: {result:?}");
    }
}
