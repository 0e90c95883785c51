//! Labels, pruning, checks and blocks that clients bring.

use serde::Serialize;
use utxokeep_core::{ChainHash, ErrorKind};
use utxokeep_wallet::{ImportNote, Imported, Violation};

use super::{LedgerTip, TxDetails};
use crate::wallets::WalletsError;

/// What an import of labels did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LabelsImported {
    /// Records that were carried out.
    pub imported: usize,
    /// Records of a type that is not known.
    pub ignored: usize,
    /// Lines that could not be used.
    pub skipped: usize,
    /// Labels that were cut to `label_chars_max` of the configuration.
    pub truncated: usize,
    /// Why lines were skipped or not used whole; the first `label_notes_max` of them.
    pub notes: Vec<LabelNote>,
}

/// A remark about a line of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LabelNote {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it, and what was done.
    pub what: String,
}

impl From<Imported> for LabelsImported {
    fn from(done: Imported) -> Self {
        let note = |ImportNote { line, what }| LabelNote { line, what };
        Self {
            imported: done.imported,
            ignored: done.ignored,
            skipped: done.skipped,
            truncated: done.truncated,
            notes: done.notes.into_iter().map(note).collect(),
        }
    }
}

/// Rows that were removed, with what they held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PrunedNow {
    /// The transactions; in a dry run those that would be removed.
    pub transactions: Vec<TxDetails>,
    /// Transactions that wait in the archive until they are acknowledged, these and older ones.
    pub waiting: u64,
}

/// A transaction in the archive of what was pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PrunedInfo {
    /// Its number in the archive; acknowledge it when it is kept elsewhere.
    pub id: i64,
    /// The transaction.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub tx_hash: ChainHash,
    /// What the ledger held of it.
    #[cfg_attr(feature = "schema", schema(value_type = TxDetails))]
    pub transaction: serde_json::Value,
}

/// What left the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PrunedAcknowledged {
    /// How many.
    pub transactions: u64,
    /// How many still wait.
    pub waiting: u64,
}

/// A rule that stored rows break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ViolationInfo {
    /// The rule.
    pub rule: &'static str,
    /// How many rows break it.
    pub rows: u64,
    /// The smallest number among them: of a transaction or an output, as the rule says.
    pub first_id: i64,
    /// What to do about it.
    pub remedy: &'static str,
    /// The first of them, as people name them.
    pub examples: Vec<String>,
    /// How many there are besides.
    pub not_named: u64,
}

impl From<Violation> for ViolationInfo {
    fn from(found: Violation) -> Self {
        let named = u64::try_from(found.examples.len()).unwrap_or(u64::MAX);
        Self {
            rule: found.rule,
            rows: found.rows,
            first_id: found.first_id,
            remedy: found.remedy,
            not_named: found.rows.saturating_sub(named),
            examples: found.examples,
        }
    }
}

/// The comparison of a wallet with the UTXO set of the chain database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChainCompared {
    /// The block at which both were read.
    pub tip: LedgerTip,
    /// Scripts that were looked up.
    pub scripts: u64,
    /// Outputs to them that the chain has.
    pub outputs: u64,
    /// The first block that the wallet has not looked at, or has to look at again. Outputs were
    /// compared below it, and none where the chain database does not reach back so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, required = false))]
    pub unseen_from_height: Option<u32>,
    /// Why: it is `archived`, `set_aside`, or a `rescan` is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, required = false, example = "rescan"))]
    pub unseen_reason: Option<&'static str>,
}

/// Whether everything stored about a wallet fits together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Verified {
    /// Whether no rule is broken.
    pub is_sound: bool,
    /// The rules that are.
    pub violations: Vec<ViolationInfo>,
    /// Transactions of the wallet.
    pub transactions: u64,
    /// Those whose bytes were decoded and compared; the others have none stored, or are of Cardano.
    pub transactions_decoded: u64,
    /// Scripts of its keychains that were derived again and compared.
    pub scripts_derived: u64,
    /// Definitions of the schema that were compared with what the program makes: tables, constraints,
    /// indexes, views. 0 where the database user may not make temporary tables on `PostgreSQL`.
    pub definitions_compared: u64,
    /// The comparison with the chain database, if it was asked for.
    pub chain: Option<ChainCompared>,
}

/// Why a wallet could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerifyFailure {
    /// A word for programs, the same as in an error of its own.
    #[cfg_attr(feature = "schema", schema(example = "damaged"))]
    pub code: &'static str,
    /// What happened.
    pub message: String,
    /// What a caller can do about it.
    #[serde(skip)]
    pub kind: ErrorKind,
}

/// What checking one of all wallets came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerifiedWallet {
    /// Name of the wallet.
    pub wallet: String,
    /// What was found; absent when it could not be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, required = false))]
    pub verified: Option<Verified>,
    /// Why it could not be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false, required = false))]
    pub error: Option<VerifyFailure>,
}

impl VerifiedWallet {
    pub(in crate::wallets) fn checked(name: &str, verified: Verified) -> Self {
        Self { wallet: name.to_owned(), verified: Some(verified), error: None }
    }

    pub(in crate::wallets) fn unchecked(name: &str, error: &WalletsError) -> Self {
        let (code, message, kind) = (error.code(), error.to_string(), error.kind());
        let error = Some(VerifyFailure { code, message, kind });
        Self { wallet: name.to_owned(), verified: None, error }
    }
}

/// What a block did to the wallets of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BlockApplied {
    /// The ledger was there already; nothing was changed.
    pub is_already_applied: bool,
    /// Transactions that were recorded, over all wallets.
    pub recorded: usize,
    /// The last block now.
    pub tip: Option<LedgerTip>,
    /// Names of wallets that could not take the block and are set aside now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(nullable = false, required = false))]
    pub set_aside: Vec<String>,
}
