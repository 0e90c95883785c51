//! The rules of live sources, on every source there is.

use utxokeep_testkit::{
    live::{CardanoStage, SimulatedStage},
    live_source_tests,
};

live_source_tests!(cardano_node_over_tcp, CardanoStage::over_tcp());
live_source_tests!(cardano_node_over_a_socket, CardanoStage::over_socket());
live_source_tests!(simulated_bitcoin_node, SimulatedStage::default());
