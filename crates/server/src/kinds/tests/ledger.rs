//! Errors of the wallet ledger.

use utxokeep_core::{
    ChainHash, ChainOutPoint, Height, Network, OutPoint, Txid,
    wallet::{
        AmountTooLarge, ArchiveFacts, BadLabel, BadPlace, BadPrune, BadReach, BirthdayAboveTip,
        CannotArchive, CodecError, PaymentGuards, PrunedBlocks, TxStatus, WalletId,
    },
};
use utxokeep_wallet::{LackCause, Refused};

use super::*;

const NETWORK: Network = Network::CardanoPreview;

fn txid() -> ChainHash {
    NETWORK.hash([7; 32])
}

fn outpoint() -> ChainOutPoint {
    NETWORK.outpoint(&OutPoint::new(Txid::from_bytes([7; 32]), 3))
}

fn text() -> String {
    "x".to_owned()
}

fn cases(kind: ErrorKind, errors: Vec<LedgerError>) -> Vec<Case> {
    errors.into_iter().map(|error| case(kind, error)).collect()
}

#[test]
fn what_is_not_there_exists_or_cannot_be_right() {
    let unknown = Network::find("x", "y").unwrap_err();
    check(cases(
        ErrorKind::NotFound,
        vec![
            LedgerError::WalletNotFound(WalletId::new(1)),
            LedgerError::WalletNameNotFound(text()),
            LedgerError::TxNotFound(txid()),
            LedgerError::UtxoNotFound(outpoint()),
            LedgerError::AddressIdNotFound(1),
            LedgerError::DescriptorNotFound(1),
            LedgerError::WebhookNotFound(1),
        ],
    ));
    check(cases(ErrorKind::Gone, vec![LedgerError::EventsGone { cursor: 1, oldest: 2 }]));
    check(cases(ErrorKind::Exists, vec![LedgerError::WalletExists(text())]));
    check(cases(ErrorKind::Corrupt, vec![LedgerError::Damaged { what: text() }]));
    check(cases(
        ErrorKind::Invalid,
        vec![
            LedgerError::InvalidTx { what: text() },
            LedgerError::InvalidBlock { what: text() },
            LedgerError::InvalidArgument { what: text() },
            LedgerError::OutputOutOfRange { index: 1, outputs: 1 },
            LedgerError::NotPaid { index: 1 },
            LedgerError::NoCodec,
            LedgerError::CannotBuild(CodecError::new("x")),
            LedgerError::Codec(CodecError::new("x")),
            LedgerError::BadLabel(BadLabel::Txid),
            LedgerError::BadReach(BadReach::Lookahead { asked: 0 }),
            LedgerError::BadReach(BadReach::NotRanged),
            LedgerError::Amount(AmountTooLarge(1)),
            LedgerError::Network(unknown),
        ],
    ));
}

#[test]
fn what_the_state_does_not_allow() {
    let (height, txid, outpoint) = (Height::new(1), txid(), outpoint());
    let pruned = PrunedBlocks::new(height, height).unwrap();
    let guarded = PaymentGuards::default().check_outputs([(1, &[0x6a][..])]).unwrap_err();
    check(cases(
        ErrorKind::Refused,
        vec![
            LedgerError::AddressNotFound { index: 1 },
            LedgerError::Conflict { txid, rivals: vec![txid] },
            LedgerError::InvalidParent { outpoint, status: TxStatus::Failed },
            LedgerError::Refused { txid, refused: Refused::CoinbaseOutsideBlock },
            LedgerError::BlockNotFound { height },
            LedgerError::BlockMismatch { height, hash: txid },
            LedgerError::PositionMismatch { txid, height, position: 1 },
            LedgerError::BadPlace { txid, source: BadPlace::FirstIsCoinbase },
            LedgerError::NotNextBlock { height, tip: Some((height, txid)) },
            LedgerError::NotTip { height, tip: None },
            LedgerError::SetAside { height, reason: text() },
            LedgerError::NotRescanned { next: height, cause: LackCause::Restored },
            LedgerError::ReachesPruned { from: height, wallets: vec![text()], pruned },
            LedgerError::NotOurs(txid),
            LedgerError::CascadeTooLarge { rows_max: 1 },
            LedgerError::AlreadyLeased { outpoint },
            LedgerError::HeldBack { outpoint },
            LedgerError::NotLeased { outpoint },
            LedgerError::NotLeaseOwner { outpoint },
            LedgerError::KeyReused { key: text() },
            LedgerError::TooManyKeys { keys_max: 1 },
            LedgerError::TooManyInputs { needed: 2, available: 1, inputs_max: 1 },
            LedgerError::NotALeaf(txid),
            LedgerError::Closed,
            LedgerError::NotBumpable { txid, what: "x" },
            LedgerError::NoChangePlace,
            LedgerError::Guarded(guarded),
            LedgerError::BadReach(BadReach::OtherKeychain { stored: 1, asked: 0 }),
            LedgerError::BadPrune(BadPrune::NoDepth { depth_blocks: 1 }),
            LedgerError::BirthdayAboveTip(BirthdayAboveTip { birthday: height, tip: height }),
            LedgerError::CannotArchive(CannotArchive(ArchiveFacts::default())),
            LedgerError::WalletArchived,
            LedgerError::DescriptorArchived(1),
        ],
    ));
}

#[test]
fn errors_around_the_ledger_keep_its_kind() {
    let (height, ledger) = (Height::new(1), || LedgerError::NoCodec);
    let follow = utxokeep_wallet::FollowError::from;
    let body = utxokeep_wallet::FollowError::MissingBody { height };
    let wrong = utxokeep_wallet::FollowError::WrongBody { height };
    let parted = utxokeep_wallet::FollowError::NoCommonBlock { tip: height };
    let missing = WalletFollowError::MissingBody { height, looked_in: text() };
    let behind = WalletFollowError::ChainBehind { chain: height, ledger: height };
    check(vec![
        case(ErrorKind::Invalid, WalletsError::from(ledger())),
        case(ErrorKind::Invalid, follow(ledger())),
        case(ErrorKind::Invalid, WalletFollowError::from(ledger())),
        case(ErrorKind::Invalid, WalletFollowError::from(follow(ledger()))),
        case(ErrorKind::Failed, body),
        case(ErrorKind::Failed, wrong),
        case(ErrorKind::Refused, parted),
        case(ErrorKind::Failed, missing),
        case(ErrorKind::Refused, behind),
        case(ErrorKind::Refused, WalletFollowError::NotFollowed),
        case(ErrorKind::Refused, WalletFollowError::ScanFailed { height, reason: text() }),
    ]);
}
