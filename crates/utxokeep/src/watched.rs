//! Databases that a running program writes to, and what becomes of it when one takes no writes.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use utxokeep_index::ChainIndex;
use utxokeep_kv::{Kv, Trouble};
use utxokeep_txstore::TxStore;
use utxokeep_wallet::Ledger;

use crate::store_gauges::StoreGauges;

/// How often each is asked.
const EVERY: Duration = Duration::from_secs(1);

/// A database, and the way to ask what is wrong with it.
#[derive(Clone)]
pub struct Watched {
    /// What health calls it.
    pub name: &'static str,
    ask: Arc<dyn Fn() -> Option<Trouble> + Send + Sync>,
    gauges: Option<Arc<StoreGauges>>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watched({})", self.name)
    }
}

impl Watched {
    /// Watches a chain index.
    pub fn chain_index<K: Kv + 'static>(index: &ChainIndex<K>) -> Self {
        let index = index.clone();
        let ask = Arc::new(move || index.engine().trouble());
        Self { name: "chain_index", ask, gauges: None }
    }

    /// Watches a node store.
    pub fn node_store(store: Arc<dyn TxStore>) -> Self {
        let gauges = Some(Arc::new(StoreGauges::new(store.clone())));
        Self { name: "node_store", ask: Arc::new(move || store.trouble()), gauges }
    }

    /// Watches a wallet ledger.
    pub fn wallet_ledger(ledger: &Ledger) -> Self {
        let database = ledger.database().clone();
        let ask = move || {
            let trouble = database.trouble()?;
            Some(Trouble { reason: trouble.reason, passes: trouble.passes })
        };
        Self { name: "wallet_ledger", ask: Arc::new(ask), gauges: None }
    }

    /// Brings its gauges up to date, if it has any.
    pub async fn take_gauges(&self) {
        if let Some(gauges) = &self.gauges {
            Arc::clone(gauges).take().await;
        }
    }

    /// What is wrong with it at present. Waits for a thread that may block.
    pub async fn trouble(&self) -> Option<Trouble> {
        let ask = Arc::clone(&self.ask);
        let broken = || Trouble { reason: "asking it broke down".to_owned(), passes: true };
        spawn_blocking(move || ask()).await.unwrap_or_else(|_| Some(broken()))
    }

    /// Calls `tell` each time that trouble begins or ends, for ever.
    pub async fn follow<F: Future<Output = ()>>(&self, mut tell: impl FnMut(Option<Trouble>) -> F) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = None;
        loop {
            ticks.tick().await;
            let now = self.trouble().await;
            if now != last {
                tell(now.clone()).await;
                last = now;
            }
        }
    }

    /// Is done when it takes no writes until the program was started again; answers why.
    pub async fn stopped(&self) -> anyhow::Error {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let name = self.name;
        let watching = self.follow(|trouble| {
            let sender = sender.clone();
            async move {
                match trouble {
                    Some(trouble) if !trouble.passes => {
                        // Nobody is left to be told when the program stops anyway.
                        let _ = sender.send(trouble.reason).await;
                    }
                    Some(trouble) => tracing::error!(name, reason = trouble.reason, "no writes"),
                    None => tracing::info!(name, "writes go through again"),
                }
            }
        });
        let reason = tokio::select! {
            () = watching => None,
            reason = receiver.recv() => reason,
        };
        let reason = reason.unwrap_or_default();
        anyhow::anyhow!("the {} takes no more writes: {reason}", name.replace('_', " "))
    }
}

/// Is done when one of them is, see [`Watched::stopped`].
pub async fn any_stopped(watched: Vec<Watched>) -> anyhow::Error {
    let mut waiting = tokio::task::JoinSet::new();
    for one in watched {
        waiting.spawn(async move { one.stopped().await });
    }
    match waiting.join_next().await {
        Some(stopped) => stopped.unwrap_or_else(anyhow::Error::from),
        None => std::future::pending().await,
    }
}
