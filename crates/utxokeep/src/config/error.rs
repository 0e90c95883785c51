//! What can be wrong with a configuration file.

use std::{io, path::PathBuf};

use utxokeep_core::UnknownNetwork;

/// Why a configuration was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{file} is not valid TOML: line {line}: {detail}")]
    Syntax {
        /// The file.
        file: String,
        /// Where, counted from one.
        line: usize,
        /// The parser's complaint.
        detail: String,
    },
    /// A section nobody knows.
    #[error("{file}: there is no section [{section}]; known: {known}")]
    UnknownSection {
        /// The file.
        file: String,
        /// The section.
        section: String,
        /// Sections that exist.
        known: String,
    },
    /// A value where a section belongs.
    #[error("{file}: {section} must be a section: write [{section}]")]
    NotASection {
        /// The file.
        file: String,
        /// The section.
        section: String,
    },
    /// A setting nobody knows.
    #[error("{file}: there is no setting {key}; known in this section: {known}")]
    UnknownKey {
        /// The file.
        file: String,
        /// Section and name.
        key: String,
        /// Settings of that section.
        known: String,
    },
    /// A value of the wrong type or out of range.
    #[error("{file}: {key}: {allowed} is expected, not {value}")]
    WrongValue {
        /// The file.
        file: String,
        /// Section and name.
        key: String,
        /// What may stand there.
        allowed: &'static str,
        /// What stands there.
        value: String,
    },
    /// A network nobody knows.
    #[error("{file}: {source}")]
    Network {
        /// The file.
        file: String,
        /// What is known.
        source: UnknownNetwork,
    },
    /// A network nobody knows, from outside a file.
    #[error(transparent)]
    UnknownNetwork(#[from] UnknownNetwork),
    /// A store that is not part of this version.
    #[error("{file}: index.store: \"mmr\" is not available yet; use \"classic\"")]
    StoreUnavailable {
        /// The file.
        file: String,
    },
}
