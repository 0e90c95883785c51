//! Exit codes, and which error has which.

use std::{fmt::Write, io};

use utxokeep_chains::SourceError;
use utxokeep_index::{
    ApplyError, FollowError, LogError, OpenError, QueryError, RollbackError, StoreError,
};
use utxokeep_kv::KvError;
use utxokeep_pruner::PrunerError;
use utxokeep_sql::{MigrationError, SqlError};
use utxokeep_txstore::{StoreError as TxStoreError, WrongBlobStore};
use utxokeep_wallet::LedgerError;

use super::error::CliError;
use crate::{
    access::{AccessError, TokenError},
    config::ConfigError,
    doors::descriptors::TooFewDescriptors,
    node_store,
    owners::OwnerError,
    wallet_follow::WalletFollowError,
    wallets::{self, ErrorKind, WalletsError},
};

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Success,
    Failure,
    Usage,
    NotFound,
    Refused,
    Unsound,
    Interrupted,
}

/// Every exit code, as the help shows it.
pub(super) const EXITS: &[(Exit, &str)] = &[
    (Exit::Success, "done; single refused blocks of an import are in its report"),
    (Exit::Failure, "failed: a file, the disk or a server"),
    (Exit::Usage, "wrong usage: arguments or configuration"),
    (
        Exit::NotFound,
        "the output, block, transaction or wallet asked for is not known, or is not kept in a partial index",
    ),
    (
        Exit::Refused,
        "refused: no database, store or ledger, no blocks that could be used, in use, other network, format or setting, \
         out of window, a file that exists already, or the wallet does not allow it now",
    ),
    (Exit::Unsound, "damaged data or block files, or verify found something wrong"),
    (Exit::Interrupted, "stopped by Ctrl-C; what was done stays done"),
];

