//! Why a message cannot be read or written.

use std::fmt::Display;

use serde::{de, ser};

use crate::grpc::{calls::CallError, fault::Fault};

/// A request that breaks the contract, or an answer that does not fit it.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub(super) struct WireError {
    /// From the message down to the field.
    path: String,
    problem: String,
}

impl WireError {
    pub(super) fn new(path: &str, problem: impl Display) -> Self {
        Self { path: path.to_owned(), problem: problem.to_string() }
    }

    /// The same, seen from one level higher.
    pub(super) fn within(self, field: &str) -> Self {
        let path = match self.path.as_str() {
            "" => field.to_owned(),
            path => format!("{field}.{path}"),
        };
        Self { path, ..self }
    }

    /// A request cannot be read: its sender can do something about it.
    pub(super) fn of_request(self) -> CallError {
        CallError::Fault(Fault::at(self.path, self.problem))
    }
}

impl de::Error for WireError {
    fn custom<T: Display>(problem: T) -> Self {
        Self::new("", problem)
    }
}

impl ser::Error for WireError {
    fn custom<T: Display>(problem: T) -> Self {
        Self::new("", problem)
    }
}

/// An answer cannot be written: the server is wrong.
impl From<WireError> for CallError {
    fn from(error: WireError) -> Self {
        Self::Broken(error.to_string())
    }
}
