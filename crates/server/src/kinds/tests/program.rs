//! Errors of the program itself: command line, configuration, access, operations of wallets.

use std::io;

use utxokeep_core::{Height, Network, Txid};

use super::*;

const NETWORK: Network = Network::CardanoPreview;

fn text() -> String {
    "x".to_owned()
}

fn disk() -> io::Error {
    io::Error::from_raw_os_error(5)
}

fn cases(kind: ErrorKind, errors: Vec<CliError>) -> Vec<Case> {
    errors.into_iter().map(|error| case(kind, error)).collect()
}

#[test]
fn usage_that_cannot_be_right() {
    let path = || "x".into();
    let no_json = serde_json::from_str::<u8>("x").unwrap_err();
    check(cases(
        ErrorKind::Invalid,
        vec![
            CliError::NoNetwork,
            CliError::NoSource,
            CliError::NoNodeStore,
            CliError::SameStore { place: text() },
            CliError::NoBlobStore,
            CliError::NoPersistedPlace,
            CliError::NoLogToRecover,
            CliError::ArchiveIsLedger { path: path() },
            CliError::BadAddress { text: text() },
            CliError::WrongChain { chain: text(), network: NETWORK },
            CliError::WrongFlag { flag: "--x", network: NETWORK },
            CliError::NoLedger,
            CliError::FileTooLong { path: path(), bytes_max: 1 },
            CliError::BadParts { path: path(), source: no_json },
        ],
    ));
}

#[test]
fn commands_that_are_refused_or_fail() {
    let path = || "x".into();
    let exists = || io::ErrorKind::AlreadyExists.into();
    let (asked, newest) = (Height::new(2), Height::new(1));
    check(cases(ErrorKind::NotFound, vec![CliError::NotPreserved, CliError::NotRestored]));
    check(cases(ErrorKind::Exists, vec![CliError::WriteFile { path: path(), source: exists() }]));
    check(cases(
        ErrorKind::Refused,
        vec![
            CliError::RunAhead { asked, newest },
            CliError::HeightUnknown,
            CliError::HeightHeld { held: 1 },
            CliError::RunSkipped { reason: text() },
            CliError::NoUndo,
            CliError::OtherContent { path: path() },
            CliError::NoBlocks { path: path() },
            CliError::PrunerRefused { message: text() },
            CliError::PrunerWantsToken { address: text() },
        ],
    ));
    check(cases(
        ErrorKind::Unavailable,
        vec![CliError::NoPruner { tried: text() }, CliError::NoPrunerThere { address: text() }],
    ));
    check(cases(
        ErrorKind::Failed,
        vec![
            CliError::RunFailed { error: text() },
            CliError::ReadFile { path: path(), source: disk() },
            CliError::WriteFile { path: path(), source: disk() },
            CliError::NotArchived { path: path(), source: disk() },
            CliError::PrunerFailed { address: text(), message: text() },
        ],
    ));
}

#[test]
fn errors_of_configuration_and_access() {
    let (file, source) = (|| "x".into(), disk());
    let token = TokenError::Malformed { file: file() };
    let unknown = UnknownOutput { tx_hash: text(), index: 0, height: Height::new(2) };
    let listen = "0.0.0.0:1".parse().unwrap();
    let open = AccessError::Open { face: "REST", listen, setting: "x" };
    check(vec![
        case(ErrorKind::Invalid, ConfigError::NoFilter { network: NETWORK }),
        case(ErrorKind::Invalid, ConfigError::Read { path: file(), source }),
        case(ErrorKind::Invalid, OwnerError::NoCredentials { network: NETWORK }),
        case(ErrorKind::Invalid, OwnerError::NoAssets { network: NETWORK }),
        case(ErrorKind::Invalid, CursorError::OtherQuestion),
        case(ErrorKind::Invalid, ChainReadError::from(CursorError::Malformed)),
        case(ErrorKind::Invalid, ChainReadError::BadOutput { text: text() }),
        case(ErrorKind::Disabled, ChainReadError::ReadsWholeSet),
        case(ErrorKind::NotFound, ChainReadError::from(unknown)),
        case(ErrorKind::Invalid, TransactionReadError::BadTxid { text: text() }),
        case(ErrorKind::Invalid, TransactionReadError::NoHeight),
        case(ErrorKind::NotFound, TransactionReadError::Unknown { txid: Txid::default() }),
        case(ErrorKind::NotFound, PrunerReadError::Unknown { txid: Txid::default() }),
        case(ErrorKind::Invalid, PrunerReadError::BadParameter(text())),
        case(ErrorKind::Refused, PrunerReadError::from(PrunerError::NoHeight)),
        case(ErrorKind::Refused, PrunerReadError::from(PrunerError::NothingPersisted)),
        case(ErrorKind::Invalid, open),
        case(ErrorKind::Invalid, AccessError::from(token)),
        case(ErrorKind::Invalid, TokenError::NotAFile { file: file() }),
        case(ErrorKind::Failed, TokenError::Read { file: file(), source: disk() }),
        case(ErrorKind::Failed, TokenError::Create { file: file(), source: disk() }),
    ]);
}

#[test]
fn errors_of_wallet_operations() {
    let owner = OwnerError::NoCredentials { network: NETWORK };
    let unknown = Network::find("x", "y").unwrap_err();
    let differ = WalletsError::TipsDiffer { ledger: text(), chain: text(), advice: "x" };
    check(vec![
        case(ErrorKind::Invalid, WalletsError::from(owner)),
        case(ErrorKind::Invalid, WalletsError::from(unknown)),
        case(ErrorKind::Invalid, WalletsError::Field { field: "x", what: text() }),
        case(ErrorKind::Invalid, WalletsError::WrongChain { what: "x", network: NETWORK }),
        case(ErrorKind::Refused, WalletsError::NoChain),
        case(ErrorKind::Refused, WalletsError::FollowsChain),
        case(ErrorKind::Refused, WalletsError::PartialChain),
        case(ErrorKind::Refused, differ),
        case(ErrorKind::Refused, WalletsError::BelowChain { from: 1, first: 2 }),
        case(ErrorKind::Refused, WalletsError::from(QueryError::Empty)),
        case(ErrorKind::Refused, WalletsError::from(QueryError::UnknownBlock { hash: text() })),
        case(ErrorKind::Invalid, wallets::LedgerOpenError::UnknownEngine { engine: text() }),
        case(ErrorKind::Invalid, wallets::LedgerOpenError::NoPlace { engine: text() }),
        case(ErrorKind::Refused, wallets::LedgerOpenError::Missing { place: text() }),
    ]);
}
