//! The followed chain: the state of its database, its tip, its blocks, digests of its set.

use serde::{Deserialize, Serialize};
use utxokeep_core::{BlockName, ErrorKind, Height, Network, hex_encode};
use utxokeep_index::{Digest as SetDigest, QueryError};

use super::{At, Chain, ChainReadError, exactly};
use crate::{
    json::{self, ChainStatus, Partial, Point, Units},
    ops::{About, Answer, Answered, Known, Lines, Mark, Operation},
    times::utc,
};

const TAG: &str = "chain";

const UNKNOWN_BLOCK: (ErrorKind, &str) = (
    ErrorKind::NotFound,
    "`unknown_block`: not on the followed chain; `not_kept`: the database starts in mid-chain, and the \
     block is, or may be, from before",
);

/// A question without parameters.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NoRequest {}

/// What the database is and where it stands.
#[derive(Debug)]
pub enum Status {}

impl Operation for Status {
    type Part = Chain;
    type Request = NoRequest;
    type Answer = ChainStatus;

    const ABOUT: About = About {
        command: "chain status",
        path: "/api/v1/status",
        tag: TAG,
        summary: "Show what the database is and where it stands",
        description: "Network, tip, totals, rollback floor, what is kept, and sizes.",
        mark: Some(
            "Hash of the tip, as a weak tag: sizes may differ at the same tip. There is none where a \
             source is followed, because what is known of it changes at the same tip",
        ),
        ..About::READ
    };

    fn run(
        chain: &Chain,
        _: NoRequest,
        known: Known<'_>,
    ) -> Result<Answered<ChainStatus>, ChainReadError> {
        let source = chain.source.as_ref().map(crate::follow::SourceState::status);
        let building = chain.index.mmr_build_standing()?;
        let status =
            ChainStatus::new(&chain.index.status()?, chain.index.settings(), building.as_ref());
        match (&source, status.best_hash.clone()) {
            (None, Some(hash)) => known.unless_same(Mark { hash, is_exact: false }, || Ok(status)),
            _ => Ok(status.with_source(source).into()),
        }
    }
}

impl Answer for ChainStatus {
    fn show(&self, lines: &mut Lines) {
        let on = |is_on: bool| if is_on { "on" } else { "off" };
        lines
            .field("network", format!("{}/{}", self.chain, self.network))
            .optional("height", self.height)
            .optional("best hash", self.best_hash.as_ref())
            .optional("block time", self.block_time.map(time))
            .optional("outputs", self.utxo_count);
        if let Some(source) = &self.source {
            lines.field("source", &source.address);
        }
        partial(lines, self.partial.as_ref());
        lines.optional("total amount", self.total_amount.map(|sum| coins(sum, &self.chain)));
        if let Some(slot) = self.slot {
            lines.field("slot", slot).optional("epoch", self.epoch);
        }
        if let Some(height) = self.started_mid_chain_at {
            lines.field("first block", format!("{height}: blocks before are missing"));
        }
        if let Some(missing) = self.missing_inputs {
            lines.field("missing inputs", missing);
        }
        match self.filter_entries {
            Some(0) => _ = lines.field("filter", "none"),
            Some(entries) => _ = lines.field("filter", format!("{entries} owners")),
            None => {}
        }
        let indexes = Some(self.indexes.join(", ")).filter(|names| !names.is_empty());
        lines
            .optional("rollback floor", self.rollback_floor)
            .optional("undo base", self.undo_base)
            .field("format", self.format_version)
            .field("index", self.index_state.replace('_', " "));
        if let Some(height) = self.index_height {
            lines.field("index height", height);
        }
        lines
            .optional("indexes", indexes)
            .field("muhash", on(self.is_muhash_kept))
            .field("store", self.store);
        if let Some(mmr) = &self.mmr {
            lines
                .field("mmr rule", &mmr.rule)
                .field("mmr leaves", format!("{} ({} unspent)", mmr.leaves, mmr.live_leaves))
                .field("mmr nodes", mmr.nodes)
                .field("mmr root", &mmr.root);
        }
        if let Some(next) = self.mmr_build_next_height {
            let text = "`chain mmr enable` was interrupted and resumes at height";
            lines.field("mmr", format!("{text} {next}"));
            match self.mmr_build_holds_undo_above {
                Some(height) => lines.field(
                    "mmr",
                    format!(
                        "undo data above height {height} is kept for it, at most [index] \
                         consumer_lag_blocks_max blocks; `chain mmr disable` lets it go"
                    ),
                ),
                None => lines.field("mmr", "no undo data is kept for it any more"),
            };
        }
        lines
            .row("")
            .row(format!("{:<20} {:>16} {:>16}", "table", "bytes on disk", "rows (about)"));
        for json::Table { name, disk_bytes, rows_estimate } in &self.tables {
            lines.row(format!("{name:<20} {disk_bytes:>16} {rows_estimate:>16}"));
        }
    }
}

fn time(seconds: u64) -> String {
    utc(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000))
}

