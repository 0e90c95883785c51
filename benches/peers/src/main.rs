//! Measures `bdk_wallet` on the history that the wallet ledger is measured on.
//!
//! It keeps everything in memory and writes changes to SQLite, so that most questions are answered
//! by a walk over all transactions, and opening means reading them all. Arguments are numbers of
//! coins.

#[allow(dead_code, reason = "the benchmark program uses the rest")]
#[path = "../../src/clock.rs"]
mod clock;
#[path = "../../src/wallet/history.rs"]
mod history;
#[allow(dead_code, reason = "the benchmark program uses the rest")]
#[path = "../../src/output.rs"]
mod output;

use std::path::Path;

use bdk_wallet::{
    KeychainKind, PersistedWallet, Wallet,
    bitcoin::{
        Amount, Block, BlockHash, CompactTarget, Network, OutPoint, ScriptBuf, Sequence,
        Transaction, TxIn, TxMerkleNode, TxOut, Txid, Witness,
        absolute::LockTime,
        bip32::{Xpriv, Xpub},
        block,
        hashes::Hash,
        secp256k1::Secp256k1,
        transaction,
    },
    rusqlite::Connection,
};

use clock::{Clock, Took};
use history::{History, Payment};

/// Sizes that are measured when none is given. A larger one takes minutes for each answer.
const SIZES: [u64; 3] = [1_000, 10_000, 100_000];
/// Calls of each question.
const CALLS: u32 = 3;

fn main() -> anyhow::Result<()> {
    let given = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut sizes = given.collect::<Result<Vec<_>, _>>()?;
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    let dir = tempfile::TempDir::new()?;
    output::heading("bdk_wallet with SQLite, fsync on");
    for coins in sizes {
        measure(&dir.path().join(format!("{coins}.db")), coins)?;
    }
    Ok(())
}

/// A chain of made transactions.
struct Chain {
    history: History,
    scripts: Vec<ScriptBuf>,
    txids: Vec<Txid>,
    tip: BlockHash,
    height: u32,
}

fn measure(file: &Path, coins: u64) -> anyhow::Result<()> {
    let payments = (coins / 10).clamp(50, 2_000);
    let addresses = u32::try_from(coins / 10)?.clamp(10, 10_000);
    let mut database = Connection::open(file)?;
    let mut wallet = create(&mut database)?;
    let _ = wallet.reveal_addresses_to(KeychainKind::External, addresses - 1);
    let script = |at| wallet.peek_address(KeychainKind::External, at).script_pubkey();
    let scripts = (0..addresses).map(script).collect();
    let tip = wallet.latest_checkpoint().hash();
    let history = History::new(addresses);
    let mut chain = Chain { history, scripts, txids: Vec::new(), tip, height: 0 };

    let mut applied = clock::Took { wall: std::time::Duration::ZERO, cpu_seconds: 0.0 };
    let mut count = 0;
    for _ in 0..coins.div_ceil(payments) {
        let block = chain.next_block(payments);
        count += block.txdata.len() as u64;
        let clock = Clock::start();
        wallet.apply_block(&block, chain.height)?;
        wallet.persist(&mut database)?;
        let took = clock.stop();
        applied.wall += took.wall;
        applied.cpu_seconds += took.cpu_seconds;
    }
    output::line(&format!(
        "{coins} coins: {count} transactions in blocks of {payments}, applied and persisted, \
         {applied}, {} by wall, {} by CPU",
        output::per_second(count, applied.seconds()),
        output::per_second(count, applied.cpu_seconds)
    ));
    let unconfirmed = (0..(coins / 100).min(1_000)).map(|_| {
        let payment = chain.history.payment_from_any(2);
        (chain.transaction(&payment), 1_700_000_000)
    });
    let unconfirmed: Vec<_> = unconfirmed.collect();
    wallet.apply_unconfirmed_txs(unconfirmed);
    wallet.persist(&mut database)?;

    let total = wallet.balance().total();
    let balance = repeated(|| wallet.balance().total() == total);
    let listed = wallet.list_unspent().count();
    let list = repeated(|| wallet.list_unspent().count() == listed);
    drop((wallet, database));
    let open = Clock::start();
    let mut database = Connection::open(file)?;
    let wallet = Wallet::load().load_wallet(&mut database)?;
    let open = open.stop();
    let reopened = wallet.map(|wallet| wallet.balance().total());
    anyhow::ensure!(reopened == Some(total), "the wallet was not loaded as it was stored");
    output::line(&format!(
        "{coins} coins: balance {}; list of all {listed} unspent {}; opened again, {open}",
        each(balance),
        each(list)
    ));
    Ok(())
}

fn create(database: &mut Connection) -> anyhow::Result<PersistedWallet<Connection>> {
    let secp = Secp256k1::new();
    let key = Xpub::from_priv(&secp, &Xpriv::new_master(Network::Regtest, &[7; 32])?);
    let keychain = |branch| format!("wpkh({key}/{branch}/*)");
    let wallet = Wallet::create(keychain(0), keychain(1)).network(Network::Regtest);
    Ok(wallet.create_wallet(database)?)
}

/// Asks a question a few times; every answer must be right.
fn repeated(mut is_right: impl FnMut() -> bool) -> Took {
    let clock = Clock::start();
    for _ in 0..CALLS {
        assert!(is_right(), "an answer changed");
    }
    clock.stop()
}

fn each(took: Took) -> String {
    let cpu = took.cpu_seconds / f64::from(CALLS);
    format!("{:.2?} wall, {cpu:.3} s CPU", took.wall / CALLS)
}

impl Chain {
    fn next_block(&mut self, payments: u64) -> Block {
        self.height += 1;
        let payments = self.history.block(payments, 2);
        let txdata = payments.iter().map(|payment| self.transaction(payment)).collect();
        let header = block::Header {
            version: block::Version::TWO,
            prev_blockhash: self.tip,
            merkle_root: TxMerkleNode::all_zeros(),
            time: 1_700_000_000 + self.height,
            bits: CompactTarget::from_consensus(0x207f_ffff),
            nonce: 0,
        };
        let block = Block { header, txdata };
        self.tip = block.block_hash();
        block
    }

    fn transaction(&mut self, payment: &Payment) -> Transaction {
        let number = payment.number.to_be_bytes();
        let previous_output = match payment.input {
            Some((parent, index)) => {
                let parent = usize::try_from(parent).unwrap_or(usize::MAX);
                OutPoint::new(self.txids[parent], index)
            }
            None if payment.is_coinbase => OutPoint::null(),
            None => OutPoint::new(Txid::hash(&number), 0),
        };
        let input = TxIn {
            previous_output,
            script_sig: ScriptBuf::from_bytes([&[8], number.as_slice()].concat()),
            sequence: Sequence::MAX,
            witness: Witness::from_slice(&[vec![0x30; 72], vec![0x02; 33]]),
        };
        let output = |output: &history::Output| TxOut {
            value: Amount::from_sat(output.amount),
            script_pubkey: self.scripts[output.address as usize].clone(),
        };
        let made = Transaction {
            version: transaction::Version::TWO,
            lock_time: LockTime::ZERO,
            input: vec![input],
            output: payment.outputs.iter().map(output).collect(),
        };
        self.txids.push(made.compute_txid());
        made
    }
}
