//! Serving the routes on a socket until told to stop.

use std::{future::Future, io, time::Duration};

use axum::{Router, body::Body, extract::Request};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, time};
use tower::ServiceExt as _;

use super::{guard::guarded, memory::remembered, meter, router, state::RestState};
use crate::{
    access::RestAccess,
    doors::{Door, Doors},
};

/// How long requests that are being answered may take once the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// How often samples of the histograms are folded together, which bounds their memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// Answers requests until `shutdown` is done, then finishes those that are being answered.
pub async fn serve(
    listener: TcpListener,
    state: RestState,
    access: RestAccess,
    doors: Doors,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let streams = state.streams().clone();
    let shutdown = async move {
        shutdown.await;
        streams.stop();
    };
    serve_routes(listener, router(state), access, doors, shutdown).await
}

/// The same for any routes.
pub async fn serve_routes(
    listener: TcpListener,
    routes: Router,
    access: RestAccess,
    doors: Doors,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    meter::install_recorder();
    let routes = guarded(remembered(routes, doors.memory.clone()), access);
    let door = Door::new(listener, &doors);
    let open = GracefulShutdown::new();
    tokio::select! {
        () = admit_all(&door, &routes, doors.idle_max, &open) => {}
        () = shutdown => {}
        () = upkeep() => {}
    }
    // Nobody is let in any more; whoever waits is told at once.
    drop(door);
    // A client that keeps its connection open must not keep the program from ending.
    if time::timeout(DRAIN, open.shutdown()).await.is_err() {
        tracing::info!("clients that did not take their answers were cut off");
    }
    Ok(())
}

async fn admit_all(door: &Door, routes: &Router, idle_max: Duration, open: &GracefulShutdown) {
    loop {
        let stream = door.admit().await;
        let service =
            routes.clone().map_request(|request: Request<Incoming>| request.map(Body::new));
        // The time for the head of a request begins with the connection, and with the end of each
        // answer.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(idle_max)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let connection = open.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}

async fn upkeep() {
    let mut ticks = time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        meter::recorder().run_upkeep();
    }
}
