//! Errors on the three faces: the one table from what an error means to the exit code, the HTTP
//! status and the gRPC status that say so.
//!
//! # Invariants
//!
//! * No face sorts errors by itself. What a face adds is about its own transport only: tokens,
//!   methods, media types, deadlines.

use std::{error::Error, fmt::Write as _};

use axum::http::StatusCode;
use tonic::Code;
use utxokeep::{
    kinds,
    ops::{chain::ChainReadError, pruner::PrunerReadError, transactions::TransactionReadError},
};
use utxokeep_core::ErrorKind;

use crate::{
    access::{AccessError, TokenError},
    cli::{CliError, Exit, MmrCommandError},
    doors::descriptors::TooFewDescriptors,
};

/// How an error shows on each face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Codes {
    /// What the program ends with.
    pub(crate) exit: Exit,
    /// What REST answers with.
    pub(crate) http: StatusCode,
    /// What gRPC answers with.
    pub(crate) grpc: Code,
}

impl Codes {
    const fn new(exit: Exit, http: StatusCode, grpc: Code) -> Self {
        Self { exit, http, grpc }
    }

    /// The table.
    pub(crate) const fn of(kind: ErrorKind) -> Self {
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        const CONFLICT: StatusCode = StatusCode::CONFLICT;
        const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
        const FAILED: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
        match kind {
            ErrorKind::Invalid => Self::new(Exit::Usage, BAD, Code::InvalidArgument),
            ErrorKind::OutOfRange => Self::new(Exit::Refused, BAD, Code::OutOfRange),
            ErrorKind::Gone => Self::new(Exit::Refused, StatusCode::GONE, Code::OutOfRange),
            ErrorKind::NotFound => Self::new(Exit::NotFound, StatusCode::NOT_FOUND, Code::NotFound),
            ErrorKind::Exists => Self::new(Exit::Refused, CONFLICT, Code::AlreadyExists),
            ErrorKind::Refused => Self::new(Exit::Refused, CONFLICT, Code::FailedPrecondition),
            ErrorKind::NotReady => Self::new(Exit::Refused, UNAVAILABLE, Code::Unavailable),
            ErrorKind::Disabled => {
                Self::new(Exit::Refused, StatusCode::NOT_IMPLEMENTED, Code::Unimplemented)
            }
            ErrorKind::Overloaded => Self::new(Exit::Failure, UNAVAILABLE, Code::ResourceExhausted),
            ErrorKind::Unavailable => Self::new(Exit::Failure, UNAVAILABLE, Code::Unavailable),
            ErrorKind::Corrupt => Self::new(Exit::Unsound, FAILED, Code::DataLoss),
            ErrorKind::Failed => Self::new(Exit::Failure, FAILED, Code::Internal),
            ErrorKind::Cancelled => Self::new(Exit::Interrupted, UNAVAILABLE, Code::Cancelled),
        }
    }
}

/// An error of operations, which says what it means and has a name for programs.
pub(crate) trait Coded: Error {
    /// What a caller can do about it.
    fn kind(&self) -> ErrorKind;

    /// A name for programs; it does not change.
    fn code(&self) -> &'static str;
}

/// Errors that say both themselves.
macro_rules! coded {
    ($($error:ty),+) => {
        $(impl Coded for $error {
            fn kind(&self) -> ErrorKind {
                self.kind()
            }

            fn code(&self) -> &'static str {
                self.code()
            }
        })+
    };
}

coded!(ChainReadError, PrunerReadError, TransactionReadError);

/// What one error means; `None` where it is not one of ours.
fn kind_of(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    utxokeep::errors!(
        error: CliError, MmrCommandError, TooFewDescriptors, AccessError, TokenError
    );
    kinds::kind_of(error)
}

/// What an error means: the first of its causes that says more than "failed" decides.
pub(crate) fn kind_of_chain<'e>(
    mut causes: impl Iterator<Item = &'e (dyn Error + 'static)>,
) -> ErrorKind {
    let known = causes.find_map(|cause| kind_of(cause).filter(|kind| *kind != ErrorKind::Failed));
    known.unwrap_or(ErrorKind::Failed)
}

/// When an error is of a kind, as the page of errors says it.
const fn meaning(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => {
            "the request or the configuration cannot be right in any state; repeating it is no use"
        }
        ErrorKind::OutOfRange => {
            "the request reaches beyond what is kept, or beyond what one answer may hold"
        }
        ErrorKind::Gone => {
            "the request goes on from a place behind which something was forgotten; the error names where to start"
        }
        ErrorKind::NotFound => {
            "the request names something that does not exist, or that is not kept here"
        }
        ErrorKind::Exists => "the request would create something that exists already",
        ErrorKind::Refused => "the present state does not allow the request; nothing was changed",
        ErrorKind::NotReady => {
            "another process has the data open, there is no block yet, or an index that was off is \
             catching up; the same request works later"
        }
        ErrorKind::Disabled => "a setting of the database leaves out what the request needs",
        ErrorKind::Overloaded => {
            "too many requests at the same time; the same request works a moment later"
        }
        ErrorKind::Unavailable => {
            "the database or a server is away, busy or out of space; the same request may work later"
        }
        ErrorKind::Corrupt => "stored data or a file is damaged; see \"Damage\" in the runbook",
        ErrorKind::Failed => {
            "anything else that failed: a file, a peer, an engine that refused what it should have taken"
        }
        ErrorKind::Cancelled => "the caller asked to stop, or is gone",
    }
}

/// The page of errors under `docs/`.
#[must_use]
pub fn page() -> String {
    let mut out = String::from(
        "# Errors\n\n<!-- Generated from the table of error kinds in the code by `make docs`. -->\n\n\
         Every error has a kind, and the kind decides what each face answers with: the exit code of \
         a command, the HTTP status of REST, the status of gRPC. The text says what happened and \
         what helps; REST and the wallet service of gRPC add a word for programs (`code`, \
         `utxokeep-code`).\n\n\
         | kind | when | exit code | HTTP | gRPC |\n|---|---|---:|---:|---|\n",
    );
    for kind in ErrorKind::ALL {
        let Codes { exit, http, grpc } = Codes::of(kind);
        let (exit, http, meaning) = (exit.code(), http.as_u16(), meaning(kind));
        let _ = writeln!(out, "| `{kind}` | {meaning} | {exit} | {http} | `{}` |", name(grpc));
    }
    out.push_str(
        "\nThe node store promises that a call may be repeated after its storage failed, so a failed \
         engine is `unavailable` there and not `failed`. A body that the blob store does not take \
         refuses its item alone, with the code `STORAGE` (69) of gRPC: nothing of the item was stored, \
         no lock is held, and the item may be repeated. `pruner restore` ends with `unavailable` then.\n\n\
         Statuses of a transport are not part of the table. REST: 401 (token), 403 (foreign host or \
         page), 405, 408, 413, 415, and 503 with the code `timeout`. gRPC: `UNAUTHENTICATED` (token), \
         `DEADLINE_EXCEEDED`, and `RESOURCE_EXHAUSTED` for an answer that is too large.\n",
    );
    out
}

/// The name of a status in the documents of gRPC.
const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests;
