//! A wallet with coins, and transactions and blocks for it.

use utxokeep_chains::decode_tx;
use utxokeep_server::grpc::proto;

use crate::wallet_grpc::served::Served;

/// Name of the wallet.
pub(crate) const WALLET: &str = "treasury";

/// Height of the block that pays the wallet.
pub(crate) const FIRST: u32 = 100;

/// An account of Bitcoin Core.
pub(crate) const ACCOUNT: &str = "[0c5f9a1e/84h/1h/0h]tpubDCxzhZZE31g2EqSv1UajMAw5Hd62htydz9r2XBkrccHgBh8uw3n62zr6Zjmj64tfTk8Tjxo6VctjUMAh5DXWTErfQPC6RmQhTdtNnXuTXTQ";

/// A script of somebody else.
pub(crate) fn stranger() -> Vec<u8> {
    [vec![0x00, 0x14], vec![0xab; 20]].concat()
}

pub(crate) fn txid_of(raw: &[u8]) -> Vec<u8> {
    decode_tx(raw).unwrap().txid.as_bytes().to_vec()
}

/// Bytes of a transaction with one input and a few outputs. `salt` makes it differ from others.
pub(crate) fn raw_tx(salt: u8, outputs: &[(u64, &[u8])]) -> Vec<u8> {
    let mut raw = vec![2, 0, 0, 0, 1];
    raw.extend([salt; 32]);
    raw.extend([0; 4]);
    raw.push(0);
    raw.extend([0xff; 4]);
    raw.push(u8::try_from(outputs.len()).unwrap());
    for (amount, script) in outputs {
        raw.extend(amount.to_le_bytes());
        raw.push(u8::try_from(script.len()).unwrap());
        raw.extend(*script);
    }
    raw.extend([0; 4]);
    raw
}

/// The block of a height, on a branch.
pub(crate) fn block(height: u32, branch: u8) -> proto::WalletBlock {
    let mut hash = vec![branch; 32];
    hash[..4].copy_from_slice(&height.to_be_bytes());
    proto::WalletBlock { height, hash, time: 1_700_000_000 + u64::from(height) * 600 }
}

pub(crate) fn apply(
    block: proto::WalletBlock,
    parent: Option<proto::WalletBlock>,
    transactions: &[Vec<u8>],
) -> proto::ApplyBlockRequest {
    use proto::wallet_block_transaction::Transaction;
    let transaction = |raw: &Vec<u8>| proto::WalletBlockTransaction {
        transaction: Some(Transaction::Raw(raw.clone())),
    };
    proto::ApplyBlockRequest {
        chain: String::new(),
        network: "regtest".to_owned(),
        block: Some(block),
        parent: parent.map(|parent| parent.hash),
        transactions: transactions.iter().map(transaction).collect(),
    }
}

pub(crate) fn create(name: &str) -> proto::CreateWalletRequest {
    proto::CreateWalletRequest {
        name: name.to_owned(),
        chain: String::new(),
        network: "regtest".to_owned(),
        birthday_height: None,
    }
}

pub(crate) fn balance(served: &Served) -> proto::GetBalanceResponse {
    let request = proto::GetBalanceRequest {
        wallet: WALLET.to_owned(),
        ..proto::GetBalanceRequest::default()
    };
    served.ok(served.client().get_balance(request))
}

/// Makes the wallet with its two keychains, for receiving and for change.
pub(crate) fn make_wallet(served: &Served) -> Vec<proto::WalletDescriptor> {
    served.ok(served.client().create_wallet(create(WALLET)));
    let request = proto::AddDescriptorRequest {
        wallet: WALLET.to_owned(),
        descriptor: format!("wpkh({ACCOUNT}/<0;1>/*)"),
        keychain: None,
        lookahead: Some(10),
        next_index: None,
    };
    served.ok(served.client().add_descriptor(request)).descriptors
}

/// The next address of a keychain.
pub(crate) fn next_address(served: &Served, descriptor_id: i64) -> proto::NextAddressResponse {
    let request = proto::NextAddressRequest {
        wallet: WALLET.to_owned(),
        descriptor_id,
        idempotency_key: None,
    };
    served.ok(served.client().next_address(request))
}

/// Makes the wallet, and a block that pays it these amounts. Answers the transaction.
pub(crate) fn fund(served: &Served, amounts: &[u64]) -> Vec<u8> {
    let keychains = make_wallet(served);
    let script = next_address(served, keychains[0].id).script;
    let outputs: Vec<_> = amounts.iter().map(|amount| (*amount, script.as_slice())).collect();
    let raw = raw_tx(1, &outputs);
    let raws = std::slice::from_ref(&raw);
    let applied = served.ok(served.client().apply_block(apply(block(FIRST, 1), None, raws)));
    assert_eq!((applied.already_applied, applied.recorded), (false, 1));
    raw
}

/// Asks for coins worth `value`, for a fee of one satoshi for each virtual byte.
pub(crate) fn coins_for(value: u64) -> proto::CoinRequest {
    proto::CoinRequest {
        value: Some(value),
        fee_per_kilo_weight: Some(250),
        seed: Some(7),
        ..proto::CoinRequest::default()
    }
}

pub(crate) fn select(coins: proto::CoinRequest) -> proto::SelectCoinsRequest {
    proto::SelectCoinsRequest {
        wallet: WALLET.to_owned(),
        coins: Some(coins),
        idempotency_key: None,
    }
}

/// A payment to a stranger.
pub(crate) fn payment(amount: u64) -> proto::WalletPayment {
    let owner = Some(proto::wallet_payment::Owner::Script(stranger()));
    proto::WalletPayment { owner, amount }
}

pub(crate) fn get_transaction(served: &Served, txid: &[u8]) -> proto::WalletTransactionDetails {
    let request = proto::GetTransactionRequest { wallet: WALLET.to_owned(), txid: txid.to_vec() };
    served.ok(served.client().get_transaction(request)).details.unwrap()
}
