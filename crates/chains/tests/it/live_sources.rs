//! The rules of live sources, on every source there is.

use utxokeep_testkit::{
    live::{
        BitcoindMempoolStage, BitcoindStage, CardanoStage, SimulatedMempoolStage, SimulatedStage,
    },
    live_source_tests, mempool_source_tests,
};

live_source_tests!(cardano_node_over_tcp, Some(CardanoStage::over_tcp()));
live_source_tests!(cardano_node_over_a_socket, Some(CardanoStage::over_socket()));
live_source_tests!(simulated_bitcoin_node, Some(SimulatedStage::default()));
live_source_tests!(bitcoin_core, BitcoindStage::start_or_skip());

mempool_source_tests!(simulated_mempool, Some(SimulatedMempoolStage::default()));
mempool_source_tests!(bitcoin_core_mempool, BitcoindMempoolStage::start_or_skip());
