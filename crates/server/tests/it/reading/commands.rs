//! Every command of the program, and what it does to the data that it names.

/// Which data a command names, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The chain database: `--data DIR`.
    Chain,
    /// A node store: `--store URL`.
    Store,
    /// A node store on RocksDB only.
    RocksStore,
    /// A wallet ledger: `--ledger URL`.
    Ledger,
    /// A program that runs elsewhere.
    Elsewhere,
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// Reads, and ends with this code on a place that exists.
    Read(i32),
    /// Changes what exists.
    Change,
    /// May create what is not there.
    Create,
}

pub(crate) struct Entry {
    /// The command, and behind it what it takes.
    pub(crate) command: &'static str,
    pub(crate) args: &'static [&'static str],
    pub(crate) place: Place,
    pub(crate) does: Does,
}

const fn entry(
    command: &'static str,
    args: &'static [&'static str],
    place: Place,
    does: Does,
) -> Entry {
    Entry { command, args, place, does }
}

const TXID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const COIN: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:0";
const HOOK: &str = "https://example.com/hook";
const BLOCK: &str = "1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1";
const SCRIPT: &str = "5120aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const STRANGER: &str = "bcrt1qhmxwfllc0psvl3ger2y9s9nw3gdg49rgrqvzn6";
const PAY: &str = "bcrt1qhmxwfllc0psvl3ger2y9s9nw3gdg49rgrqvzn6=1000";
const RATE: &str = "2";

const DONE: Does = Does::Read(0);
const NOT_KNOWN: Does = Does::Read(3);

