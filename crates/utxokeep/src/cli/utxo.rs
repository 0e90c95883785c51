//! `utxo show`, `address utxos` and `address balance`, in the JSON models of REST.

use serde::Serialize;
use utxokeep_core::{IndexTag, Network, OutPoint, OwnerKeys, Txid};
use utxokeep_index::{Paging, QueryError, View};
use utxokeep_kv::Read;

use super::{
    args::{Balance as BalanceArgs, Order, Owner, Show, Utxos as UtxosArgs},
    error::CliError,
    exit::Exit,
    open::{Index, Session, view_at},
    output::{self, Human, Lines},
};
use crate::{
    cursor::{Cursor, Question},
    json::{Amount, Balance, Partial, Point, Utxo},
    owners::{self, UnknownOutput},
};

/// An answer, and the block it is true of.
#[derive(Debug, Serialize)]
struct At<T> {
    point: Point,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Partial>,
    #[serde(flatten)]
    answer: T,
}

impl<T> At<T> {
    fn new<S: Read>(view: &View<'_, S>, network: Network, answer: T) -> Result<Self, QueryError> {
        let point = Point::new(&view.point()?, network);
        Ok(Self { point, partial: Partial::new(view.partial()), answer })
    }
}

/// Shows one output.
pub(super) fn show(session: &Session, args: &Show) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let network = index.settings().network();
    let (tx_hash, index_of_output) = (args.txid.clone(), args.index);
    let txid = network
        .parse_hash(&tx_hash)
        .map_err(|source| CliError::BadTxHash { text: tx_hash.clone(), source })?;
    let view = view_at(&index, &args.at, None)?;
    let (height, _) = view.here()?;
    let outpoint = OutPoint::new(Txid::from_bytes(txid), index_of_output);
    let unknown = || UnknownOutput { tx_hash, index: index_of_output, height };
    let utxo = view.utxo(outpoint)?.ok_or_else(unknown).map_err(CliError::from)?;
    let answer = Utxo::new(&utxo, network);
    output::result(session.json(), &At::new(&view, network, answer)?)?;
    Ok(Exit::Success)
}

impl Human for At<Utxo> {
    fn describe(&self, lines: &mut Lines) {
        let utxo = &self.answer;
        lines
            .field("output", format_args!("{}:{}", utxo.tx_hash, utxo.output_index))
            .field("state", if utxo.is_spent() { "spent" } else { "unspent" })
            .field("amount", &utxo.amount)
            .optional("address", utxo.owner_addr.as_ref());
        assets(lines, &utxo.amounts);
        if let (Some(script), Some(form)) = (&utxo.script_pub_key, utxo.script_type) {
            lines.field("script", format_args!("{script} ({form})"));
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
        as_of(lines, self);
    }
}

/// Where something happened; slots only on chains that have them.
fn place(height: u32, slot: u64, hash: &str, epoch: Option<u32>) -> String {
    match epoch {
        Some(epoch) => format!("height {height} slot {slot} epoch {epoch} block {hash}"),
        None => format!("height {height} block {hash}"),
    }
}

fn assets(lines: &mut Lines, amounts: &[Amount]) {
    for amount in amounts.iter().filter(|amount| amount.policy_id.is_some()) {
        lines.field("asset", format_args!("{} {}", amount.unit, amount.quantity));
    }
}

#[derive(Debug, Serialize)]
struct Page {
    utxos: Vec<Utxo>,
    next_cursor: Option<String>,
    /// Outputs of a credential are at different addresses.
    #[serde(skip)]
    with_owners: bool,
}

/// Lists outputs of an owner.
pub(super) fn list(session: &Session, args: &UtxosArgs) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let key = owner_key(&index, &args.owner)?;
    let network = index.settings().network();
    let assets = args.asset.as_deref().map(|text| owners::find_asset(text, network)).transpose()?;
    let question = Question::new(&key.key, args.order == Order::Desc, assets.as_ref());
    let cursor = cursor(args, question)?;
    let view = view_at(&index, &args.at, cursor.as_ref())?;
    let block = view.point()?.hash;
    let page = view.owner_utxos(key, paging(args, cursor.as_ref()), assets.as_ref())?;
    let answer = Page {
        utxos: page.utxos.iter().map(|utxo| Utxo::new(utxo, network)).collect(),
        next_cursor: page.next.map(|after| Cursor { question, block, after }.encode()),
        with_owners: key.key.tag != IndexTag::Address,
    };
    output::result(session.json(), &At::new(&view, network, answer)?)?;
    Ok(Exit::Success)
}

fn cursor(args: &UtxosArgs, question: Question) -> Result<Option<Cursor>, CliError> {
    let Some(text) = &args.cursor else { return Ok(None) };
    let cursor = Cursor::parse(text)?;
    cursor.check(question)?;
    Ok(Some(cursor))
}

fn paging(args: &UtxosArgs, cursor: Option<&Cursor>) -> Paging {
    let as_rows = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    Paging {
        after: cursor.map(|cursor| cursor.after),
        skip: as_rows((args.page - 1).saturating_mul(args.count)),
        limit: as_rows(args.count),
        reverse: args.order == Order::Desc,
        scan_rows_max: u64::MAX,
    }
}

impl Human for At<Page> {
    fn describe(&self, lines: &mut Lines) {
        for utxo in &self.answer.utxos {
            let outpoint = format!("{}:{}", utxo.tx_hash, utxo.output_index);
            let owner = utxo.owner_addr.as_deref().filter(|_| self.answer.with_owners);
            let owner = owner.map(|owner| format!(" {owner}")).unwrap_or_default();
            let assets = match utxo.amounts.len() {
                0 | 1 => String::new(),
                2 => " and 1 asset".to_owned(),
                units => format!(" and {} assets", units - 1),
            };
            let (amount, height) = (&utxo.amount, utxo.block);
            lines.row(format!("{outpoint:<70} {amount:>20} height {height}{owner}{assets}"));
        }
        lines.field("rows", self.answer.utxos.len());
        lines.optional("next cursor", self.answer.next_cursor.as_ref());
        as_of(lines, self);
    }
}

/// Adds up the outputs of an owner.
pub(super) fn balance(session: &Session, args: &BalanceArgs) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let key = owner_key(&index, &args.owner)?;
    let view = view_at(&index, &args.at, None)?;
    let network = index.settings().network();
    let answer = Balance::new(&view.owner_balance(key, u64::MAX)?, network);
    output::result(session.json(), &At::new(&view, network, answer)?)?;
    Ok(Exit::Success)
}

impl Human for At<Balance> {
    fn describe(&self, lines: &mut Lines) {
        lines.field("amount", &self.answer.amount);
        assets(lines, &self.answer.amounts);
        lines.field("outputs", self.answer.utxo_count);
        as_of(lines, self);
    }
}

fn owner_key(index: &Index, owner: &Owner) -> anyhow::Result<OwnerKeys> {
    if !index.settings().enabled {
        return Err(QueryError::Disabled.into());
    }
    Ok(owners::find_owner(&owner.text, owner.kind, index.settings().network())?)
}

fn as_of<T>(lines: &mut Lines, answer: &At<T>) {
    let At { point, partial, .. } = answer;
    lines.field("as of", format_args!("height {} block {}", point.height, point.hash));
    output::partial(lines, partial.as_ref());
}
