//! Counting calls.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use metrics::{counter, gauge, histogram};
use tonic::{Code, codegen::http};
use tower::{Layer, Service};
use utxokeep_core::{Metric, MetricKind};

use super::{proto::ErrorCode, services::tx_store_server::SERVICE_NAME, table};

const CALLS: &str = "utxokeep_grpc_calls_total";
const REFUSALS: &str = "utxokeep_grpc_refusals_total";
const SECONDS: &str = "utxokeep_grpc_call_seconds";
const IN_FLIGHT: &str = "utxokeep_grpc_calls_in_flight";

/// Every metric of the gRPC server.
pub const METRICS: &[Metric] = &[
    Metric {
        name: CALLS,
        kind: MetricKind::Counter,
        help: "Calls answered, by method and status code. A stream counts by its first page; a \
               call that its client gave up counts as `CANCELLED`.",
        teranode: "",
    },
    Metric {
        name: REFUSALS,
        kind: MetricKind::Counter,
        help: "Items of calls that were refused, by error code of the contract.",
        teranode: "",
    },
    Metric {
        name: SECONDS,
        kind: MetricKind::Histogram,
        help: "Time to answer a call, by method; of a stream, up to its first page.",
        teranode: "",
    },
    Metric {
        name: IN_FLIGHT,
        kind: MetricKind::Gauge,
        help: "Calls that are being answered, by method.",
        teranode: "",
    },
];

/// Methods of the contract. Other paths have one label, so that they cannot fill the memory.
const METHODS: &[&str] = &[
    "Create",
    "Get",
    "GetSpend",
    "Spend",
    "Unspend",
    "SpendAndCreate",
    "SpendAndCreateList",
    "SetMined",
    "MarkOnLongestChain",
    "SetLocked",
    "SetConflicting",
    "ProcessConflicting",
    "BeginConflictIntent",
    "CompleteConflictIntent",
    "ListConflictIntents",
    "Freeze",
    "Unfreeze",
    "Reassign",
    "Preserve",
    "ExpirePreservations",
    "ListUnmined",
    "Decorate",
    "GetParentOutputs",
    "Delete",
    "GetBlockState",
    "SetBlockState",
    "GetCreationLock",
];

/// Methods of the pruner's contract, whose labels name the service too.
const PRUNER_METHODS: &[&str] = &[
    "Pruner/Health",
    "Pruner/Trigger",
    "Pruner/Status",
    "Pruner/Jobs",
    "Pruner/Pause",
    "Pruner/Resume",
    "Pruner/Preserve",
    "Pruner/DryRun",
    "Pruner/Explain",
    "Pruner/Backlog",
    "Pruner/Restore",
    "Pruner/ConfirmHeight",
    "Pruner/ForgetPersister",
    "Pruner/ForgetNodeState",
    "ChainEvents/Block",
    "ChainEvents/BlockPersisted",
    "ChainEvents/Reorganisation",
    "ChainEvents/AssemblyState",
];

/// Methods of the contract of the change stream, likewise.
const STREAM_METHODS: &[&str] = &[
    "ChainStream/Follow",
    "ChainStream/RegisterConsumer",
    "ChainStream/ListConsumers",
    "ChainStream/ForgetConsumer",
];

/// Methods of the contract of wallets, likewise.
const WALLET_METHODS: &[&str] = &[
    "Wallets/CreateWallet",
    "Wallets/ListWallets",
    "Wallets/GetWallet",
    "Wallets/AddAddresses",
    "Wallets/ListAddresses",
    "Wallets/AddDescriptor",
    "Wallets/ListDescriptors",
    "Wallets/ArchiveWallet",
    "Wallets/RestoreWallet",
    "Wallets/ArchiveDescriptor",
    "Wallets/RestoreDescriptor",
    "Wallets/NextAddress",
    "Wallets/GetBalance",
    "Wallets/ListCoins",
    "Wallets/GetCoin",
    "Wallets/ListTransactions",
    "Wallets/GetTransaction",
    "Wallets/ListReplacements",
    "Wallets/RecordTransaction",
    "Wallets/PublishTransaction",
    "Wallets/BroadcastTransaction",
    "Wallets/ConfirmTransaction",
    "Wallets/UnconfirmTransaction",
    "Wallets/AbandonTransaction",
    "Wallets/RemoveTransaction",
    "Wallets/AcquireLeases",
    "Wallets/RenewLeases",
    "Wallets/ReleaseLeases",
    "Wallets/ListLeases",
    "Wallets/CleanLeases",
    "Wallets/SelectCoins",
    "Wallets/CreatePsbt",
    "Wallets/BumpFee",
    "Wallets/SetTransactionLabel",
    "Wallets/ExportLabels",
    "Wallets/ImportLabels",
    "Wallets/FreezeCoin",
    "Wallets/UnfreezeCoin",
    "Wallets/PruneWallet",
    "Wallets/ListPruned",
    "Wallets/AcknowledgePruned",
    "Wallets/VerifyWallet",
    "Wallets/VerifyWallets",
    "Wallets/GetTip",
    "Wallets/ApplyBlock",
    "Wallets/DisconnectBlock",
    "Wallets/RescanWallet",
    "Wallets/RollBack",
    "Wallets/ListWalletEvents",
    "Wallets/WatchWalletEvents",
    "Wallets/AddWebhook",
    "Wallets/ListWebhooks",
    "Wallets/PauseWebhook",
    "Wallets/ResumeWebhook",
    "Wallets/RemoveWebhook",
    "Wallets/TestWebhook",
];
const PACKAGE: &str = "/utxokeep.v1.";
const OTHER: &str = "other";

