//! Requests about what becomes of transactions: recorded, labelled, pruned, in blocks.

use serde::{Deserialize, Serialize};

use super::{LineBytes, PayTo, bitcoin};

/// A transaction in parts, for who does not have its bytes.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PlainTx {
    /// Its id.
    pub tx_hash: String,
    /// Outputs it spends, as `TXID:INDEX`; empty for a coinbase.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// All its outputs, in order.
    pub outputs: Vec<PayTo>,
    /// Whether it is a coinbase.
    #[serde(default)]
    pub is_coinbase: bool,
}

impl std::str::FromStr for BlockPlace {
    type Err = &'static str;

    /// The form of the hash is checked when the network is known.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str =
            "expected a height, a hash and a time in seconds, with colons between them";
        let mut parts = text.split(':');
        let (Some(height), Some(hash), Some(time), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(WRONG);
        };
        let height = height.parse().map_err(|_| WRONG)?;
        let time = time.parse().map_err(|_| WRONG)?;
        Ok(Self { height, hash: hash.to_owned(), time })
    }
}

impl std::str::FromStr for BlockTx {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::Raw(text.to_owned()))
    }
}

/// A block.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BlockPlace {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: String,
    /// Time in its header, in seconds since 1970.
    pub time: u64,
}

/// Where a transaction was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SeenIn {
    /// Made here, not sent yet.
    #[default]
    Created,
    /// Sent, or seen in a mempool.
    Mempool,
    /// In a block.
    Block,
}

/// A transaction to record. It is given as bytes or in parts.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RecordTx {
    /// Name of the wallet.
    pub wallet: String,
    /// Its bytes in hexadecimal.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEX"))]
    pub raw: Option<String>,
    /// Its parts.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub parts: Option<PlainTx>,
    /// Where it was met.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(skip))]
    #[cfg_attr(feature = "schema", schema(inline))]
    pub seen: SeenIn,
    /// The block it is in. A command names it by its height, its hash, and the time in its header.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT:HASH:TIME"))]
    pub block: Option<BlockPlace>,
    /// Its position in that block, if you know it.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", requires = "block"))]
    pub position: Option<u32>,
    /// It is meant to replace whatever spends the same outputs.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub replaces: bool,
    /// Label for the transaction; a label that is stored already wins.
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT"))]
    pub label: Option<String>,
    /// Outputs that belong to the wallet, by their indexes; when not given, all to watched scripts.
    #[cfg_attr(feature = "clap", arg(long = "credit", value_name = "INDEX"))]
    pub credits: Option<Vec<u32>>,
    /// Whose payment it is, 64 hexadecimal digits or a name: leases of this owner on its inputs end
    /// when it is given up.
    #[cfg_attr(feature = "clap", arg(long, value_name = "OWNER"))]
    pub owner: Option<String>,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(skip_serializing)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY"))]
    pub idempotency_key: Option<String>,
}

/// The block a stored transaction is in.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfirmTx {
    /// Name of the wallet.
    pub wallet: String,
    /// Id of the transaction, as nodes print it.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID"))]
    pub tx_hash: String,
    /// The block, which the ledger must have reached. A command names it by its height, its hash, and
    /// the time in its header in seconds since 1970.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT:HASH:TIME"))]
    pub block: BlockPlace,
    /// Position in the block, if you know it.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub position: Option<u32>,
}

/// A label; empty text clears it.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetLabel {
    /// Name of the wallet.
    pub wallet: String,
    /// Id of the transaction, as nodes print it.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID"))]
    pub tx_hash: String,
    /// The text.
    #[cfg_attr(feature = "clap", arg(value_name = "TEXT"))]
    pub label: String,
}

/// Labels to set, as lines of BIP-329.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ImportLabels {
    /// Name of the wallet.
    pub wallet: String,
    /// One JSON object in each line. Lines that cannot be used are skipped and reported.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub lines: LineBytes,
}

