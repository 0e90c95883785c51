//! From messages to the requests of the wallet ledger. Whatever breaks the contract is refused here.

use utxokeep_core::{hex_encode, wallet::FeeRate};

use super::{
    fault::{Fault, Within, each, required},
    from_proto as from, proto,
    wallet_operations::Limits,
    wallet_texts::{Texts, lease_owner},
};
use crate::wallets::{
    ApplyBlock, BlockPlace, BlockTx, BroadcastTx, BumpFee, Choose, CreatePsbt, DisconnectBlock,
    LeaseFor, PayTo, Payment, PlainTx, Rate, RecordTx, SeenIn, Units, WalletPage, WatchAddress,
};

/// Entries of a page: what was asked for, or the most.
pub(super) fn entries(
    field: &str,
    asked: Option<u32>,
    entries_max: usize,
) -> Result<Option<u32>, Fault> {
    match asked {
        Some(asked) => from::limit(field, asked, entries_max).map(|_| Some(asked)),
        None => Ok(u32::try_from(entries_max).ok()),
    }
}

pub(super) fn page(
    wallet: String,
    cursor: Option<String>,
    asked: Option<u32>,
    limits: &Limits,
) -> Result<WalletPage, Fault> {
    let page_size = entries("page_entries", asked, limits.page_entries)?;
    Ok(WalletPage { wallet, cursor, page_size })
}

/// The chain when the request does not say.
pub(super) fn chain(name: String) -> String {
    if name.is_empty() { "bitcoin".to_owned() } else { name }
}

fn rate(field: &str, per_kilo_weight: Option<u32>) -> Result<Rate, Fault> {
    required(field, per_kilo_weight).map(usual_rate)
}

const fn usual_rate(per_kilo_weight: u32) -> Rate {
    Rate(FeeRate::per_kilo_weight(per_kilo_weight))
}

/// A script as a text that the ledger takes for an address.
fn script_text(script: &[u8]) -> String {
    hex_encode(script)
}

pub(super) fn watch_address(watch: proto::WatchAddress) -> Result<WatchAddress, Fault> {
    use proto::watch_address::Owner;
    let address = match required("owner", watch.owner)? {
        Owner::Address(address) => address,
        Owner::Script(script) => script_text(&script),
    };
    Ok(WatchAddress { address, spend_weight: watch.spend_weight })
}

fn pay_to(payment: proto::WalletPayment) -> Result<PayTo, Fault> {
    use proto::wallet_payment::Owner;
    let address = match required("owner", payment.owner)? {
        Owner::Address(address) => address,
        Owner::Script(script) => script_text(&script),
    };
    Ok(PayTo { address, amount: Units(payment.amount) })
}

/// An owner by its bytes or by its name, as the text that the models hold.
pub(super) fn owner(
    field: &str,
    bytes: Option<&[u8]>,
    name: Option<String>,
) -> Result<Option<String>, Fault> {
    match (bytes, name) {
        (Some(_), Some(_)) => {
            Err(Fault::new("is given by its bytes and by its name")).within(field)
        }
        (Some(bytes), None) => lease_owner(bytes).within(field).map(Some),
        (None, name) => Ok(name),
    }
}

pub(super) fn lease_for(terms: Option<proto::LeaseTerms>) -> Result<LeaseFor, Fault> {
    let terms = terms.unwrap_or_default();
    Ok(LeaseFor {
        owner: owner("owner", terms.owner.as_deref(), terms.owner_name)?,
        seconds: terms.seconds,
        hold_confirmations: terms.hold_confirmations,
    })
}

fn seen(value: i32) -> Result<SeenIn, Fault> {
    use proto::WalletSeen as Seen;
    match Seen::try_from(value) {
        Ok(Seen::Unspecified | Seen::Created) => Ok(SeenIn::Created),
        Ok(Seen::Mempool) => Ok(SeenIn::Mempool),
        Ok(Seen::Block) => Ok(SeenIn::Block),
        Err(_) => Err(unknown(value)).within("seen"),
    }
}

fn choose(value: i32) -> Result<Choose, Fault> {
    use proto::WalletAlgorithm as Algorithm;
    match Algorithm::try_from(value) {
        Ok(Algorithm::Unspecified | Algorithm::LeastWaste) => Ok(Choose::LeastWaste),
        Ok(Algorithm::LargestFirst) => Ok(Choose::LargestFirst),
        Ok(Algorithm::OldestFirst) => Ok(Choose::OldestFirst),
        Ok(Algorithm::SingleRandomDraw) => Ok(Choose::SingleRandomDraw),
        Ok(Algorithm::BranchAndBound) => Ok(Choose::BranchAndBound),
        Err(_) => Err(unknown(value)).within("algorithm"),
    }
}

fn unknown(value: i32) -> Fault {
    Fault::new(format!("is {value}, which the contract does not name"))
}

impl Texts {
    pub(super) fn block(self, block: Option<proto::WalletBlock>) -> Result<BlockPlace, Fault> {
        let block = required("block", block)?;
        let hash = self.hash(&block.hash).within("hash").within("block")?;
        Ok(BlockPlace { height: block.height, hash, time: block.time })
    }

    fn parent(self, parent: Option<Vec<u8>>) -> Result<Option<String>, Fault> {
        parent.map(|hash| self.hash(&hash)).transpose().within("parent")
    }

    pub(super) fn outpoints(
        self,
        field: &str,
        outpoints: Vec<proto::OutPoint>,
    ) -> Result<Vec<String>, Fault> {
        each(field, outpoints, |outpoint| self.outpoint(&outpoint))
    }

