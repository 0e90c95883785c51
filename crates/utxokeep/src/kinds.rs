//! What errors of the engine and of everything below it mean: their kind, by which each face chooses
//! what it answers with.

use std::error::Error;

use utxokeep_chains::{BodyError, LiveError, SourceError};
use utxokeep_core::ErrorKind;
use utxokeep_index::{
    ApplyError, CatchUpError, FollowError, IndexError, IndexOpenError, LogError, MmrEnableError,
    MmrError, QueryError, RollbackError,
};
use utxokeep_kv::KvError;
use utxokeep_pruner::{PrunerError, RunError};
use utxokeep_sql::SqlError;
use utxokeep_txstore::{BlobUrlError, StoreError, WrongBlobStore};
use utxokeep_wallet::LedgerError;

use crate::{
    catch_up::IndexCatchUpError,
    config::ConfigError,
    cursor::CursorError,
    engine::EngineError,
    memory::OverBudget,
    node_store,
    ops::{chain::ChainReadError, pruner::PrunerReadError, transactions::TransactionReadError},
    owners::{OwnerError, UnknownOutput},
    persister::PersisterError,
    store_bench::StoreBenchError,
    store_follow::StoreFollowError,
    stream::StreamError,
    wallet_follow::WalletFollowError,
    wallets::{self, WalletsError},
};

/// Returns the kind of an error that is one of these types.
#[doc(hidden)]
#[macro_export]
macro_rules! errors {
    ($any:ident: $($error:ty),+ $(,)?) => {
        $(
            if let Some(error) = $any.downcast_ref::<$error>() {
                return Some(error.kind());
            }
        )+
    };
}

/// What one error means; `None` where it is not one of ours.
#[must_use]
pub fn kind_of(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    errors! {
        error:
        ConfigError,
        OwnerError,
        UnknownOutput,
        CursorError,
        ChainReadError,
        PrunerReadError,
        TransactionReadError,
        EngineError,
        OverBudget,
        SourceError,
        LiveError,
        BodyError,
        MmrEnableError,
        MmrError,
        IndexOpenError,
        QueryError,
        ApplyError,
        RollbackError,
        FollowError,
        CatchUpError,
        IndexCatchUpError,
        LogError,
        IndexError,
        PersisterError,
        utxokeep_blobs::BlobError,
        StoreBenchError,
        StoreFollowError,
        StreamError,
        node_store::NodeStoreOpenError,
        BlobUrlError,
        WrongBlobStore,
        utxokeep_txstore::MoveError,
        utxokeep_txstore::StoreOpenError,
        StoreError,
        PrunerError,
        RunError,
        WalletsError,
        wallets::LedgerOpenError,
        WalletFollowError,
        utxokeep_wallet::FollowError,
        LedgerError,
        KvError,
        SqlError,
    }
    None
}