impl Exit {
    /// The number the shell sees.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unsound => 5,
            Self::Interrupted => 130,
        }
    }

    /// The code of an error: that of the first cause that has one.
    pub(super) fn of(error: &anyhow::Error) -> Self {
        error.chain().find_map(Self::of_cause).unwrap_or(Self::Failure)
    }

    fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Self> {
        if let Some(error) = cause.downcast_ref::<CliError>() {
            return Some(match error {
                // One code for every file that is there already.
                CliError::WriteFile { source, .. }
                    if source.kind() == io::ErrorKind::AlreadyExists =>
                {
                    Self::Refused
                }
                CliError::UnknownOutput(_)
                | CliError::UnknownTransaction { .. }
                | CliError::NotPreserved
                | CliError::NotRestored => Self::NotFound,
                CliError::RunAhead { .. }
                | CliError::HeightUnknown
                | CliError::HeightHeld { .. }
                | CliError::RunSkipped { .. }
                | CliError::NoUndo
                | CliError::RestoreRefused { .. }
                | CliError::NoKeychain { .. }
                | CliError::OtherContent { .. }
                | CliError::NoBlocks { .. }
                | CliError::PrunerRefused { .. }
                | CliError::PrunerWantsToken { .. } => Self::Refused,
                CliError::Gone { .. } => Self::Unsound,
                CliError::RunFailed { .. }
                | CliError::ReadFile { .. }
                | CliError::WriteFile { .. }
                | CliError::NotArchived { .. }
                | CliError::NoPruner { .. }
                | CliError::NoPrunerThere { .. }
                | CliError::PrunerFailed { .. } => Self::Failure,
                _ => Self::Usage,
            });
        }
        if let Some(error) = cause.downcast_ref::<SourceError>() {
            return Self::of_source(error);
        }
        if cause.is::<ConfigError>() || cause.is::<OwnerError>() || cause.is::<TooFewDescriptors>()
        {
            return Some(Self::Usage);
        }
        if let Some(error) = cause.downcast_ref::<AccessError>() {
            return Some(Self::of_access(error));
        }
        if let Some(error) = cause.downcast_ref::<TokenError>() {
            return Some(Self::of_token(error));
        }
        if let Some(error) = cause.downcast_ref::<OpenError>() {
            return Some(Self::of_open(error));
        }
        if let Some(error) = cause.downcast_ref::<QueryError>() {
            return Some(Self::of_query(error));
        }
        if let Some(error) = cause.downcast_ref::<RollbackError>() {
            return Some(Self::of_rollback(error));
        }
        if let Some(error) = cause.downcast_ref::<FollowError>() {
            return Some(Self::of_follow(error));
        }
        if let Some(error) = cause.downcast_ref::<LogError>() {
            return Some(Self::of_log(error));
        }
        if let Some(error) = cause.downcast_ref::<node_store::OpenError>() {
            return Some(Self::of_node_store(error));
        }
        // What is wrapped transparently has no place of its own among the causes.
        match cause.downcast_ref() {
            Some(PrunerError::Disagreement(_)) => return Some(Self::Refused),
            Some(PrunerError::Store(error)) => return Some(Self::of_tx_store(error)),
            _ => {}
        }
        if let Some(error) = cause.downcast_ref::<WalletsError>() {
            return Some(Self::of_wallets(error.kind()));
        }
        if let Some(error) = cause.downcast_ref::<wallets::OpenError>() {
            return Some(Self::of_wallets(error.kind()));
        }
        if let Some(error) = cause.downcast_ref::<WalletFollowError>() {
            return Self::of_wallet_follow(error);
        }
        if let Some(error) = cause.downcast_ref::<LedgerError>() {
            return Some(Self::of_wallets(ErrorKind::of(error)));
        }
        if let Some(error) = cause.downcast_ref::<TxStoreError>() {
            return Some(Self::of_tx_store(error));
        }
        if let Some(error) = cause.downcast_ref::<KvError>() {
            return Some(Self::of_kv(error));
        }
        cause.downcast_ref::<StoreError>().map(Self::of_store)
    }

    fn of_source(error: &SourceError) -> Option<Self> {
        match error {
            SourceError::Stopped => Some(Self::Interrupted),
            // What the disk says has a number; anything else is about the bytes.
            SourceError::Decompress { source, .. } if source.raw_os_error().is_none() => {
                Some(Self::Unsound)
            }
            _ => None,
        }
    }

    /// What is wrapped transparently has no place of its own among the causes.
    fn of_wallet_follow(error: &WalletFollowError) -> Option<Self> {
        use utxokeep_wallet::FollowError as LedgerFollowError;
        match error {
            WalletFollowError::ChainBehind { .. }
            | WalletFollowError::NotFollowed
            | WalletFollowError::ScanFailed { .. }
            | WalletFollowError::Follow(LedgerFollowError::NoCommonBlock { .. }) => {
                Some(Self::Refused)
            }
            WalletFollowError::Ledger(error)
            | WalletFollowError::Follow(LedgerFollowError::Ledger(error)) => {
                Some(Self::of_wallets(ErrorKind::of(error)))
            }
            WalletFollowError::Index(error) => Some(Self::of_store(error)),
            _ => None,
        }
    }

    pub(super) const fn of_wallets(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Invalid => Self::Usage,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Exists | ErrorKind::Refused => Self::Refused,
            ErrorKind::Damaged => Self::Unsound,
            ErrorKind::Unavailable | ErrorKind::Internal => Self::Failure,
        }
    }

    fn of_node_store(error: &node_store::OpenError) -> Self {
        use utxokeep_txstore::OpenError as TxOpenError;
        match error {
            node_store::OpenError::Store { source, .. } => match source {
                TxOpenError::Store(error) => Self::of_tx_store(error),
                TxOpenError::NewerFormat { .. }
                | TxOpenError::OlderFormat { .. }
                | TxOpenError::Disagreement(_) => Self::Refused,
                _ => Self::Failure,
            },
            node_store::OpenError::WrongBlobs(WrongBlobStore::Lost { .. }) => Self::Unsound,
            node_store::OpenError::WrongBlobs(_) | node_store::OpenError::Missing { .. } => {
                Self::Refused
            }
            _ => Self::Usage,
        }
    }

    fn of_tx_store(error: &TxStoreError) -> Self {
        match error {
            TxStoreError::Kv(error) => Self::of_kv(error),
            error if error.is_damage() => Self::Unsound,
            TxStoreError::Disagreement(_)
            | TxStoreError::Sql(SqlError::Migration(MigrationError::Outdated { .. })) => {
                Self::Refused
            }
            _ => Self::Failure,
        }
    }

    fn of_access(error: &AccessError) -> Self {
        match error {
            AccessError::Token(error) => Self::of_token(error),
            AccessError::Open { .. } => Self::Usage,
        }
    }

    const fn of_token(error: &TokenError) -> Self {
        match error {
            TokenError::Malformed { .. } | TokenError::NotAFile { .. } => Self::Usage,
            TokenError::Read { .. } | TokenError::Create { .. } => Self::Failure,
        }
    }

    fn of_open(error: &OpenError) -> Self {
        match error {
            OpenError::Store(store) => Self::of_store(store),
            _ => Self::Refused,
        }
    }

    fn of_query(error: &QueryError) -> Self {
        match error {
            QueryError::Store(store) => Self::of_store(store),
            QueryError::OwnerNotKept { .. }
            | QueryError::OutputNotKept { .. }
            | QueryError::BlockNotKept { .. }
            | QueryError::UnknownBlock { .. } => Self::NotFound,
            QueryError::NoSlots { .. } | QueryError::CursorElsewhere { .. } => Self::Usage,
            _ => Self::Refused,
        }
    }

    fn of_rollback(error: &RollbackError) -> Self {
        match error {
            RollbackError::Store(store) => Self::of_store(store),
            _ => Self::Refused,
        }
    }

    fn of_log(error: &LogError) -> Self {
        match error {
            LogError::BadName { .. } => Self::Usage,
            LogError::UnknownConsumer { .. } => Self::NotFound,
            LogError::Store(error) => Self::of_store(error),
            _ => Self::Refused,
        }
    }

    fn of_follow(error: &FollowError) -> Self {
        match error {
            FollowError::ReorganisationTooDeep { .. }
            | FollowError::NoCommonBlock { .. }
            | FollowError::Apply(ApplyError::WrongGenesis { .. } | ApplyError::NotFirst { .. }) => {
                Self::Refused
            }
            FollowError::Rollback(rollback) => Self::of_rollback(rollback),
            FollowError::Store(store) => Self::of_store(store),
            _ => Self::Failure,
        }
    }

    fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::Kv(error) => Self::of_kv(error),
            StoreError::Corrupt(_) | StoreError::MissingRow { .. } => Self::Unsound,
            _ => Self::Failure,
        }
    }

    const fn of_kv(error: &KvError) -> Self {
        match error {
            KvError::InUse { .. }
            | KvError::NotFound { .. }
            | KvError::Outdated { .. }
            | KvError::UnexpectedTable { .. } => Self::Refused,
            _ if error.is_damage() => Self::Unsound,
            _ => Self::Failure,
        }
    }
}

