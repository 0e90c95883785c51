//! Spending: selections, transactions to be signed, higher fees.

use utxokeep_core::{
    Network,
    wallet::{LockTime, UnsignedPsbt},
};
use utxokeep_wallet::{
    Algorithm, Amount, BumpPlan, BumpRequest, FeeRate, LedgerError, NewOutput, Paid,
    PaymentRequest, Replaced, SelectedCoin, Selection, SelectionRequest, Wallet,
};

use super::{
    BumpFee, BumpInfo, CreatePsbt, Hex, LeaseFor, PayTo, Payment, PsbtInfo, RecordedInfo,
    SelectCoins, SelectedInfo, SelectionInfo, Signed, Units, Wallets, WalletsError,
    leases::Lessee,
    now,
    once::{Asked, refuse_key},
    texts,
};

impl Wallets {
    /// Selects coins, and leases them in the same step if that is asked for.
    pub fn select_coins(&self, request: &SelectCoins) -> Result<SelectionInfo, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        // Without a seed each attempt draws anew.
        let payment = || self.payment(&wallet, &request.payment);
        let key = request.idempotency_key.as_deref();
        let Some(lease) = request.lease() else {
            refuse_key(key, "a selection without a lease changes nothing; leave the key out")?;
            return self.ledger.view(wallet.id, now(), |open| {
                Ok(selection_info(wallet.network, &open.quote(&payment()?)?, None))
            });
        };
        let lessee = self.lessee(&lease)?;
        let asked = Asked { operation: "select", request: &(request, &lease), key };
        self.once(&wallet, &asked, |open| {
            let selected = open.reserve(&payment()?, &lessee.terms)?;
            Ok(selection_info(wallet.network, &selected, Some(&lessee)))
        })
    }

    /// Selects and leases coins, and makes the transaction that spends them, to be signed. Leases,
    /// the address for change and the record are one transaction of the database.
    pub fn create_psbt(&self, request: &CreatePsbt) -> Result<PsbtInfo, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        if wallet.network.is_cardano() {
            return Err(WalletsError::WrongChain { what: "a PSBT", network: wallet.network });
        }
        if request.payment.outputs.is_empty() {
            return Err(WalletsError::field("outputs", "a payment pays somebody"));
        }
        let lock_time = lock_time(request.lock_height)?;
        let lessee = self.lessee(request.payment.lease.as_ref().unwrap_or(&LeaseFor::default()))?;
        let key = request.idempotency_key.as_deref();
        self.once(&wallet, &Asked { operation: "psbt", request, key }, |open| {
            let mut payment = self.payment(&wallet, &request.payment)?;
            payment.selection.lock_time = lock_time;
            let change_address = request.change_address.as_deref();
            payment.change_script =
                change_address.map(|to| texts::script(wallet.network, to)).transpose()?;
            payment.record = request.record;
            let paid = open.pay(&payment, &lessee.terms)?;
            Ok(psbt_info(wallet.network, &paid, &lessee))
        })
    }

    /// Makes the replacement of a transaction with a higher fee. It waits to be published.
    pub fn bump_fee(&self, request: &BumpFee) -> Result<BumpInfo, WalletsError> {
        let wallet = self.wallet(&request.wallet)?;
        let network = wallet.network;
        let txid = texts::txid(network, &request.tx_hash)?;
        let usual = BumpRequest::new(request.fee_rate.0);
        let lessee = self.lessee(&request.lease)?;
        let change_address = request.change_address.as_deref();
        let bump = BumpRequest {
            fee_rate: usual.fee_rate,
            change_script: change_address.map(|to| texts::script(network, to)).transpose()?,
            incremental_rate: request
                .incremental_rate
                .map_or(self.ledger.limits().payment.incremental_rate_min, |rate| rate.0),
            change: request.change,
            change_min_value: request.change_min.map_or(usual.change_min_value, |min| min.0),
            lease_of: request.lease_of.as_deref().map(texts::owner_id).transpose()?,
            owner: Some(lessee.terms.owner),
            inputs_max: request.inputs_max.map_or(usual.inputs_max, |max| max as usize),
            maturity: self.maturity(),
            allow: texts::allow(&request.allow)?,
        };
        let key = request.idempotency_key.as_deref();
        if request.is_dry_run {
            refuse_key(key, "a dry run changes nothing; leave the key out")?;
            return self.ledger.view(wallet.id, now(), |open| {
                let (plan, psbt) = open.plan_replacement(&txid, &bump)?;
                Ok(bump_info(network, &plan, &psbt))
            });
        }
        let asked = Asked { operation: "bump", request, key };
        self.once(&wallet, &asked, |open| {
            let Replaced { psbt, bumped } = open.replace(&txid, &bump, &lessee.terms)?;
            let recorded = bumped.recorded.map(|recorded| RecordedInfo::new(network, &recorded));
            let leased = Some(lessee.leased(bumped.leased_until));
            Ok(BumpInfo { leased, recorded, ..bump_info(network, &bumped.plan, &psbt) })
        })
    }

    /// What a request asks for, with change to a keychain of the wallet.
    fn payment(&self, wallet: &Wallet, request: &Payment) -> Result<PaymentRequest, WalletsError> {
        let outputs = new_outputs(wallet.network, &request.outputs)?;
        let (rate, seed) = (request.fee_rate.0, request.seed.unwrap_or_else(texts::random));
        let usual = match (outputs.is_empty(), request.value) {
            (true, Some(value)) => SelectionRequest::new(value.amount()?, rate, seed),
            (true, None) => {
                return Err(WalletsError::field("outputs", "say what is paid, or give a value"));
            }
            (false, Some(_)) => {
                return Err(WalletsError::field("value", "the outputs say how much is paid"));
            }
            (false, None) => {
                SelectionRequest::paying(outputs, rate, seed).map_err(LedgerError::from)?
            }
        };
        let long_term = request.long_term_fee_rate.map_or(FeeRate::per_vbyte(10), |rate| rate.0);
        let selection = SelectionRequest {
            long_term_fee_rate: long_term,
            algorithm: request.algorithm.into(),
            min_confirmations: request.min_confirmations.unwrap_or(usual.min_confirmations),
            maturity: self.maturity(),
            allow_untrusted: request.allow_untrusted,
            allow_pending: request.allow_pending,
            exclude: texts::outpoints(wallet.network, &request.exclude)?,
            inputs_max: request.inputs_max.map_or(usual.inputs_max, |max| max as usize),
            allow: texts::allow(&request.allow)?,
            ..usual
        };
        let change_min_value = request.change_min.map_or(0, |min| min.0);
        Ok(PaymentRequest { change_min_value, ..PaymentRequest::new(selection) })
    }
}

