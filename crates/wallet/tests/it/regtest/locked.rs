//! Coins whose descriptor has locks: they never keep a payment from being made that needs none of
//! them, and one transaction never needs two kinds of lock time.

use utxokeep_core::{Network, OutPoint, Txid, wallet::LockTime};
use utxokeep_wallet::{
    Algorithm, AllowedGuards, Amount, BalanceQuery, BumpRequest, Credits, FeeRate, Guard, Ledger,
    LedgerError, LinkedBlock, Micros, NewDescriptor, NewOutput, NewTx, RecordOptions, Seen,
    Selection, SelectionRequest, WalletId,
};

use crate::regtest::{
    chain::{NOW, hd_descriptors, open, wallet},
    descriptors::{block, script},
    payments::{owner, psbt, stranger, unsigned},
};

const NETWORK: Network = Network::BitcoinRegtest;
const SECOND: i64 = 1_000_000;

/// The form with a key of the node's wallet in it.
fn locking(form: &str) -> NewDescriptor {
    let text = hd_descriptors().iter().find_map(|each| {
        let (body, _) = each.text.split_once('#')?;
        Some(body.strip_prefix("wpkh(")?.strip_suffix(')')?.to_owned())
    });
    let text = form.replace("KEY", &text.unwrap());
    NewDescriptor { lookahead: Some(20), ..NewDescriptor::new(text) }
}

/// A payment to the first script of a descriptor.
fn pays(name: u8, descriptor: &NewDescriptor, amount: u64) -> NewTx {
    let output = NewOutput { amount: Amount::new(amount).unwrap(), script: script(descriptor, 0) };
    NewTx {
        txid: Txid::from_bytes([name; 32]),
        inputs: vec![OutPoint::new(Txid::from_bytes([0xee; 32]), name.into())],
        outputs: vec![output],
        coinbase: false,
        raw: None,
        credits: Credits::Watched,
    }
}

/// A block so many seconds before now.
fn aged(height: u8, seconds: i64) -> LinkedBlock {
    let mut linked = block(height);
    linked.block.time = Micros::new(NOW.get() - seconds * SECOND);
    linked
}

fn apply(ledger: &Ledger, linked: &LinkedBlock, txs: &[NewTx]) {
    ledger.apply_block(NETWORK, linked, txs, NOW).unwrap();
}

fn request(value: u64) -> SelectionRequest {
    SelectionRequest {
        algorithm: Algorithm::LargestFirst,
        ..SelectionRequest::new(Amount::new(value).unwrap(), FeeRate::per_vbyte(1), 1)
    }
}

fn amounts(selection: &Selection) -> Vec<u64> {
    selection.coins.iter().map(|coin| coin.amount.get()).collect()
}

fn select(
    ledger: &Ledger,
    wallet: WalletId,
    request: &SelectionRequest,
) -> Result<Vec<u64>, (u64, u64)> {
    match ledger.select(wallet, request, NOW) {
        Ok(selection) => Ok(amounts(&selection)),
        Err(LedgerError::InsufficientFunds { available, locked, pending: 0, .. }) => {
            Err((available, locked))
        }
        Err(other) => panic!("{other}"),
    }
}

/// Anybody can send a large coin to an address with a lock.
fn a_coin_that_is_not_open_yet_blocks_no_payment(url: &str) {
    let ledger = open(url);
    let relative = locking("wsh(and_v(v:pk(KEY),older(5)))");
    let wallet = wallet(&ledger, "w", std::slice::from_ref(&relative));
    apply(&ledger, &block(10), &[pays(1, &relative, 90_000)]);
    for height in 11..=14 {
        apply(&ledger, &block(height), &[]);
    }
    // The next block is the first that may spend the old coin; the large one is too young.
    let large = pays(2, &relative, 5_000_000);
    ledger.record(wallet, &large, Seen::Mempool, &RecordOptions::default(), NOW).unwrap();
    for is_in_block in [false, true] {
        if is_in_block {
            ledger.disconnect_block(NETWORK, &block(14), NOW).unwrap();
            apply(&ledger, &block(14), std::slice::from_ref(&large));
        }
        for algorithm in [
            Algorithm::LeastWaste,
            Algorithm::LargestFirst,
            Algorithm::OldestFirst,
            Algorithm::SingleRandomDraw,
            Algorithm::BranchAndBound,
        ] {
            let usual = SelectionRequest {
                algorithm,
                min_confirmations: 0,
                allow_untrusted: true,
                ..request(20_000)
            };
            assert_eq!(select(&ledger, wallet, &usual), Ok(vec![90_000]), "{algorithm:?}");
            let value = Amount::new(100_000).unwrap();
            let more = SelectionRequest { value, ..usual };
            assert_eq!(select(&ledger, wallet, &more), Err((90_000, 5_000_000)));
            let allow = AllowedGuards::NONE.with(Guard::NotYetValid);
            let waiting = SelectionRequest { allow, ..more };
            assert!(select(&ledger, wallet, &waiting).unwrap().contains(&5_000_000));
        }
    }
    let balance = ledger.balance(wallet, &BalanceQuery::default(), NOW).unwrap();
    assert_eq!((balance.available(), balance.locked), (90_000, 5_000_000));
    assert_eq!((balance.confirmed, balance.total()), (5_090_000, 5_090_000));
    let refused = ledger.select(wallet, &request(100_000), NOW).unwrap_err().to_string();
    assert!(refused.contains("5000000 locked") && refused.contains("not_yet_valid"), "{refused}");
}

