//! The mempool of a real Bitcoin Core in the ledger of a served program: after every change confirmed
//! coins equal `scantxoutset`, and unconfirmed ones a model over `getrawmempool`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utxokeep_chains::decode_tx;
use utxokeep_core::{BlockHash, Network, OutPoint, Txid, hex_encode, wallet::Micros};
use utxokeep_testkit::{
    bitcoind::Bitcoind,
    open_coins::{OpenCoin, OpenTx, open_script},
};
use utxokeep_wallet::{
    CoinQuery, LeaseId, LeaseTerms, Ledger, NewAddress, NewTx, RecordOptions, Seen, TxState,
    WalletId,
};

use super::program::source_of;
use crate::{
    program::{Serving, until},
    wallet_follow::program::{LedgerHome, NOW},
};

const NETWORK: Network = Network::BitcoinRegtest;
/// Scripts of the wallet, and one of strangers.
const OURS: [u8; 2] = [1, 3];
const THEIRS: u8 = 2;
const FEE: u64 = 1_000;

/// Unspent outputs with their amounts, and whether a block holds them.
type Coins = BTreeMap<OutPoint, (u64, bool)>;

struct World {
    node: Bitcoind,
    /// Where the program and its ledger keep their files.
    _place: LedgerHome,
    ledger: Ledger,
    wallet: WalletId,
    serving: Option<Serving>,
    /// Coins of strangers.
    coins: Vec<OpenCoin>,
}

impl World {
    fn start(arguments: &[&str], mempool: &str) -> Option<Self> {
        let mut all = vec!["-rest"];
        all.extend(arguments);
        let node = Bitcoind::start_or_skip(&all)?;
        let coins = node.mine_open_coins(THEIRS, 40);
        let place = LedgerHome::sqlite();
        let more = format!(
            "[chain]\nnetwork = \"regtest\"\nsource = {}\n\
             [follow]\nreconnect_first_ms = 20\nreconnect_max_ms = 100\n{mempool}",
            source_of(&node)
        );
        place.configure(None, &more);
        place.json(&["chain", "follow", "--until-tip"]);
        let ledger = place.ledger();
        let wallet = ledger.create_wallet("watched", NETWORK, NOW).unwrap().id;
        let address =
            |number| NewAddress { script: open_script(number), address: None, spend_weight: None };
        ledger.add_addresses(wallet, &OURS.map(address), NOW).unwrap();
        let serving = Some(place.serve());
        Some(Self { node, _place: place, ledger, wallet, serving, coins })
    }

    fn new() -> Option<Self> {
        Self::start(&[], "[mempool]\npoll_interval_ms = 20\ngrace_secs = 0\n")
    }

    /// What the node's set and mempool come to.
    fn model(&self) -> Coins {
        let scripts = OURS.map(|number| format!("raw({})", hex_encode(&open_script(number))));
        let found = self.node.rpc("scantxoutset", &json!(["start", scripts]));
        let mut coins: Coins =
            found["unspents"].as_array().unwrap().iter().map(confirmed).collect();
        let raw = |txid: &Txid| {
            let raw = self.node.rpc("getrawtransaction", &json!([txid.to_reversed_hex()]));
            decode_tx(&from_hex(raw.as_str().unwrap())).unwrap()
        };
        let mempool: Vec<_> = self.node.mempool().iter().map(raw).collect();
        for tx in &mempool {
            for (index, (amount, script)) in (0u32..).zip(&tx.outputs) {
                if OURS.iter().any(|number| open_script(*number) == *script) {
                    coins.insert(OutPoint::new(tx.txid, index), (*amount, false));
                }
            }
        }
        for input in mempool.iter().flat_map(|tx| &tx.inputs) {
            coins.remove(input);
        }
        coins
    }

    fn ledger_coins(&self) -> Coins {
        let page = self.ledger.coins(self.wallet, &CoinQuery::default(), NOW).unwrap();
        assert!(page.len() < 500, "a page is not all");
        page.iter()
            .map(|coin| (coin.outpoint, (coin.amount.get(), coin.height.is_some())))
            .collect()
    }

    /// Waits until the ledger agrees with the node.
    #[track_caller]
    fn agrees(&self, what: &str) {
        let tip = BlockHash::from_reversed_hex(&self.node.best_hash()).unwrap();
        let expected = self.model();
        until(&format!("{what}: {expected:?}"), || {
            let is_there = self.ledger.tip(NETWORK).unwrap().is_some_and(|(_, hash)| hash == tip);
            is_there && self.ledger_coins() == expected
        });
        assert_eq!(self.ledger.verify(self.wallet).unwrap(), [], "{what}");
    }

    fn state(&self, tx: &OpenTx) -> TxState {
        self.ledger.transaction(self.wallet, &tx.txid()).unwrap().summary.state
    }

