//! Sources of the configuration: the one place that knows which kinds there are.

use utxokeep_chains::cardano::{NodeAddress, NodeOptions};

use crate::config::{FollowConfig, Source};

/// How to reach the Cardano node of the configuration, on the network with this magic.
#[must_use]
pub fn node_options(source: &Source, config: &FollowConfig, network_magic: u32) -> NodeOptions {
    let address = match source {
        Source::CardanoNodeAddress(address) => NodeAddress::Tcp(address.clone()),
        Source::CardanoNodeSocket(path) => NodeAddress::Socket(path.clone()),
    };
    NodeOptions {
        address,
        network_magic: network_magic.into(),
        queue_blocks_max: config.queue_blocks_max.get() as usize,
        fetch_range_blocks_max: config.fetch_range_blocks_max.get() as usize,
        answer_timeout_ms: config.answer_timeout_ms.get().into(),
    }
}
