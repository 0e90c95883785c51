//! The rules of the node store: transactions with their outputs, from creation to safe deletion.
//!
//! A [`Workspace`] loads what an operation touches, changes it in memory by the rules here, and
//! hands back what has to be written, all of it in one commit. Every engine gathers and writes;
//! none decides.
//!
//! # Invariants
//!
//! * The height at which a record may be deleted is set by one function, [`TxRecord::evaluate`].
//! * A refused item changes nothing; items of a batch are independent unless the operation says
//!   otherwise.
//! * Heights and times come in as arguments.

mod blob;
mod changes;
mod codec;
mod create;
mod error;
mod explain;
mod freeze;
mod heights;
mod intent;
mod items;
mod mined;
mod output;
mod preserve;
mod prune;
mod raw;
mod reads;
mod record;
mod recount;
mod spend;
mod tx;
mod undo;
mod waiting;
mod workspace;

pub use blob::{BlobKind, check_body, decode_blob, encode_blob};
pub use changes::{ChangeSet, NamedState, RecordChange, TxChanges};
pub use codec::{
    FORMAT, body_checksum, decode_body, decode_output, decode_record, decode_spends, encode_body,
    encode_output, encode_record, file_checksum, wrong_checksum,
};
pub use create::CreateOptions;
pub use error::{NodeError, SpendError};
pub use explain::{Blocking, KeepReason};
pub use freeze::REASSIGN_HOLD_BLOCKS;
pub use heights::{
    Assembly, BlockState, ChainReport, ConsumerBound, ConsumerName, Heights, Said, Sighting, Taken,
    TakenReports, Witness,
};
pub use intent::ConflictIntent;
pub use items::ItemGroup;
pub use mined::MinedInfo;
pub use output::{OutputRecord, OutputState, SpendingData};
pub use prune::{Check, PruneRules, Pruned, Spends, Verdict};
pub use raw::RawTxError;
pub use reads::{BodyFiles, HeightIndex, NodeReads, OutputPage, read_bodies};
pub use record::{MinedBlock, Policy, Reassignment, TxRecord};
pub use recount::{RecordFault, Retentions};
pub use spend::{
    SpendAndCreate, SpendFlags, SpendInput, SpendRequest, SpendStatus, SpendView, Spent, Stored,
    UnspendRequest,
};
pub use tx::{NodeInput, NodeOutput, NodeTx, PreviousOutput, utxo_hash};
pub use undo::Undo;
pub use waiting::{ClaimGap, Disagreement, GateRules, Waiting};
pub use workspace::Workspace;