fn lock_time(height: u32) -> Result<LockTime, WalletsError> {
    match LockTime::from_number(height) {
        lock @ LockTime::Height(_) => Ok(lock),
        LockTime::Time(_) => {
            Err(WalletsError::field("lock_height", format!("{height} is no height of a block")))
        }
    }
}

fn new_outputs(network: Network, outputs: &[PayTo]) -> Result<Vec<NewOutput>, WalletsError> {
    let mut sum = 0u64;
    let mut output = |to: &PayTo| {
        let amount: Amount = to.amount.amount()?;
        sum = Units(sum.saturating_add(amount.get())).amount()?.get();
        Ok(NewOutput { amount, script: texts::script(network, &to.address)? })
    };
    outputs.iter().map(&mut output).collect()
}

fn selected_info(network: Network, coin: &SelectedCoin) -> SelectedInfo {
    SelectedInfo {
        outpoint: network.outpoint(&coin.outpoint),
        amount: Units(coin.amount.get()),
        script: Hex(coin.script.clone()),
        weight: coin.weight,
    }
}

fn selection_info(
    network: Network,
    selection: &Selection,
    lessee: Option<&Lessee>,
) -> SelectionInfo {
    SelectionInfo {
        coins: selection.coins.iter().map(|coin| selected_info(network, coin)).collect(),
        input_total: Units(selection.input_total),
        fee: Units(selection.fee),
        weight: selection.weight,
        change: selection.change.map(Units),
        waste: Signed(selection.waste),
        algorithm: algorithm_name(selection.algorithm).into(),
        leased: lessee.zip(selection.leased_until).map(|(lessee, until)| lessee.leased(until)),
    }
}

const fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::LeastWaste => "least_waste",
        Algorithm::LargestFirst => "largest_first",
        Algorithm::OldestFirst => "oldest_first",
        Algorithm::SingleRandomDraw => "single_random_draw",
        Algorithm::BranchAndBound => "branch_and_bound",
    }
}

fn psbt_info(network: Network, paid: &Paid, lessee: &Lessee) -> PsbtInfo {
    let Paid { psbt, selection, change_script, recorded } = paid;
    PsbtInfo {
        tx_hash: network.hash(psbt.txid),
        psbt: psbt.base64.clone(),
        is_tx_hash_final: psbt.is_txid_final,
        selection: selection_info(network, selection, Some(lessee)),
        change_address: change_script.as_ref().and_then(|to| texts::address(network, to)),
        valid_from_height: psbt.valid_from.height,
        valid_from_time: psbt.valid_from.median_time,
        recorded: recorded.as_ref().map(|recorded| RecordedInfo::new(network, recorded)),
    }
}

