//! Whether an engine takes writes, and what has to happen when it does not.

/// Why an engine takes no writes at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What is wrong, and what to do.
    pub reason: String,
    /// Whether it ends by itself once its cause is gone. Otherwise the database has to be opened
    /// again.
    pub passes: bool,
}
