//! The gRPC contract of utxokeep: messages and clients, generated from the `.proto` files of this
//! package. A client needs nothing else of utxokeep.

/// The first version of the contract: the node store, the pruner, the wallet ledger, the chain index
/// and its change stream.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the contract has the documentation"
)]
pub mod v1 {
    tonic::include_proto!("utxokeep.v1");

    /// The files that this module is generated from: name, text.
    pub const CONTRACT: [(&str, &str); 5] = [
        ("txstore.proto", include_str!("../proto/utxokeep/v1/txstore.proto")),
        ("pruner.proto", include_str!("../proto/utxokeep/v1/pruner.proto")),
        ("wallet.proto", include_str!("../proto/utxokeep/v1/wallet.proto")),
        ("chain.proto", include_str!("../proto/utxokeep/v1/chain.proto")),
        ("stream.proto", include_str!("../proto/utxokeep/v1/stream.proto")),
    ];
}
