//! Rules of the wallet ledger: what may happen to a transaction and to its coins.
//!
//! This module is pure. The ledger gathers facts from its database, asks here, and carries the
//! answer out in one database transaction. Heights and times are always arguments.
//!
//! # Invariants
//!
//! * A transaction changes its state only through [`next`].
//! * Nothing that may be confirmed is ever declared spendable twice: of the transactions that
//!   spend one output, at most one holds it.

mod archive;
mod balance;
mod branch;
mod broadcast;
mod bump;
mod codec;
mod compare;
mod conflict;
mod depth;
mod derived;
mod guard;
mod idempotency;
mod label;
mod lease;
mod lock_plan;
mod locks;
mod lookahead;
mod mempool;
mod outbox;
mod place;
mod prune;
mod script;
mod select;
mod status;
mod types;
mod unsigned;
mod webhook;
mod weight;

pub use archive::{ArchiveBlocker, ArchiveFacts, CannotArchive, check_archive};
pub use balance::{Balance, Bucket, CoinClass, CoinFacts, CoinView};
pub use branch::BranchAbove;
pub use broadcast::{NodeAnswer, NodeRefusal, Prospect, SpendFacts};
pub use bump::{Funded, Replacement};
pub use codec::{ChainCodec, CodecError, DecodedTx, DerivedScript, DescriptorBranch, SignedPsbt};
pub use compare::{
    ConfirmedCoin, Difference, Mismatch, StoredOutput, StoredTxFacts, differences, mismatches,
};
pub use conflict::{Outcome, Rival, judge_rival, parents_first};
pub use depth::{ConfirmationRange, Maturity, confirmations};
pub use derived::{ScriptMismatch, StoredScript, script_mismatches};
pub use guard::{
    AllowedGuards, Figure, Guard, GuardRefusal, PaymentGuards, PaymentLimits, UnknownGuard,
};
pub use idempotency::{
    BadIdempotencyKey, IDEMPOTENCY_KEY_CHARS_MAX, IdempotencyKey, Repetition, StoredAnswer,
};
pub use label::{BadLabel, LabelChange, LabelKind, LabelState, is_own_origin};
pub use lease::{BadOwner, InputLease, LeaseEnd, LeaseOwner, OWNER_NAME_CHARS_MAX};
pub use lock_plan::{InputToLock, LockKind, LockPlan, NoLockPlan, OpenCoins, plan_locks};
pub use locks::{CoinAge, LockTime, NextBlock, RelativeLock, SpendLocks, ValidFrom};
pub use lookahead::{
    AskedReach, BadReach, BirthdayAboveTip, KeychainReach, LOOKAHEAD_DEFAULT, LOOKAHEAD_MAX,
    check_birthday, is_near_edge, scan_from, wider_lookahead,
};
pub use mempool::{Absent, AbsentFate, mempool_replaces};
pub use outbox::{BadDepths, EventDepths, TxChange, TxNotice, WalletEventKind};
pub use place::{BadPlace, Relative, Surroundings, TxPlace, check_place};
pub use prune::{AfterUndo, BadPrune, PrunedBlocks, check_prune_depth, prune_depth};
pub use script::{ScriptKind, is_paid};
pub use select::{
    Candidate, ChangePolicy, FeeRate, Payment, Picked, draw_in_order, shuffled, waste,
};
pub use status::{Event, Evidence, InvalidReason, Refused, TxState, TxStatus, made_anew, next};
pub use types::{Amount, AmountTooLarge, LeaseId, Micros, WalletId};
pub use unsigned::{CannotBuild, PsbtInput, PsbtOutput, PsbtRequest, ScriptOrigin, UnsignedPsbt};
pub use webhook::{AfterFailure, RetryPolicy, WebhookState};
pub use weight::{
    count_weight, dust_limit, estimated_spend_weight, output_weight, weight_without_inputs,
};
