//! What an answer means for the operation that it answers.

use ::aerospike::{BatchOperation, Error, ErrorKind, Record, ResultCode};

/// What to do about a record that the server does not take.
const TOO_BIG: &str = " (max-record-size of the namespace). Give the store a place for large bodies, \
                       [txstore] blobs, or raise max-record-size, at most to 8 MiB";

/// What became of one operation in one attempt.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It happened, or was read.
    Answered(Box<Record>),
    /// There is no such record; nothing happened.
    NotFound,
    /// The record does not fulfil the condition; nothing happened.
    Filtered,
    /// It came after its deadline; nothing happened.
    Late,
    /// It did not happen: try again.
    Again(String),
    /// It did not happen, and will not until somebody changes the servers or the call.
    Refused(String),
    /// A write may have happened.
    InDoubt(String),
}

/// What to make of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    NotFound,
    Filtered,
    Late,
    Again,
    Refused,
    Unknown,
}

/// What a result code of a server says.
const fn meaning(code: ResultCode) -> Meaning {
    match code {
        ResultCode::KeyNotFoundError => Meaning::NotFound,
        ResultCode::FilteredOut | ResultCode::KeyExistsError => Meaning::Filtered,
        // The version of a new record is an expression that has no value after the deadline.
        ResultCode::OpNotApplicable => Meaning::Late,
        // Said before a record is touched.
        ResultCode::PartitionUnavailable
        | ResultCode::KeyBusy
        | ResultCode::DeviceOverload
        | ResultCode::BatchQueuesFull
        | ResultCode::ClusterKeyMismatch
        | ResultCode::QuotaExceeded => Meaning::Again,
        ResultCode::ParameterError
        | ResultCode::ServerMemError
        | ResultCode::AlwaysForbidden
        | ResultCode::BinTypeError
        | ResultCode::RecordTooBig
        | ResultCode::UnsupportedFeature
        | ResultCode::InvalidNamespace
        | ResultCode::BinNameTooLong
        | ResultCode::FailForbidden
        | ResultCode::EnterpriseOnly
        | ResultCode::BatchDisabled
        | ResultCode::BatchMaxRequestsExceeded
        | ResultCode::NotAuthenticated
        | ResultCode::RoleViolation => Meaning::Refused,
        _ => Meaning::Unknown,
    }
}

/// What an error says to people.
fn told(error: &Error) -> String {
    let advice = match error.server_result_code() {
        Some(ResultCode::RecordTooBig) => TOO_BIG,
        _ => "",
    };
    format!("{error}{advice}")
}

fn of_error(error: &Error, is_write: bool) -> Outcome {
    let reason = told(error);
    if let Some(code) = error.server_result_code().filter(|code| *code != ResultCode::Timeout) {
        match meaning(code) {
            Meaning::NotFound => return Outcome::NotFound,
            Meaning::Filtered => return Outcome::Filtered,
            Meaning::Late => return Outcome::Late,
            Meaning::Again if !error.in_doubt() => return Outcome::Again(reason),
            Meaning::Refused if !error.in_doubt() => return Outcome::Refused(reason),
            _ => {}
        }
    }
    // The client says whether anything was sent.
    let is_unsent = !error.in_doubt()
        && matches!(
            error.kind(),
            ErrorKind::Connection
                | ErrorKind::ConnectionPoolEmpty
                | ErrorKind::NoMoreConnections
                | ErrorKind::MaxErrorRate
                | ErrorKind::InvalidNode
                | ErrorKind::InvalidNamespace
                | ErrorKind::Io(_)
                | ErrorKind::Timeout
        );
    if is_write && !is_unsent { Outcome::InDoubt(reason) } else { Outcome::Again(reason) }
}

/// Whether a batch failed because no node is known for any of its rows: then nothing was sent, and its
/// rows are blank.
pub(super) fn is_unroutable(error: &Error) -> bool {
    !error.in_doubt()
        && matches!(error.kind(), ErrorKind::InvalidNode | ErrorKind::InvalidNamespace)
}

/// What a row of a batch says; `failed` is the first failure of the batch.
pub(super) fn of_row(row: &mut BatchOperation, is_write: bool, failed: Option<&Error>) -> Outcome {
    let is_blank = row.error().is_none() && row.record().is_none();
    if let Some(error) = failed.filter(|error| is_blank && is_unroutable(error)) {
        return Outcome::Again(error.to_string());
    }
    if let Some(error) = row.error() {
        return of_error(error, is_write);
    }
    if let Some(record) = row.take_record() {
        Outcome::Answered(Box::new(record))
    } else {
        let none = || "a node did not answer".to_owned();
        let reason = failed.map_or_else(none, ToString::to_string);
        if is_write { Outcome::InDoubt(reason) } else { Outcome::Again(reason) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_is_not_known_says_nothing_about_its_write() {
        for (code, expected) in [
            (ResultCode::KeyNotFoundError, Meaning::NotFound),
            (ResultCode::FilteredOut, Meaning::Filtered),
            (ResultCode::OpNotApplicable, Meaning::Late),
            (ResultCode::PartitionUnavailable, Meaning::Again),
            (ResultCode::RecordTooBig, Meaning::Refused),
            (ResultCode::FailForbidden, Meaning::Refused),
            (ResultCode::Timeout, Meaning::Unknown),
            (ResultCode::LostConflict, Meaning::Unknown),
            (ResultCode::ServerError, Meaning::Unknown),
            (ResultCode::Unknown(250), Meaning::Unknown),
        ] {
            assert_eq!(meaning(code), expected, "{code:?}");
        }
    }
}
