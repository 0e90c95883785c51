//! Who creates a transaction at present.

use serde::Serialize;
use utxokeep_txstore::{CreationLock, Fields, TxStore as _};

use super::{TAG, TransactionReadError, TransactionRequest, Transactions, TxName, show::UNKNOWN};
use crate::ops::{About, Answer, Answered, Known, Lines, Operation};

/// Who creates a transaction.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = CreationLock))]
pub struct CreationLockAnswer {
    /// The transaction.
    tx_hash: String,
    /// Whether somebody creates it.
    is_locked: bool,
    /// When that began, in seconds since the epoch.
    created_at: Option<u64>,
    /// When the lock ends by itself, in seconds since the epoch.
    expires_at: Option<u64>,
    /// The process that creates it.
    process_id: Option<u32>,
    /// The machine of that process.
    hostname: Option<String>,
    /// Records that the transaction will have.
    expected_recs: Option<u32>,
}

impl Answer for CreationLockAnswer {
    fn show(&self, lines: &mut Lines) {
        lines.field("transaction", &self.tx_hash);
        let (Some(since), Some(until)) = (self.created_at, self.expires_at) else {
            lines.field("creation lock", "nobody holds it");
            return;
        };
        let (host, process) =
            (self.hostname.as_deref().unwrap_or(""), self.process_id.unwrap_or(0));
        lines
            .field("creation lock", format_args!("process {process} on {host}"))
            .field("records", self.expected_recs.unwrap_or(0))
            .field("since", format_args!("{since} s since 1970"))
            .field("until", format_args!("{until} s since 1970"));
    }
}

/// The creation lock of a transaction.
#[derive(Debug)]
pub enum ShowLock {}

impl Operation for ShowLock {
    type Part = Transactions;
    type Request = TransactionRequest;
    type Answer = CreationLockAnswer;

    const ABOUT: About = About {
        command: "tx lock",
        path: "/api/v1/transactions/{tx_hash}/lock",
        tag: TAG,
        summary: "Say who creates a transaction of several records at present",
        description: "Since when, until when, and for how many records. Only a store on a cluster has \
                      such locks; a lock ends by itself when its process dies.",
        refusals: &[UNKNOWN],
        ..About::READ
    };

    fn run(
        transactions: &Transactions,
        TransactionRequest { tx_hash: TxName(txid) }: TransactionRequest,
        _: Known<'_>,
    ) -> Result<Answered<CreationLockAnswer>, TransactionReadError> {
        let lock = transactions.store.creation_lock(&txid)?;
        if lock.is_none() {
            // Of one that nobody stored and nobody creates there is nothing to say.
            transactions.find(txid, Fields::default())?;
        }
        let answer = CreationLockAnswer {
            tx_hash: txid.to_string(),
            is_locked: lock.is_some(),
            created_at: lock.as_ref().map(|lock| lock.created_at),
            expires_at: lock.as_ref().map(CreationLock::expires_at),
            process_id: lock.as_ref().map(|lock| lock.process_id),
            expected_recs: lock.as_ref().map(|lock| lock.expected_recs),
            hostname: lock.map(|lock| lock.hostname),
        };
        Ok(answer.into())
    }
}
