//! Giving signed transactions to a node.
//!
//! # Invariants
//!
//! * Signed bytes are committed, with a mark, before a node gets them; no database transaction is
//!   open while a node is asked. A process that dies in between leaves a marked transaction, which
//!   the same request, or the thread that sends again, finishes.
//! * What a node has already counts as sent, so that a request may be repeated.
//! * A payment fails only where [`Prospect`] says that no node can take it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utxokeep_chains::{
    BitcoinCodec,
    bitcoind::{BitcoindError, TxSender},
};
use utxokeep_core::{
    ChainHash, Network, Txid,
    wallet::{
        AllowedGuards, ChainCodec as _, DecodedTx, Guard, NodeAnswer, NodeRefusal, PaymentGuards,
        Prospect, Refused, TxState,
    },
};
use utxokeep_sql::SqlError;
use utxokeep_wallet::{
    LedgerError, NewTx, RecordOptions, Recorded, Sendable, SentTx, Wallet, WalletId,
};

use super::{
    Units, Wallets, WalletsError, now,
    once::{Asked, Fields},
    texts,
};
use crate::wallets::answers::StoredAnswer;

/// A transaction to give to a node.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BroadcastTx {
    /// Name of the wallet.
    pub wallet: String,
    /// Id of the transaction, as nodes print it: that of the recorded payment, or the one in the PSBT
    /// where signing changes it.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID"))]
    pub tx_hash: String,
    /// The signed PSBT in base64, with all signatures. When neither this nor `raw` is given, the bytes
    /// that the wallet has are sent.
    #[cfg_attr(feature = "clap", arg(long, value_name = "BASE64", conflicts_with = "raw"))]
    pub psbt: Option<String>,
    /// The signed transaction in hexadecimal.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEX"))]
    pub raw: Option<String>,
    /// It is meant to replace whatever spends the same outputs. Where the payment was recorded as a
    /// replacement, that is known.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub replaces: bool,
    /// Guards that must not refuse it: `fee_max`, `fee_rate_max`, `fee_rate_min`.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "GUARD"))]
    pub allow: Vec<String>,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(skip_serializing)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY"))]
    pub idempotency_key: Option<String>,
}

/// What giving a transaction to a node came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BroadcastInfo {
    /// The transaction.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub tx_hash: ChainHash,
    /// What the node did: `taken`, or `in_mempool` or `in_block` where it had the transaction before.
    pub node: Cow<'static, str>,
    /// Its status now.
    pub status: Cow<'static, str>,
    /// Its block, if the ledger knows one.
    pub height: Option<u32>,
    /// What it pays as fee, where the node says so.
    pub fee: Option<Units>,
    /// Transactions that lost their inputs to it.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub losers: Vec<ChainHash>,
    /// Transactions that depended on those.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub failed_descendants: Vec<ChainHash>,
}

impl StoredAnswer for BroadcastInfo {
    fn read(fields: &Fields) -> Result<Self, String> {
        Ok(Self {
            tx_hash: fields.hash("tx_hash")?,
            node: fields.plain("node")?,
            status: fields.plain("status")?,
            height: fields.plain("height")?,
            fee: fields.plain("fee")?,
            losers: fields.hashes("losers")?,
            failed_descendants: fields.hashes("failed_descendants")?,
        })
    }
}

/// A signed transaction on its way to a node.
struct Signed {
    tx: DecodedTx,
    raw: Vec<u8>,
}

/// What became of a transaction that was given to a node again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentAgain {
    /// The node had it.
    Known,
    /// The node lacked it and has it now.
    Resent,
    /// The node does not take it now.
    Waits,
    /// No node can take it: it failed.
    Failed,
    /// It is settled otherwise since it was listed.
    Settled,
}

/// How a publication ended that is never committed.
enum Tried {
    Fine,
    Failed(WalletsError),
}

