//! Every operation of the tables gives the same answer on every face.

mod messages;
mod node;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use clap::Args as _;
use serde_json::Value;
use tempfile::TempDir;
use utoipa::{PartialSchema as _, ToSchema as _};
use utxokeep::{
    config::{RestConfig, WalletConfig},
    ops::{About, Method, Operation, Part, Visitor, chain, pruner, transactions, wallets},
};
use utxokeep_chains::write_block_file;
use utxokeep_core::Network;
use utxokeep_testkit::{ANYONE, mine, regtest_genesis};

use crate::{
    program::{Serving, told, utxokeep},
    wallet_cli::program::{User, text},
    wallet_rest::client::Api,
};

/// An operation, which fields of its request a command takes without a name, and all names of its
/// request and answer.
struct Listed {
    about: About,
    positional: Vec<String>,
    names: BTreeSet<String>,
}

#[derive(Default)]
struct Table(Vec<Listed>);

impl<P: Part> Visitor<P> for Table {
    fn operation<O: Operation<Part = P>>(&mut self) {
        let command = O::Request::augment_args(clap::Command::new("x"));
        let positional = command.get_positionals().map(|arg| arg.get_id().to_string()).collect();
        let (mut schemas, mut names) = (Vec::new(), BTreeSet::new());
        O::Answer::schemas(&mut schemas);
        let schemas = schemas.into_iter().map(|(_, schema)| schema);
        for schema in schemas.chain([O::Request::schema(), O::Answer::schema()]) {
            names_in(&serde_json::to_value(schema).unwrap(), &mut names);
        }
        self.0.push(Listed { about: O::ABOUT, positional, names });
    }
}

/// Names of fields anywhere in a schema.
fn names_in(schema: &Value, names: &mut BTreeSet<String>) {
    if let Some(fields) = schema["properties"].as_object() {
        names.extend(fields.keys().cloned());
    }
    match schema {
        Value::Array(inner) => inner.iter().for_each(|schema| names_in(schema, names)),
        Value::Object(inner) => inner.values().for_each(|schema| names_in(schema, names)),
        _ => {}
    }
}

fn table() -> Vec<Listed> {
    let mut table = Table::default();
    chain::operations(&mut table);
    table.0
}

/// A database with some blocks, and the outpoint of the newest coinbase.
fn database(home: &Path) -> (String, String) {
    let data = home.join("data").to_str().unwrap().to_owned();
    let (mut header, mut raws, mut coin) = (regtest_genesis(), Vec::new(), String::new());
    for height in 1..=8 {
        let block = mine(&header, height, 1, &[(50, ANYONE)], &[]);
        coin = format!("{}:0", Network::BitcoinRegtest.hash_text(block.coinbase.as_bytes()));
        header = block.header;
        raws.push(block.raw);
    }
    let file = home.join("blocks.dat");
    write_block_file(&file, Network::BitcoinRegtest, raws).unwrap();
    let config = home.join("utxokeep.toml");
    std::fs::write(config, "[index]\nmuhash = true\n").unwrap();
    let import = ["chain", "import", "--network", "regtest", "--data", &data];
    let mut command = utxokeep(&import);
    let output = command.arg(&file).args(["--config", "utxokeep.toml"]).current_dir(home).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", told(&output));
    (data, coin)
}

fn command_of(listed: &Listed, fields: &[(&str, String)]) -> Vec<String> {
    let mut words: Vec<String> = listed.about.command.split(' ').map(str::to_owned).collect();
    for (name, value) in fields {
        if !listed.positional.iter().any(|known| known == name) {
            words.push(format!("--{}", name.replace('_', "-")));
        }
        words.push(value.clone());
    }
    words
}

fn route_of(about: &About, fields: &[(&str, String)]) -> String {
    let mut path = about.path.to_owned();
    let mut query = Vec::new();
    for (name, value) in fields {
        let segment = format!("{{{name}}}");
        if path.contains(&segment) {
            path = path.replace(&segment, value);
        } else {
            query.push(format!("{name}={value}"));
        }
    }
    format!("{path}?{}", query.join("&"))
}