fn bump_info(network: Network, plan: &BumpPlan, psbt: &UnsignedPsbt) -> BumpInfo {
    let change = plan.change.and_then(|at| plan.outputs.get(at));
    BumpInfo {
        replaces: network.hash(plan.replaces),
        evicts: plan.evicts.iter().map(|&txid| network.hash(txid)).collect(),
        inputs: plan.inputs.iter().map(|coin| selected_info(network, coin)).collect(),
        kept_inputs: plan.kept_inputs,
        fee: Units(plan.fee),
        replaced_fees: Units(plan.replaced_fees),
        weight: plan.weight,
        change: change.map(|output| Units(output.amount.get())),
        change_address: change.and_then(|output| texts::address(network, &output.script)),
        valid_from_height: psbt.valid_from.height,
        valid_from_time: psbt.valid_from.median_time,
        psbt: psbt.base64.clone(),
        tx_hash: network.hash(psbt.txid),
        is_tx_hash_final: psbt.is_txid_final,
        leased: None,
        recorded: None,
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{OpenMode, wallet::output_weight};

    use super::*;
    use crate::{
        config::WalletConfig,
        wallets::{
            AddDescriptor, ApplyBlock, BlockPlace, BlockTx, Choose, CreateWallet, NextAddress,
            PlainTx, ReleaseLeases,
        },
    };

    const TAPROOT: &str = "tr([0c5f9a1e/86h/1h/0h]tpubDCxzhZZE31g2EqSv1UajMAw5Hd62htydz9r2XBkrccHgBh8uw3n62zr6Zjmj64tfTk8Tjxo6VctjUMAh5DXWTErfQPC6RmQhTdtNnXuTXTQ/<0;1>/*)";
    const ELSEWHERE: &str = "0014751e76e8199196d454941c45d1b3a323f1433bd6";
    /// Pays to a public key hash: change there is longer still, and dust below 546.
    const OLD_FORM: &str = "76a914751e76e8199196d454941c45d1b3a323f1433bd688ac";

    /// A wallet of taproot keys with one coin.
    fn rich(dir: &std::path::Path, amount: u64) -> Wallets {
        let url = format!("sqlite:{}", dir.join("ledger").display());
        let wallets = Wallets::open(&url, &WalletConfig::default(), OpenMode::Create).unwrap();
        let (name, network) = ("w".to_owned(), "regtest".to_owned());
        let wallet =
            CreateWallet { name, chain: "bitcoin".to_owned(), network, birthday_height: None };
        wallets.create_wallet(&wallet).unwrap();
        let descriptor = TAPROOT.to_owned();
        let keys = AddDescriptor {
            wallet: "w".to_owned(),
            descriptor,
            keychain: None,
            lookahead: None,
            next_index: None,
        };
        wallets.add_descriptor(&keys).unwrap();
        let next = NextAddress { wallet: "w".to_owned(), ..NextAddress::default() };
        let address = wallets.next_address(&next).unwrap().address.unwrap();
        let paid = PlainTx {
            tx_hash: "11".repeat(32),
            inputs: vec![format!("{}:0", "22".repeat(32))],
            outputs: vec![PayTo { address, amount: Units(amount) }],
            is_coinbase: false,
        };
        let block = ApplyBlock {
            chain: "bitcoin".to_owned(),
            network: "regtest".to_owned(),
            block: BlockPlace { height: 7, hash: "33".repeat(32), time: 1 },
            parent: None,
            transactions: vec![BlockTx::Parts(paid)],
        };
        wallets.apply_block(&block).unwrap();
        wallets
    }

    fn pay(value: u64, change_address: Option<&str>) -> CreatePsbt {
        CreatePsbt {
            wallet: "w".to_owned(),
            payment: Payment {
                outputs: vec![PayTo { address: ELSEWHERE.to_owned(), amount: Units(value) }],
                value: None,
                fee_rate: "1".parse().unwrap(),
                long_term_fee_rate: None,
                algorithm: Choose::LargestFirst,
                min_confirmations: None,
                allow_untrusted: false,
                allow_pending: false,
                exclude: Vec::new(),
                inputs_max: None,
                change_min: None,
                seed: Some(1),
                lease: None,
                allow: Vec::new(),
            },
            change_address: change_address.map(str::to_owned),
            lock_height: 0,
            record: false,
            idempotency_key: None,
        }
    }

    #[test]
    fn change_that_is_longer_than_usual_is_paid_for() {
        for (asked, script_len) in [(None, 34), (Some(OLD_FORM), 25)] {
            let dir = tempfile::tempdir().unwrap();
            let wallets = rich(dir.path(), 100_000);
            let made = wallets.create_psbt(&pay(50_000, asked)).unwrap();
            assert!(made.selection.change.is_some() && made.change_address.is_some());
            let outputs = output_weight(&[0; 22]) + output_weight(&vec![0; script_len]);
            let weight = 42 + outputs + u64::from(made.selection.coins[0].weight);
            assert_eq!(made.selection.fee, Units(weight.div_ceil(4)), "one for each virtual byte");
        }
    }

    #[test]
    fn change_that_nodes_would_call_dust_goes_to_the_fee() {
        // What is left is above the limit of a native segwit key, and below that of this script.
        for (asked, left) in [(None, 300), (Some(OLD_FORM), 500)] {
            let dir = tempfile::tempdir().unwrap();
            let wallets = rich(dir.path(), 100_000);
            let with_change = wallets.create_psbt(&pay(50_000, asked)).unwrap();
            let owner = with_change.selection.leased.unwrap().owner;
            let (wallet, owner) = ("w".to_owned(), owner.to_string());
            let release = ReleaseLeases { wallet, owner, outpoint: None };
            wallets.release_leases(&release).unwrap();
            let value = 100_000 - with_change.selection.fee.0 - left;
            let made = wallets.create_psbt(&pay(value, asked)).unwrap();
            assert_eq!(made.selection.change, None);
            assert_eq!(made.selection.fee, Units(100_000 - value));
        }
    }
}
