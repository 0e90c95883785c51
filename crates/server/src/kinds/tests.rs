//! Every error that can be made by hand, with the kind and so the codes that users see.

mod below;
mod ledger;
mod mmr;
mod program;

use utxokeep::{
    config::ConfigError,
    cursor::CursorError,
    node_store,
    owners::{OwnerError, UnknownOutput},
    persister::PersisterError,
    store_follow::StoreFollowError,
    wallet_follow::WalletFollowError,
    wallets::{self, WalletsError},
};
use utxokeep_chains::{BodyError, LiveError, SourceError};
use utxokeep_index::{
    ApplyError, FollowError, IndexError, IndexOpenError, LogError, QueryError, RollbackError,
};
use utxokeep_kv::KvError;
use utxokeep_pruner::{PrunerError, RunError};
use utxokeep_sql::SqlError;
use utxokeep_txstore::{BlobUrlError, StoreError, WrongBlobStore};
use utxokeep_wallet::LedgerError;

use super::*;

/// What the tests know of one error.
struct Case {
    error: Box<dyn Error + Send + Sync>,
    kind: ErrorKind,
}

/// An error of somebody else around it.
#[derive(Debug, thiserror::Error)]
#[error("something failed")]
struct Wrapped(#[source] Box<dyn Error + Send + Sync>);

fn case(kind: ErrorKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Case {
    Case { error: error.into(), kind }
}

fn check(cases: Vec<Case>) {
    assert!(!cases.is_empty());
    for Case { error, kind } in cases {
        let found = kind_of(error.as_ref());
        assert_eq!(found, Some(kind), "{error:?}");
        let wrapped = anyhow::Error::new(Wrapped(error)).context("while something was done");
        assert_eq!(kind_of_chain(wrapped.chain()), kind, "{wrapped:?}");
    }
}

#[test]
fn codes_of_every_kind_are_pinned() {
    let pinned: [(ErrorKind, u8, u16, Code); 13] = [
        (ErrorKind::Invalid, 2, 400, Code::InvalidArgument),
        (ErrorKind::OutOfRange, 4, 400, Code::OutOfRange),
        (ErrorKind::Gone, 4, 410, Code::OutOfRange),
        (ErrorKind::NotFound, 3, 404, Code::NotFound),
        (ErrorKind::Exists, 4, 409, Code::AlreadyExists),
        (ErrorKind::Refused, 4, 409, Code::FailedPrecondition),
        (ErrorKind::NotReady, 4, 503, Code::Unavailable),
        (ErrorKind::Disabled, 4, 501, Code::Unimplemented),
        (ErrorKind::Overloaded, 1, 503, Code::ResourceExhausted),
        (ErrorKind::Unavailable, 1, 503, Code::Unavailable),
        (ErrorKind::Corrupt, 5, 500, Code::DataLoss),
        (ErrorKind::Failed, 1, 500, Code::Internal),
        (ErrorKind::Cancelled, 130, 503, Code::Cancelled),
    ];
    assert_eq!(pinned.map(|(kind, ..)| kind), ErrorKind::ALL);
    for (kind, exit, http, grpc) in pinned {
        let codes = Codes::of(kind);
        assert_eq!((codes.exit.code(), codes.http.as_u16(), codes.grpc), (exit, http, grpc));
    }
}

#[test]
fn an_error_that_only_failed_leaves_the_word_to_its_cause() {
    let damaged = IndexError::MissingRow { table: "t", key: "k".to_owned() };
    let chain = utxokeep_wallet::FollowError::Chain(damaged.into());
    assert_eq!(kind_of(&chain), Some(ErrorKind::Failed));
    let error = anyhow::Error::new(WalletFollowError::from(chain));
    assert_eq!(kind_of_chain(error.chain()), ErrorKind::Corrupt);
    let other = anyhow::anyhow!("none of ours");
    assert_eq!(kind_of_chain(other.chain()), ErrorKind::Failed);
}
