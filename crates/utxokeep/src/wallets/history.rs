//! What a wallet has, and how it came about.

use utxokeep_core::{Height, Network, OutPoint, wallet::ConfirmationRange};
use utxokeep_wallet::{
    Amount, BalanceQuery, CoinQuery, CoinScope, Direction, HistoryCursor, HistoryQuery,
    HistoryScope, OpenWallet, Wallet,
};

use super::{
    BalanceInfo, BalanceOf, CoinInfo, LedgerTip, ListCoins, ListReplacements, ListTransactions,
    Listed, OfWallet, OneCoin, OneTx, ReplacementInfo, SetAsideInfo, StandingInfo, TxDetails,
    TxInfo, Wallets, WalletsError, directory::bad_cursor, now, requests::Page, texts,
};

impl Wallets {
    /// The balance of a wallet.
    pub fn balance(&self, of: &BalanceOf) -> Result<BalanceInfo, WalletsError> {
        let wallet = self.wallet(&of.wallet)?;
        let range = range(of.min_confirmations, of.max_confirmations)?;
        let query = BalanceQuery { range, maturity: self.maturity() };
        self.ledger.view(wallet.id, now(), |view| {
            let tip = view.tip().map(|tip| LedgerTip::new(wallet.network, tip));
            let standing = StandingInfo::new(wallet.network, view.standing()?);
            let balance = BalanceInfo::new(&view.balance(&query)?, tip, standing);
            if view.is_archived() {
                return Ok(balance.archived_at(view.archived_height()?));
            }
            Ok(balance)
        })
    }

    /// A page of unspent outputs, by amount.
    pub fn list_coins(&self, list: &ListCoins) -> Result<Listed<CoinInfo>, WalletsError> {
        let wallet = self.wallet(&list.wallet)?;
        self.pages(&list.page(), |page| self.coins_page(&wallet, list, page))
    }

    fn coins_page(
        &self,
        wallet: &Wallet,
        list: &ListCoins,
        page: &Page,
    ) -> Result<Listed<CoinInfo>, WalletsError> {
        let rows = self.rows(page.page_size);
        let after = page.cursor.as_deref().map(|text| coin_cursor(wallet.network, text));
        let query = CoinQuery {
            scope: coin_scope(list)?,
            range: range(list.min_confirmations, list.max_confirmations)?,
            with_leased: !list.only_free,
            after: after.transpose()?,
            limit: rows,
        };
        let (coins, tip, standing) = self.ledger.view(wallet.id, now(), |view| {
            Ok::<_, WalletsError>((view.coins(&query)?, tip_height(view), view.standing()?))
        })?;
        Ok(Listed::new(
            &coins,
            rows,
            |last| {
                let outpoint = wallet.network.outpoint(&last.outpoint);
                format!("{}.{outpoint}", last.amount)
            },
            |coin| CoinInfo::new(wallet.network, tip, coin),
        )
        .of(StandingInfo::new(wallet.network, standing)))
    }

