//! Errors of the crates below: engines, sources, index, node store, pruner.

use std::io;

use utxokeep_core::{
    BlockHash, Corrupt, Height, InvalidBlock, Network, OutPoint, Partial, Txid, node::Disagreement,
};
use utxokeep_pruner::{Phase, RunReport, SettingsError};
use utxokeep_sql::{ConstraintKind, MigrationError, RetryReason};

use super::*;

const NETWORK: Network = Network::CardanoPreview;
const HASH: BlockHash = BlockHash::from_bytes([7; 32]);

fn height(raw: u32) -> Height {
    Height::new(raw)
}

fn text() -> String {
    "x".to_owned()
}

fn kv_errors() -> Vec<(ErrorKind, KvError)> {
    let path = || "x".into();
    vec![
        (ErrorKind::NotReady, KvError::InUse { path: path() }),
        (ErrorKind::Refused, KvError::NotFound { path: path() }),
        (ErrorKind::Refused, KvError::Outdated { path: path(), table: "t" }),
        (ErrorKind::Refused, KvError::UnexpectedTable { name: text() }),
        (ErrorKind::Failed, KvError::ReadOnly),
        (
            ErrorKind::Corrupt,
            KvError::LostFile { path: path(), file: text(), beside: text(), way_on: "x" },
        ),
        (ErrorKind::Corrupt, KvError::LostTable { path: path(), table: "t" }),
        (ErrorKind::Cancelled, KvError::Unwanted),
        (
            ErrorKind::Corrupt,
            KvError::LogDamaged { path: path(), file: text(), offset: 1, what: "x", rows: 2 },
        ),
        (ErrorKind::Corrupt, KvError::Damaged { op: "get", source: "x".into() }),
        (ErrorKind::Unavailable, KvError::DiskFull { op: "commit", source: "x".into() }),
        (ErrorKind::Corrupt, KvError::Corrupt { table: "t", detail: text() }),
        (ErrorKind::Failed, KvError::Poisoned),
        (ErrorKind::Failed, KvError::Engine { op: "get", source: "x".into() }),
    ]
}

fn sql_errors() -> Vec<(ErrorKind, SqlError)> {
    let missing = || MigrationError::Missing { component: text() };
    vec![
        (ErrorKind::Invalid, SqlError::Config { what: text() }),
        (ErrorKind::Failed, SqlError::Unsuitable { what: text() }),
        (ErrorKind::Unavailable, SqlError::Unavailable { source: "x".into() }),
        (
            ErrorKind::Unavailable,
            SqlError::Transient { reason: RetryReason::Busy, source: "x".into() },
        ),
        (
            ErrorKind::Unavailable,
            SqlError::RetriesExhausted { attempts: 3, source: Box::new(SqlError::Aborted) },
        ),
        (ErrorKind::Unavailable, SqlError::CommitUnknown { source: "x".into() }),
        (
            ErrorKind::Failed,
            SqlError::Constraint { kind: ConstraintKind::Check, name: text(), source: "x".into() },
        ),
        (ErrorKind::Unavailable, SqlError::StatementTimeout { timeout_ms: 1 }),
        (ErrorKind::Cancelled, SqlError::Unwanted),
        (ErrorKind::Failed, SqlError::Aborted),
        (ErrorKind::Corrupt, SqlError::ColumnType { index: 0, expected: "x", found: text() }),
        (ErrorKind::Failed, SqlError::ColumnMissing { index: 0, columns: 0 }),
        (ErrorKind::Failed, SqlError::Usage { what: text() }),
        (ErrorKind::Corrupt, SqlError::LostFile { file: "x".into(), log: "y".into() }),
        (ErrorKind::Refused, SqlError::NotFound { file: "x".into() }),
        (ErrorKind::Failed, SqlError::ReadOnly),
        (ErrorKind::Invalid, SqlError::NulInText),
        (ErrorKind::Corrupt, SqlError::BadRow { what: text() }),
        (ErrorKind::Unavailable, SqlError::DiskFull { source: "x".into() }),
        (ErrorKind::Corrupt, SqlError::Damaged { source: "x".into() }),
        (ErrorKind::Refused, SqlError::Migration(missing())),
        (ErrorKind::Failed, SqlError::Engine { source: "x".into() }),
    ]
}

