//! The program, as a user runs it.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use utxokeep_server::grpc::proto::{
    self, chain_events_client::ChainEventsClient, pruner_client::PrunerClient,
};

pub(crate) use crate::program::until;
use crate::program::{Serving, utxokeep};

/// Somebody with a store and a configuration.
pub(crate) struct User {
    pub(crate) home: TempDir,
    pub(crate) url: String,
}

impl User {
    /// A store of an engine, with this in `[pruner]`.
    pub(crate) fn new(engine: &str, pruner: &str) -> Self {
        let home = TempDir::new().unwrap();
        let url = format!("{engine}:{}", home.path().join("store").display());
        let user = Self { home, url };
        user.configure(pruner);
        user
    }

    pub(crate) fn configure(&self, pruner: &str) {
        let text = format!("[txstore]\nurl = {:?}\nfsync = false\n[pruner]\n{pruner}\n", self.url);
        fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.home.path().join("utxokeep.toml")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = utxokeep(args);
        command.arg("--config").arg(self.config());
        command.arg("--data").arg(self.home.path().join("chain"));
        command.current_dir(self.home.path());
        command
    }

    /// Exit code, stdout and stderr of a command.
    pub(crate) fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// The answer of a command that must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let (code, out, told) = self.run(&[args, &["--json"]].concat());
        assert_eq!(code, Some(0), "{args:?}: {told}");
        serde_json::from_str(&out).unwrap()
    }

    pub(crate) fn serve(&self) -> Program {
        let args = ["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"];
        Program::start(self.command(&args))
    }
}

/// A server that runs, and a runtime for its clients.
pub(crate) struct Program {
    serving: Serving,
    pub(crate) runtime: Runtime,
}

impl Deref for Program {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.serving
    }
}

impl Program {
    pub(crate) fn start(command: Command) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self { serving: Serving::start(command), runtime }
    }

    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.grpc_url()).unwrap();
        let _inside = self.runtime.enter();
        endpoint.connect_lazy()
    }

    pub(crate) fn status(&self) -> proto::PrunerStatusResponse {
        let mut client = PrunerClient::new(self.channel());
        let answer = self.runtime.block_on(client.status(proto::PrunerStatusRequest {}));
        answer.unwrap().into_inner()
    }

    /// The node reports a block, and where that jumps an operator agrees.
    pub(crate) fn block(&self, height: u32) {
        if self.one_block(height).held_height.is_some() {
            let mut client = PrunerClient::new(self.channel());
            let request = proto::PrunerConfirmHeightRequest { height };
            self.runtime.block_on(client.confirm_height(request)).unwrap();
        }
    }

    /// The node reports a block.
    pub(crate) fn one_block(&self, height: u32) -> proto::ChainEventsBlockResponse {
        let mut client = ChainEventsClient::new(self.channel());
        let request =
            proto::ChainEventsBlockRequest { height, mined_set_height: None, is_catching_up: None };
        self.runtime.block_on(client.block(request)).unwrap().into_inner()
    }

    pub(crate) fn persisted(&self, height: u32) {
        let mut client = ChainEventsClient::new(self.channel());
        let request = proto::ChainEventsBlockPersistedRequest { height };
        self.runtime.block_on(client.block_persisted(request)).unwrap();
    }

    pub(crate) fn assembly(&self, is_running: bool, height: u32) {
        let mut client = ChainEventsClient::new(self.channel());
        let request = proto::ChainEventsAssemblyStateRequest { is_running, height };
        self.runtime.block_on(client.assembly_state(request)).unwrap();
    }

    /// Waits until a height is complete.
    pub(crate) fn wait_for(&self, height: u32) {
        until("the run is complete", || self.status().completed_height >= Some(height));
    }

    /// Stops the program as a supervisor would; answers how long it took.
    pub(crate) fn terminate(self) -> Duration {
        let began = Instant::now();
        self.serving.stop();
        began.elapsed()
    }

    /// SIGKILL, which leaves no time for anything.
    pub(crate) fn kill(self) {
        self.serving.kill();
    }
}

/// Mines a short chain into a directory.
pub(crate) fn mine(data: &Path, blocks: u32) {
    let output = utxokeep(&["demo", "--listen", "127.0.0.1:0", "--blocks-per-second", "100000"])
        .args(["--blocks", &blocks.to_string()])
        .arg("--data")
        .arg(data)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