    /// One unspent output.
    pub fn show_coin(&self, request: &OneCoin) -> Result<OfWallet<CoinInfo>, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let outpoint = texts::outpoint(wallet.network, &request.outpoint)?;
        self.ledger.view(wallet.id, now(), |view| {
            let coin = view.coin(&outpoint)?;
            let item = CoinInfo::new(wallet.network, tip_height(view), &coin);
            Ok(OfWallet { item, set_aside: set_aside(wallet.network, view)? })
        })
    }

    /// A page of the history.
    pub fn list_transactions(
        &self,
        list: &ListTransactions,
    ) -> Result<Listed<TxInfo>, WalletsError> {
        let wallet = self.wallet(&list.wallet)?;
        self.pages(&list.page(), |page| self.history_page(&wallet, list, page))
    }

    fn history_page(
        &self,
        wallet: &Wallet,
        list: &ListTransactions,
        page: &Page,
    ) -> Result<Listed<TxInfo>, WalletsError> {
        let rows = self.rows(page.page_size);
        let after = page.cursor.as_deref().map(|text| HistoryCursor::parse(text).ok_or(text));
        let query = HistoryQuery {
            scope: scope(list)?,
            direction: if list.newest_first { Direction::Backward } else { Direction::Forward },
            after: after.transpose().map_err(|_| bad_cursor())?,
            limit: rows,
        };
        let history = self.ledger.history(wallet.id, &query)?;
        Ok(Listed::new(
            &history,
            rows,
            |last| last.cursor.to_string(),
            |tx| TxInfo::new(wallet.network, tx),
        )
        .of(self.standing(wallet)?))
    }

    /// One transaction, whatever became of it.
    pub fn show_transaction(&self, request: &OneTx) -> Result<OfWallet<TxDetails>, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let txid = texts::txid(wallet.network, &request.tx_hash)?;
        self.ledger.view(wallet.id, now(), |view| {
            let (detail, label) = (view.transaction(&txid)?, view.tx_label(&txid)?);
            let item = TxDetails::new(wallet.network, &detail, label);
            Ok(OfWallet { item, set_aside: set_aside(wallet.network, view)? })
        })
    }

    /// What a transaction replaced and what replaced it, oldest first.
    pub fn list_replacements(
        &self,
        list: &ListReplacements,
    ) -> Result<Listed<ReplacementInfo>, WalletsError> {
        let wallet = self.wallet(&list.wallet)?;
        let txid = texts::txid(wallet.network, &list.tx_hash)?;
        let rows = self.rows(Some(self.page_size(list.page_size)?));
        let edges = self.ledger.replacements(wallet.id, &txid, rows)?;
        let info = |edge| ReplacementInfo::new(wallet.network, edge);
        let is_cut = edges.len() >= rows;
        Ok(Listed { is_cut, ..Listed::whole(edges.iter().map(info).collect()) })
    }
}

/// Why an answer may be out of date, as of the same moment as the answer.
fn set_aside(
    network: Network,
    view: &mut OpenWallet<'_, '_, '_>,
) -> Result<Option<SetAsideInfo>, WalletsError> {
    Ok(StandingInfo::new(network, view.standing()?).set_aside)
}

/// The height that confirmations are counted to, as of the same moment as the coins.
fn tip_height(view: &OpenWallet<'_, '_, '_>) -> Option<Height> {
    view.tip().map(|(height, _)| height)
}

pub(super) fn range(min: u32, max: Option<u32>) -> Result<ConfirmationRange, WalletsError> {
    if max.is_some_and(|max| max < min) {
        let what = "this is below min_confirmations";
        return Err(WalletsError::field("max_confirmations", what));
    }
    Ok(ConfirmationRange { min, max })
}

fn coin_scope(list: &ListCoins) -> Result<CoinScope, WalletsError> {
    match (list.descriptor_id, list.address_id) {
        (None, None) => Ok(CoinScope::All),
        (Some(id), None) => Ok(CoinScope::Keychain(id)),
        (None, Some(id)) => Ok(CoinScope::Address(id)),
        (Some(_), Some(_)) => Err(WalletsError::field(
            "descriptor_id",
            "ask for a keychain or for an address, not both",
        )),
    }
}

fn scope(list: &ListTransactions) -> Result<HistoryScope, WalletsError> {
    match (list.unconfirmed, list.from_height, list.to_height) {
        (false, None, None) => Ok(HistoryScope::All),
        (true, None, None) => Ok(HistoryScope::Unconfirmed),
        (true, ..) => {
            Err(WalletsError::field("unconfirmed", "what is in no block has no height; give one"))
        }
        (false, from, to) => Ok(HistoryScope::Heights(
            Height::new(from.unwrap_or(0)),
            Height::new(to.unwrap_or(u32::MAX)),
        )),
    }
}

fn coin_cursor(network: Network, text: &str) -> Result<(Amount, OutPoint), WalletsError> {
    let (amount, outpoint) = text.split_once('.').ok_or_else(bad_cursor)?;
    let amount =
        amount.parse().ok().and_then(|raw| Amount::new(raw).ok()).ok_or_else(bad_cursor)?;
    Ok((amount, texts::outpoint(network, outpoint).map_err(|_| bad_cursor())?))
}