/// Old rows to remove. What they held moves to an archive inside the ledger, until it is
/// acknowledged.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PruneWallet {
    /// Name of the wallet.
    pub wallet: String,
    /// Transactions that are not live and were first recorded more than this many seconds ago.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SECONDS"))]
    pub dead_older_than_secs: Option<u64>,
    /// Confirmed transactions up to this height whose coins are all spent up to it too. A
    /// reorganisation must not reach it: `prune_depth_blocks` of the configuration lie above.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT"))]
    pub confirmed_up_to: Option<u32>,
    /// At most this many; call again for more.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub txs_max: Option<u32>,
    /// Keep nothing: do not archive what is removed.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub discard: bool,
    /// Only say what would be removed.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long = "dry-run"))]
    pub is_dry_run: bool,
}

impl PruneWallet {
    pub(crate) const fn is_dry(&self) -> bool {
        self.is_dry_run
    }
}

/// Pruned transactions that are kept elsewhere now.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AcknowledgePruned {
    /// Name of the wallet.
    pub wallet: String,
    /// The last one that was read, by its number; all up to it leave the archive.
    pub up_to: i64,
}

/// The next block of a network, for all its wallets.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ApplyBlock {
    /// Chain of the network.
    #[serde(default = "bitcoin")]
    #[cfg_attr(feature = "clap", arg(long, default_value = "bitcoin"))]
    pub chain: String,
    /// The network.
    #[cfg_attr(feature = "clap", arg(long))]
    pub network: String,
    /// The block. A command names it by its height, its hash, and the time in its header.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT:HASH:TIME"))]
    pub block: BlockPlace,
    /// Hash of the block below; not given for the first of a chain.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HASH"))]
    pub parent: Option<String>,
    /// Its transactions in order, as bytes in hexadecimal or in parts. A command takes bytes; repeat the
    /// option for more.
    #[cfg_attr(feature = "clap", arg(long = "tx", value_name = "HEX"))]
    pub transactions: Vec<BlockTx>,
}

/// A transaction of a block.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(
    untagged,
    expecting = "expected bytes in hexadecimal, or tx_hash, inputs, outputs and is_coinbase"
)]
pub enum BlockTx {
    /// Its bytes in hexadecimal.
    Raw(String),
    /// Its parts.
    Parts(PlainTx),
}

/// The block to take off the end of a network.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DisconnectBlock {
    /// Chain of the network.
    #[serde(default = "bitcoin")]
    #[cfg_attr(feature = "clap", arg(long, default_value = "bitcoin"))]
    pub chain: String,
    /// The network.
    #[cfg_attr(feature = "clap", arg(long))]
    pub network: String,
    /// The block, which must be the last one. A command names it by its height, its hash, and the time in its header.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT:HASH:TIME"))]
    pub block: BlockPlace,
    /// Hash of the block below; not given for the first of a chain.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HASH"))]
    pub parent: Option<String>,
}

/// Blocks to take off the end of a network.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    /// This block and all above it are taken off.
    #[cfg_attr(feature = "clap", arg(value_name = "HEIGHT"))]
    pub from_height: u32,
    /// Chain of the network.
    #[serde(default = "bitcoin")]
    #[cfg_attr(feature = "clap", arg(long, default_value = "bitcoin"))]
    pub chain: String,
    /// The network.
    #[cfg_attr(feature = "clap", arg(long))]
    pub network: String,
    /// `pruned`: also blocks from which transactions were pruned. Their wallets are set aside until
    /// they are rescanned.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT"))]
    pub allow: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_named_by_height_hash_and_time() {
        let block: BlockPlace = "7:ab:1700000000".parse().unwrap();
        assert_eq!((block.height, block.hash.as_str(), block.time), (7, "ab", 1_700_000_000));
        for wrong in ["", "7", "7:ab", "x:ab:1", "7:ab:x", "7:ab:1:2", "-1:ab:1"] {
            assert!(wrong.parse::<BlockPlace>().is_err(), "{wrong}");
        }
    }
}
