//! What keeps a wallet or a keychain from being archived.

/// A reason not to archive, which can be overridden by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArchiveBlocker {
    /// Unspent outputs.
    Coins,
    /// Live transactions in no block.
    Unconfirmed,
    /// Active leases.
    Leases,
}

impl ArchiveBlocker {
    const ALL: [Self; 3] = [Self::Coins, Self::Unconfirmed, Self::Leases];

    /// The name by which it is overridden.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Coins => "coins",
            Self::Unconfirmed => "unconfirmed",
            Self::Leases => "leases",
        }
    }

    /// The blocker of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|blocker| blocker.name() == name)
    }
}

/// What a wallet or a keychain still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArchiveFacts {
    /// Unspent outputs that count.
    pub coins: u64,
    /// Live transactions in no block.
    pub unconfirmed: u64,
    /// Active leases.
    pub leases: u64,
}

/// Something that would be lost from view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "it cannot be archived: it has {coins} coins, {unconfirmed} transactions in no block and \
     {leases} leases; empty it first, or allow by name what it has: coins, unconfirmed, leases",
    coins = .0.coins, unconfirmed = .0.unconfirmed, leases = .0.leases
)]
pub struct CannotArchive(pub ArchiveFacts);

/// Refuses to archive what still has something, unless that is allowed by name.
pub fn check_archive(facts: ArchiveFacts, allow: &[ArchiveBlocker]) -> Result<(), CannotArchive> {
    let blocks = |count: u64, blocker| count > 0 && !allow.contains(&blocker);
    let is_blocked = blocks(facts.coins, ArchiveBlocker::Coins)
        || blocks(facts.unconfirmed, ArchiveBlocker::Unconfirmed)
        || blocks(facts.leases, ArchiveBlocker::Leases);
    if is_blocked { Err(CannotArchive(facts)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_overridden_by_its_own_name_only() {
        let facts = ArchiveFacts { coins: 1, unconfirmed: 0, leases: 2 };
        assert_eq!(check_archive(ArchiveFacts::default(), &[]), Ok(()));
        assert!(check_archive(facts, &[]).is_err());
        assert!(check_archive(facts, &[ArchiveBlocker::Coins]).is_err());
        assert!(check_archive(facts, &[ArchiveBlocker::Coins, ArchiveBlocker::Leases]).is_ok());
        assert_eq!(ArchiveBlocker::from_name("leases"), Some(ArchiveBlocker::Leases));
        assert_eq!(ArchiveBlocker::from_name("everything"), None);
    }
}
