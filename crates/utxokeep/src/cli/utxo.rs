//! `utxo show`, `address utxos` and `address balance`, in the JSON models of REST.

use serde::Serialize;
use utxokeep_chains::{parse_address_or_script, script_key};
use utxokeep_core::{AddressKey, OutPoint};
use utxokeep_index::{Paging, QueryError};

use super::{
    args::{Balance as BalanceArgs, Order, Owner, Show, Utxos as UtxosArgs},
    error::CliError,
    exit::Exit,
    open::{Index, Session, view_at},
    output::{self, Human, Lines},
};
use crate::{
    cursor,
    json::{Balance, Point, Utxo},
};

/// An answer, and the block it is true of.
#[derive(Debug, Serialize)]
struct At<T> {
    point: Point,
    #[serde(flatten)]
    answer: T,
}

/// Shows one output.
pub(super) fn show(session: &Session, args: &Show) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let view = view_at(&index, args.at.height)?;
    let (height, _) = view.here()?;
    let outpoint = OutPoint::new(args.txid, args.index);
    let utxo = view.utxo(outpoint)?.ok_or(CliError::UnknownOutput { outpoint, height })?;
    let answer = Utxo::new(&utxo, index.settings().network);
    output::result(session.json(), &At { point: view.point()?.into(), answer })?;
    Ok(Exit::Success)
}

impl Human for At<Utxo> {
    fn describe(&self, lines: &mut Lines) {
        let utxo = &self.answer;
        lines
            .field("output", format_args!("{}:{}", utxo.tx_hash, utxo.output_index))
            .field("state", if utxo.spent_tx_hash.is_some() { "spent" } else { "unspent" })
            .field("amount", &utxo.amount)
            .optional("address", utxo.owner_addr.as_ref())
            .field("script", format_args!("{} ({})", utxo.script_pub_key, utxo.script_type))
            .field("coinbase", if utxo.is_coinbase { "yes" } else { "no" })
            .field("created", format_args!("height {} block {}", utxo.block, utxo.block_hash));
        if let (Some(txid), Some(height), Some(hash)) =
            (&utxo.spent_tx_hash, utxo.spent_at_block, &utxo.spent_at_block_hash)
        {
            lines
                .field("spent by", txid)
                .field("spent", format_args!("height {height} block {hash}"));
        }
        as_of(lines, &self.point);
    }
}

#[derive(Debug, Serialize)]
struct Page {
    utxos: Vec<Utxo>,
    next_cursor: Option<String>,
}

/// Lists outputs of an address or script.
pub(super) fn list(session: &Session, args: &UtxosArgs) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let key = owner_key(&index, &args.owner)?;
    let view = view_at(&index, args.at.height)?;
    let page = view.address_utxos(&key, paging(args)?)?;
    let network = index.settings().network;
    let answer = Page {
        utxos: page.utxos.iter().map(|utxo| Utxo::new(utxo, network)).collect(),
        next_cursor: page.next.map(cursor::encode),
    };
    output::result(session.json(), &At { point: view.point()?.into(), answer })?;
    Ok(Exit::Success)
}

fn paging(args: &UtxosArgs) -> Result<Paging, CliError> {
    let decode = |text: &String| {
        cursor::decode(text).ok_or_else(|| CliError::BadCursor { text: text.clone() })
    };
    let as_rows = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    Ok(Paging {
        after: args.cursor.as_ref().map(decode).transpose()?,
        skip: as_rows((args.page - 1).saturating_mul(args.count)),
        limit: as_rows(args.count),
        reverse: args.order == Order::Desc,
    })
}

impl Human for At<Page> {
    fn describe(&self, lines: &mut Lines) {
        for utxo in &self.answer.utxos {
            let outpoint = format!("{}:{}", utxo.tx_hash, utxo.output_index);
            lines.row(format!("{outpoint:<70} {:>20} height {}", utxo.amount, utxo.block));
        }
        lines.field("rows", self.answer.utxos.len());
        lines.optional("next cursor", self.answer.next_cursor.as_ref());
        as_of(lines, &self.point);
    }
}

/// Adds up the outputs of an address or script.
pub(super) fn balance(session: &Session, args: &BalanceArgs) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let key = owner_key(&index, &args.owner)?;
    let view = view_at(&index, args.at.height)?;
    let answer = Balance::from(view.address_balance(&key, u64::MAX)?);
    output::result(session.json(), &At { point: view.point()?.into(), answer })?;
    Ok(Exit::Success)
}

impl Human for At<Balance> {
    fn describe(&self, lines: &mut Lines) {
        lines.field("amount", &self.answer.amount).field("outputs", self.answer.utxo_count);
        as_of(lines, &self.point);
    }
}

fn owner_key(index: &Index, owner: &Owner) -> anyhow::Result<AddressKey> {
    if !index.settings().enabled {
        return Err(QueryError::Disabled.into());
    }
    let script = parse_address_or_script(&owner.text, index.settings().network)?;
    Ok(script_key(&script))
}

fn as_of(lines: &mut Lines, point: &Point) {
    lines.field("as of", format_args!("height {} block {}", point.height, point.hash));
}
