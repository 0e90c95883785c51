//! The one way in which calls reach the store.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Semaphore,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use tonic::Status;
use tonic_health::{ServingStatus, server::HealthReporter};
use utxokeep_core::ErrorKind;
use utxokeep_kv::KvError;
use utxokeep_txstore::{StoreError, TxStore};

use super::{fault::Fault, memory::refused, wallet_error};
use crate::{
    config::GrpcConfig,
    kinds::{Coded, Codes},
    memory::{self, OverBudget},
    waiting::{self, Waiting},
    wallets::WalletsError,
};

/// Why a call failed as a whole.
#[derive(Debug)]
pub(super) enum CallError {
    /// The request breaks the contract.
    Fault(Fault),
    /// The store failed, or refused the size of the request.
    Store(StoreError),
    /// The wallet ledger refused or failed.
    Wallets(Box<WalletsError>),
    /// An operation of the tables refused or failed.
    Operation { kind: ErrorKind, code: &'static str, text: String },
    /// The server made an answer that does not fit the contract.
    Broken(String),
    /// Not possible now; the text says why.
    Refused(String),
    /// The answer is too large.
    TooLarge { bytes: usize, bytes_max: usize },
    /// Nobody waits for the answer any more.
    Gone,
    /// There is no memory for the answer.
    OverBudget(OverBudget),
}

impl CallError {
    /// Why an operation of the tables was not carried out.
    pub(super) fn of(error: &impl Coded) -> Self {
        Self::Operation { kind: error.kind(), code: error.code(), text: error.to_string() }
    }
}

impl From<OverBudget> for CallError {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fault(fault) => fault.into(),
            CallError::Store(error) => {
                let (code, text) = (Codes::of(error.kind()).grpc, error.to_string());
                match error {
                    StoreError::TooManyItems { .. } => {
                        Self::new(code, format!("{text}; nothing was changed"))
                    }
                    _ => Self::new(code, text),
                }
            }
            CallError::Wallets(error) => wallet_error::status(&error),
            CallError::Operation { kind, code, text } => wallet_error::with_code(kind, code, text),
            CallError::Broken(text) => {
                tracing::error!(text, "an answer does not fit the contract");
                Self::internal("the answer does not fit the contract; see the log of the server")
            }
            CallError::Refused(reason) => {
                Self::failed_precondition(format!("{reason}; nothing was changed"))
            }
            CallError::OverBudget(over) => refused(over),
            CallError::Gone => Self::cancelled("the client is gone"),
            CallError::TooLarge { bytes, bytes_max } => Self::resource_exhausted(format!(
                "the answer has at least {bytes} bytes, the most is {bytes_max}; ask for less at a time"
            )),
        }
    }
}

/// Ends work on an answer that nobody waits for. For loops that read: what writes is finished.
pub(super) fn check_waiting() -> Result<(), CallError> {
    if waiting::is_unwanted() { Err(CallError::Gone) } else { Ok(()) }
}

/// Runs calls of a service within limits.
pub(super) struct Calls<S: ?Sized = dyn TxStore> {
    store: Arc<S>,
    service: &'static str,
    /// One permit for each call that runs.
    permits: Arc<Semaphore>,
    timeout: Duration,
    health: HealthReporter,
}

impl<S: ?Sized> Clone for Calls<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            service: self.service,
            permits: Arc::clone(&self.permits),
            timeout: self.timeout,
            health: self.health.clone(),
        }
    }
}

impl<S: ?Sized + Send + Sync + 'static> Calls<S> {
    /// Calls of the service of this name, which go to `store`.
    pub(super) fn new(
        store: Arc<S>,
        service: &'static str,
        config: &GrpcConfig,
        health: HealthReporter,
    ) -> Self {
        let calls_max = config.concurrent_calls_max.get() as usize;
        Self {
            store,
            service,
            permits: Arc::new(Semaphore::new(calls_max.min(Semaphore::MAX_PERMITS))),
            timeout: Duration::from_millis(config.call_timeout_ms.get().into()),
            health,
        }
    }

    /// What calls work on, for what does not block.
    pub(super) fn store(&self) -> &S {
        self.store.as_ref()
    }

    /// Does `work` on a thread that may block, when its turn has come.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&S) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, Status> {
        let until = Instant::now() + self.timeout;
        let permit = match timeout_at(until, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(Status::unavailable("the server stops")),
            Err(_) => {
                let text = "too many calls are running; nothing was changed, try again later";
                return Err(Status::resource_exhausted(text));
            }
        };
        let store = Arc::clone(&self.store);
        let waiting = Waiting::default();
        // The permit goes with the work: a call that outlives its client still counts.
        let task = waiting.watched(move || {
            let _permit = permit;
            work(store.as_ref())
        });
        let task = spawn_blocking(memory::carried(task));
        match timeout_at(until, task).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => Err(self.failed(error).await),
            Ok(Err(_)) => Err(Status::internal("the call broke down; see the log of the server")),
            Err(_) => Err(Status::deadline_exceeded(format!(
                "the call took longer than {} ms ([grpc] call_timeout_ms); it may still be carried out, \
                 so send it again; whether the store takes writes, and which server is missing, stands \
                 in /health and in the log",
                self.timeout.as_millis()
            ))),
        }
    }

    async fn failed(&self, error: CallError) -> Status {
        if let CallError::Store(store) = &error
            && !matches!(store.kind(), ErrorKind::Invalid | ErrorKind::Cancelled)
        {
            tracing::error!(error = store as &dyn std::error::Error, "a call failed");
            if matches!(store, StoreError::Kv(KvError::Poisoned)) {
                // Only a restart helps; whoever watches the health service brings it about.
                let status = ServingStatus::NotServing;
                self.health.set_service_status(self.service, status).await;
            }
        }
        if let CallError::Operation { kind, text, .. } = &error
            && kind.is_fault_of_the_server()
        {
            tracing::error!(text, "a call failed");
        }
        if let CallError::Wallets(ledger) = &error
            && ledger.kind().is_fault_of_the_server()
        {
            tracing::error!(error = ledger as &dyn std::error::Error, "a call failed");
        }
        error.into()
    }
}
