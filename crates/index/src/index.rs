//! Opening a chain index, and what it says of itself.

use std::sync::{Arc, Mutex, atomic::AtomicBool};

use utxokeep_core::{ChainPoint, Found, Height, Network, NotOpened, Opening, Partial, Totals};
use utxokeep_kv::{Durability, Kv, TableSize};

use crate::{
    ConsumerState, IndexSettings, TipSignal, View,
    error::{IndexError, IndexOpenError},
    meta::{self, FORMAT_VERSION, UPGRADES},
    mmr::MmrStanding,
    stats::Standing,
    switch::{self, SetStanding},
    tables::TABLES,
};

/// A chain index; clones share the database.
#[derive(Debug)]
pub struct ChainIndex<K> {
    pub(crate) kv: Arc<K>,
    pub(crate) settings: Arc<IndexSettings>,
    /// Set while a writer exists.
    pub(crate) has_writer: Arc<AtomicBool>,
    pub(crate) signal: TipSignal,
    /// Held while rows of named consumers are read and changed.
    pub(crate) consumer_rows: Arc<Mutex<()>>,
}

impl<K> Clone for ChainIndex<K> {
    fn clone(&self) -> Self {
        Self {
            kv: Arc::clone(&self.kv),
            settings: Arc::clone(&self.settings),
            has_writer: Arc::clone(&self.has_writer),
            signal: self.signal.clone(),
            consumer_rows: Arc::clone(&self.consumer_rows),
        }
    }
}

/// What a database says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexStatus {
    /// The network it follows.
    pub network: Network,
    /// The last applied block; `None` before the first.
    pub tip: Option<ChainPoint>,
    /// Time of that block, in seconds.
    pub tip_time: Option<u64>,
    /// Totals of the set at the tip; `None` while the index is off.
    pub totals: Option<Totals>,
    /// Height of the first block, when the index lacks the blocks before it.
    pub started_mid_chain_at: Option<Height>,
    /// In what way it is partial; `None` when it keeps everything.
    pub partial: Option<Partial>,
    /// Inputs that spent what the index never saw.
    pub missing_inputs: u64,
    /// Addresses and credentials of the filter; zero when everything is kept.
    pub filter_entries: usize,
    /// The deepest height that can still become the tip.
    pub rollback_floor: Option<Height>,
    /// Undo data exists for every block above this height; `None` while the index is off.
    pub undo_base: Option<Height>,
    /// Where the tables of the index stand.
    pub set_standing: SetStanding,
    /// Format of the database.
    pub format_version: u64,
    /// The Merkle mountain range, where one is kept.
    pub mmr: Option<MmrStanding>,
    /// Size of each table.
    pub tables: Vec<TableSize>,
}

impl<K: Kv> ChainIndex<K> {
    /// Takes an engine that has all tables the settings ask for, in the mode it was opened in.
    pub fn open(kv: K, settings: IndexSettings) -> Result<Self, IndexOpenError> {
        meta::check_mmr(&settings)?;
        let upgrades = meta::check(&kv, &settings, UPGRADES)?;
        let found = match &upgrades {
            None => Found::Nothing,
            Some(upgrades) if upgrades.is_empty() => Found::Current,
            Some(_) => Found::Older,
        };
        match kv.mode().decide(found) {
            Ok(Opening::Use) => {}
            Ok(Opening::Create | Opening::Upgrade) => {
                let batch = upgrades.unwrap_or_else(|| meta::create(&settings));
                kv.commit(batch, Durability::Synced)?;
            }
            Err(NotOpened::Missing) => return Err(IndexOpenError::Empty),
            Err(NotOpened::Outdated) => {
                return Err(IndexOpenError::OlderFormat { known: FORMAT_VERSION });
            }
        }
        if kv.mode().may_write() {
            switch::settle(&kv, &settings)?;
        }
        Ok(Self {
            kv: Arc::new(kv),
            settings: Arc::new(settings),
            has_writer: Arc::default(),
            signal: TipSignal::default(),
            consumer_rows: Arc::default(),
        })
    }

    /// Wakes readers of the log when its tip has moved.
    pub fn tip_signal(&self) -> &TipSignal {
        &self.signal
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &IndexSettings {
        &self.settings
    }

    /// A consistent view of everything, as of now.
    pub fn view(&self) -> Result<View<'_, K::Snapshot<'_>>, IndexError> {
        View::new(self.kv.snapshot(), &self.settings)
    }

    /// Tip, totals and sizes.
    pub fn status(&self) -> Result<IndexStatus, IndexError> {
        let view = self.view()?;
        let tip = view.tip();
        let set_standing = view.set_standing();
        let is_at_tip = set_standing.is_at_tip();
        let floor = if is_at_tip { view.floor()? } else { None };
        Ok(IndexStatus {
            network: self.settings.network(),
            tip: tip.map(|(height, entry)| entry.point(height)),
            tip_time: tip.map(|(_, entry)| entry.time),
            totals: is_at_tip.then(|| tip.map_or_else(Totals::default, |t| t.1.totals)),
            started_mid_chain_at: view.partial().and_then(|partial| partial.started_mid_chain_at),
            partial: view.partial(),
            missing_inputs: tip.map_or(0, |(_, entry)| entry.missing_inputs),
            filter_entries: self.settings.filter.len(),
            rollback_floor: floor,
            undo_base: floor.is_some().then(|| meta::undo_base(&view.read)).transpose()?,
            format_version: FORMAT_VERSION,
            set_standing,
            mmr: view.mmr_standing()?,
            tables: self.kv.table_sizes()?,
        })
    }

    /// Brings the gauges up to date.
    pub fn sample_metrics(&self) -> Result<(), IndexError> {
        let status = self.status()?;
        let name = TABLES[usize::from(crate::tables::ADDR.id().0)].name;
        let rows = status.tables.iter().find(|table| table.name == name);
        let height = status.tip.map(|tip| tip.height).unwrap_or_default();
        let undo_base = status.undo_base.unwrap_or_default();
        let prunable = self.settings.window.prunable(height).filter(|_| status.undo_base.is_some());
        for consumer in self.consumers()? {
            let is_attached = consumer.state == ConsumerState::Attached;
            crate::stats::consumer_stands(&consumer.name, consumer.lag_blocks(height), is_attached);
        }
        crate::stats::sampled(&Standing {
            height,
            totals: status.totals.unwrap_or_default(),
            missing_inputs: status.missing_inputs,
            address_rows: rows.map_or(0, |table| table.rows_estimate),
            floor: status.rollback_floor.unwrap_or_default(),
            undo_base,
            mmr: status.mmr,
            prune_due_blocks: prunable.and_then(|due| undo_base.depth_below(due)).unwrap_or(0),
        });
        Ok(())
    }

    /// Rewrites the tables so that deleted rows take no more space.
    pub fn compact(&self) -> Result<(), IndexError> {
        Ok(self.kv.compact()?)
    }

    /// The engine below, for tests and measurements that look at tables.
    pub fn engine(&self) -> &K {
        self.kv.as_ref()
    }
}
