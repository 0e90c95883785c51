//! What a node offers, asked before anything is taken from it.

use utxokeep_core::Network;

use super::{
    BitcoindError, BitcoindOptions, VERSION_MIN, VERSION_WAITS,
    access::Authorization,
    http::{Client, Connection},
    rest,
    rpc::{ChainInfo, NetworkInfo},
};

/// A node that can be followed.
#[derive(Debug)]
pub(super) struct Probed {
    pub(super) chain: ChainInfo,
    /// Whether it can be asked to wait for a change of its tip.
    pub(super) wakes: bool,
}

/// Asks the node over `watch`, and whether it offers REST over `rest`.
pub(super) async fn probe(
    options: &BitcoindOptions,
    watch: &mut Connection,
    rest: &mut Client,
    authorization: &Authorization,
) -> Result<Probed, BitcoindError> {
    let asked = ChainInfo::CALL.ask::<ChainInfo>(watch, &options.url, authorization).await;
    let chain = asked.map_err(|error| newer_cookie(options, authorization, error))?;
    let NetworkInfo { version } = NetworkInfo::CALL.ask(watch, &options.url, authorization).await?;
    if version < VERSION_MIN {
        return Err(BitcoindError::TooOld { found: version });
    }
    if chain.chain != chain_name(options.network) {
        let (found, wanted) = (chain.chain, options.network);
        return Err(BitcoindError::OtherNetwork { found, wanted });
    }
    rest::probe(rest).await?;
    Ok(Probed { chain, wakes: version >= VERSION_WAITS })
}

/// A node that has just started has a cookie that is newer than the one that was read.
fn newer_cookie(
    options: &BitcoindOptions,
    used: &Authorization,
    error: BitcoindError,
) -> BitcoindError {
    let is_refused = matches!(error, BitcoindError::Credentials);
    if is_refused && options.credentials.read().is_ok_and(|now| now != *used) {
        return BitcoindError::NewCookie;
    }
    error
}

/// What Bitcoin Core calls a network.
pub(super) fn chain_name(network: Network) -> &'static str {
    match network.name() {
        "mainnet" => "main",
        "testnet3" => "test",
        other => other,
    }
}
