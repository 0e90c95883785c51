//! Serving the node store on a socket until told to stop.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::oneshot, time};
use tonic::transport::{self, Server, server::TcpIncoming};
use tonic_health::{ServingStatus, server::health_reporter};
use utxokeep_txstore::TxStore;

use super::{
    calls::Calls,
    meter::MeterLayer,
    operations::Limits,
    proto::tx_store_server::{SERVICE_NAME, TxStoreServer},
    service::Service,
};
use crate::{config::GrpcConfig, rest};

const MIB: usize = 1 << 20;

/// How long calls that are being answered may take once the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// How often a silent client is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A node store, ready to be served.
#[derive(Clone)]
pub struct GrpcServer {
    store: Arc<dyn TxStore>,
    items_max: usize,
    config: GrpcConfig,
}

impl std::fmt::Debug for GrpcServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrpcServer").field("config", &self.config).finish_non_exhaustive()
    }
}

impl GrpcServer {
    /// Answers from `store`, whose calls take up to `items_max` items, within the limits of
    /// `config`. Installs the recorder of metrics, if
    /// that has not happened yet.
    #[must_use]
    pub fn new(store: Arc<dyn TxStore>, items_max: usize, config: &GrpcConfig) -> Self {
        rest::install_recorder();
        Self { store, items_max, config: config.clone() }
    }

    /// Answers calls until `shutdown` is done, then finishes those that are being answered.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), transport::Error> {
        let config = &self.config;
        let message_bytes_max = config.message_mib_max.get() as usize * MIB;
        let (health, health_service) = health_reporter();
        health.set_service_status(SERVICE_NAME, ServingStatus::Serving).await;
        let service = Service {
            calls: Calls::new(self.store, config, health.clone()),
            limits: Limits {
                items: self.items_max,
                answer_bytes: message_bytes_max,
                page_entries: config.page_entries_max.get() as usize,
            },
        };
        let service = TxStoreServer::new(service).max_decoding_message_size(message_bytes_max);
        let (stop, stopped) = oneshot::channel::<()>();
        // The time of a call starts when its message is there; to send it may take as long again.
        let timeout = Duration::from_millis(config.call_timeout_ms.get().into()) * 2;
        let server = Server::builder()
            .timeout(timeout)
            .max_concurrent_streams(Some(config.connection_calls_max.get()))
            .http2_keepalive_interval(Some(KEEPALIVE))
            .layer(MeterLayer)
            .add_service(health_service)
            .add_service(service)
            .serve_with_incoming_shutdown(
                TcpIncoming::from(listener).with_nodelay(Some(true)),
                async {
                    // An error means that the sender is gone, which is a reason to stop as well.
                    let _ = stopped.await;
                },
            );
        let drained = async {
            shutdown.await;
            health.set_service_status(SERVICE_NAME, ServingStatus::NotServing).await;
            let _ = stop.send(());
            // A client that keeps a stream open must not keep the program from ending.
            time::sleep(DRAIN).await;
        };
        tokio::select! {
            result = server => result,
            () = drained => Ok(()),
        }
    }
}
