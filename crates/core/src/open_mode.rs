//! How a place of data is opened: whether it must exist, and whether it may be changed.
//!
//! One rule for every place: a directory of RocksDB, a file of SQLite, the tables in a database of
//! PostgreSQL, and the formats inside them.

/// What opening a place may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenMode {
    /// Reads what is there. Nothing is created, upgraded or written.
    Read,
    /// Changes what is there, and first brings it to the format of this program. Nothing is created.
    Existing,
    /// The same, and creates what is not there.
    #[default]
    Create,
}

/// What was found at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No data: no files, no tables, or tables without a first row.
    Nothing,
    /// Data in a format from before that of this program.
    Older,
    /// Data in the format of this program.
    Current,
}

/// What to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Create it.
    Create,
    /// Bring it to the format of this program.
    Upgrade,
    /// Use it as it is.
    Use,
}

/// Why a place is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOpened {
    /// There is nothing, and nothing may be created.
    Missing,
    /// It would have to be upgraded, and nothing may be written.
    Outdated,
}

impl OpenMode {
    /// What opening does with what was found.
    pub const fn decide(self, found: Found) -> Result<Opening, NotOpened> {
        match (found, self) {
            (Found::Nothing, Self::Create) => Ok(Opening::Create),
            (Found::Nothing, Self::Read | Self::Existing) => Err(NotOpened::Missing),
            (Found::Older, Self::Existing | Self::Create) => Ok(Opening::Upgrade),
            (Found::Older, Self::Read) => Err(NotOpened::Outdated),
            (Found::Current, _) => Ok(Opening::Use),
        }
    }

    /// Whether anything may be written at all.
    #[must_use]
    pub const fn may_write(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// The same for a place beside the one that is meant, which must exist already.
    #[must_use]
    pub const fn without_creating(self) -> Self {
        match self {
            Self::Read => Self::Read,
            Self::Existing | Self::Create => Self::Existing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_neither_creates_nor_upgrades_and_only_creating_creates() {
        use {Found::*, NotOpened::*};
        let answers = |mode: OpenMode| [Nothing, Older, Current].map(|found| mode.decide(found));
        let usable = Ok(Opening::Use);
        assert_eq!(answers(OpenMode::Read), [Err(Missing), Err(Outdated), usable]);
        assert_eq!(answers(OpenMode::Existing), [Err(Missing), Ok(Opening::Upgrade), usable]);
        let creating = [Ok(Opening::Create), Ok(Opening::Upgrade), usable];
        assert_eq!(answers(OpenMode::Create), creating);
    }

    #[test]
    fn only_reading_never_writes() {
        assert!(!OpenMode::Read.may_write() && OpenMode::Existing.may_write());
        assert_eq!(OpenMode::Create.without_creating(), OpenMode::Existing);
        assert_eq!(OpenMode::Read.without_creating(), OpenMode::Read);
    }
}
