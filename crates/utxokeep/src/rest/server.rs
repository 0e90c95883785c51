//! Serving the routes on a socket until told to stop.

use std::{future::Future, io, time::Duration};

use axum::{Router, serve::ListenerExt};
use tokio::{net::TcpListener, sync::oneshot, time};

use super::{meter, router, state::RestState};

/// How long requests that are being answered may take once the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// How often samples of the histograms are folded together, which bounds their memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// Answers requests until `shutdown` is done, then finishes those that are being answered.
pub async fn serve(
    listener: TcpListener,
    state: RestState,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    serve_routes(listener, router(state), shutdown).await
}

/// The same for any routes.
pub async fn serve_routes(
    listener: TcpListener,
    routes: Router,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    meter::install_recorder();
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot send small answers at once");
        }
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, routes).with_graceful_shutdown(async {
        // An error means that the sender is gone, which is a reason to stop as well.
        let _ = stopped.await;
    });
    let drained = async {
        shutdown.await;
        let _ = stop.send(());
        // A client that keeps its connection open must not keep the program from ending.
        time::sleep(DRAIN).await;
    };
    tokio::select! {
        result = server => result,
        () = drained => Ok(()),
        () = upkeep() => Ok(()),
    }
}

async fn upkeep() {
    let mut ticks = time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        meter::recorder().run_upkeep();
    }
}
