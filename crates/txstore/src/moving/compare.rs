//! Comparing two stores that stand still.

use utxokeep_core::hex_encode;

use super::{
    STATES_AT_ONCE,
    walk::{differing, next_states, next_txs},
};
use crate::{engine::NodeStore, error::StoreError};

/// Differences after which a comparison goes on counting only.
const SHOWN_MAX: usize = 100;

/// Something that two stores do not have alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreDifference {
    /// A transaction by its id, or a value of the store by its name.
    pub what: String,
    /// In what they differ.
    pub difference: &'static str,
}

/// What a comparison of two stores found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreComparison {
    /// Transactions that were compared, those that one store lacks included.
    pub transactions: u64,
    /// How many transactions and values differ.
    pub differing: u64,
    /// The first of them.
    pub differences: Vec<StoreDifference>,
}

impl StoreComparison {
    fn add(&mut self, what: String, difference: &'static str) {
        self.differing += 1;
        if self.differences.len() < SHOWN_MAX {
            self.differences.push(StoreDifference { what, difference });
        }
    }
}

/// Compares two stores; nothing is written. Values that only engines or moves have are left out.
pub fn compare_stores(
    one: &NodeStore,
    other: &NodeStore,
    batch: usize,
    watch: &mut dyn FnMut(u64),
) -> Result<StoreComparison, StoreError> {
    let mut found = StoreComparison::default();
    let mut after = None;
    loop {
        let page = next_txs(one, other, after.as_ref(), batch, true)?;
        for (txid, difference) in differing(other, &page)? {
            found.add(hex_encode(txid.as_bytes()), difference);
        }
        found.transactions += page.txids.len() as u64;
        watch(found.transactions);
        after = page.txids.last().copied().or(after);
        if page.is_last {
            break;
        }
    }
    let mut after: Option<String> = None;
    loop {
        let (states, last) = next_states(one, other, after.as_deref(), STATES_AT_ONCE)?;
        for (name, value) in states {
            found.add(name, if value.is_some() { "value" } else { "not expected" });
        }
        match last {
            Some(last) => after = Some(last),
            None => return Ok(found),
        }
    }
}
