//! What the pruner keeps in its store beside the records, so that every service of the store sees
//! it, and sees it again after a restart.

use utxokeep_txstore::{PruneStore, StoreError};

/// There while no run may start; its value is empty.
const PAUSED: &str = "pruner_paused";

/// Whether somebody asked for no run to start.
pub(crate) fn is_paused(store: &dyn PruneStore) -> Result<bool, StoreError> {
    Ok(store.named_state(PAUSED)?.is_some())
}

/// Asks for no run to start, or lets runs start again.
pub(crate) fn set_paused(store: &dyn PruneStore, is_paused: bool) -> Result<(), StoreError> {
    store.set_named_state(PAUSED, is_paused.then_some(&[]))
}
