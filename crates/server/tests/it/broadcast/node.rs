//! The program with a real Bitcoin Core, and keys that the test holds.

use serde_json::{Value, json};
use utxokeep_server::grpc::proto::{self, wallets_client::WalletsClient};
use utxokeep_testkit::{Signer, bitcoind::Bitcoind};

use crate::{
    program::{Serving, told, until},
    wallet_follow::program::LedgerHome,
};

const PAYEE: &str = "bcrt1qhmxwfllc0psvl3ger2y9s9nw3gdg49rgrqvzn6";
const WALLET: &str = "/api/v1/wallets/hot";

/// A node, and a wallet whose coins it has mined.
struct Home {
    node: Bitcoind,
    place: LedgerHome,
    signer: Signer,
}

impl Home {
    fn new() -> Option<Self> {
        let node = Bitcoind::start_or_skip(&["-rest"])?;
        let (place, signer) = (LedgerHome::sqlite(), Signer::default());
        let chain = format!(
            "rebroadcast_interval_secs = 1\n[chain]\nnetwork = \"regtest\"\n\
             source = {{ kind = \"bitcoind\", url = {:?}, cookie_file = \"{}\" }}\n\
             [follow]\nreconnect_first_ms = 50\n",
            node.url(),
            node.cookie_file().display()
        );
        place.configure(None, &chain);
        let home = Self { node, place, signer };
        home.place.run(&["wallet", "create", "hot", "--network", "regtest"]);
        let descriptor = home.signer.descriptor();
        home.place.run(&["wallet", "descriptor", "add", "hot", &descriptor]);
        for _ in 0..3 {
            let next = home.place.json(&["wallet", "address", "next", "hot"]);
            home.node.rpc("generatetoaddress", &json!([1, next["address"]]));
        }
        home.node.generate(101);
        home.follow();
        Some(home)
    }

    fn follow(&self) {
        self.place.run(&["chain", "follow", "--until-tip"]);
        self.place.run(&["wallet", "follow", "--until-tip"]);
    }

    /// A recorded payment: its id and the PSBT to be signed.
    fn pay(&self, amount: u64) -> (String, String) {
        let pay = format!("{PAYEE}={amount}");
        let words = [
            "wallet",
            "psbt",
            "hot",
            "--pay",
            &pay,
            "--fee-rate",
            "5",
            "--owner",
            "alice",
            "--record",
        ];
        let made = self.place.json(&words);
        assert_eq!(made["recorded"]["status"], "pending", "{made}");
        (made["tx_hash"].as_str().unwrap().to_owned(), made["psbt"].as_str().unwrap().to_owned())
    }