#[test]
fn errors_of_the_engines_are_the_same_in_whatever_wraps_them() {
    let mut cases = Vec::new();
    for (at, (kind, error)) in kv_errors().into_iter().enumerate() {
        let again = || kv_errors().swap_remove(at).1;
        cases.push(case(kind, error));
        cases.push(case(kind, IndexError::from(again())));
        cases.push(case(kind, IndexOpenError::from(again())));
        cases.push(case(kind, QueryError::from(again())));
        cases.push(case(kind, RollbackError::from(again())));
        cases.push(case(kind, ApplyError::from(again())));
        cases.push(case(kind, FollowError::from(again())));
        cases.push(case(kind, FollowError::Apply(again().into())));
        cases.push(case(kind, LogError::from(again())));
        cases.push(case(kind, WalletsError::from(IndexError::from(again()))));
        // A call of the node store may be repeated after its engine failed.
        let kind = if kind == ErrorKind::Failed { ErrorKind::Unavailable } else { kind };
        cases.push(case(kind, StoreError::from(again())));
        cases.push(case(kind, utxokeep_txstore::StoreOpenError::from(again())));
        cases.push(case(kind, PrunerError::Store(again().into())));
        let source = utxokeep_txstore::StoreOpenError::from(again());
        cases.push(case(kind, node_store::NodeStoreOpenError::Store { place: text(), source }));
    }
    for (at, (kind, error)) in sql_errors().into_iter().enumerate() {
        let again = || sql_errors().swap_remove(at).1;
        cases.push(case(kind, error));
        cases.push(case(kind, LedgerError::from(again())));
        cases.push(case(kind, WalletsError::from(again())));
        cases.push(case(kind, WalletFollowError::from(LedgerError::from(again()))));
        let source = LedgerError::from(again());
        cases.push(case(kind, wallets::LedgerOpenError::Ledger { place: text(), source }));
        let kind = if kind == ErrorKind::Failed { ErrorKind::Unavailable } else { kind };
        cases.push(case(kind, StoreError::from(again())));
    }
    check(cases);
}

#[test]
fn errors_of_sources() {
    use utxokeep_chains::{DecodeError, TooLarge};
    let (path, disk) = (|| "x".into(), || io::Error::from_raw_os_error(5));
    let bytes = || io::Error::other("bad bytes");
    let reason = TooLarge::Limit { bytes_max: 1 };
    check(vec![
        case(ErrorKind::Failed, SourceError::Read { path: path(), source: disk() }),
        case(ErrorKind::Corrupt, SourceError::Decompress { path: path(), source: bytes() }),
        case(ErrorKind::Failed, SourceError::Decompress { path: path(), source: disk() }),
        case(ErrorKind::Failed, SourceError::Spool { dir: path(), source: disk() }),
        case(ErrorKind::Failed, SourceError::UnpacksTooLarge { path: path(), reason }),
        case(ErrorKind::Cancelled, SourceError::Stopped),
        case(ErrorKind::Failed, SourceError::Write { path: path(), source: disk() }),
        case(ErrorKind::Failed, SourceError::NoFiles { path: path() }),
        case(ErrorKind::Failed, SourceError::NoBlocks { path: path(), network: NETWORK }),
        case(ErrorKind::Failed, SourceError::WrongNetwork { path: path(), found: NETWORK }),
        case(ErrorKind::Failed, SourceError::BadXorKey { path: path(), len: 7 }),
        case(ErrorKind::Failed, SourceError::NoChunks { path: path() }),
        case(ErrorKind::Failed, SourceError::MissingChunkFile { path: path() }),
        case(ErrorKind::Failed, SourceError::BadChunkIndex { path: path(), entry: 1 }),
        case(ErrorKind::Failed, SourceError::TruncatedChunk { path: path(), offset: 1 }),
        case(ErrorKind::Failed, SourceError::DamagedChunk { path: path(), offset: 1 }),
        case(ErrorKind::Failed, SourceError::BadHex { path: path(), offset: 1 }),
        case(ErrorKind::Failed, SourceError::BlockTooLong { len: 1 }),
        case(ErrorKind::Unavailable, LiveError::Away("x".into())),
        case(ErrorKind::Unavailable, LiveError::Behind("x".into())),
        case(ErrorKind::Failed, LiveError::Refused("x".into())),
        case(ErrorKind::Cancelled, BodyError::from(SourceError::Stopped)),
        case(ErrorKind::Failed, BodyError::from(DecodeError::Truncated { offset: 1 })),
        case(ErrorKind::Cancelled, BodyError::Stopped),
    ]);
}

