//! Errors of the command line itself.

use utxokeep_core::{Height, OutPoint};

/// What only the command line can complain about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum CliError {
    /// A new database needs a network.
    #[error(
        "there is no database yet, and nothing says which network it is for: add --network NAME"
    )]
    NoNetwork,
    /// No record of the output.
    #[error(
        "output {outpoint} is not known at height {height}: it was not created by then, cannot be \
         spent, or was spent so long ago that its record is gone"
    )]
    UnknownOutput {
        /// The output.
        outpoint: OutPoint,
        /// The height asked about.
        height: Height,
    },
    /// Not a cursor.
    #[error("{text:?} is not a cursor; use the next_cursor of an earlier answer as it is")]
    BadCursor {
        /// The text.
        text: String,
    },
}
