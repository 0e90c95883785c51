//! Counting requests, and the recorder that all metrics of the process go to.

use std::{sync::OnceLock, time::Instant};

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::Response,
};
use metrics::{counter, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use utxokeep_core::{Metric, MetricKind};
use utxokeep_index::describe_metrics;

use super::guard::REFUSED;
use crate::{grpc, meters};

const REQUESTS: &str = "utxokeep_rest_requests_total";
const SECONDS: &str = "utxokeep_rest_request_seconds";

/// Label of requests that no route takes, so that their paths cannot fill the memory.
const UNMATCHED: &str = "unmatched";

/// Every metric of the REST server.
pub const METRICS: &[Metric] = &[
    Metric {
        name: REQUESTS,
        kind: MetricKind::Counter,
        help: "Requests answered, by route and status.",
        teranode: "",
    },
    Metric {
        name: SECONDS,
        kind: MetricKind::Histogram,
        help: "Time to answer a request, by route.",
        teranode: "",
    },
    Metric {
        name: REFUSED,
        kind: MetricKind::Counter,
        help: "Requests that were not let in, by reason: no token or a wrong one, a foreign `Host` or \
               page, or a content type that is not JSON.",
        teranode: "",
    },
];

/// Upper bounds of the histograms, in seconds.
const BUCKETS: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0,
];

/// Upper bounds of the histograms that count items.
const ITEM_BUCKETS: &[f64] =
    &[1.0, 4.0, 16.0, 64.0, 128.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0];

/// Installs the recorder of the process, if that has not happened yet.
pub(crate) fn install_recorder() {
    recorder();
}

/// The recorder of the process; the first call installs it.
pub(super) fn recorder() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), BUCKETS)
            .expect("the list of buckets is not empty")
            .set_buckets_for_metric(Matcher::Suffix("_items".to_owned()), ITEM_BUCKETS)
            .expect("the list of buckets is not empty")
            .build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!(
                "another recorder has the metrics of this process; /metrics stays empty"
            );
        }
        describe_metrics();
        meters::describe_all();
        meters::describe(grpc::METRICS);
        meters::describe(METRICS);
        handle
    })
}

/// Counts a request under the pattern of its route.
pub(super) async fn measure(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let route = path.map_or(UNMATCHED, MatchedPath::as_str).to_owned();
    let started = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_str().to_owned();
    counter!(REQUESTS, "route" => route.clone(), "status" => status).increment(1);
    histogram!(SECONDS, "route" => route).record(started.elapsed().as_secs_f64());
    response
}