/// Counts a refused item.
pub(super) fn count_refusal(code: ErrorCode) {
    let name = code.as_str_name();
    let name = name.strip_prefix("ERROR_CODE_").unwrap_or(name);
    counter!(REFUSALS, "code" => name).increment(1);
}

/// The label of a path such as `/utxokeep.v1.TxStore/Create`.
fn method_of(path: &str) -> &'static str {
    let method = path
        .strip_prefix('/')
        .and_then(|rest| rest.strip_prefix(SERVICE_NAME))
        .and_then(|rest| rest.strip_prefix('/'));
    let with_service = path.strip_prefix(PACKAGE);
    let by_hand = PRUNER_METHODS.iter().chain(WALLET_METHODS).chain(STREAM_METHODS).copied();
    let mut others = by_hand.chain(table::labels());
    let found = METHODS.iter().copied().find(|known| Some(*known) == method);
    found.or_else(|| others.find(|known| Some(*known) == with_service)).unwrap_or(OTHER)
}

/// The name of a status code in the documentation of gRPC.
const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// The status of an answer: an error stands in its head, success only behind its body.
fn status_of<B>(response: &http::Response<B>) -> Code {
    let header = response.headers().get("grpc-status");
    header.map_or(Code::Ok, |value| Code::from_bytes(value.as_bytes()))
}

/// A call that is being answered.
struct Running {
    method: &'static str,
    started: Instant,
    /// What it is counted as when it is dropped.
    code: Code,
}

impl Running {
    fn start(method: &'static str) -> Self {
        gauge!(IN_FLIGHT, "method" => method).increment(1);
        Self { method, started: Instant::now(), code: Code::Cancelled }
    }

    fn end(mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let method = self.method;
        gauge!(IN_FLIGHT, "method" => method).decrement(1);
        counter!(CALLS, "method" => method, "code" => code_name(self.code)).increment(1);
        histogram!(SECONDS, "method" => method).record(self.started.elapsed().as_secs_f64());
    }
}

/// Puts [`Meter`] around a service.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeterLayer;

impl<S> Layer<S> for MeterLayer {
    type Service = Meter<S>;

    fn layer(&self, inner: S) -> Meter<S> {
        Meter { inner }
    }
}

/// A service whose calls are counted.
#[derive(Debug, Clone)]
pub(super) struct Meter<S> {
    inner: S,
}

impl<S, A, B> Service<http::Request<A>> for Meter<S>
where
    S: Service<http::Request<A>, Response = http::Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<A>) -> Self::Future {
        let running = Running::start(method_of(request.uri().path()));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            running.end(status_of(&response));
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods_with_services(contract: &str) -> Vec<String> {
        let mut service = "";
        let mut methods = Vec::new();
        for line in contract.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("service ") {
                service = name.trim_end_matches(" {");
            }
            if let Some((name, _)) = line.strip_prefix("rpc ").and_then(|l| l.split_once('(')) {
                methods.push(format!("{service}/{name}"));
            }
        }
        methods
    }

    #[test]
    fn every_method_of_the_contract_has_a_label() {
        let [(_, contract), (_, pruner), (_, wallets), (_, chain), (_, stream)] =
            utxokeep_proto::v1::CONTRACT;
        let methods = contract.lines().filter_map(|line| line.trim().strip_prefix("rpc "));
        let methods: Vec<_> = methods.filter_map(|line| line.split('(').next()).collect();
        assert_eq!(methods, METHODS);
        assert_eq!(method_of("/utxokeep.v1.TxStore/GetSpend"), "GetSpend");
        assert_eq!(methods_with_services(pruner), PRUNER_METHODS);
        assert_eq!(methods_with_services(wallets), WALLET_METHODS);
        assert_eq!(methods_with_services(chain), table::labels().collect::<Vec<_>>());
        assert_eq!(method_of("/utxokeep.v1.Chain/ChainTip"), "Chain/ChainTip");
        assert_eq!(methods_with_services(stream), STREAM_METHODS);
        assert_eq!(method_of("/utxokeep.v1.Pruner/DryRun"), "Pruner/DryRun");
        assert_eq!(method_of("/utxokeep.v1.Wallets/GetTip"), "Wallets/GetTip");
        for path in
            ["/utxokeep.v1.TxStore/Nothing", "/utxokeep.v1.Pruner/Get", "/TxStore/Get", "Get", "/"]
        {
            assert_eq!(method_of(path), OTHER, "{path}");
        }
    }
}