/// The list of exit codes under the help of the program.
pub(super) fn after_help() -> String {
    let mut out = String::from("Exit codes:\n");
    for (exit, meaning) in EXITS {
        let _ = writeln!(out, "  {:>3}  {meaning}", exit.code());
    }
    out.push_str(
        "\nResults go to stdout, everything else to stderr. UTXOKEEP_LOG filters logs more finely \
         than -v.",
    );
    out
}

#[cfg(test)]
mod tests {
    use utxokeep_core::Height;
    use utxokeep_sql::SqlError;

    use super::*;

    #[test]
    fn the_code_follows_from_the_typed_error_below_any_context() {
        let deep = RollbackError::TooDeep { target: Height::new(1), safe: Height::new(2) };
        let in_use = || KvError::InUse { path: "x".into() };
        let in_use_node_store = node_store::OpenError::Store {
            place: "x".to_owned(),
            source: utxokeep_txstore::OpenError::from(in_use()),
        };
        let no_engine = node_store::OpenError::UnknownEngine { engine: "x".to_owned() };
        let fraction = || SqlError::ColumnType {
            index: 1,
            expected: "an integer",
            found: "a fraction".to_owned(),
        };
        let cases: [(anyhow::Error, Exit); 16] = [
            (anyhow::Error::new(deep).context("rolling back"), Exit::Refused),
            (OpenError::from(in_use()).into(), Exit::Refused),
            (StoreError::from(in_use()).into(), Exit::Refused),
            (OpenError::from(KvError::Poisoned).into(), Exit::Failure),
            (in_use_node_store.into(), Exit::Refused),
            (no_engine.into(), Exit::Usage),
            (QueryError::Empty.into(), Exit::Refused),
            (WalletsError::from(LedgerError::WalletExists("x".to_owned())).into(), Exit::Refused),
            (LedgerError::WalletNameNotFound("x".to_owned()).into(), Exit::NotFound),
            (WalletsError::from(LedgerError::NoCodec).into(), Exit::Usage),
            (LedgerError::Damaged { what: "x".to_owned() }.into(), Exit::Unsound),
            (LedgerError::Sql(fraction()).into(), Exit::Unsound),
            (TxStoreError::Sql(fraction()).into(), Exit::Unsound),
            (wallets::OpenError::NoPlace { engine: "sqlite".to_owned() }.into(), Exit::Usage),
            (CliError::NoLedger.into(), Exit::Usage),
            (anyhow::anyhow!("anything else"), Exit::Failure),
        ];
        for (error, exit) in cases {
            assert_eq!(Exit::of(&error), exit, "{error:?}");
        }
    }

    #[test]
    fn every_code_is_documented_once() {
        let mut codes: Vec<u8> = EXITS.iter().map(|(exit, _)| exit.code()).collect();
        codes.dedup();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 130]);
    }
}