#[test]
fn errors_of_the_index() {
    let (one, two) = (height(1), height(2));
    let partial = Partial { started_mid_chain_at: Some(one), filter_entries: 0 };
    let name = "address_hash";
    check(vec![
        case(ErrorKind::Corrupt, IndexError::from(Corrupt::new("x", "y"))),
        case(ErrorKind::Failed, IndexError::SecondWriter),
        case(ErrorKind::Refused, IndexOpenError::WrongNetwork { found: text(), asked: NETWORK }),
        case(ErrorKind::Refused, IndexOpenError::NewerFormat { found: 2, known: 1 }),
        case(ErrorKind::Refused, IndexOpenError::OlderFormat { known: 1 }),
        case(ErrorKind::Refused, IndexOpenError::Empty),
        case(
            ErrorKind::Refused,
            IndexOpenError::SettingChanged { name, found: true, asked: false },
        ),
        case(ErrorKind::Refused, IndexOpenError::FilterChanged { found: 1, asked: 2 }),
        case(ErrorKind::Refused, IndexOpenError::GenesisChanged),
        case(ErrorKind::Refused, IndexOpenError::NotOurs),
        case(ErrorKind::OutOfRange, RollbackError::TooDeep { target: one, safe: two }),
        case(ErrorKind::OutOfRange, RollbackError::AboveTip { target: two, tip: one }),
        case(ErrorKind::NotReady, RollbackError::Empty),
        case(ErrorKind::Disabled, QueryError::Disabled),
        case(ErrorKind::Disabled, QueryError::IndexOff { name }),
        case(ErrorKind::NotFound, QueryError::OwnerNotKept { partial }),
        case(ErrorKind::NotFound, QueryError::OutputNotKept { partial }),
        case(ErrorKind::NotFound, QueryError::BlockNotKept { block: text(), start: one, partial }),
        case(ErrorKind::NotReady, QueryError::Empty),
        case(ErrorKind::OutOfRange, QueryError::OutsideWindow { asked: one, floor: two, tip: two }),
        case(
            ErrorKind::OutOfRange,
            QueryError::SlotOutsideWindow {
                asked: 1,
                floor: two,
                floor_slot: 2,
                tip: two,
                tip_slot: 2,
            },
        ),
        case(ErrorKind::Invalid, QueryError::NoSlots { network: NETWORK }),
        case(ErrorKind::NotFound, QueryError::UnknownBlock { hash: text() }),
        case(ErrorKind::Refused, QueryError::BlockGone { hash: NETWORK.hash(HASH) }),
        case(ErrorKind::Invalid, QueryError::CursorElsewhere { cursor: one, asked: two }),
        case(ErrorKind::OutOfRange, QueryError::TooManyRows { max: 1 }),
        case(ErrorKind::OutOfRange, LogError::UnknownCursor { height: one, start_from: two }),
        case(ErrorKind::OutOfRange, LogError::PastWindow { height: one, start_from: two }),
        case(ErrorKind::Disabled, LogError::Disabled),
        case(ErrorKind::Invalid, LogError::BadName { name: text() }),
        case(ErrorKind::Refused, LogError::TooMany),
        case(ErrorKind::NotFound, LogError::UnknownConsumer { name: text() }),
    ]);
}

#[test]
fn errors_of_following() {
    let hash = NETWORK.hash(HASH);
    let (one, two) = (height(1), height(2));
    let txid = Txid::from_bytes([7; 32]);
    let outpoint = OutPoint::new(txid, 3);
    let reason = || InvalidBlock::MissingOrSpent { tx: txid, outpoint };
    let gap = || ApplyError::Gap { hash, prev: hash, tip: None };
    let conflict = || ApplyError::Conflict { hash, height: one, existing: hash };
    let genesis = || ApplyError::WrongGenesis { expected: hash, found: hash };
    let first = || ApplyError::NotFirst { hash };
    let invalid = || ApplyError::Invalid { hash, height: one, reason: reason() };
    let too_deep = RollbackError::TooDeep { target: one, safe: two };
    check(vec![
        case(ErrorKind::Refused, gap()),
        case(ErrorKind::Refused, conflict()),
        case(ErrorKind::Refused, genesis()),
        case(ErrorKind::Refused, first()),
        case(ErrorKind::Invalid, invalid()),
        // The source is at fault.
        case(ErrorKind::Failed, FollowError::from(gap())),
        case(ErrorKind::Failed, FollowError::from(conflict())),
        case(ErrorKind::Failed, FollowError::from(invalid())),
        case(ErrorKind::Refused, FollowError::from(genesis())),
        case(ErrorKind::Refused, FollowError::from(first())),
        case(ErrorKind::OutOfRange, FollowError::from(too_deep)),
        case(ErrorKind::Cancelled, FollowError::from(SourceError::Stopped)),
        case(
            ErrorKind::Refused,
            FollowError::ReorganisationTooDeep { tip: hash, fork: one, safe: two },
        ),
        case(ErrorKind::Refused, FollowError::NoCommonBlock { safe: one, tip: two, last_slot: 3 }),
        case(ErrorKind::Failed, FollowError::NoFirstBlock),
        case(ErrorKind::Failed, FollowError::OtherBlock { hash, found: hash }),
        case(ErrorKind::Failed, FollowError::UnknownPoint { hash: text() }),
        case(ErrorKind::Failed, FollowError::MissingBody { hash, height: one }),
    ]);
}

