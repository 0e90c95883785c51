//! The node store and the pruner over REST, from the tables of operations.

use std::{sync::Arc, time::Duration};

use axum::middleware::from_fn;
use tokio::{task::spawn_blocking, time::timeout};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utxokeep::ops::{
    Part,
    pruner::{self, PrunerPart, PrunerWaiting},
    transactions::{self, Transactions},
};

use super::{
    admission::Admission,
    guard::trusted_only,
    ops::Dependency,
    table::{Routes, Serves},
};
use crate::{config::RestConfig, pruning::Pruning};

/// How long the things that the pruner needs may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A node store and its pruner, as far as the server has them.
#[derive(Debug, Clone, Default)]
pub struct NodeState {
    pub(super) transactions: Option<PartState<Transactions>>,
    pub(super) pruner: Option<PartState<PrunerPart>>,
    pub(super) pruning: Option<Pruning>,
}

impl NodeState {
    /// Answers from them within the limits of `config`.
    #[must_use]
    pub fn new(
        transactions: Option<Transactions>,
        pruning: Option<Pruning>,
        config: &RestConfig,
    ) -> Self {
        let pruner = pruning.clone().map(|pruning| PrunerPart::new(Arc::new(pruning)));
        Self {
            transactions: transactions.map(|part| PartState::new(part, config)),
            pruner: pruner.map(|part| PartState::new(part, config)),
            pruning,
        }
    }
}

/// A part, and the limits of its routes.
#[derive(Debug, Clone)]
pub(super) struct PartState<P> {
    part: P,
    admission: Admission,
}

impl<P> PartState<P> {
    fn new(part: P, config: &RestConfig) -> Self {
        Self { part, admission: Admission::new(config) }
    }
}

impl<P: Part + Clone> Serves for PartState<P> {
    type Part = P;

    fn part(&self) -> &P {
        &self.part
    }

    fn admission(&self) -> &Admission {
        &self.admission
    }
}

#[derive(OpenApi)]
#[openapi(tags((name = "transactions", description = "Transactions of the node store")))]
struct TransactionsDescription;

#[derive(OpenApi)]
#[openapi(tags((name = "pruner", description = "What the pruner does, did and would do")))]
struct PrunerDescription;

/// Routes about the node store. They are no reads of the chain, which pages and passers-by may have.
pub(super) fn transaction_routes() -> OpenApiRouter<PartState<Transactions>> {
    let mut routes =
        Routes { router: OpenApiRouter::with_openapi(TransactionsDescription::openapi()) };
    transactions::operations(&mut routes);
    routes.router.layer(from_fn(trusted_only))
}

/// Routes about the pruner, likewise.
pub(super) fn pruner_routes() -> OpenApiRouter<PartState<PrunerPart>> {
    let mut routes = Routes { router: OpenApiRouter::with_openapi(PrunerDescription::openapi()) };
    pruner::operations(&mut routes);
    routes.router.layer(from_fn(trusted_only))
}

/// What the pruner needs, whether it is there, and what the next run waits for.
pub(super) async fn health(pruning: Pruning) -> (Vec<Dependency>, Vec<PrunerWaiting>) {
    let asked = spawn_blocking(move || pruning.pruner().health());
    let unknown = |fault| (vec![Dependency::new("store", Some(fault))], Vec::new());
    match timeout(PATIENCE, asked).await {
        Ok(Ok(health)) => {
            let waits_for = health.waits_for.iter().map(PrunerWaiting::from).collect();
            let needs = health.dependencies.into_iter();
            (needs.map(|one| Dependency::new(one.name, one.fault)).collect(), waits_for)
        }
        Ok(Err(_)) => unknown("asking it broke down".to_owned()),
        Err(_) => unknown(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}