    /// A payment of a stranger.
    fn receive(&mut self, number: u8, amount: u64) -> (OpenCoin, OpenTx) {
        let coin = self.coins.pop().unwrap();
        let change = coin.amount - amount - FEE;
        let outputs = [(open_script(number), amount), (open_script(THEIRS), change)];
        let tx = OpenTx::spend(&[coin], &outputs);
        self.node.send(&tx);
        (coin, tx)
    }

    /// A node that starts again has an empty mempool.
    fn restart_node(&mut self) {
        self.node.stop();
        self.node.start();
    }
}

fn confirmed(coin: &Value) -> (OutPoint, (u64, bool)) {
    let txid = Txid::from_reversed_hex(coin["txid"].as_str().unwrap()).unwrap();
    let index = u32::try_from(coin["vout"].as_u64().unwrap()).unwrap();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^53")]
    let amount = (coin["amount"].as_f64().unwrap() * 1e8).round() as u64;
    (OutPoint::new(txid, index), (amount, true))
}

fn from_hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

#[test]
fn payments_replacements_and_evictions_reach_the_wallet() {
    let Some(mut w) = World::new() else { return };
    w.agrees("nothing");
    // A payment, and one that spends it before any block.
    let (coin, first) = w.receive(OURS[0], 700_000);
    w.agrees("a payment");
    assert_eq!(w.state(&first), TxState::Unconfirmed);
    let child = OpenTx::spend(&[first.coin(0, OURS[0])], &[(open_script(OURS[1]), 650_000)]);
    w.node.send(&child);
    w.agrees("a child");
    // Its sender takes the payment back, with a higher fee; the child falls with it.
    let replacement = OpenTx::spend(
        &[coin],
        &[(open_script(OURS[1]), 5_000), (open_script(THEIRS), coin.amount - 105_000)],
    );
    w.node.send(&replacement);
    w.agrees("a replacement");
    assert!(!w.state(&first).is_live() && !w.state(&child).is_live());
    // A block takes it.
    w.node.generate(1);
    w.agrees("a block");
    let height = utxokeep_core::Height::new(u32::try_from(w.node.height()).unwrap());
    assert_eq!(w.state(&replacement), TxState::Confirmed(height));
    // The node forgets its mempool: what a stranger sent may never be mined.
    let (_, lost) = w.receive(OURS[0], 300_000);
    w.agrees("another payment");
    w.restart_node();
    w.agrees("a node that has forgotten it");
    assert_eq!(w.state(&lost), TxState::Failed);
    // Somebody sends it again.
    w.node.send(&lost);
    w.agrees("the same payment again");
    assert_eq!(w.state(&lost), TxState::Unconfirmed);
    // A miner takes another spend of the same coin.
    let (coin, mined_away) = w.receive(OURS[1], 20_000);
    w.agrees("a payment that will lose");
    let rival = OpenTx::spend(&[coin], &[(open_script(THEIRS), coin.amount - FEE)]);
    w.node.generate_block(&[hex_encode(&rival.raw())]);
    w.agrees("a block with its rival");
    assert_eq!(w.state(&mined_away), TxState::Failed);
    // That block leaves the chain: what it held is in the mempool, and the payment is still lost.
    w.node.invalidate_from(w.node.height());
    (0..2).for_each(|_| drop(w.node.generate_block(&[])));
    w.agrees("a reorganisation");
    w.serving.take().unwrap().stop();
}

#[test]
fn a_payment_of_the_ledger_outlives_the_mempool_of_the_node() {
    let Some(mut w) = World::new() else { return };
    let (_, funding) = w.receive(OURS[0], 900_000);
    w.node.generate(1);
    w.agrees("funding");
    let owner = LeaseId::from_bytes([5; 32]);
    let coin = funding.coin(0, OURS[0]);
    w.ledger
        .acquire_leases(w.wallet, &[coin.outpoint], &LeaseTerms::until(owner, 1 << 40), NOW)
        .unwrap();
    let outputs = [(open_script(THEIRS), 100_000), (open_script(OURS[1]), 790_000)];
    let payment = OpenTx::spend(&[coin], &outputs);
    let new = NewTx::decoded(decode_tx(&payment.raw()).unwrap(), &payment.raw()).unwrap();
    let options = RecordOptions { owner: Some(owner), ..RecordOptions::default() };
    let long_ago = Micros::new(1);
    w.ledger.record(w.wallet, &new, Seen::Created, &options, long_ago).unwrap();
    w.node.send(&payment);
    until("the node has it", || w.state(&payment) == TxState::Unconfirmed);
    w.agrees("sent");
    w.restart_node();
    // Looked at for long: something else arrives and goes.
    let (_, other) = w.receive(OURS[0], 30_000);
    until("another payment", || w.ledger.transaction(w.wallet, &other.txid()).is_ok());
    assert_eq!(w.state(&payment), TxState::Unconfirmed);
    w.restart_node();
    until("the other is dropped", || w.state(&other) == TxState::Failed);
    assert_eq!(w.state(&payment), TxState::Unconfirmed);
    w.node.send(&payment);
    w.node.generate(1);
    w.agrees("sent again, and mined");
}