/// Commands that do one thing with an option and another without it are here twice.
pub(crate) const COMMANDS: &[Entry] = &[
    entry("chain import", &[], Place::Chain, Does::Create),
    entry("chain follow", &[], Place::Chain, Does::Create),
    entry("chain status", &[], Place::Chain, DONE),
    entry("chain tip", &[], Place::Chain, DONE),
    entry("chain block", &["0"], Place::Chain, DONE),
    entry("chain digest", &[], Place::Chain, DONE),
    entry("chain digest", &["--audit"], Place::Chain, DONE),
    entry("chain rollback", &["3", "--dry-run"], Place::Chain, DONE),
    entry("chain rollback", &["3"], Place::Chain, Does::Change),
    entry("chain verify", &[], Place::Chain, DONE),
    entry("chain prune", &[], Place::Chain, Does::Change),
    entry("chain consumers list", &[], Place::Chain, DONE),
    entry("chain consumers register", &["stream-a"], Place::Chain, Does::Change),
    entry("chain consumers forget", &["nobody"], Place::Chain, Does::Change),
    entry("chain watch", &["--from-height", "0"], Place::Chain, DONE),
    entry("chain mmr enable", &[], Place::Chain, Does::Change),
    entry("chain mmr disable", &[], Place::Chain, Does::Change),
    // The chain has no tree, which is refused after looking.
    entry("chain mmr root", &[], Place::Chain, Does::Read(4)),
    entry("chain mmr prove", &[TXID, "0"], Place::Chain, Does::Read(4)),
    // It opens no database at all.
    entry("chain mmr check", &["proof.json"], Place::Elsewhere, Does::Create),
    entry("chain recover", &[], Place::Chain, DONE),
    entry("chain recover", &["--accept-loss"], Place::Chain, Does::Change),
    // Nobody has persisted blocks, which is refused after looking.
    entry("persister status", &[], Place::Chain, Does::Read(2)),
    entry("persister verify", &[], Place::Chain, Does::Read(2)),
    entry("utxo show", &[COIN], Place::Chain, NOT_KNOWN),
    entry("address utxos", &[SCRIPT], Place::Chain, DONE),
    entry("address balance", &[SCRIPT], Place::Chain, DONE),
    entry("script utxos", &[TXID], Place::Chain, DONE),
    entry("script balance", &[TXID], Place::Chain, DONE),
    entry("credential utxos", &[TXID], Place::Chain, NOT_KNOWN),
    entry("credential balance", &[TXID], Place::Chain, NOT_KNOWN),
    entry("tx show", &[TXID], Place::Store, NOT_KNOWN),
    entry("tx explain", &[TXID], Place::Store, NOT_KNOWN),
    entry("tx lock", &[TXID], Place::Store, NOT_KNOWN),
    entry("tx status", &[], Place::Store, DONE),
    entry("tx verify", &[], Place::Store, DONE),
    entry("tx verify", &["--repair-blobs"], Place::Store, Does::Change),
    entry("tx settings", &[], Place::Store, DONE),
    entry("tx settings", &["--change"], Place::Store, Does::Change),
    entry("tx adopt-blobs", &[], Place::Store, Does::Change),
    entry("tx recover", &[], Place::RocksStore, DONE),
    entry("tx recover", &["--accept-loss"], Place::RocksStore, Does::Change),
    // It makes stores of its own and removes them.
    entry("store bench", &[], Place::Elsewhere, Does::Create),
    entry("store move", &[], Place::Store, Does::Create),
    entry("store verify", &[], Place::Store, Does::Read(4)),
    entry("pruner dry-run", &[], Place::Store, DONE),
    entry("pruner run", &[], Place::Store, Does::Change),
    entry("pruner status", &[], Place::Elsewhere, DONE),
    entry("pruner jobs", &[], Place::Store, DONE),
    entry("pruner explain", &[TXID], Place::Store, NOT_KNOWN),
    entry("pruner backlog", &[], Place::Store, DONE),
    entry("pruner pause", &[], Place::Elsewhere, Does::Change),
    entry("pruner resume", &[], Place::Elsewhere, Does::Change),
    entry("pruner preserve", &[TXID, "--until", "9"], Place::Store, Does::Change),
    entry("pruner restore", &[TXID], Place::Store, Does::Change),
    entry("pruner confirm", &["9"], Place::Store, Does::Change),
    entry("pruner forget-persister", &[], Place::Store, Does::Change),
    entry("pruner forget-node-state", &[], Place::Store, Does::Change),
    entry("pruner serve", &[], Place::Store, Does::Create),
    entry("wallet create", &[], Place::Ledger, Does::Create),
    entry("wallet list", &[], Place::Ledger, DONE),
    entry("wallet list", &["--archived"], Place::Ledger, DONE),
    entry("wallet show", &["hot"], Place::Ledger, DONE),
    entry("wallet archive", &["hot"], Place::Ledger, Does::Change),
    entry("wallet restore", &["hot"], Place::Ledger, Does::Change),
    entry("wallet address add", &["hot", STRANGER], Place::Ledger, Does::Change),
    entry("wallet address list", &["hot"], Place::Ledger, DONE),
    entry("wallet address next", &["hot"], Place::Ledger, Does::Change),
    entry("wallet descriptor add", &["hot", "addr(x)"], Place::Ledger, Does::Change),
    entry("wallet descriptor list", &["hot"], Place::Ledger, DONE),
    entry("wallet descriptor archive", &["hot", "1"], Place::Ledger, Does::Change),
    entry("wallet descriptor restore", &["hot", "1"], Place::Ledger, Does::Change),
    entry("wallet balance", &["hot"], Place::Ledger, DONE),
    entry("wallet utxos", &["hot"], Place::Ledger, DONE),
    entry("wallet utxo", &["hot", COIN], Place::Ledger, NOT_KNOWN),
    entry("wallet tip", &["--network", "regtest"], Place::Ledger, DONE),
    entry("wallet events", &["hot"], Place::Ledger, DONE),
    entry("wallet pruned", &["hot"], Place::Ledger, DONE),
    entry("wallet acknowledge", &["hot", "1"], Place::Ledger, Does::Change),
    entry("wallet webhook add", &["hot", HOOK], Place::Ledger, Does::Change),
    entry("wallet webhook list", &["hot"], Place::Ledger, DONE),
    entry("wallet webhook remove", &["hot", "1"], Place::Ledger, Does::Change),
    entry("wallet webhook pause", &["hot", "1"], Place::Ledger, Does::Change),
    entry("wallet webhook resume", &["hot", "1"], Place::Ledger, Does::Change),
    entry("wallet webhook test", &["hot", "1"], Place::Ledger, NOT_KNOWN),
    entry("wallet txs", &["hot"], Place::Ledger, DONE),
    entry("wallet tx", &["hot", TXID], Place::Ledger, NOT_KNOWN),
    entry("wallet replacements", &["hot", TXID], Place::Ledger, NOT_KNOWN),
    entry("wallet record", &["hot", "--raw", "00"], Place::Ledger, Does::Change),
    entry("wallet publish", &["hot", TXID], Place::Ledger, Does::Change),
    entry("wallet broadcast", &["hot", TXID], Place::Ledger, Does::Change),
    entry("wallet confirm", &["hot", TXID, "--block", BLOCK], Place::Ledger, Does::Change),
    entry("wallet abandon", &["hot", TXID], Place::Ledger, Does::Change),
    entry("wallet unconfirm", &["hot", TXID], Place::Ledger, Does::Change),
    entry("wallet remove", &["hot", TXID], Place::Ledger, Does::Change),
    entry("wallet label", &["hot", TXID, "text"], Place::Ledger, Does::Change),
    entry("wallet lease acquire", &["hot", COIN], Place::Ledger, Does::Change),
    entry("wallet lease renew", &["hot", COIN, "--owner", "me"], Place::Ledger, Does::Change),
    entry("wallet lease release", &["hot", "--owner", "me"], Place::Ledger, Does::Change),
    entry("wallet lease list", &["hot"], Place::Ledger, DONE),
    entry("wallet lease clean", &["hot"], Place::Ledger, Does::Change),
    // There is nothing to select, which is refused after looking.
    entry(
        "wallet select",
        &["hot", "--pay", PAY, "--fee-rate", RATE],
        Place::Ledger,
        Does::Read(4),
    ),
    entry(
        "wallet select",
        &["hot", "--pay", PAY, "--fee-rate", RATE, "--lease"],
        Place::Ledger,
        Does::Change,
    ),
    entry("wallet psbt", &["hot", "--pay", PAY, "--fee-rate", RATE], Place::Ledger, Does::Change),
    entry("wallet bump", &["hot", TXID, "--fee-rate", RATE, "--dry-run"], Place::Ledger, NOT_KNOWN),
    entry("wallet bump", &["hot", TXID, "--fee-rate", RATE], Place::Ledger, Does::Change),
    entry("wallet labels export", &["hot"], Place::Ledger, DONE),
    entry("wallet labels import", &["hot", "-"], Place::Ledger, Does::Change),
    entry("wallet freeze", &["hot", COIN], Place::Ledger, Does::Change),
    entry("wallet unfreeze", &["hot", COIN], Place::Ledger, Does::Change),
    entry("wallet prune", &["hot", "--dead-older-than", "1", "--dry-run"], Place::Ledger, DONE),
    entry(
        "wallet prune",
        &["hot", "--dead-older-than", "1", "--no-archive"],
        Place::Ledger,
        Does::Change,
    ),
    entry("wallet verify", &[], Place::Ledger, DONE),
    entry("wallet verify", &["hot"], Place::Ledger, DONE),
    entry(
        "wallet apply-block",
        &["--network", "regtest", "--block", BLOCK],
        Place::Ledger,
        Does::Change,
    ),
    entry(
        "wallet disconnect-block",
        &["--network", "regtest", "--block", BLOCK],
        Place::Ledger,
        Does::Change,
    ),
    entry("wallet rescan", &["hot"], Place::Ledger, Does::Change),
    entry("wallet disconnect", &["1", "--network", "regtest"], Place::Ledger, Does::Change),
    entry("wallet follow", &[], Place::Ledger, Does::Create),
    entry("wallet scan", &["hot"], Place::Ledger, Does::Change),
    entry("serve", &[], Place::Chain, Does::Create),
    entry("demo", &[], Place::Chain, Does::Create),
];