impl From<LedgerError> for Tried {
    fn from(error: LedgerError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<SqlError> for Tried {
    fn from(error: SqlError) -> Self {
        Self::Failed(error.into())
    }
}

/// What is true after a refusal.
const UNCHANGED: &str = "nothing was changed";
const KEPT: &str = "its signed bytes are kept and nothing else was changed: ask again later, or raise \
     its fee with `wallet bump`";
const SIGN_AGAIN: &str = "nothing was changed: sign the payment again and send that";
const FAILED: &str =
    "the payment has failed and its other inputs are free: make it again with other coins";

impl Wallets {
    /// The same ledger, able to give transactions to a node.
    #[must_use]
    pub fn with_sender(mut self, sender: TxSender) -> Self {
        self.sender = Some(sender);
        self
    }

    /// Gives a signed transaction to the node, and publishes it in the ledger when the node has it.
    pub fn broadcast_tx(&self, request: &BroadcastTx) -> Result<BroadcastInfo, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let network = wallet.network;
        let key = request.idempotency_key.as_deref();
        let asked = Asked { operation: "broadcast", request, key };
        if let Some(answer) = self.answered::<_, BroadcastInfo>(&wallet, &asked)? {
            return Ok(answer);
        }
        let sender = self.sender.as_ref().filter(|_| !network.is_cardano());
        let sender = sender.ok_or(WalletsError::NoNode { network })?;
        let guards = PaymentGuards {
            limits: self.ledger.limits().payment,
            allow: texts::allow(&request.allow)?,
        };
        let signed = self.signed(&wallet, request, &guards)?;
        let txid = signed.tx.txid;
        let stored = self.ledger.view(wallet.id, now(), |open| {
            open.check_not_archived()?;
            open.sendable(&txid)
        })?;
        if let Some(state) = stored.as_ref().map(|stored| stored.state) {
            check_live(network, txid, state)?;
        }
        let done = match &stored {
            Some(stored) if stored.state.block().is_some() => (NodeAnswer::InBlock, None),
            _ => self.give(sender, &wallet, &signed, stored.as_ref(), &guards, request.replaces)?,
        };
        let (answer, fee) = done;
        self.once(&wallet, &asked, |open| {
            let recorded = open.publish(&txid)?;
            Ok(broadcast_info(network, &recorded, &answer, fee))
        })
    }

    /// Asks the node, keeps the bytes and sends them, unless the node has the transaction.
    fn give(
        &self,
        sender: &TxSender,
        wallet: &Wallet,
        signed: &Signed,
        stored: Option<&Sendable>,
        guards: &PaymentGuards,
        replaces: bool,
    ) -> Result<(NodeAnswer, Option<Units>), WalletsError> {
        let (network, txid) = (wallet.network, signed.tx.txid);
        let new = NewTx::decoded(signed.tx.clone(), &signed.raw).map_err(LedgerError::from)?;
        let options = RecordOptions { replaces, ..RecordOptions::default() };
        let keep = |is_sent: bool| self.keep(wallet.id, network, &new, &options, is_sent);
        let keep_if_known = || stored.map_or(Ok(UNCHANGED), |_| keep(false).map(|()| KEPT));
        let ceiling = ceiling(guards);
        let tested = sender.test(network, &signed.raw, ceiling);
        let (answer, tip) = match tested {
            Ok(tested) => tested,
            Err(source) => {
                let done = keep_if_known()?;
                let txid = network.hash(txid);
                return Err(WalletsError::NodeAway { txid, done, source: source.into() });
            }
        };
        let refused = |reason: &str, after_send: bool| -> Result<WalletsError, WalletsError> {
            let facts = stored.map(|stored| stored.facts(&tip)).unwrap_or_default();
            let refusal = NodeRefusal::judge(reason, facts);
            let state = stored.map(|stored| stored.state);
            let done = match refusal.prospect {
                Prospect::Never if state == Some(TxState::Pending) => {
                    self.ledger.abandon(wallet.id, &txid, now())?;
                    FAILED
                }
                _ if after_send => KEPT,
                Prospect::Later => keep_if_known()?,
                Prospect::NeverTheseBytes => SIGN_AGAIN,
                Prospect::Never => UNCHANGED,
            };
            Ok(WalletsError::Rejected { txid: network.hash(txid), refusal, done })
        };
        let fee = match &answer {
            NodeAnswer::Refuses(reason) => return Err(refused(reason, false)?),
            NodeAnswer::Takes { fee, vsize } => {
                if let (Some(fee), Some(vsize)) = (fee, vsize) {
                    guards.check_fee(*fee, vsize.saturating_mul(4)).map_err(LedgerError::from)?;
                }
                fee.map(Units)
            }
            NodeAnswer::InMempool | NodeAnswer::InBlock => None,
        };
        keep(true)?;
        let must_send = matches!(answer, NodeAnswer::Takes { .. });
        if !must_send {
            return Ok((answer, fee));
        }
        match sender.send(network, &signed.raw, ceiling) {
            Ok(NodeAnswer::Refuses(reason)) => {
                self.ledger.change(wallet.id, now(), |open| open.clear_sent(&txid))?;
                Err(refused(&reason, true)?)
            }
            Ok(answer) => Ok((answer, fee)),
            Err(source) => {
                let txid = network.hash(txid);
                Err(WalletsError::SendUnknown { txid, source: source.into() })
            }
        }
    }

    /// Keeps signed bytes. Those that are about to be sent are kept only if the transaction could be
    /// published now.
    fn keep(
        &self,
        wallet: WalletId,
        network: Network,
        new: &NewTx,
        options: &RecordOptions,
        is_sent: bool,
    ) -> Result<(), WalletsError> {
        if is_sent {
            let tried = self.ledger.change(wallet, now(), |open| -> Result<(), Tried> {
                open.keep_signed(new, options, true)?;
                open.publish(&new.txid)?;
                // Nothing of this is committed.
                Err(Tried::Fine)
            });
            match tried {
                Ok(()) | Err(Tried::Fine) => {}
                Err(Tried::Failed(error)) => return Err(error),
            }
        }
        self.ledger.change(wallet, now(), |open| {
            let recorded = open.keep_signed(new, options, is_sent)?;
            if !recorded.is_ours {
                return Err(LedgerError::NotOurs(network.hash(new.txid)));
            }
            Ok(())
        })?;
        Ok(())
    }

    /// The transaction that a request wants to be sent, completely signed.
    fn signed(
        &self,
        wallet: &Wallet,
        request: &BroadcastTx,
        guards: &PaymentGuards,
    ) -> Result<Signed, WalletsError> {
        let network = wallet.network;
        let named = texts::txid(network, &request.tx_hash)?;
        let (raw, unsigned_txid) = match (&request.psbt, &request.raw) {
            (Some(psbt), None) => {
                let signed = BitcoinCodec
                    .finalize(network, psbt)
                    .map_err(|error| WalletsError::field("psbt", error.to_string()))?;
                if let Some(fee) = signed.fee {
                    guards.check_fee_alone(fee).map_err(LedgerError::from)?;
                }
                (signed.raw, Some(signed.unsigned_txid))
            }
            (None, Some(raw)) => (texts::bytes("raw", raw)?, None),
            (None, None) => {
                let stored = self.ledger.view(wallet.id, now(), |open| open.sendable(&named))?;
                let unknown = || LedgerError::TxNotFound(network.hash(named));
                let raw = stored.ok_or_else(unknown)?.raw;
                let txid = network.hash(named);
                (raw.ok_or(WalletsError::NotSigned { txid })?, None)
            }
            (Some(_), Some(_)) => {
                let what = "give the PSBT or the bytes of the transaction, one of the two";
                return Err(WalletsError::field("psbt", what));
            }
        };
        let bytes_max = self.config.raw_tx_bytes_max.get() as usize;
        if raw.len() > bytes_max {
            let what = format!("{} bytes, at most {bytes_max} are taken", raw.len());
            return Err(WalletsError::field("raw", what));
        }
        let tx = BitcoinCodec
            .decode_tx(network, &raw)
            .map_err(|error| WalletsError::field("raw", error.to_string()))?;
        if tx.txid != named && unsigned_txid != Some(named) {
            let (named, found) = (network.hash(named), network.hash(tx.txid));
            return Err(WalletsError::OtherTransaction { named, found });
        }
        if tx.is_coinbase || tx.signed_inputs < tx.inputs.len() {
            return Err(WalletsError::NotSigned { txid: network.hash(tx.txid) });
        }
        Ok(Signed { tx, raw })
    }

    /// The network whose node transactions are given to: that of the node.
    pub(crate) const fn sender(&self) -> Option<&TxSender> {
        self.sender.as_ref()
    }

    /// Looks whether the node has a transaction that was sent before, and gives it again if not.
    pub(crate) fn send_again(
        &self,
        sender: &TxSender,
        network: Network,
        sent: &SentTx,
    ) -> Result<SentAgain, SendAgainError> {
        let (answer, tip) = sender.test(network, &sent.raw, None)?;
        let stored = self.ledger.view(sent.wallet, now(), |open| open.sendable(&sent.txid))?;
        let is_open = |stored: &Sendable| stored.state.is_live() && stored.state.block().is_none();
        let Some(stored) = stored.filter(is_open) else { return Ok(SentAgain::Settled) };
        let (answer, outcome) = match answer {
            NodeAnswer::Takes { .. } => (sender.send(network, &sent.raw, None)?, SentAgain::Resent),
            other => (other, SentAgain::Known),
        };
        if let NodeAnswer::Refuses(reason) = answer {
            let refusal = NodeRefusal::judge(&reason, stored.facts(&tip));
            let txid = network.hash(sent.txid);
            if refusal.prospect == Prospect::Later {
                tracing::debug!(%txid, %refusal, "the node does not take a payment at present");
                return Ok(SentAgain::Waits);
            }
            self.ledger.abandon(sent.wallet, &sent.txid, now())?;
            tracing::warn!(%txid, %refusal, "a payment that was sent can never be taken, and failed");
            return Ok(SentAgain::Failed);
        }
        if stored.state == TxState::Pending {
            self.ledger.publish(sent.wallet, &sent.txid, now())?;
        }
        Ok(outcome)
    }
}

/// Why a transaction could not be given again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendAgainError {
    /// The node does not answer, so that nothing else can be given to it either.
    #[error(transparent)]
    Node(#[from] BitcoindError),
    /// The ledger failed or refused.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The fee rate above which the node is to refuse; none where that guard is allowed.
const fn ceiling(guards: &PaymentGuards) -> Option<utxokeep_wallet::FeeRate> {
    let allow: AllowedGuards = guards.allow;
    if allow.contains(Guard::FeeRateMax) { None } else { Some(guards.limits.fee_rate_max) }
}

/// Giving a dead payment to a node could pay twice.
fn check_live(network: Network, txid: Txid, state: TxState) -> Result<(), WalletsError> {
    if state.is_live() {
        return Ok(());
    }
    let refused = Refused::NotLive(state.status());
    Err(LedgerError::Refused { txid: network.hash(txid), refused }.into())
}

fn broadcast_info(
    network: Network,
    recorded: &Recorded,
    answer: &NodeAnswer,
    fee: Option<Units>,
) -> BroadcastInfo {
    let named = |txids: &[Txid]| txids.iter().map(|&txid| network.hash(txid)).collect();
    BroadcastInfo {
        tx_hash: network.hash(recorded.txid),
        node: Cow::Borrowed(match answer {
            NodeAnswer::InMempool => "in_mempool",
            NodeAnswer::InBlock => "in_block",
            NodeAnswer::Takes { .. } | NodeAnswer::Refuses(_) => "taken",
        }),
        status: Cow::Borrowed(recorded.state.status().name()),
        height: recorded.state.block().map(utxokeep_core::Height::get),
        fee,
        losers: named(&recorded.losers),
        failed_descendants: named(&recorded.failed_descendants),
    }
}
