//! Sources of the configuration: the one place that knows which kinds there are.

use utxokeep_chains::{
    BlockDecoder, NodeSource, QueueLimits,
    bitcoind::{BitcoindOptions, TxSender},
    cardano::{NodeAddress, NodeOptions},
};

use crate::config::{BitcoindSource, Config, FollowConfig, Source};

/// The node of the configuration as one that takes transactions; `None` when none is named, or one of
/// a chain whose transactions are not sent from here.
#[must_use]
pub fn tx_sender(config: &Config) -> Option<TxSender> {
    let Source::Bitcoind(node) = config.chain.source.as_ref()? else { return None };
    let timeout_ms = config.follow.answer_timeout_ms.get().into();
    Some(TxSender::new(node.url.clone(), node.credentials.clone(), timeout_ms))
}

/// How to reach the node of the configuration for the chain that `decoder` reads; `None` when nodes
/// of that kind have another chain.
#[must_use]
pub fn node_source(
    source: &Source,
    config: &FollowConfig,
    decoder: &BlockDecoder,
) -> Option<NodeSource> {
    let network = decoder.network();
    if network.chain() != source.chain() {
        return None;
    }
    let queue = QueueLimits {
        events_max: config.queue_blocks_max.get() as usize,
        bytes_max: (config.queue_mib_max.get() as usize).saturating_mul(1 << 20),
    };
    let answer_timeout_ms = config.answer_timeout_ms.get().into();
    let cardano = |address| {
        Some(NodeSource::Cardano(NodeOptions {
            address,
            network_magic: decoder.genesis()?.network_magic().into(),
            queue,
            fetch_range_blocks_max: config.fetch_range_blocks_max.get() as usize,
            answer_timeout_ms,
        }))
    };
    match source.clone() {
        Source::CardanoNodeAddress(address) => cardano(NodeAddress::Tcp(address)),
        Source::CardanoNodeSocket(path) => cardano(NodeAddress::Socket(path)),
        Source::Bitcoind(BitcoindSource { url, credentials, blocks_dir }) => {
            Some(NodeSource::Bitcoin(BitcoindOptions {
                url,
                credentials,
                network,
                blocks_dir,
                queue,
                fetch_connections_max: config.fetch_connections_max.get() as usize,
                poll_interval_ms: config.poll_interval_ms.get().into(),
                answer_timeout_ms,
            }))
        }
    }
}
