//! One client of the cluster: batches that are sent again where they did not happen.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, Instant},
};

use ::aerospike::{
    AdminPolicy, AuthMode, BasePolicy, BatchOperation, BatchPolicy, Client, ClientPolicy, Host,
    Node, ReadModeAp, ReadModeSc, Replica,
};

use super::{
    clock::ServerClock,
    options::{AerospikeOptions, Consistency},
    outcome::{Outcome, is_unroutable, of_row},
};
use crate::{error::RecordError, opened::Purpose};

/// Longest wait between two attempts.
const RETRY_MS_MAX: u64 = 500;

/// Time between two attempts to connect anew.
const RECONNECT_EVERY: Duration = Duration::from_secs(2);

/// A connected client, and what its last calls met.
pub(super) struct Cluster {
    client: RwLock<Arc<Client>>,
    pub(super) options: AerospikeOptions,
    pub(super) purpose: Purpose,
    trouble: Mutex<Option<String>>,
    /// When the client was connected last.
    connected: Mutex<Instant>,
    pub(super) clock: ServerClock,
}

/// Milliseconds as the client takes them.
fn timeout(ms: u64) -> u32 {
    u32::try_from(ms).unwrap_or(u32::MAX)
}

async fn new_client(options: &AerospikeOptions) -> Result<Client, RecordError> {
    let mut policy = ClientPolicy {
        timeout: timeout(options.connect_timeout_ms),
        connect_timeout: timeout(options.connect_timeout_ms),
        max_conns_per_node: options.connections_per_server_max,
        min_conns_per_node: 1,
        fail_if_not_connected: true,
        ..ClientPolicy::default()
    };
    if let (Some(user), Some(password)) = (&options.username, &options.password) {
        policy.set_auth_mode(AuthMode::Internal(user.clone(), password.clone()));
    }
    let hosts: Vec<Host> =
        options.seeds.iter().map(|(host, port)| Host::new(host, *port)).collect();
    Client::new(&policy, &hosts).await.map_err(|error| {
        let seed = |(host, port): &(String, u16)| format!("{host}:{port}");
        let seeds: Vec<String> = options.seeds.iter().map(seed).collect();
        RecordError::Unavailable { what: format!("{}: {error}", seeds.join(", ")) }
    })
}

impl Cluster {
    /// Connects to any of the servers.
    pub(super) async fn connect(
        options: AerospikeOptions,
        purpose: Purpose,
    ) -> Result<Self, RecordError> {
        let client = RwLock::new(Arc::new(new_client(&options).await?));
        let connected = Mutex::new(Instant::now());
        let clock = ServerClock::default();
        Ok(Self { client, options, purpose, trouble: Mutex::new(None), connected, clock })
    }