#[test]
fn a_random_life_of_the_mempool_ends_every_step_as_the_node_sees_it() {
    let Some(mut w) = World::new() else { return };
    let seed = std::env::var("UTXOKEEP_SEED").ok().and_then(|text| text.parse().ok());
    let mut random = Random(seed.unwrap_or(20_u64));
    let started = random.0;
    let mut replaceable: Vec<(OpenCoin, u64)> = Vec::new();
    for step in 0..30 {
        let what = random.below(10);
        match what {
            0..=3 => {
                let number = OURS[usize::try_from(random.below(2)).unwrap()];
                let (coin, _) = w.receive(number, 10_000 + random.below(500_000));
                replaceable.push((coin, FEE));
            }
            4 => {
                // Another holder of the keys spends what the wallet has.
                let coins = w.ledger_coins();
                let at = usize::try_from(random.below(1 + coins.len() as u64)).unwrap();
                if let Some((outpoint, (amount, _))) = coins.into_iter().nth(at) {
                    w.spend(outpoint, amount);
                }
            }
            5 | 6 => {
                if let Some((coin, fee)) = replaceable.pop() {
                    let fee = fee + 200_000;
                    let amount = coin.amount - fee;
                    let outputs =
                        [(open_script(OURS[1]), 7_000), (open_script(THEIRS), amount - 7_000)];
                    let tx = OpenTx::spend(&[coin], &outputs);
                    // A block may have taken what it would replace.
                    let raw = json!([hex_encode(&tx.raw())]);
                    if w.node.try_rpc("sendrawtransaction", &raw).is_ok() {
                        replaceable.push((coin, fee));
                    }
                }
            }
            7 => drop(w.node.generate(1)),
            8 => {
                w.node.invalidate_from(w.node.height() - random.below(3));
                w.node.generate_block(&[]);
                w.node.generate(3);
            }
            _ => w.restart_node(),
        }
        w.agrees(&format!("UTXOKEEP_SEED={started}: step {step}, a change of kind {what}"));
    }
}

impl World {
    fn spend(&self, outpoint: OutPoint, amount: u64) {
        let pays = |number: u8| OpenCoin { outpoint, amount, number };
        if amount <= 2 * FEE {
            return;
        }
        for number in OURS {
            let tx = OpenTx::spend(&[pays(number)], &[(open_script(OURS[0]), amount - FEE)]);
            // One of the two scripts is that of the coin.
            drop(self.node.try_rpc("sendrawtransaction", &json!([hex_encode(&tx.raw())])));
        }
    }
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Methods that following and this test need; the list of the mempool is not among them.
const ALLOWED: &str = "-rpcwhitelist=__cookie__:getblockchaininfo,getnetworkinfo,getblockheader,\
    waitfornewblock,getbestblockhash,getmempoolinfo,getblockcount,getblockhash,getblock,\
    getdescriptorinfo,generatetodescriptor,setmocktime,stop";

#[test]
fn a_node_that_does_not_list_its_mempool_is_followed_and_health_says_so() {
    let mempool = "[mempool]\npoll_interval_ms = 20\nstalled_secs = 0\n";
    let Some(w) = World::start(&[ALLOWED], mempool) else { return };
    let serving = w.serving.as_ref().unwrap();
    let health = || -> Value { serde_json::from_str(&serving.body("/health")).unwrap() };
    let named = |health: &Value| {
        let all = health["dependencies"].as_array().unwrap().clone();
        all.into_iter().find(|one| one["name"] == "mempool")
    };
    until("health says it", || named(&health()).is_some_and(|one| one["status"] == "degraded"));
    let fault = named(&health()).unwrap()["fault"].as_str().unwrap().to_owned();
    assert!(fault.contains("the node does not allow getrawmempool"), "{fault}");
    assert!(fault.contains("following the chain goes on"), "{fault}");
    w.node.generate(3);
    let tip = BlockHash::from_reversed_hex(&w.node.best_hash()).unwrap();
    until("the ledger follows", || {
        w.ledger.tip(NETWORK).unwrap().is_some_and(|(_, hash)| hash == tip)
    });
    let metrics = serving.body("/metrics");
    let failures = "utxokeep_log_consumer_failures_total{consumer=\"mempool\"}";
    assert!(metrics.lines().any(|line| line.starts_with(failures)), "{metrics}");
}