/// A question to each operation.
fn questions(coin: String) -> BTreeMap<&'static str, Vec<(&'static str, String)>> {
    let owner = ("owner", "51".to_owned());
    let script_hash = utxokeep::json::script_hash(ANYONE);
    let page = ("page_size", "2".to_owned());
    BTreeMap::from([
        ("chain status", vec![]),
        ("chain tip", vec![]),
        ("chain block", vec![("height_or_hash", "3".to_owned())]),
        ("chain digest", vec![("at", "4".to_owned())]),
        ("utxo show", vec![("outpoint", coin)]),
        ("address utxos", vec![owner.clone(), page.clone(), ("order", "desc".to_owned())]),
        ("address balance", vec![owner, ("at", "2".to_owned())]),
        ("script utxos", vec![("owner", script_hash.clone()), page]),
        ("script balance", vec![("owner", script_hash)]),
        // On this chain both faces refuse.
        ("credential utxos", vec![("owner", "key:00".to_owned())]),
        ("credential balance", vec![("owner", "key:00".to_owned())]),
    ])
}

/// Sizes of tables are of the moment, on any face.
fn without_sizes(text: &str) -> String {
    let mut json: Value = serde_json::from_str(text).unwrap();
    for table in json["tables"].as_array_mut().into_iter().flatten() {
        table["disk_bytes"] = Value::Null;
        table["rows_estimate"] = Value::Null;
    }
    json.to_string()
}

