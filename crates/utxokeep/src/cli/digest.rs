//! `chain digest`.

use serde::Serialize;
use utxokeep_core::{Network, hex_encode};
use utxokeep_index::Digest as IndexDigest;

use super::{
    args,
    exit::Exit,
    open::{Session, view_at},
    output::{self, Human, Lines},
};
use crate::json::Partial;

/// An amount in whole coins with eight decimals, as Bitcoin Core prints it.
pub(super) fn coins(amount: u64) -> String {
    format!("{}.{:08}", amount / 100_000_000, amount % 100_000_000)
}

/// The digests, in the words of each chain.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Digest {
    Bitcoin {
        height: u32,
        best_hash: String,
        txouts: u64,
        total_amount: String,
        bogosize: u64,
        muhash: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hash_serialized_3: Option<String>,
        scanned: bool,
    },
    Cardano {
        height: u32,
        slot: u64,
        best_hash: String,
        txouts: u64,
        lovelace: String,
        asset_entries: Option<u64>,
        digest: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        muhash: Option<String>,
    },
}

/// The digests, and of what.
#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Partial>,
}

impl Human for Answer {
    fn describe(&self, lines: &mut Lines) {
        self.digest.describe(lines);
        output::partial(lines, self.partial.as_ref());
    }
}

/// Prints the digests of the set.
pub(super) fn digest(session: &Session, args: &args::Digest) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let view = view_at(&index, &args.at, None)?;
    let digest = Digest::new(&view.digest(args.audit)?, index.settings().network());
    let partial = Partial::new(view.partial());
    output::result(session.json(), &Answer { digest, partial })?;
    Ok(Exit::Success)
}

impl Digest {
    fn new(digest: &IndexDigest, network: Network) -> Self {
        let height = digest.point.height.get();
        let best_hash = network.hash_text(digest.point.hash.as_bytes());
        let txouts = digest.totals.txouts;
        if network.is_cardano() {
            return Self::Cardano {
                height,
                slot: digest.point.slot,
                best_hash,
                txouts,
                lovelace: digest.totals.total_amount.to_string(),
                asset_entries: digest.asset_entries,
                digest: digest.ordered_hash.map(|hash| hex_encode(&hash)),
                muhash: digest.muhash.map(|hash| hex_encode(&hash)),
            };
        }
        Self::Bitcoin {
            height,
            best_hash,
            txouts,
            total_amount: coins(digest.totals.total_amount),
            bogosize: digest.totals.bogosize,
            muhash: digest.muhash.map(|hash| network.hash_text(&hash)),
            hash_serialized_3: digest.ordered_hash.map(|hash| network.hash_text(&hash)),
            scanned: digest.scanned,
        }
    }
}

impl Human for Digest {
    fn describe(&self, lines: &mut Lines) {
        match self {
            Self::Bitcoin {
                height,
                best_hash,
                txouts,
                total_amount,
                bogosize,
                muhash,
                hash_serialized_3,
                scanned,
            } => {
                lines
                    .field("height", height)
                    .field("best hash", best_hash)
                    .field("outputs", txouts)
                    .field("total amount", total_amount)
                    .field("bogosize", bogosize)
                    .optional("muhash", muhash.as_ref());
                if let Some(hash) = hash_serialized_3 {
                    lines.field("hash_serialized_3", hash);
                }
                lines
                    .field("source", if *scanned { "scan of the set" } else { "kept accumulator" });
            }
            Self::Cardano {
                height,
                slot,
                best_hash,
                txouts,
                lovelace,
                asset_entries,
                digest,
                muhash,
            } => {
                lines
                    .field("height", height)
                    .field("slot", slot)
                    .field("best hash", best_hash)
                    .field("outputs", txouts)
                    .field("lovelace", lovelace)
                    .optional("asset entries", *asset_entries)
                    .optional("digest", digest.as_ref());
                if let Some(hash) = muhash {
                    lines.field("muhash", hash);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::coins;

    #[test]
    fn amounts_have_eight_decimals() {
        assert_eq!(coins(313_560_806_831), "3135.60806831");
        assert_eq!(coins(1), "0.00000001");
        assert_eq!(coins(u64::MAX), "184467440737.09551615");
    }
}
