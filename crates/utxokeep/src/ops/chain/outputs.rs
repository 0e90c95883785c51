//! One output by its name.

use serde::{Deserialize, Serialize};
use utxokeep_core::{ErrorKind, OutPoint, Txid};

use super::{At, Chain, ChainReadError, exactly, state::partial};
use crate::{
    json::{Amount, Partial, Point, Utxo},
    ops::{About, Answer, Answered, Known, Lines, Operation},
    owners::UnknownOutput,
};

/// Which output, and when.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UtxoRequest {
    /// The output: the id of its transaction as nodes print it, a colon, and its position.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID:INDEX", value_parser = output_name))]
    outpoint: String,
    /// Answer as of this block inside the rollback window, instead of the tip: a height, a block
    /// hash, or on Cardano slot:NUMBER for the newest block of that slot or an earlier one.
    #[cfg_attr(feature = "clap", arg(long, value_name = "BLOCK"))]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "300"))]
    at: Option<At>,
}

/// Refuses what cannot be the name of an output on any chain, before a command opens anything.
#[cfg(feature = "clap")]
fn output_name(text: &str) -> Result<String, ChainReadError> {
    let is_output = text.split_once(':').is_some_and(|(tx_hash, index)| {
        tx_hash.len() == 64
            && tx_hash.bytes().all(|digit| digit.is_ascii_hexdigit())
            && index.parse::<u32>().is_ok()
    });
    let text = text.to_owned();
    if is_output { Ok(text) } else { Err(ChainReadError::BadOutput { text }) }
}

/// An output, and the block the answer is true of.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UtxoAnswer {
    point: Point,
    /// What the database keeps, when that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    partial: Option<Partial>,
    #[serde(flatten)]
    utxo: Utxo,
}

/// One output.
#[derive(Debug)]
pub enum ShowUtxo {}

impl Operation for ShowUtxo {
    type Part = Chain;
    type Request = UtxoRequest;
    type Answer = UtxoAnswer;

    const ABOUT: About = About {
        command: "utxo show",
        path: "/api/v1/utxos/{outpoint}",
        also: &["/api/v1/utxos/{tx_hash}/{output_index}", "/utxos/{tx_hash}/{output_index}"],
        tag: "outputs",
        summary: "Show one output",
        description: "Live, or spent recently enough that the record of it is kept; then `spent_*` say \
                      who spent it.",
        mark: Some("Hash of the block the answer is true of"),
        refusals: &[
            (
                ErrorKind::NotFound,
                "`unknown_output`: there was no such output by then, or it was spent long ago; \
                 `not_kept`: the database keeps only a part of the outputs, and cannot tell",
            ),
            (ErrorKind::Disabled, "The database does not keep the index"),
        ],
        ..About::READ
    };

    fn run(
        chain: &Chain,
        UtxoRequest { outpoint: text, at }: UtxoRequest,
        known: Known<'_>,
    ) -> Result<Answered<UtxoAnswer>, ChainReadError> {
        let network = chain.network();
        let parsed = text.split_once(':').and_then(|(tx_hash, index)| {
            Some((tx_hash.to_owned(), network.parse_hash(tx_hash).ok()?, index.parse().ok()?))
        });
        let (tx_hash, txid, index) = parsed.ok_or(ChainReadError::BadOutput { text })?;
        let view = chain.view_at(at.as_ref(), None)?;
        let (point, partial) = chain.standing(&view)?;
        let (height, _) = view.here()?;
        let outpoint = OutPoint::new(Txid::from_bytes(txid), index);
        let utxo = view.utxo(outpoint)?.ok_or(UnknownOutput { tx_hash, index, height })?;
        known.unless_same(exactly(&point), || {
            Ok(UtxoAnswer { point, partial, utxo: Utxo::new(&utxo, network) })
        })
    }
}

impl Answer for UtxoAnswer {
    fn show(&self, lines: &mut Lines) {
        let utxo = &self.utxo;
        lines
            .field("output", format!("{}:{}", utxo.tx_hash, utxo.output_index))
            .field("state", if utxo.is_spent() { "spent" } else { "unspent" })
            .field("amount", utxo.amount)
            .optional("address", utxo.owner_addr.as_ref());
        assets(lines, &utxo.amounts);
        if let (Some(script), Some(form)) = (&utxo.script_pub_key, utxo.script_type) {
            lines.field("script", format!("{script} ({form})"));
        }
        if let Some(is_coinbase) = utxo.is_coinbase {
            lines.field("coinbase", if is_coinbase { "yes" } else { "no" });
        }
        let of_cardano = [
            ("stake address", &utxo.owner_stake_addr),
            ("payment credential", &utxo.owner_payment_credential),
            ("stake credential", &utxo.owner_stake_credential),
            ("datum hash", &utxo.data_hash),
            ("inline datum", &utxo.inline_datum),
            ("script reference", &utxo.script_ref),
            ("script hash", &utxo.reference_script_hash),
        ];
        for (label, value) in of_cardano {
            if let Some(value) = value {
                lines.field(label, value);
            }
        }
        if utxo.is_collateral_return == Some(true) {
            lines.field("collateral return", "yes");
        }
        lines.field("created", place(utxo.block, utxo.slot, &utxo.block_hash, utxo.epoch));
        if let (Some(height), Some(slot), Some(hash)) =
            (utxo.spent_at_block, utxo.spent_at_slot, &utxo.spent_at_block_hash)
        {
            let spender = utxo.spent_tx_hash.as_deref().unwrap_or("the ledger, where an era began");
            lines
                .field("spent by", spender)
                .field("spent", place(height, slot, hash, utxo.spent_epoch));
        }
        as_of(lines, &self.point, self.partial.as_ref());
    }
}

/// Where something happened; slots only on chains that have them.
fn place(height: u32, slot: u64, hash: &str, epoch: Option<u32>) -> String {
    match epoch {
        Some(epoch) => format!("height {height} slot {slot} epoch {epoch} block {hash}"),
        None => format!("height {height} block {hash}"),
    }
}

/// Native assets of an output or a balance.
pub(super) fn assets(lines: &mut Lines, amounts: &[Amount]) {
    for amount in amounts.iter().filter(|amount| amount.policy_id.is_some()) {
        lines.field("asset", format!("{} {}", amount.unit, amount.quantity));
    }
}

/// The block that an answer is true of.
pub(super) fn as_of(lines: &mut Lines, point: &Point, kept: Option<&Partial>) {
    lines.field("as of", format!("height {} block {}", point.height, point.hash));
    partial(lines, kept);
}