    pub(super) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Connects anew, but not all the time. The client forgets a cluster all of whose nodes it lost,
    /// and was seen not to find it again.
    async fn reconnect(&self) {
        {
            let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
            if connected.elapsed() < RECONNECT_EVERY {
                return;
            }
            *connected = Instant::now();
        }
        // Where it fails, the old client says why with the next attempt.
        if let Ok(client) = new_client(&self.options).await {
            *self.client.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(client);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_trouble(&self, trouble: Option<String>) {
        *self.lock() = trouble;
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.lock().clone()
    }

    /// Masters answer, also while partitions move: a copy that is behind never does.
    pub(super) fn base_policy(&self) -> BasePolicy {
        BasePolicy {
            read_mode_ap: ReadModeAp::All,
            read_mode_sc: match self.options.consistency {
                Consistency::Strong => ReadModeSc::Linearize,
                // The Community Edition refuses to be asked.
                Consistency::Available => ReadModeSc::Session,
            },
            replica: Replica::Master,
            socket_timeout: timeout(self.options.command_timeout_ms),
            total_timeout: timeout(self.options.command_timeout_ms),
            // What is sent again is decided here, since a write that may have happened is not.
            max_retries: 0,
            ..BasePolicy::default()
        }
    }

    /// Sends all operations, in any order, and again where they did not happen. `make` makes an
    /// operation by its number; `bytes` says about how long it is.
    pub(super) async fn send(
        &self,
        count: usize,
        make: &(dyn Fn(usize) -> Result<BatchOperation, RecordError> + Send + Sync),
        bytes: &(dyn Fn(usize) -> usize + Send + Sync),
    ) -> Result<Vec<Outcome>, RecordError> {
        self.send_within(count, make, bytes, Duration::from_millis(self.options.retry_for_ms)).await
    }

    /// The same, for no longer than so.
    pub(super) async fn send_within(
        &self,
        count: usize,
        make: &(dyn Fn(usize) -> Result<BatchOperation, RecordError> + Send + Sync),
        bytes: &(dyn Fn(usize) -> usize + Send + Sync),
        retry_for: Duration,
    ) -> Result<Vec<Outcome>, RecordError> {
        let until = Instant::now() + retry_for;
        let mut outcomes: Vec<Option<Outcome>> = (0..count).map(|_| None).collect();
        let mut open: Vec<usize> = (0..count).collect();
        let mut wait_ms = self.options.retry_base_ms;
        loop {
            for chunk in self.chunks(&open, bytes) {
                let mut rows = chunk.iter().map(|&i| make(i)).collect::<Result<Vec<_>, _>>()?;
                let policy = BatchPolicy {
                    base_policy: self.base_policy(),
                    respond_all_keys: true,
                    ..BatchPolicy::default()
                };
                // A row that was not sent may be blank.
                let are_writes: Vec<bool> =
                    rows.iter().map(|row| row.batch_record().has_write()).collect();
                // Every row says what became of it, unless none could be sent.
                let failed = self.client().batch(&policy, &mut rows).await.err();
                for ((&item, row), is_write) in chunk.iter().zip(&mut rows).zip(are_writes) {
                    outcomes[item] = Some(of_row(row, is_write, failed.as_ref()));
                }
                if failed.is_some_and(|error| is_unroutable(&error)) {
                    self.reconnect().await;
                }
            }
            let is_open = |i: &usize| matches!(outcomes[*i], Some(Outcome::Again(_)));
            open.retain(is_open);
            if open.is_empty() || Instant::now() >= until {
                break;
            }
            if let Some(Outcome::Again(reason)) = &outcomes[open[0]] {
                self.set_trouble(Some(reason.clone()));
            }
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            wait_ms = (2 * wait_ms).min(RETRY_MS_MAX);
        }
        let none = || Outcome::Again("no attempt was made".to_owned());
        let outcomes: Vec<Outcome> =
            outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(none)).collect();
        self.set_trouble(outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Again(reason) | Outcome::Refused(reason) | Outcome::InDoubt(reason) => {
                Some(reason.clone())
            }
            Outcome::Answered(_) | Outcome::NotFound | Outcome::Filtered | Outcome::Late => None,
        }));
        Ok(outcomes)
    }

    /// Parts of a call that fit one batch.
    fn chunks(&self, open: &[usize], bytes: &dyn Fn(usize) -> usize) -> Vec<Vec<usize>> {
        let mut chunks: Vec<Vec<usize>> = Vec::new();
        let mut filled = 0;
        for &item in open {
            let len = bytes(item);
            match chunks.last_mut() {
                Some(chunk)
                    if chunk.len() < self.options.batch_cells_max
                        && filled + len <= self.options.batch_bytes_max =>
                {
                    chunk.push(item);
                    filled += len;
                }
                _ => {
                    chunks.push(vec![item]);
                    filled = len;
                }
            }
        }
        chunks
    }

    /// Asks one node something about itself.
    pub(super) async fn info(&self, node: &Node, command: &str) -> Result<String, RecordError> {
        let policy = AdminPolicy { timeout: timeout(self.options.command_timeout_ms) };
        let failed = |what: String| RecordError::Unavailable { what };
        let answers = node.info(&policy, &[command]).await;
        let answers = answers.map_err(|error| failed(format!("{}: {error}", node.name())))?;
        let answer = answers.into_iter().next().map(|(_, answer)| answer);
        answer.ok_or_else(|| failed(format!("{} does not answer {command}", node.name())))
    }
}