fn locks_by_time_go_by_the_time_of_the_block(url: &str) {
    let ledger = open(url);
    // Two units of 512 seconds, and the time of the chain lies two hours behind the clock.
    let relative = locking("wsh(and_v(v:pk(KEY),older(4194306)))");
    let wallet = wallet(&ledger, "w", std::slice::from_ref(&relative));
    let bound = 7_200 + 2 * 512;
    apply(&ledger, &aged(10, bound), &[pays(1, &relative, 90_000)]);
    apply(&ledger, &aged(11, bound - 1), &[pays(2, &relative, 5_000_000)]);
    assert_eq!(select(&ledger, wallet, &request(20_000)), Ok(vec![90_000]));
    assert_eq!(select(&ledger, wallet, &request(100_000)), Err((90_000, 5_000_000)));
    let later = NOW.plus(SECOND);
    assert_eq!(amounts(&ledger.select(wallet, &request(100_000), later).unwrap()), [5_000_000]);
}

fn heights_and_times_are_not_spent_together(url: &str) {
    let ledger = open(url);
    let by_height = locking("wsh(and_v(v:pk(KEY),after(9)))");
    let by_time = locking("wsh(and_v(v:pk(KEY),after(1600000000)))");
    let closed = locking("wsh(and_v(v:pk(KEY),after(11)))");
    let all = [by_height.clone(), by_time.clone(), closed.clone()];
    let wallet = wallet(&ledger, "w", &all);
    let coins =
        [pays(1, &by_height, 50_000), pays(2, &by_time, 60_000), pays(3, &closed, 5_000_000)];
    apply(&ledger, &block(10), &coins);
    assert_eq!(select(&ledger, wallet, &request(45_000)).unwrap().len(), 1);
    assert_eq!(select(&ledger, wallet, &request(55_000)), Ok(vec![60_000]));
    assert_eq!(select(&ledger, wallet, &request(100_000)), Err((60_000, 5_050_000)));
    let balance = ledger.balance(wallet, &BalanceQuery::default(), NOW).unwrap();
    assert_eq!((balance.available(), balance.locked), (60_000, 5_050_000), "as for a payment");
    // Who asks for a height gets no coin that needs a time.
    let at_height = |value| SelectionRequest { lock_time: LockTime::Height(5), ..request(value) };
    assert_eq!(select(&ledger, wallet, &at_height(45_000)), Ok(vec![50_000]));
    assert_eq!(select(&ledger, wallet, &at_height(55_000)), Err((50_000, 5_060_000)));
    // Whoever waits cannot have both either.
    let allow = AllowedGuards::NONE.with(Guard::NotYetValid);
    let waiting = SelectionRequest { allow, ..request(5_051_000) };
    assert_eq!(select(&ledger, wallet, &waiting), Err((5_050_000, 60_000)));
    apply(&ledger, &block(11), &[]);
    assert_eq!(select(&ledger, wallet, &request(100_000)), Ok(vec![5_000_000]));
}

/// A replacement adds coins by the same rule.
fn a_bump_adds_no_coin_that_is_not_open(url: &str) {
    let ledger = open(url);
    let plain = NewDescriptor { lookahead: Some(20), ..hd_descriptors().remove(0) };
    let change = NewDescriptor { keychain: Some(1), ..plain.clone() };
    let relative = locking("wsh(and_v(v:pk(KEY),older(5)))");
    let wallet = wallet(&ledger, "w", &[change, relative.clone()]);
    apply(&ledger, &block(10), &[pays(1, &plain, 50_000), pays(2, &relative, 70_000)]);
    let terms = owner(1);
    let selection = ledger.select_and_lease(wallet, &request(49_890), &terms, NOW).unwrap();
    assert_eq!((amounts(&selection), selection.change), (vec![50_000], None));
    let old =
        unsigned(&psbt(&ledger, wallet, &selection.coins, &[stranger(49_890)], selection.fee));
    ledger.record(wallet, &old, Seen::Mempool, &RecordOptions::default(), NOW).unwrap();
    let bump = BumpRequest::new(FeeRate::per_vbyte(20));
    let refused = ledger.plan_bump(wallet, &old.txid, &bump, NOW).unwrap_err();
    let LedgerError::InsufficientFunds { available: 0, locked: 70_000, .. } = refused else {
        panic!("{refused}")
    };
    let allow = AllowedGuards::NONE.with(Guard::NotYetValid);
    let waiting = BumpRequest { allow, ..bump.clone() };
    assert_eq!(ledger.plan_bump(wallet, &old.txid, &waiting, NOW).unwrap().inputs.len(), 2);
    for height in 11..=14 {
        apply(&ledger, &block(height), &[]);
    }
    assert_eq!(ledger.plan_bump(wallet, &old.txid, &bump, NOW).unwrap().inputs.len(), 2);
}

crate::regtest::on_both!(
    a_coin_that_is_not_open_yet_blocks_no_payment,
    locks_by_time_go_by_the_time_of_the_block,
    heights_and_times_are_not_spent_together,
    a_bump_adds_no_coin_that_is_not_open,
);
