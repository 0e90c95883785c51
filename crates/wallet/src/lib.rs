//! The wallet ledger: no coin lost, none spent twice, every attempt on record.
//!
//! [`Ledger`] keeps any number of wallets in one SQL database, `SQLite` or `PostgreSQL`. Every
//! operation is one database transaction that first locks the wallets it writes to. What may
//! happen is decided in `utxokeep_core::wallet`; this crate gathers the facts and carries it out.
//!
//! # Invariants
//!
//! * At most one live transaction of a wallet holds an output, ours or foreign: a unique index.
//! * An output points at its spender exactly while that spender is live and holds its inputs.
//! * Class, height and coinbase flag beside an output are those of its transaction.
//! * Rows are removed by `prune` and `remove_unconfirmed` only, never by themselves.

mod addresses;
mod ages;
mod archive;
mod balance;
mod birthday;
mod broadcast;
mod bump;
mod chain;
mod descriptors;
mod error;
mod error_kind;
mod events;
mod follow;
mod idempotency;
mod ingest;
mod known_blocks;
mod labels;
mod leases;
mod ledger;
mod lifecycle;
mod list;
mod open;
mod outbox;
mod payments;
mod prune;
mod resend;
mod rows;
mod schema;
mod schema_archived;
mod schema_claims;
mod schema_descriptors;
mod schema_events;
mod schema_idempotency;
mod schema_imported;
mod schema_labels;
mod schema_leases;
mod schema_lookahead;
mod schema_marks;
mod schema_pruned;
mod schema_rescans;
mod schema_restored;
mod schema_sent;
mod schema_undone;
mod schema_work;
mod select;
mod session;
mod standing;
mod statistics;
mod types;
mod unseen;
mod upkeep;
mod verify;
mod webhooks;

pub use addresses::AddedAddresses;
pub use balance::BalanceQuery;
pub use broadcast::Sendable;
pub use bump::{BumpPlan, BumpRequest, Bumped};
pub use chain::{Applied, MempoolApplied, MempoolRefusal, MempoolView, RescanStep, Tip, WatchMark};
pub use descriptors::{
    AddedDescriptor, CHANGE_KEYCHAIN, NearEdge, NewDescriptor, NextChange, RevealedAddress,
    ScriptSource, WatchedDescriptor, suitable_change,
};
pub use error::LedgerError;
pub use events::{EventPage, WalletEvent};
pub use follow::{
    BlockBody, ChainError, FollowError, FollowOptions, FollowReport, FollowedChain, WorseBranch,
    block_ref, block_txs,
};
pub use idempotency::{KeepAnswers, KeyedRequest};
pub use labels::{ImportNote, Imported, Label, LabelCursor, LabelKind};
pub use leases::{Abandoned, Cleaned, Lease, LeaseClock, LeaseTerms};
pub use ledger::Ledger;
pub use list::{
    Coin, CoinQuery, CoinScope, Direction, HistoryCursor, HistoryQuery, HistoryScope, OwnInput,
    Replacement, TxDetail, TxSummary, WatchedOutput,
};
pub use open::{CreditedCoin, KnownBlock, OpenWallet};
pub use payments::{Paid, PaymentRequest, Replaced};
pub use prune::{PruneRule, PrunedRow, Pruning};
pub use resend::{SentCursor, SentTx};
pub use schema::{COMPONENT, MIGRATIONS, migrate, unmigrate};
pub use select::{Algorithm, SelectedCoin, Selection, SelectionRequest};
pub use standing::{LackCause, LaggingWallet, Rescan, SetAside, Standing};
pub use types::{
    Address, BlockRef, Change, Credits, Limits, LinkedBlock, NewAddress, NewOutput, NewTx,
    RecordOptions, Recorded, Seen, Wallet,
};
pub use unseen::{Unseen, UnseenReason};
pub use upkeep::LeaseCounts;
pub use utxokeep_core::wallet::{
    AllowedGuards, Amount, ArchiveBlocker, BadPlace, Balance, ChainCodec, ChangePolicy, CoinClass,
    ConfirmationRange, EventDepths, FeeRate, Guard, GuardRefusal, InvalidReason, LOOKAHEAD_DEFAULT,
    LeaseId, Maturity, Micros, PaymentLimits, PrunedBlocks, Refused, RetryPolicy, TxState,
    TxStatus, WalletEventKind, WalletId, WebhookState,
};
pub use verify::{Verification, Violation};
pub use webhooks::{Delivery, Holder, NewWebhook, Outcome, Webhook};
