//! Exit codes, and which error has which.

use std::fmt::Write;

use crate::kinds::{self, Codes};

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
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
    pub(crate) const fn code(self) -> u8 {
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

    /// The code of an error, by what its causes mean.
    pub(super) fn of(error: &anyhow::Error) -> Self {
        Codes::of(kinds::kind_of_chain(error.chain())).exit
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
    use utxokeep_index::{IndexError, IndexOpenError, QueryError, RollbackError};
    use utxokeep_kv::KvError;
    use utxokeep_sql::SqlError;
    use utxokeep_txstore::StoreError;
    use utxokeep_wallet::LedgerError;

    use super::*;
    use crate::{
        cli::CliError,
        node_store,
        wallets::{self, WalletsError},
    };

    #[test]
    fn the_code_follows_from_the_typed_error_below_any_context() {
        let deep = RollbackError::TooDeep { target: Height::new(1), safe: Height::new(2) };
        let in_use = || KvError::InUse { path: "x".into() };
        let in_use_node_store = node_store::NodeStoreOpenError::Store {
            place: "x".to_owned(),
            source: utxokeep_txstore::StoreOpenError::from(in_use()),
        };
        let no_engine = node_store::NodeStoreOpenError::UnknownEngine { engine: "x".to_owned() };
        let fraction = || SqlError::ColumnType {
            index: 1,
            expected: "an integer",
            found: "a fraction".to_owned(),
        };
        let cases: [(anyhow::Error, Exit); 16] = [
            (anyhow::Error::new(deep).context("rolling back"), Exit::Refused),
            (IndexOpenError::from(in_use()).into(), Exit::Refused),
            (IndexError::from(in_use()).into(), Exit::Refused),
            (IndexOpenError::from(KvError::Poisoned).into(), Exit::Failure),
            (in_use_node_store.into(), Exit::Refused),
            (no_engine.into(), Exit::Usage),
            (QueryError::Empty.into(), Exit::Refused),
            (WalletsError::from(LedgerError::WalletExists("x".to_owned())).into(), Exit::Refused),
            (LedgerError::WalletNameNotFound("x".to_owned()).into(), Exit::NotFound),
            (WalletsError::from(LedgerError::NoCodec).into(), Exit::Usage),
            (LedgerError::Damaged { what: "x".to_owned() }.into(), Exit::Unsound),
            (LedgerError::Sql(fraction()).into(), Exit::Unsound),
            (StoreError::Sql(fraction()).into(), Exit::Unsound),
            (wallets::LedgerOpenError::NoPlace { engine: "sqlite".to_owned() }.into(), Exit::Usage),
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
