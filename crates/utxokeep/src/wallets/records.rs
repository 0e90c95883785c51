//! What becomes of transactions: recorded, published, confirmed, given up.

use utxokeep_chains::decode_tx;
use utxokeep_core::{Network, Txid, wallet::Micros};
use utxokeep_wallet::{
    BlockRef, Credits, LedgerError, NewOutput, NewTx, RecordOptions, Recorded, Seen,
};

use super::{
    Abandoned, BlockPlace, ConfirmTx, OneTx, PlainTx, RecordTx, RecordedInfo, Removed, SeenIn,
    Wallets, WalletsError, now, once::Asked, texts,
};

const MICROS: u64 = 1_000_000;

impl Wallets {
    /// Records a transaction.
    pub fn record_tx(&self, request: &RecordTx) -> Result<RecordedInfo, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let network = wallet.network;
        let mut new = match (&request.raw, &request.parts) {
            (Some(raw), None) => self.tx_of_bytes(network, &texts::bytes("raw", raw)?)?,
            (None, Some(parts)) => tx_of_parts(network, parts)?,
            _ => {
                let what = "give the bytes of the transaction or its parts, one of the two";
                return Err(WalletsError::field("raw", what));
            }
        };
        new.credits = request.credits.clone().map_or(Credits::Watched, Credits::Exactly);
        let seen = match (request.seen, &request.block) {
            (SeenIn::Created, None) => Seen::Created,
            (SeenIn::Mempool, None) => Seen::Mempool,
            (SeenIn::Block, Some(block)) => {
                Seen::Block(block_ref(network, block)?, request.position)
            }
            (SeenIn::Block, None) => return Err(WalletsError::field("block", "say which block")),
            (_, Some(_)) => {
                let what = "it is in a block or it is not; leave the block out or say \"block\"";
                return Err(WalletsError::field("seen", what));
            }
        };
        let owner = request.owner.as_deref().map(texts::owner_id).transpose()?;
        let (replaces, label) = (request.replaces, request.label.clone());
        let options = RecordOptions { replaces, label, owner, is_new_payment: false };
        let key = request.idempotency_key.as_deref();
        self.once(&wallet, &Asked { operation: "record", request, key }, |open| {
            let recorded = open.record(&new, seen, &options)?;
            if !recorded.is_ours {
                return Err(LedgerError::NotOurs(network.hash(new.txid)).into());
            }
            Ok(RecordedInfo::new(network, &recorded))
        })
    }

    /// Says that a stored transaction was sent.
    pub fn publish_tx(&self, request: &OneTx) -> Result<RecordedInfo, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let txid = texts::txid(wallet.network, &request.tx_hash)?;
        let recorded = self.ledger.publish(wallet.id, &txid, now())?;
        Ok(RecordedInfo::new(wallet.network, &recorded))
    }

    /// Says that a stored transaction is in a block.
    pub fn confirm_tx(&self, request: &ConfirmTx) -> Result<RecordedInfo, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let txid = texts::txid(wallet.network, &request.tx_hash)?;
        let block = block_ref(wallet.network, &request.block)?;
        let recorded: Recorded =
            self.ledger.confirm(wallet.id, &txid, block, request.position, now())?;
        Ok(RecordedInfo::new(wallet.network, &recorded))
    }

    /// Takes back what was said about the block of a transaction.
    pub fn unconfirm_tx(&self, request: &OneTx) -> Result<RecordedInfo, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let txid = texts::txid(wallet.network, &request.tx_hash)?;
        let recorded = self.ledger.unconfirm(wallet.id, &txid, now())?;
        Ok(RecordedInfo::new(wallet.network, &recorded))
    }

    /// Gives up a transaction that is in no block. It stays on record as failed.
    pub fn abandon_tx(&self, request: &OneTx) -> Result<Abandoned, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let id = texts::txid(wallet.network, &request.tx_hash)?;
        let abandoned = self.ledger.abandon(wallet.id, &id, now())?;
        let named = |txid: &Txid| wallet.network.hash(*txid);
        Ok(Abandoned {
            tx_hash: named(&id),
            failed_descendants: abandoned.descendants.iter().map(named).collect(),
            released_leases: abandoned.released_leases,
        })
    }

    /// Removes a live unconfirmed transaction that nothing live spends from, as if it had never
    /// been recorded.
    pub fn remove_tx(&self, request: &OneTx) -> Result<Removed, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let txid = texts::txid(wallet.network, &request.tx_hash)?;
        self.ledger.remove_unconfirmed(wallet.id, &txid, now())?;
        Ok(Removed { removed: wallet.network.hash(txid) })
    }

    /// A transaction read from its bytes.
    pub(super) fn tx_of_bytes(&self, network: Network, raw: &[u8]) -> Result<NewTx, WalletsError> {
        if network.is_cardano() {
            let what = "reading a transaction from its bytes";
            return Err(WalletsError::WrongChain { what, network });
        }
        let bytes_max = self.config.raw_tx_bytes_max.get() as usize;
        if raw.len() > bytes_max {
            let what = format!("{} bytes, at most {bytes_max} are taken", raw.len());
            return Err(WalletsError::field("raw", what));
        }
        new_tx(raw)
    }
}

/// A transaction of Bitcoin as the ledger takes it.
fn new_tx(raw: &[u8]) -> Result<NewTx, WalletsError> {
    let tx = decode_tx(raw).map_err(|error| WalletsError::field("raw", error.to_string()))?;
    Ok(NewTx::decoded(tx, raw).map_err(LedgerError::from)?)
}

pub(super) fn tx_of_parts(network: Network, parts: &PlainTx) -> Result<NewTx, WalletsError> {
    let output = |to: &super::PayTo| {
        let script = texts::script(network, &to.address)?;
        Ok(NewOutput { amount: to.amount.amount()?, script })
    };
    Ok(NewTx {
        txid: texts::txid(network, &parts.tx_hash)?,
        inputs: texts::outpoints(network, &parts.inputs)?,
        outputs: parts.outputs.iter().map(output).collect::<Result<_, WalletsError>>()?,
        coinbase: parts.is_coinbase,
        raw: None,
        credits: Credits::Watched,
    })
}

pub(super) fn block_ref(network: Network, block: &BlockPlace) -> Result<BlockRef, WalletsError> {
    let time = block.time.checked_mul(MICROS).and_then(|micros| i64::try_from(micros).ok());
    let time = time.ok_or_else(|| LedgerError::InvalidArgument {
        what: "the time of the block is not in seconds".to_owned(),
    })?;
    Ok(BlockRef {
        height: utxokeep_core::Height::new(block.height),
        hash: texts::block_hash(network, &block.hash)?,
        time: Micros::new(time),
    })
}
