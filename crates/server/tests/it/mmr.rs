//! The Merkle mountain range as a user meets it: commands, REST, Utreexo, and a second verifier.

mod commands;
mod enable;
mod page;
mod proofs;
mod python;
mod rest;
mod settings;
mod strict;
mod utreexo;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;
use utxokeep_testkit::RegtestA;

use crate::program::{Serving, told, utxokeep};

const LIVE: [&str; 2] =
    ["309a9a28adf0a49069bf6db873423da5948b7c4110fe50c0f80125d41e1f8a12", "5790"];
const SPENT: [&str; 2] = ["7adcf544e10eba6d855fa6e4f0f78161b484a27d2abfe2133a7a127ec86b5747", "2"];
const NEVER: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

const MMR: &str = "[index]\nstore = \"mmr\"\n";
const UTREEXO: &str = "[index]\nstore = \"mmr\"\nmmr_rule = \"utreexo\"\n";

/// A directory with a database and perhaps a configuration, and the program pointed at them.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> Self {
        Self { home: TempDir::new().unwrap() }
    }

    /// With the chain of a real node, imported with these settings.
    fn with_chain(config: &str) -> Self {
        let user = Self::new();
        user.configure(config);
        user.import(&[]);
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// What the configuration says from now on.
    fn configure(&self, text: &str) {
        fs::write(self.path("utxokeep.toml"), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = utxokeep(args);
        command.current_dir(self.home.path()).env("UTXOKEEP_DATA", self.path("data"));
        let config = self.path("utxokeep.toml");
        if config.exists() {
            command.env("UTXOKEEP_CONFIG", config);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed.
    #[track_caller]
    fn done(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[args, &["--json"]].concat())).unwrap()
    }

    /// Runs a command that must fail without a result; answers what it complains about.
    #[track_caller]
    fn refused(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", told(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
        told(&output)
    }

    fn import(&self, args: &[&str]) -> Value {
        let import = ["chain", "import", "--network", "regtest", &blocks()];
        self.json(&[&import, args].concat())
    }

    fn root(&self) -> Value {
        self.json(&["chain", "mmr", "root"])
    }

    fn root_at(&self, height: u32) -> Value {
        self.json(&["chain", "mmr", "root", "--at", &height.to_string()])
    }

    fn serve(&self) -> Serving {
        Serving::start(self.command(&["serve", "--listen", "127.0.0.1:0"]))
    }

    /// Writes the proof of an output into a file.
    fn prove(&self, output: [&str; 2], name: &str, args: &[&str]) -> PathBuf {
        let prove = ["chain", "mmr", "prove", output[0], output[1], "--out", name];
        self.done(&[&prove, args].concat());
        self.path(name)
    }
}

fn blocks() -> String {
    RegtestA::default().path("blocks.dat.xz").to_str().unwrap().to_owned()
}
