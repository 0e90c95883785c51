//! Leases: taken, renewed, ended, listed, cleaned up.

use utxokeep_core::{OutPoint, wallet::LeaseOwner};
use utxokeep_wallet::{Lease, LeaseCounts, LeaseTerms, LedgerError, Micros, Wallet};

use super::{
    AcquireLeases, CleanedLeases, Hex, InWallet, LeaseFor, LeaseInfo, Leased, Listed,
    ReleaseLeases, Released, WalletPage, Wallets, WalletsError, directory::number_cursor, now,
    once::Asked, texts,
};

/// Who takes leases, and for how long.
#[derive(Debug, Clone)]
pub(super) struct Lessee {
    pub(super) terms: LeaseTerms,
    name: Option<String>,
}

impl Lessee {
    /// The answer for leases that end at this time.
    pub(super) fn leased(&self, until: Micros) -> Leased {
        Leased {
            owner: Hex(self.terms.owner.as_bytes().to_vec()),
            owner_name: self.name.clone(),
            expires_at_us: until.get(),
        }
    }
}

impl Wallets {
    /// Leases outputs, all or none. Those that the owner has leased already are renewed.
    pub fn acquire_leases(&self, request: &AcquireLeases) -> Result<Leased, WalletsError> {
        let (wallet, outpoints) = self.outpoints_of(request)?;
        let lessee = self.lessee(&request.lease)?;
        let key = request.idempotency_key.as_deref();
        self.once(&wallet, &Asked { operation: "lease", request, key }, |open| {
            Ok(lessee.leased(open.acquire_leases(&outpoints, &lessee.terms)?))
        })
    }

    /// Renews leases that the owner holds, all or none.
    pub fn renew_leases(&self, request: &AcquireLeases) -> Result<Leased, WalletsError> {
        let (wallet, outpoints) = self.outpoints_of(request)?;
        if request.lease.owner.is_none() {
            return Err(WalletsError::field(
                "owner",
                "say who holds the leases; a command takes --owner",
            ));
        }
        let lessee = self.lessee(&request.lease)?;
        let key = request.idempotency_key.as_deref();
        self.once(&wallet, &Asked { operation: "renew", request, key }, |open| {
            Ok(lessee.leased(open.renew_leases(&outpoints, &lessee.terms)?))
        })
    }

    fn outpoints_of(
        &self,
        request: &AcquireLeases,
    ) -> Result<(Wallet, Vec<OutPoint>), WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let outpoints = texts::outpoints(wallet.network, &request.outpoints)?;
        Ok((wallet, outpoints))
    }

    /// Ends one lease of an owner, or all; answers how many there were.
    pub fn release_leases(&self, request: &ReleaseLeases) -> Result<Released, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let owner = texts::owner_id(&request.owner)?;
        let Some(outpoint) = &request.outpoint else {
            return Ok(Released { leases: self.ledger.release_all(wallet.id, &owner, now())? });
        };
        let outpoint = texts::outpoint(wallet.network, outpoint)?;
        let was_leased = self.ledger.release_lease(wallet.id, &owner, &outpoint, now())?;
        Ok(Released { leases: u64::from(was_leased) })
    }

    /// A page of active leases.
    pub fn list_leases(&self, list: &WalletPage) -> Result<Listed<LeaseInfo>, WalletsError> {
        let wallet = self.wallet(&list.wallet)?;
        self.pages(&list.page(), |page| {
            let rows = self.rows(page.page_size);
            let after = number_cursor(page)?.unwrap_or(0);
            let leases = self.ledger.leases(wallet.id, after, rows, now())?;
            let info = |lease: &Lease| LeaseInfo::new(wallet.network, lease);
            let listed = Listed::new(&leases, rows, |last| last.utxo_id.to_string(), info);
            Ok(listed.of(self.standing(&wallet)?))
        })
    }

    /// Removes rows of leases of a wallet that have expired.
    pub fn clean_leases(&self, request: &InWallet) -> Result<CleanedLeases, WalletsError> {
        let rows_max = self.config.lease_cleanup_rows_max.get() as usize;
        let wallet = self.wallet_id(&request.wallet)?;
        let cleaned = self.ledger.clean_leases(wallet, rows_max, now())?;
        Ok(CleanedLeases { leases: cleaned.rows, has_more: cleaned.has_more })
    }

    /// One pass over all wallets: removes rows of leases that have expired, and keys of requests
    /// that are old enough. Answers how many of each there were.
    pub(crate) fn clean_up(&self) -> Result<(u64, u64), LedgerError> {
        let rows_max = self.config.lease_cleanup_rows_max.get() as usize;
        let leases = self.ledger.clean_all_leases(rows_max, now())?;
        let keys = self.ledger.clean_answers(self.answers_kept_us(), rows_max, now())?;
        Ok((leases.rows, keys.rows))
    }

    /// Leases of all wallets, each figure up to a limit.
    pub(crate) fn lease_counts(&self, rows_max: usize) -> Result<LeaseCounts, LedgerError> {
        self.ledger.count_leases(rows_max, now())
    }

    /// Who takes a lease, within the limits of the configuration.
    pub(super) fn lessee(&self, lease: &LeaseFor) -> Result<Lessee, WalletsError> {
        let seconds = lease.seconds.unwrap_or(self.config.lease_secs_default.get());
        let seconds_max = self.config.lease_secs_max.get();
        if seconds == 0 || seconds > seconds_max {
            let what = format!("a lease lasts between 1 and {seconds_max} seconds");
            return Err(WalletsError::field("seconds", what));
        }
        let owner = lease.owner.as_deref().map(texts::owner).transpose()?;
        let LeaseOwner { id, name } =
            owner.unwrap_or_else(|| LeaseOwner { id: texts::new_owner(), name: None });
        let terms = LeaseTerms::until(id, i64::from(seconds) * 1_000_000);
        let hold_confirmations = lease.hold_confirmations;
        Ok(Lessee { terms: LeaseTerms { hold_confirmations, ..terms }, name })
    }
}
