//! Checks of a wallet, or of all: rows among themselves, bytes, and the chain's own UTXO set.

mod chain;

use serde::{Deserialize, de::IgnoredAny};
use utxokeep_core::Txid;
use utxokeep_wallet::{Violation, Wallet, WalletId};

use super::{
    ChainCompared, Listed, Verified, VerifiedWallet, VerifyWallet, VerifyWallets, ViolationInfo,
    Wallets, WalletsError, directory::number_cursor, now,
};

/// Wallets of a page unless a request says how many: each of them is checked whole, and a page has to
/// be done within the time of a request.
const WALLETS_PER_PAGE: u32 = 10;

/// As much of an archived document as is compared.
#[derive(Deserialize)]
struct Document {
    /// Documents that were archived first call it `txid`.
    #[serde(alias = "txid")]
    tx_hash: String,
}

impl Wallets {
    /// Checks that everything stored about a wallet fits together, and to the chain if asked.
    pub fn verify_wallet(&self, request: &VerifyWallet) -> Result<Verified, WalletsError> {
        self.verify_one(&self.wallet(&request.wallet)?, request.with_chain)
    }

    /// Checks a page of all wallets, archived ones too, in the order they were made. A wallet that
    /// cannot be checked says why, and does not end the others.
    pub fn verify_wallets(
        &self,
        request: &VerifyWallets,
    ) -> Result<Listed<VerifiedWallet>, WalletsError> {
        let after = number_cursor(&request.page())?.map(WalletId::new);
        let rows = self.rows(Some(self.page_size(request.page_size.or(Some(WALLETS_PER_PAGE)))?));
        let names = self.ledger.wallet_names(after, rows)?;
        let verify = |(id, name): &(WalletId, String)| {
            let wallet = self.ledger.wallet(*id).map_err(WalletsError::from);
            match wallet.and_then(|wallet| self.verify_one(&wallet, request.with_chain)) {
                Ok(verified) => VerifiedWallet::checked(name, verified),
                Err(error) => VerifiedWallet::unchecked(name, &error),
            }
        };
        Ok(Listed::new(&names, rows, |(last, _)| last.to_string(), verify))
    }

    fn verify_one(&self, wallet: &Wallet, with_chain: bool) -> Result<Verified, WalletsError> {
        let mut compared = None;
        let mut violations: Vec<ViolationInfo> = Vec::new();
        if with_chain {
            let (chain, found) = self.compare_with_chain(wallet)?;
            compared = Some(chain);
            violations.extend(found.into_iter().map(ViolationInfo::from));
        }
        let checked = self.ledger.verification(wallet.id)?;
        violations.extend(checked.violations.into_iter().map(ViolationInfo::from));
        let can_read = |txid: Option<Txid>, text: &str| match txid {
            None => serde_json::from_str::<IgnoredAny>(text).is_ok(),
            Some(txid) => serde_json::from_str::<Document>(text)
                .is_ok_and(|document| document.tx_hash == wallet.network.hash(txid).to_string()),
        };
        let unreadable = self.ledger.verify_texts(wallet.id, can_read)?;
        violations.extend(unreadable.into_iter().map(ViolationInfo::from));
        Ok(Verified {
            is_sound: violations.is_empty(),
            violations,
            transactions: checked.transactions,
            transactions_decoded: checked.decoded,
            scripts_derived: checked.scripts,
            definitions_compared: checked.definitions,
            chain: compared,
        })
    }

    fn compare_with_chain(
        &self,
        wallet: &Wallet,
    ) -> Result<(ChainCompared, Vec<Violation>), WalletsError> {
        let index = self.chain.as_ref().ok_or(WalletsError::NoChain)?;
        let network = index.settings().network();
        if network != wallet.network {
            let what = format!("the chain database follows {network}, not {}", wallet.network);
            return Err(WalletsError::field("with_chain", what));
        }
        let status = index.status()?;
        if status.started_mid_chain_at.is_some() || status.filter_entries > 0 {
            return Err(WalletsError::PartialChain);
        }
        self.ledger.view(wallet.id, now(), |ledger| chain::compare(index, wallet, ledger))
    }
}