#[test]
fn errors_of_node_store_and_pruner() {
    use utxokeep_txstore::StoreOpenError;
    let txid = Txid::from_bytes([7; 32]);
    let disagreement = || Disagreement { name: "x", stored: 1, configured: 2 };
    let lost = || WrongBlobStore::Lost { place: text() };
    let contended = |phase| RunError {
        phase,
        attempts: 3,
        source: StoreError::Contended,
        report: Box::new(RunReport::default()),
    };
    let ahead = PrunerError::Ahead { asked: height(2), newest: height(1) };
    let small = SettingsError::TooSmall { name: "x", min: 1 };
    check(vec![
        case(ErrorKind::Corrupt, StoreError::from(Corrupt::new("x", "y"))),
        case(ErrorKind::Unavailable, StoreError::Blob { what: "reading", reason: text() }),
        case(ErrorKind::Corrupt, StoreError::BlobMissing(txid)),
        case(ErrorKind::Unavailable, StoreError::NoBlobStore(txid)),
        case(ErrorKind::Unavailable, StoreError::Contended),
        case(ErrorKind::Refused, StoreError::Disagreement(disagreement())),
        case(ErrorKind::Invalid, StoreError::TooManyItems { found: 2, max: 1 }),
        case(ErrorKind::Refused, StoreOpenError::NewerFormat { found: 2, known: 1 }),
        case(ErrorKind::Refused, StoreOpenError::OlderFormat { found: 1, known: 2 }),
        case(ErrorKind::Refused, StoreOpenError::Missing),
        case(ErrorKind::Refused, StoreOpenError::HalfMoved { from: text() }),
        case(ErrorKind::Refused, StoreOpenError::MovedAway { to: text() }),
        case(ErrorKind::Refused, StoreError::MovedAway { to: text() }),
        case(ErrorKind::Refused, utxokeep_txstore::MoveError::NotEmpty),
        case(ErrorKind::Cancelled, utxokeep_txstore::MoveError::Stopped),
        case(ErrorKind::Refused, StoreOpenError::Disagreement(disagreement())),
        case(ErrorKind::Invalid, BlobUrlError::Unknown(text())),
        case(ErrorKind::Invalid, BlobUrlError::Refused { url: text(), reason: text() }),
        case(ErrorKind::NotFound, PersisterError::Empty { place: text() }),
        case(ErrorKind::Corrupt, PersisterError::Lost { place: text(), height: height(1) }),
        case(ErrorKind::Corrupt, PersisterError::Missing { place: text(), file: text() }),
        case(
            ErrorKind::Refused,
            PersisterError::NoCommonBlock { place: text(), height: height(1) },
        ),
        case(
            ErrorKind::Failed,
            PersisterError::MissingBody { height: height(1), looked_in: text() },
        ),
        case(ErrorKind::Cancelled, PersisterError::Stopped),
        case(
            ErrorKind::Failed,
            StoreFollowError::MissingBody { height: height(1), looked_in: text() },
        ),
        case(
            ErrorKind::Corrupt,
            StoreFollowError::MissingOutput { height: height(1), outpoint: OutPoint::new(txid, 0) },
        ),
        case(ErrorKind::Refused, StoreFollowError::TooManyLosers { txid, max: 1 }),
        case(ErrorKind::Corrupt, lost()),
        case(ErrorKind::Refused, WrongBlobStore::Foreign { place: text() }),
        case(ErrorKind::Invalid, node_store::NodeStoreOpenError::UnknownEngine { engine: text() }),
        case(ErrorKind::Invalid, node_store::NodeStoreOpenError::NoPlace { engine: text() }),
        case(ErrorKind::Refused, node_store::NodeStoreOpenError::Missing { place: text() }),
        case(ErrorKind::Corrupt, node_store::NodeStoreOpenError::from(lost())),
        case(
            ErrorKind::Invalid,
            node_store::NodeStoreOpenError::from(BlobUrlError::Unknown(text())),
        ),
        case(ErrorKind::Refused, PrunerError::NoHeight),
        case(ErrorKind::Refused, ahead),
        case(ErrorKind::Refused, PrunerError::NothingPersisted),
        case(ErrorKind::Refused, PrunerError::UnexpectedPersister),
        case(ErrorKind::Refused, PrunerError::NoUndo),
        case(ErrorKind::Refused, PrunerError::from(disagreement())),
        case(ErrorKind::Invalid, PrunerError::from(small)),
        case(ErrorKind::Failed, PrunerError::from(io::Error::other("x"))),
        case(ErrorKind::Unavailable, contended(Phase::Delete)),
    ]);
}
