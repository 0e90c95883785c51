//! Blocks that the ledger has passed and a wallet has not looked at, or has to look at again.

use utxokeep_core::Height;

use crate::{LedgerError, OpenWallet, session::Session};

/// Why a wallet has not looked at blocks that the ledger has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnseenReason {
    /// It is archived, and not followed any more.
    Archived,
    /// It could not take a block, and waits for somebody to ask for a rescan.
    SetAside,
    /// A rescan was asked for and is not done.
    Rescan,
}

impl UnseenReason {
    /// The name for interfaces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Archived => "archived",
            Self::SetAside => "set_aside",
            Self::Rescan => "rescan",
        }
    }
}

/// Where the blocks begin that a wallet has not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unseen {
    /// The first one; everything that a lower block holds for the wallet is recorded.
    pub from: Height,
    /// Why.
    pub reason: UnseenReason,
}

impl OpenWallet<'_, '_, '_> {
    /// The blocks that the wallet has not looked at; `None` when it has looked at all up to the tip.
    pub fn unseen(&mut self) -> Result<Option<Unseen>, LedgerError> {
        self.session.unseen_blocks()
    }
}

impl Session<'_, '_> {
    fn unseen_blocks(&mut self) -> Result<Option<Unseen>, LedgerError> {
        let Some(tip) = self.tip_height() else { return Ok(None) };
        let mut found = None;
        if self.is_archived {
            // One that was archived before the first block has seen none.
            let from = self.archived_height()?.map_or(Height::GENESIS, |last| last.plus(1));
            found = Some(Unseen { from, reason: UnseenReason::Archived });
        }
        let row = self.rescan_row()?.unwrap_or_default();
        if let Some(rescan) = row.rescan {
            let reason =
                if row.is_requested { UnseenReason::Rescan } else { UnseenReason::SetAside };
            if found.is_none_or(|found| rescan.next < found.from) {
                found = Some(Unseen { from: rescan.next, reason });
            }
        }
        Ok(found.filter(|found| found.from <= tip))
    }
}