/// A sum in whole coins, with their name.
fn coins(sum: Units, chain: &str) -> String {
    let (decimals, name) = if chain == "cardano" { (6, "ADA") } else { (8, "BTC") };
    let digits = format!("{sum:0width$}", width = decimals + 1);
    let (whole, part) = digits.split_at(digits.len() - decimals);
    format!("{whole}.{part} {name}")
}

/// Says what a database keeps that does not keep everything.
pub(super) fn partial(lines: &mut Lines, partial: Option<&Partial>) {
    if let Some(partial) = partial {
        lines.field("partial", format!("the index keeps {partial}"));
    }
}

/// A block, and the tip of the chain it is part of.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BlockAnswer {
    point: Point,
    /// What the database keeps, when that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    partial: Option<Partial>,
    #[serde(flatten)]
    block: json::Block,
    /// The chain, which decides how a sum is shown to people.
    #[serde(skip)]
    chain: &'static str,
}

impl Answer for BlockAnswer {
    fn show(&self, lines: &mut Lines) {
        let json::Block { time: seconds, total_amount, .. } = &self.block;
        lines
            .field("height", self.block.height)
            .field("hash", &self.block.hash)
            .field("previous hash", &self.block.previous_hash)
            .field("block time", time(*seconds));
        if self.chain == "cardano" {
            lines
                .field("slot", self.block.slot)
                .optional("epoch", self.block.epoch)
                .optional("era", self.block.era);
        }
        lines
            .field("chain work", &self.block.chain_work)
            .field("transactions", self.block.tx_count)
            .field("created", self.block.outputs_created)
            .field("spent", self.block.outputs_spent)
            .field("outputs", self.block.utxo_count)
            .field("total amount", coins(*total_amount, self.chain));
        partial(lines, self.partial.as_ref());
    }
}

/// The newest block.
#[derive(Debug)]
pub enum Tip {}

impl Operation for Tip {
    type Part = Chain;
    type Request = NoRequest;
    type Answer = BlockAnswer;

    const ABOUT: About = About {
        command: "chain tip",
        path: "/api/v1/chain/tip",
        tag: TAG,
        summary: "Show the newest block",
        description: "",
        mark: Some("Hash of the block"),
        ..About::READ
    };

    fn run(
        chain: &Chain,
        _: NoRequest,
        known: Known<'_>,
    ) -> Result<Answered<BlockAnswer>, ChainReadError> {
        let view = chain.view_at(None, None)?;
        let (height, entry) = view.tip().ok_or(QueryError::Empty)?;
        let (point, partial) = chain.standing(&view)?;
        known.unless_same(exactly(&point), || {
            Ok(BlockAnswer {
                point,
                partial,
                block: json::Block::new(height, &entry, chain.network()),
                chain: chain.network().chain(),
            })
        })
    }
}

/// Which block.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BlockRequest {
    /// Height or hash of the block.
    #[cfg_attr(feature = "clap", arg(value_name = "HEIGHT_OR_HASH"))]
    height_or_hash: String,
}

/// A block of the followed chain.
#[derive(Debug)]
pub enum Block {}

impl Operation for Block {
    type Part = Chain;
    type Request = BlockRequest;
    type Answer = BlockAnswer;

    const ABOUT: About = About {
        command: "chain block",
        path: "/api/v1/chain/blocks/{height_or_hash}",
        tag: TAG,
        summary: "Show a block of the followed chain",
        description: "`point` is the tip of the chain that the block was found on.",
        mark: Some("Hash of the tip"),
        refusals: &[UNKNOWN_BLOCK],
        ..About::READ
    };

    fn run(
        chain: &Chain,
        BlockRequest { height_or_hash: text }: BlockRequest,
        known: Known<'_>,
    ) -> Result<Answered<BlockAnswer>, ChainReadError> {
        let network = chain.network();
        let wanted = match (network.parse_hash(&text), text.parse::<Height>()) {
            (Ok(_), _) => BlockName::Hash(text),
            (_, Ok(height)) => BlockName::Height(height),
            _ => return Err(ChainReadError::BadBlock),
        };
        let view = chain.view_at(None, None)?;
        let (point, partial) = chain.standing(&view)?;
        let (height, entry) = view.block_named(&wanted)?;
        known.unless_same(exactly(&point), || {
            let (block, chain) = (json::Block::new(height, &entry, network), network.chain());
            Ok(BlockAnswer { point, partial, block, chain })
        })
    }
}

/// Which digests, and of when.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DigestRequest {
    /// Answer as of this block inside the rollback window, instead of the tip: a height, a block
    /// hash, or on Cardano slot:NUMBER for the newest block of that slot or an earlier one.
    #[cfg_attr(feature = "clap", arg(long, value_name = "BLOCK"))]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "300"))]
    at: Option<At>,
    /// Bitcoin: read the whole set even where an accumulator is kept, and add `hash_serialized_3`.
    /// Cardano: add `muhash`.
    #[cfg_attr(feature = "clap", arg(long))]
    #[cfg_attr(feature = "schema", schema(default = false))]
    #[serde(default)]
    audit: bool,
}