    fn mempool(&self) -> Vec<String> {
        let found = self.node.rpc("getrawmempool", &json!([]));
        found.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    /// The error of a command, with its code.
    #[track_caller]
    fn refused(&self, words: &[&str], exit: i32) -> String {
        let output = self.place.command(words).output().unwrap();
        assert_eq!(output.status.code(), Some(exit), "{words:?}: {output:?}");
        told(&output)
    }

    fn status(&self, txid: &str) -> Value {
        self.place.json(&["wallet", "tx", "hot", txid])["status"].clone()
    }
}

fn read(program: &Serving, path: &str) -> Value {
    program.ask("GET", path, "").good()
}

#[test]
fn a_payment_is_signed_sent_repeated_replaced_lost_by_the_node_and_confirmed() {
    let Some(mut home) = Home::new() else { return };
    let (txid, psbt) = home.pay(1_000_000);
    let signed = home.signer.sign(&psbt);

    // What is not signed, or is something else, goes nowhere.
    let words = ["wallet", "broadcast", "hot", &txid, "--psbt", &psbt];
    let said = home.refused(&words, 2);
    assert!(said.contains("not completely signed"), "{said}");
    let said = home.refused(&["wallet", "broadcast", "hot", &txid], 4);
    assert!(said.contains("no completely signed bytes"), "{said}");
    let rival = home.signer.rival(&psbt, 1_000);
    let said = home.refused(&["wallet", "broadcast", "hot", &txid, "--raw", &rival], 2);
    assert!(said.contains("it may pay something else"), "{said}");
    // The last byte of the key that the witness names.
    let raw = home.signer.raw(&psbt);
    let (at, old) = (raw.len() - 10, &raw[raw.len() - 10..raw.len() - 9]);
    let mut spoilt = raw.clone();
    spoilt.replace_range(at..=at, if old == "0" { "1" } else { "0" });
    let said = home.refused(&["wallet", "broadcast", "hot", &txid, "--raw", &spoilt], 4);
    assert!(said.contains("a signature or script is wrong"), "{said}");
    assert!(said.contains("nothing was changed: sign the payment again"), "{said}");
    assert_eq!((home.mempool(), home.status(&txid)), (vec![], json!("pending")));

    // As a file, as signers write it.
    let file = home.place.path("signed.psbt");
    std::fs::write(&file, &signed).unwrap();
    let words = ["wallet", "broadcast", "hot", &txid, "--psbt-file", file.to_str().unwrap()];
    let sent = home.place.json(&words);
    assert_eq!((&sent["node"], &sent["status"]), (&json!("taken"), &json!("published")), "{sent}");
    assert!(sent["fee"].as_str().unwrap().parse::<u64>().unwrap() >= 5 * 110, "{sent}");
    assert_eq!(home.mempool(), [txid.as_str()]);
    // Again, with the bytes that are kept by now.
    let sent = home.place.json(&["wallet", "broadcast", "hot", &txid]);
    assert_eq!((&sent["node"], &sent["status"]), (&json!("in_mempool"), &json!("published")));

    // A higher fee, over REST, twice with one key.
    let program = home.place.serve();
    let tx = format!("{WALLET}/transactions/{txid}");
    let bump = json!({ "fee_rate": "20", "lease": { "owner": "alice" } });
    let higher = program.ask("POST", &format!("{tx}/bump"), &bump.to_string()).good();
    let new = higher["tx_hash"].as_str().unwrap().to_owned();
    let signed = home.signer.sign(higher["psbt"].as_str().unwrap());
    let path = format!("{WALLET}/transactions/{new}/broadcast");
    let body = json!({ "psbt": signed, "idempotency_key": "order-7" }).to_string();
    let first = program.ask("POST", &path, &body);
    assert_eq!(first.good()["losers"], json!([txid]), "{}", first.text);
    assert_eq!(program.ask("POST", &path, &body).text, first.text);
    assert_eq!(home.mempool(), [new.as_str()]);
    assert_eq!(read(&program, &tx)["status"], "replaced");
    let said = program.ask("POST", &format!("{tx}/broadcast"), "{}").bad(409, "wrong_state");
    assert!(said["message"].as_str().unwrap().contains("is replaced"), "{said}");

    // The node forgets its mempool, and gets the payment again.
    home.node.stop();
    home.node.start();
    until("the node has the payment again", || home.mempool() == [new.clone()]);
    program.wait_for_metric("utxokeep_wallet_broadcast_resent_total", |count| count >= 1.0);

    home.node.generate(1);
    let tx = format!("{WALLET}/transactions/{new}");
    until("the payment is confirmed", || read(&program, &tx)["height"].is_u64());
    let request = proto::BroadcastTransactionRequest {
        wallet: "hot".to_owned(),
        txid: hash_of(&new),
        ..Default::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let answer = runtime.block_on(async {
        WalletsClient::new(program.channel().await).broadcast_transaction(request).await.unwrap()
    });
    assert_eq!(answer.get_ref().node(), proto::WalletNodeAnswer::InBlock);
    assert_eq!(answer.get_ref().height, Some(u32::try_from(home.node.height()).unwrap()));
    program.stop();
}

fn hash_of(txid: &str) -> Vec<u8> {
    utxokeep_core::Txid::from_reversed_hex(txid).unwrap().as_bytes().to_vec()
}

#[test]
fn a_payment_whose_coins_went_elsewhere_is_refused_in_words_and_fails() {
    let Some(home) = Home::new() else { return };
    let (txid, psbt) = home.pay(1_000_000);
    let signed = home.signer.sign(&psbt);
    home.node.generate_block(&[home.signer.rival(&psbt, 1_000)]);

    // The ledger has not seen that block, so that the payment itself might be in it.
    let words = ["wallet", "broadcast", "hot", &txid, "--psbt", &signed];
    let said = home.refused(&words, 4);
    assert!(said.contains("does not know one of its inputs, or something has spent it"), "{said}");
    assert!(said.contains("its signed bytes are kept and nothing else was changed"), "{said}");
    assert_eq!(home.status(&txid), "pending");

    home.follow();
    assert_eq!(home.status(&txid), "failed");
    let said = home.refused(&words, 4);
    assert!(said.contains("the transaction is failed"), "{said}");
    assert_eq!(home.mempool(), Vec::<String>::new());
}

#[test]
fn a_program_that_is_killed_around_the_sending_finishes_when_asked_again() {
    let Some(home) = Home::new() else { return };
    // The first commit keeps the bytes, the second one publishes.
    for (point, was_sent) in [("after_commit:1", false), ("before_commit:2", true)] {
        let (txid, psbt) = home.pay(1_000_000);
        let signed = home.signer.sign(&psbt);
        let words = ["wallet", "broadcast", "hot", &txid, "--psbt", &signed];
        let output = home.place.command(&words).env("UTXOKEEP_CRASH_AT", point).output().unwrap();
        assert!(!output.status.success(), "{point}: {output:?}");
        assert_eq!(home.mempool().contains(&txid), was_sent, "{point}");
        assert_eq!(home.status(&txid), "pending", "{point}");
        if was_sent {
            let again = home.place.json(&words);
            assert_eq!(
                (&again["node"], &again["status"]),
                (&json!("in_mempool"), &json!("published"))
            );
        } else {
            // Nobody asks again: the server finishes what was begun.
            let program = home.place.serve();
            let tx = format!("{WALLET}/transactions/{txid}");
            until("the server sent it", || read(&program, &tx)["status"] == "published");
            program.stop();
            assert!(home.mempool().contains(&txid));
        }
    }
}