#[test]
fn a_command_with_json_and_its_route_answer_with_the_same_bytes() {
    let home = TempDir::new().unwrap();
    let (data, coin) = database(home.path());
    let (questions, table) = (questions(coin), table());
    assert_eq!(table.len(), questions.len(), "every operation is asked here");
    let config = ["--data", &data, "--config", "utxokeep.toml"];
    let mut printed = Vec::new();
    for listed in &table {
        let words = command_of(listed, &questions[listed.about.command]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = utxokeep(&words).args(config).arg("--json").current_dir(home.path()).output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        printed.push((output.status.code(), text, told(&output)));
    }
    let mut serve = utxokeep(&["serve", "--listen", "127.0.0.1:0"]);
    serve.args(config).current_dir(home.path());
    let serving = Serving::start(serve);
    for (listed, (code, text, complaint)) in table.iter().zip(printed) {
        let About { command, .. } = listed.about;
        let route = route_of(&listed.about, &questions[command]);
        let reply = serving.ask("GET", &route, "");
        match code {
            Some(0) if command == "chain status" => {
                assert_eq!(without_sizes(&text), without_sizes(&reply.text));
            }
            Some(0) => assert_eq!(text, reply.text.clone() + "\n", "{command}: {reply:?}"),
            _ => {
                let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
                assert!(complaint.contains(&message), "{command}: {complaint} / {message}");
            }
        }
    }
    serving.stop();
}

#[test]
fn an_output_is_found_by_one_segment_and_by_two_and_pages_have_two_names() {
    let home = TempDir::new().unwrap();
    let (data, coin) = database(home.path());
    let mut serve = utxokeep(&["serve", "--listen", "127.0.0.1:0", "--data", &data]);
    serve.current_dir(home.path()).args(["--config", "utxokeep.toml"]);
    let serving = Serving::start(serve);
    let body = |path: &str| serving.ask("GET", path, "").json();
    let (tx_hash, index) = coin.split_once(':').unwrap();
    let one = body(&format!("/api/v1/utxos/{coin}"));
    assert_eq!((&one["tx_hash"], &one["output_index"]), (&tx_hash.into(), &0.into()));
    assert_eq!(one, body(&format!("/api/v1/utxos/{tx_hash}/{index}")));
    assert_eq!(one, body(&format!("/utxos/{tx_hash}/{index}")));
    let page = body("/api/v1/addresses/51/utxos?page=2&page_size=2");
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(page, body("/addresses/51/utxos?page=2&pageSize=2"));
    let wrong = body("/api/v1/addresses/51/utxos?count=2");
    let message = wrong["error"]["message"].as_str().unwrap();
    assert!(message.contains("there is no parameter count here; there are "), "{message}");
    assert!(message.contains("page_size") && !message.contains("owner"), "{message}");
    serving.stop();
}

#[test]
fn operations_use_one_vocabulary() {
    let mut table = Table::default();
    chain::operations(&mut table);
    transactions::operations(&mut table);
    pruner::operations(&mut table);
    wallets::operations(&mut table);
    // Names that one thing had beside the one that it has now.
    let other_names = [
        "txid",
        "vout",
        "satoshis",
        "txouts",
        "coinbase",
        "utxos",
        "jobs",
        "limit",
        "page_entries",
        "pageSize",
        "exact",
        "ready",
        "paused",
        "complete",
        "dry_run",
        "by_txid",
        "is_txid_final",
        "waiting_for",
        "last_run",
        "spent_by",
    ];
    for Listed { about, names, .. } in &table.0 {
        let wrong: Vec<_> = names.iter().filter(|&name| other_names.contains(&&**name)).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", about.command);
    }
    let all: BTreeSet<_> = table.0.iter().flat_map(|listed| &listed.names).collect();
    for name in ["tx_hash", "output_index", "page_size", "items", "next_cursor", "is_coinbase"] {
        assert!(all.contains(&name.to_owned()), "{name} in {all:?}");
    }
}

#[test]
fn one_group_of_commands_is_named_after_pruning() {
    let tree = utxokeep_server::cli::tree();
    let groups = tree.get_subcommands().map(clap::Command::get_name);
    let pruning: Vec<_> = groups.filter(|name| name.contains("prun")).collect();
    assert_eq!(pruning, ["pruner"]);
}

/// Every read of wallets, asked of a ledger with coins, a lease, labels and a pruned transaction.
#[test]
fn a_command_over_wallets_with_json_and_its_route_answer_with_the_same_bytes() {
    let user = User::new().with_coins(&[50_000, 60_000, 70_000]);
    let coins = user.json(&["wallet", "utxos", "hot"]);
    let coin = text(&coins["items"][0], "outpoint").to_owned();
    let tx_hash = coin.split_once(':').unwrap().0.to_owned();
    user.json(&["wallet", "lease", "acquire", "hot", &coin, "--seconds", "6000"]);
    user.json(&["wallet", "label", "hot", &tx_hash, "from a friend"]);
    let wallet = || ("wallet", "hot".to_owned());
    let page = || ("page_size", "2".to_owned());
    let tx = ("tx_hash", tx_hash);
    let questions: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::from([
        ("wallet list", vec![page()]),
        ("wallet show", vec![wallet()]),
        ("wallet balance", vec![wallet(), ("min_confirmations", "1".to_owned())]),
        ("wallet utxos", vec![wallet(), page()]),
        ("wallet utxo", vec![wallet(), ("outpoint", coin)]),
        ("wallet txs", vec![wallet(), page(), ("from_height", "0".to_owned())]),
        ("wallet tx", vec![wallet(), tx.clone()]),
        ("wallet replacements", vec![wallet(), tx]),
        ("wallet address list", vec![wallet(), page()]),
        ("wallet descriptor list", vec![wallet()]),
        ("wallet lease list", vec![wallet()]),
        ("wallet pruned", vec![wallet()]),
        ("wallet webhook list", vec![wallet()]),
        ("wallet labels export", vec![wallet()]),
        ("wallet verify", vec![wallet()]),
        ("wallet verify-all", vec![]),
        ("wallet tip", vec![("chain", "bitcoin".to_owned()), ("network", "regtest".to_owned())]),
    ]);
    let mut table = Table::default();
    wallets::operations(&mut table);
    let reads: Vec<&Listed> =
        table.0.iter().filter(|listed| listed.about.method == Method::Get).collect();
    assert_eq!(reads.len(), questions.len(), "every read is asked here");
    let api = Api::over(&user.url, &RestConfig::default(), &WalletConfig::default());
    for listed in reads {
        let About { command, .. } = listed.about;
        let mut words = command_of(listed, &questions[command]);
        // One command checks one wallet or all.
        if command == "wallet verify-all" {
            words = vec!["wallet".to_owned(), "verify".to_owned()];
        }
        words.push("--json".to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = user.run(&words);
        assert_eq!(output.status.code(), Some(0), "{command}: {}", told(&output));
        let reply = api.get(&route_of(&listed.about, &questions[command]));
        assert_eq!(reply.status, 200, "{command}: {reply:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.trim_end(), reply.text.trim_end(), "{command}");
    }
}