    fn plain_tx(self, parts: proto::WalletPlainTransaction) -> Result<PlainTx, Fault> {
        Ok(PlainTx {
            tx_hash: self.hash(&parts.txid).within("txid")?,
            inputs: self.outpoints("inputs", parts.inputs)?,
            outputs: each("outputs", parts.outputs, pay_to)?,
            is_coinbase: parts.is_coinbase,
        })
    }

    pub(super) fn record_tx(
        self,
        request: proto::RecordTransactionRequest,
    ) -> Result<RecordTx, Fault> {
        use proto::record_transaction_request::Transaction;
        let (raw, parts) = match required("transaction", request.transaction)? {
            Transaction::Raw(raw) => (Some(hex_encode(&raw)), None),
            Transaction::Parts(parts) => (None, Some(self.plain_tx(parts).within("parts")?)),
        };
        Ok(RecordTx {
            wallet: request.wallet,
            raw,
            parts,
            seen: seen(request.seen)?,
            block: request.block.map(|block| self.block(Some(block))).transpose()?,
            position: request.position,
            replaces: request.replaces,
            label: request.label,
            credits: request.credits.map(|credits| credits.outputs),
            owner: owner("owner", request.owner.as_deref(), request.owner_name)?,
            idempotency_key: request.idempotency_key,
        })
    }

    pub(super) fn broadcast_tx(
        self,
        request: proto::BroadcastTransactionRequest,
    ) -> Result<BroadcastTx, Fault> {
        use proto::broadcast_transaction_request::Signed;
        let tx_hash = self.hash(&request.txid).within("txid")?;
        let (psbt, raw) = match request.signed {
            None => (None, None),
            Some(Signed::Psbt(psbt)) => (Some(psbt), None),
            Some(Signed::Raw(raw)) => (None, Some(hex_encode(&raw))),
        };
        Ok(BroadcastTx {
            wallet: request.wallet,
            tx_hash,
            psbt,
            raw,
            replaces: request.is_replacement,
            allow: request.allow,
            idempotency_key: request.idempotency_key,
        })
    }

    pub(super) fn coins(self, request: proto::CoinRequest) -> Result<Payment, Fault> {
        let lease = request.lease.map(|terms| lease_for(Some(terms)));
        Ok(Payment {
            outputs: each("outputs", request.outputs, pay_to)?,
            value: request.value.map(Units),
            fee_rate: rate("fee_per_kilo_weight", request.fee_per_kilo_weight)?,
            long_term_fee_rate: request.long_term_fee_per_kilo_weight.map(usual_rate),
            algorithm: choose(request.algorithm)?,
            min_confirmations: request.min_confirmations,
            allow_untrusted: request.allow_untrusted,
            allow_pending: request.allow_pending,
            exclude: self.outpoints("exclude", request.exclude)?,
            inputs_max: request.inputs_max,
            change_min: request.change_min.map(Units),
            seed: request.seed,
            lease: lease.transpose().within("lease")?,
            allow: request.allow,
        })
    }

    pub(super) fn create_psbt(
        self,
        request: proto::CreatePsbtRequest,
    ) -> Result<CreatePsbt, Fault> {
        use proto::create_psbt_request::Change;
        let payment = required("payment", request.payment)?;
        Ok(CreatePsbt {
            wallet: request.wallet,
            payment: self.coins(payment).within("payment")?,
            change_address: request.change.map(|change| match change {
                Change::ChangeAddress(address) => address,
                Change::ChangeScript(script) => script_text(&script),
            }),
            lock_height: request.lock_height,
            record: request.record,
            idempotency_key: request.idempotency_key,
        })
    }

    pub(super) fn apply_block(
        self,
        request: proto::ApplyBlockRequest,
    ) -> Result<ApplyBlock, Fault> {
        use proto::wallet_block_transaction::Transaction;
        let tx = |tx: proto::WalletBlockTransaction| match required("transaction", tx.transaction)?
        {
            Transaction::Raw(raw) => Ok(BlockTx::Raw(hex_encode(&raw))),
            Transaction::Parts(parts) => self.plain_tx(parts).within("parts").map(BlockTx::Parts),
        };
        Ok(ApplyBlock {
            chain: chain(request.chain),
            network: request.network,
            block: self.block(request.block)?,
            parent: self.parent(request.parent)?,
            transactions: each("transactions", request.transactions, tx)?,
        })
    }

    pub(super) fn disconnect_block(
        self,
        request: proto::DisconnectBlockRequest,
    ) -> Result<DisconnectBlock, Fault> {
        let parent = self.parent(request.parent)?;
        Ok(DisconnectBlock {
            chain: chain(request.chain),
            network: request.network,
            block: self.block(request.block)?,
            parent,
        })
    }
}

pub(super) fn bump_fee(texts: Texts, request: proto::BumpFeeRequest) -> Result<BumpFee, Fault> {
    use proto::bump_fee_request::NewChange;
    let tx_hash = texts.hash(&request.txid).within("txid")?;
    let lease_of = owner("lease_of", request.lease_of.as_deref(), request.lease_of_name)?;
    Ok(BumpFee {
        wallet: request.wallet,
        tx_hash,
        change_address: request.new_change.map(|change| match change {
            NewChange::ChangeAddress(address) => address,
            NewChange::ChangeScript(script) => script_text(&script),
        }),
        allow: request.allow,
        fee_rate: rate("fee_per_kilo_weight", request.fee_per_kilo_weight)?,
        incremental_rate: request.incremental_fee_per_kilo_weight.map(usual_rate),
        change: request.change,
        change_min: request.change_min.map(Units),
        lease_of,
        lease: lease_for(request.lease).within("lease")?,
        inputs_max: request.inputs_max,
        is_dry_run: request.dry_run,
        idempotency_key: request.idempotency_key,
    })
}