/// Digests of the set, in the words of each chain.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DigestAnswer {
    point: Point,
    /// What the database keeps, when that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    partial: Option<Partial>,
    /// Outputs in the set.
    utxo_count: u64,
    /// Sum of their amounts in the smallest unit, as a decimal string.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "1124999990000"))]
    total_amount: Units,
    /// Bitcoin: what nodes call the size of the set, whatever the database takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    bogosize: Option<u64>,
    /// Cardano: entries of native assets in all outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    asset_entries: Option<u64>,
    /// Order-free digest, as Bitcoin Core prints it. Cardano: only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    muhash: Option<String>,
    /// Bitcoin: ordered digest, only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    hash_serialized_3: Option<String>,
    /// Cardano: ordered digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    digest: Option<String>,
    /// Whether the set was read for this answer; else it comes from an accumulator that is kept.
    is_scanned: bool,
}

impl DigestAnswer {
    fn new(point: Point, partial: Option<Partial>, digest: &SetDigest, network: Network) -> Self {
        let is_cardano = network.is_cardano();
        let text = |hash: [u8; 32]| {
            if is_cardano { hex_encode(&hash) } else { network.hash_text(&hash) }
        };
        let ordered = digest.ordered_hash.map(text);
        Self {
            point,
            partial,
            utxo_count: digest.totals.txouts,
            total_amount: Units(digest.totals.total_amount.into()),
            bogosize: (!is_cardano).then_some(digest.totals.bogosize),
            asset_entries: digest.asset_entries.filter(|_| is_cardano),
            muhash: digest.muhash.map(text),
            hash_serialized_3: ordered.clone().filter(|_| !is_cardano),
            digest: ordered.filter(|_| is_cardano),
            is_scanned: digest.scanned,
        }
    }
}

impl Answer for DigestAnswer {
    fn show(&self, lines: &mut Lines) {
        let chain = if self.bogosize.is_some() { "bitcoin" } else { "cardano" };
        lines
            .field("height", self.point.height)
            .field("best hash", &self.point.hash)
            .field("outputs", self.utxo_count)
            .field("total amount", coins(self.total_amount, chain));
        let counts = [("bogosize", self.bogosize), ("asset entries", self.asset_entries)];
        for (label, count) in counts {
            if let Some(count) = count {
                lines.field(label, count);
            }
        }
        let hashes = [
            ("muhash", &self.muhash),
            ("hash_serialized_3", &self.hash_serialized_3),
            ("digest", &self.digest),
        ];
        for (label, hash) in hashes {
            if let Some(hash) = hash {
                lines.field(label, hash);
            }
        }
        lines.field("source", if self.is_scanned { "scan of the set" } else { "kept accumulator" });
        partial(lines, self.partial.as_ref());
    }
}

/// Digests of the set.
#[derive(Debug)]
pub enum Digest {}

impl Operation for Digest {
    type Part = Chain;
    type Request = DigestRequest;
    type Answer = DigestAnswer;

    const ABOUT: About = About {
        command: "chain digest",
        path: "/api/v1/chain/digest",
        tag: TAG,
        summary: "Show digests of the set of unspent outputs",
        description: "Bitcoin: as Bitcoin Core's `gettxoutsetinfo muhash`. Cardano: Blake2b-256 over the \
                      outputs in order of transaction and index; it always reads the whole set. A \
                      server answers only from an accumulator that is kept: where the whole set has to \
                      be read, the command does it.",
        mark: Some("Hash of the block the answer is true of"),
        refusals: &[
            UNKNOWN_BLOCK,
            (
                ErrorKind::Disabled,
                "The set would have to be read, or the database does not keep it",
            ),
        ],
        ..About::READ
    };

    fn run(
        chain: &Chain,
        request: DigestRequest,
        known: Known<'_>,
    ) -> Result<Answered<DigestAnswer>, ChainReadError> {
        let (network, settings) = (chain.network(), chain.index.settings());
        let reads_set = request.audit || network.is_cardano() || !settings.muhash;
        if settings.enabled && reads_set && !chain.limits.may_read_set {
            return Err(ChainReadError::ReadsWholeSet);
        }
        let view = chain.view_at(request.at.as_ref(), None)?;
        let (point, partial) = chain.standing(&view)?;
        known.unless_same(exactly(&point), || {
            Ok(DigestAnswer::new(point, partial, &view.digest(request.audit)?, network))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Units, coins};

    #[test]
    fn sums_have_the_decimals_of_their_coin() {
        assert_eq!(coins(Units(313_560_806_831), "bitcoin"), "3135.60806831 BTC");
        assert_eq!(coins(Units(1), "bitcoin"), "0.00000001 BTC");
        assert_eq!(coins(Units(1_234_567), "cardano"), "1.234567 ADA");
        assert_eq!(coins(Units(0), "cardano"), "0.000000 ADA");
    }
}
