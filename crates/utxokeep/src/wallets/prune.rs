//! Taking leave of what is old, without losing it.

use utxokeep_core::Height;
use utxokeep_wallet::{PruneRule, PrunedRow, Pruning, TxDetail};

use super::{
    AcknowledgePruned, Listed, PruneWallet, PrunedAcknowledged, PrunedInfo, PrunedNow, TxDetails,
    WalletPage, Wallets, WalletsError, directory::number_cursor, now,
};

impl Wallets {
    /// Removes old rows. Unless they are to be discarded, they move to the archive inside the
    /// ledger in the same transaction. Labels stay.
    pub fn prune_wallet(&self, request: &PruneWallet) -> Result<PrunedNow, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        if request.dead_older_than_secs.is_none() && request.confirmed_up_to.is_none() {
            let what = "say what may go: dead_older_than_secs, confirmed_up_to, or both";
            return Err(WalletsError::field("prune", what));
        }
        // Several hosts may share the ledger, and their clocks need not agree.
        let now = self.ledger.time(now())?;
        let age_us = |secs: u64| i64::try_from(secs.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        let rule = PruneRule {
            dead_before: request.dead_older_than_secs.map(|secs| now.plus(-age_us(secs))),
            confirmed_up_to: request.confirmed_up_to.map(Height::new),
            txs_max: self.rows(request.txs_max),
        };
        let details = |detail: &TxDetail| TxDetails::new(wallet.network, detail, None);
        let write = |detail: &TxDetail| {
            serde_json::to_string(&details(detail)).expect("texts and numbers are always written")
        };
        let pruning = match (request.is_dry_run, request.discard) {
            (true, _) => Pruning::DryRun,
            (false, true) => Pruning::Discard,
            (false, false) => Pruning::Archive(&write),
        };
        let gone = self.ledger.prune(wallet.id, &rule, pruning, now)?;
        Ok(PrunedNow {
            transactions: gone.iter().map(details).collect(),
            waiting: self.ledger.pruned_count(wallet.id)?,
        })
    }

    /// A page of what was pruned and not acknowledged, in the order it was pruned.
    pub fn list_pruned(&self, list: &WalletPage) -> Result<Listed<PrunedInfo>, WalletsError> {
        let wallet = self.wallet(&list.wallet)?;
        let info = |row: &PrunedRow| PrunedInfo {
            id: row.id,
            tx_hash: wallet.network.hash(row.txid),
            transaction: serde_json::from_str(&row.document).unwrap_or_default(),
        };
        self.pages(&list.page(), |page| {
            let rows = self.rows(page.page_size);
            let pruned = self.ledger.pruned(wallet.id, number_cursor(page)?.unwrap_or(0), rows)?;
            Ok(Listed::new(&pruned, rows, |last| last.id.to_string(), info))
        })
    }

    /// What was pruned and not acknowledged, behind a number, as it was written.
    pub fn pruned_rows(
        &self,
        name: &str,
        after: i64,
        rows_max: usize,
    ) -> Result<Vec<PrunedRow>, WalletsError> {
        Ok(self.ledger.pruned(self.wallet_id(name)?, after, rows_max)?)
    }

    /// Says that what was pruned is kept elsewhere; it leaves the archive.
    pub fn acknowledge_pruned(
        &self,
        request: &AcknowledgePruned,
    ) -> Result<PrunedAcknowledged, WalletsError> {
        let wallet = self.wallet_id(&request.wallet)?;
        Ok(PrunedAcknowledged {
            transactions: self.ledger.acknowledge_pruned(wallet, request.up_to, now())?,
            waiting: self.ledger.pruned_count(wallet)?,
        })
    }
}
