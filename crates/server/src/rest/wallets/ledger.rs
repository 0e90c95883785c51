//! Blocks that a client brings, for all wallets of a network.

use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Answer,
    admission::Admitted,
    body::Posted,
    faults::{BodyFaults, ReadFaults},
};
use crate::{
    rest::params::Segments,
    wallets::{ApplyBlock, BlockApplied, DisconnectBlock, LedgerTip, RollBack, Wallets},
};

/// How far the ledger has come on a network.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TipAnswer {
    /// The last block that was applied; `null` when there is none.
    tip: Option<LedgerTip>,
}

/// The last block that the ledger has applied
#[utoipa::path(
    get,
    path = "/api/v1/ledger/{chain}/{network}/tip",
    tag = "wallets",
    params(
        ("chain" = String, Path, description = "Name of the chain"),
        ("network" = String, Path, description = "Network of the chain"),
    ),
    responses((status = 200, description = "The block", body = TipAnswer), ReadFaults)
)]
pub(super) async fn ledger_tip(
    admitted: Admitted,
    Segments((chain, network)): Segments<(String, String)>,
) -> Answer<TipAnswer> {
    let ask = move |wallets: &Wallets| {
        let tip = wallets.tip(Wallets::find_network(&chain, &network)?)?;
        Ok(TipAnswer { tip })
    };
    admitted.read(ask).await
}

/// Apply the next block
///
/// For a ledger that does not follow a chain database. A block that is applied already changes
/// nothing.
#[utoipa::path(
    post,
    path = "/api/v1/ledger/{chain}/{network}/blocks",
    tag = "wallets",
    params(
        ("chain" = String, Path, description = "Name of the chain"),
        ("network" = String, Path, description = "Network of the chain"),
    ),
    request_body = ApplyBlock,
    responses((status = 200, description = "What it did", body = BlockApplied), BodyFaults)
)]
pub(super) async fn apply_block(
    admitted: Admitted,
    Segments((chain, network)): Segments<(String, String)>,
    Posted(request): Posted<ApplyBlock>,
) -> Answer<BlockApplied> {
    let work = move |wallets: &Wallets| {
        wallets.apply_block(Wallets::find_network(&chain, &network)?, &request)
    };
    admitted.write(work).await
}

/// Take the last block off
///
/// Its payments are unconfirmed again; its coinbase is orphaned.
#[utoipa::path(
    post,
    path = "/api/v1/ledger/{chain}/{network}/disconnect",
    tag = "wallets",
    params(
        ("chain" = String, Path, description = "Name of the chain"),
        ("network" = String, Path, description = "Network of the chain"),
    ),
    request_body = DisconnectBlock,
    responses((status = 200, description = "The last block now", body = TipAnswer), BodyFaults)
)]
pub(super) async fn disconnect_block(
    admitted: Admitted,
    Segments((chain, network)): Segments<(String, String)>,
    Posted(request): Posted<DisconnectBlock>,
) -> Answer<TipAnswer> {
    let work = move |wallets: &Wallets| {
        let network = Wallets::find_network(&chain, &network)?;
        Ok(TipAnswer { tip: wallets.disconnect_block(network, &request)? })
    };
    admitted.write(work).await
}

/// Take all blocks from a height on off
///
/// Refused (`reaches_pruned`) when transactions were pruned from one of them, unless `pruned` is
/// allowed.
#[utoipa::path(
    post,
    path = "/api/v1/ledger/{chain}/{network}/rollback",
    tag = "wallets",
    params(
        ("chain" = String, Path, description = "Name of the chain"),
        ("network" = String, Path, description = "Network of the chain"),
    ),
    request_body = RollBack,
    responses((status = 200, description = "The last block now", body = TipAnswer), BodyFaults)
)]
pub(super) async fn roll_back(
    admitted: Admitted,
    Segments((chain, network)): Segments<(String, String)>,
    Posted(request): Posted<RollBack>,
) -> Answer<TipAnswer> {
    let work = move |wallets: &Wallets| {
        let network = Wallets::find_network(&chain, &network)?;
        Ok(TipAnswer { tip: wallets.roll_back(network, &request)? })
    };
    admitted.write(work).await
}
