//! What an owner has: outputs and balances of addresses, credentials and scripts.
//!
//! The three differ in what they take for an owner, and in nothing else.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};
use utxokeep_chains::script_hash_candidates;
use utxokeep_core::{AssetFilter, ErrorKind, IndexKey, IndexTag, Network, OwnerKeys};
use utxokeep_index::{Paging, View};
use utxokeep_kv::Read;

use super::{
    At, Chain, ChainLimits, ChainReadError, exactly,
    outputs::{as_of, assets},
};
use crate::{
    cursor::{Cursor, Question},
    json::{self, Partial, Point, Utxo},
    ops::{About, Answer, Answered, Known, Lines, Operation, Refusal},
    owners::{self, Kind},
};

const TAG: &str = "outputs";
const MARK: Option<&str> = Some("Hash of the block the answer is true of");

const UNKNOWN: Refusal = (
    ErrorKind::NotFound,
    "`unknown_block`: the block in `at` is not on the followed chain; `not_kept`: the filter of the \
     database leaves the owner out, or the block in `at` is, or may be, from before its first; \
     `not_on_this_chain`: the chain has no such thing",
);
const DISABLED: Refusal = (ErrorKind::Disabled, "The database does not keep the index");
const BLOCK_GONE: Refusal = (
    ErrorKind::Refused,
    "`block_gone`: the block that the cursor was made at is not on the followed chain: a \
     reorganisation replaced it, or the cursor is of another database; start the list again",
);

/// What a kind of owner is called, and how its text is read.
pub trait Whose: std::fmt::Debug + Send + Sync + 'static {
    /// The list of its outputs.
    const UTXOS: About;
    /// Its balance.
    const BALANCE: About;

    /// Whom a text stands for.
    fn find(text: &str, kind: Option<Kind>, network: Network) -> Result<Owner, ChainReadError>;
}

/// A list of outputs: what all three say of theirs.
const fn utxos(about: About) -> About {
    About { tag: TAG, mark: MARK, refusals: &[BLOCK_GONE, UNKNOWN, DISABLED], ..about }
}

/// A balance: what all three say of theirs.
const fn balance(about: About) -> About {
    About { tag: TAG, mark: MARK, refusals: &[UNKNOWN, DISABLED], ..about }
}

/// Owners by address, or by whatever else names one.
#[derive(Debug)]
pub enum Address {}

impl Whose for Address {
    const UTXOS: About = utxos(About {
        command: "address utxos",
        path: "/api/v1/addresses/{owner}/utxos",
        also: &["/addresses/{owner}/utxos"],
        summary: "List the unspent outputs of an address",
        description: "In chain order. The address must be one of the network that is followed. \
                      Bitcoin: an output script in hexadecimal may stand in its place. Cardano: \
                      bech32, base58 or hexadecimal; a stake address or a credential (`addr_vkh1…`, \
                      `script1…`, `stake_vkh1…`, `key:HEX`, `script:HEX`) may stand in its place.",
        ..About::READ
    });
    const BALANCE: About = balance(About {
        command: "address balance",
        path: "/api/v1/addresses/{owner}/balance",
        summary: "Add up the unspent outputs of an address",
        description: "Takes what the list of outputs takes. On Cardano every native asset is added up \
                      too.",
        ..About::READ
    });

    fn find(text: &str, kind: Option<Kind>, network: Network) -> Result<Owner, ChainReadError> {
        Ok(Owner::Key(owners::find_owner(text, kind, network)?))
    }
}

/// Owners by credential.
#[derive(Debug)]
pub enum Credential {}

impl Whose for Credential {
    const UTXOS: About = utxos(About {
        command: "credential utxos",
        path: "/api/v1/credentials/{owner}/utxos",
        summary: "List the unspent outputs of a credential",
        description: "Cardano: in chain order, at every address with this payment credential \
                      (`addr_vkh1…`, `script1…`, `key:HEX`, `script:HEX`, or bare hexadecimal with \
                      `kind`) or stake credential (`stake_vkh1…`, or a stake address), while that \
                      index is kept.",
        ..About::READ
    });
    const BALANCE: About = balance(About {
        command: "credential balance",
        path: "/api/v1/credentials/{owner}/balance",
        summary: "Add up the unspent outputs of a credential",
        description: "Cardano: takes what the list of outputs takes.",
        ..About::READ
    });

    fn find(text: &str, kind: Option<Kind>, network: Network) -> Result<Owner, ChainReadError> {
        if !network.is_cardano() {
            let instead = "ask by address or script";
            return Err(ChainReadError::NotOnThisChain { network, what: "credentials", instead });
        }
        Ok(Owner::Key(owners::find_credential(text, kind, network)?))
    }
}

/// Owners by the hash of their output script.
#[derive(Debug)]
pub enum Script {}

impl Whose for Script {
    const UTXOS: About = utxos(About {
        command: "script utxos",
        path: "/api/v1/scripts/{owner}/utxos",
        summary: "List the unspent outputs of a script hash",
        description: "Bitcoin: in chain order. The hash is the SHA-256 of the output script, in \
                      Electrum's reversed order or as it is; of the two readings, the one with outputs \
                      is taken.",
        ..About::READ
    });
    const BALANCE: About = balance(About {
        command: "script balance",
        path: "/api/v1/scripts/{owner}/balance",
        summary: "Add up the unspent outputs of a script hash",
        description: "Bitcoin: takes what the list of outputs takes.",
        ..About::READ
    });

    fn find(text: &str, kind: Option<Kind>, network: Network) -> Result<Owner, ChainReadError> {
        if network.is_cardano() {
            let what = "hashes of output scripts";
            let instead = "ask by address or credential";
            return Err(ChainReadError::NotOnThisChain { network, what, instead });
        }
        if kind.is_some() {
            let text = "kind is for credentials; leave it out".to_owned();
            return Err(ChainReadError::BadParameter(text));
        }
        script_hash_candidates(text).map(Owner::Either).ok_or(ChainReadError::BadScriptHash)
    }
}

/// Whom a question is about.
#[derive(Debug, Clone, Copy)]
pub enum Owner {
    /// Exactly these outputs.
    Key(OwnerKeys),
    /// A script hash that may have been written in either byte order.
    Either([IndexKey; 2]),
}

impl Owner {
    /// Whether the index can answer; also for a caller that has the answer of this block.
    fn check<S: Read>(self, view: &View<'_, S>) -> Result<(), ChainReadError> {
        let keys = match self {
            Self::Key(keys) => keys,
            Self::Either([first, _]) => first.into(),
        };
        Ok(view.check_owner(keys).map(drop)?)
    }

    /// The key to ask about: of two, the first that has outputs.
    fn key<S: Read>(self, view: &View<'_, S>) -> Result<OwnerKeys, ChainReadError> {
        let first_row =
            Paging { after: None, skip: 0, limit: 1, reverse: false, scan_rows_max: u64::MAX };
        match self {
            Self::Key(key) => Ok(key),
            Self::Either([first, second]) => {
                for key in [first, second] {
                    if !view.owner_utxos(key, first_row, None)?.utxos.is_empty() {
                        return Ok(key.into());
                    }
                }
                Ok(first.into())
            }
        }
    }
}

/// Order of outputs by their place on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Oldest first.
    #[default]
    Asc,
    /// Newest first.
    Desc,
}

impl UtxosRequest {
    /// The first page of an owner's outputs, at the tip.
    #[must_use]
    pub fn of(owner: &str) -> Self {
        Self { owner: owner.to_owned(), ..Self::default() }
    }
}

/// Whose outputs, when, and which part of the list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UtxosRequest {
    /// The owner.
    owner: String,
    /// Cardano: what a credential in bare hexadecimal is the hash of.
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    #[cfg_attr(feature = "schema", schema(inline))]
    kind: Option<Kind>,
    /// Answer as of this block inside the rollback window, instead of the tip: a height, a block
    /// hash, or on Cardano slot:NUMBER for the newest block of that slot or an earlier one.
    #[cfg_attr(feature = "clap", arg(long, value_name = "BLOCK"))]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "300"))]
    at: Option<At>,
    /// Number of the page, from 1 on; the first without it. Pages far into a long list are refused: use `cursor`.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "N",
            value_parser = clap::value_parser!(u64).range(1..),
            conflicts_with = "cursor",
        )
    )]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    page: Option<u64>,
    /// Rows of a page. A server has settings for how many there are without it, and at most (100 each
    /// by default); a command shows 100 without it, and at most 100,000.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))
    )]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    #[serde(alias = "pageSize")]
    page_size: Option<u64>,
    /// Order by place on the chain; oldest first without it.
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    #[cfg_attr(feature = "schema", schema(inline, default = "asc"))]
    order: Option<Order>,
    /// Go on behind the row that `next_cursor` of the answer before stands for; costs the same
    /// however long the list is. The answer is as of the block that the first page was made at,
    /// however much the chain has grown since. Only with the owner, `order` and `asset` of that
    /// page; not together with `page`.
    #[cfg_attr(feature = "clap", arg(long, value_name = "CURSOR"))]
    cursor: Option<String>,
    /// Cardano: only outputs that hold this asset: a policy for all its assets, or policy and name
    /// in hexadecimal, one behind the other or with a dot between them.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ASSET"))]
    asset: Option<String>,
}

impl UtxosRequest {
    fn cursor(&self) -> Result<Option<Cursor>, ChainReadError> {
        Ok(self.cursor.as_deref().map(Cursor::parse).transpose()?)
    }

    /// The page asked for, when it is one that may be asked for.
    fn paging(&self, limits: ChainLimits) -> Result<Paging, ChainReadError> {
        let bad = |text: String| Err(ChainReadError::BadParameter(text));
        let size = self.page_size.unwrap_or(limits.page_size_default);
        if size == 0 || size > limits.page_size_max {
            return bad(format!("page_size must be from 1 to {}", limits.page_size_max));
        }
        if self.page.is_some() && self.cursor.is_some() {
            return bad("page and cursor exclude each other; send one of them".to_owned());
        }
        let Some(before) = self.page.unwrap_or(1).checked_sub(1) else {
            return bad("pages are counted from 1 on".to_owned());
        };
        let skip = before.saturating_mul(size);
        if skip > limits.scan_rows_max {
            let max = limits.scan_rows_max;
            return bad(format!("the page is more than {max} rows deep; page by cursor instead"));
        }
        Ok(Paging {
            after: self.cursor()?.map(|cursor| cursor.after),
            skip: usize::try_from(skip).unwrap_or(usize::MAX),
            limit: usize::try_from(size).unwrap_or(usize::MAX),
            reverse: self.order.unwrap_or_default() == Order::Desc,
            // A page that passes no row over in search of an asset always gets through.
            scan_rows_max: limits.scan_rows_max.saturating_add(size + 1),
        })
    }
}

/// Some outputs of an owner.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UtxosAnswer {
    point: Point,
    /// What the database keeps, when that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    partial: Option<Partial>,
    /// Outputs in chain order.
    pub items: Vec<Utxo>,
    /// Send it as `cursor` to go on behind the last row, as of the same block; `null` when there are
    /// no more.
    #[cfg_attr(
        feature = "schema",
        schema(
            example = "AyIiIiIiIiIiEREREREREREREREREREREREREREREREREREREREREREAAAAAAAABLAAAAAAAAAAA"
        )
    )]
    next_cursor: Option<String>,
    /// Outputs of a credential are at different addresses.
    #[serde(skip)]
    with_owners: bool,
}

impl Answer for UtxosAnswer {
    fn show(&self, lines: &mut Lines) {
        for utxo in &self.items {
            let outpoint = format!("{}:{}", utxo.tx_hash, utxo.output_index);
            let owner = utxo.owner_addr.as_deref().filter(|_| self.with_owners);
            let owner = owner.map(|owner| format!(" {owner}")).unwrap_or_default();
            let assets = match utxo.amounts.len() {
                0 | 1 => String::new(),
                2 => " and 1 asset".to_owned(),
                units => format!(" and {} assets", units - 1),
            };
            let (amount, height) = (utxo.amount, utxo.block);
            lines.row(format!("{outpoint:<70} {amount:>20} height {height}{owner}{assets}"));
        }
        lines.field("rows", self.items.len());
        lines.optional("next cursor", self.next_cursor.as_ref());
        as_of(lines, &self.point, self.partial.as_ref());
    }
}

/// Outputs of an owner.
#[derive(Debug)]
pub struct OwnerUtxos<W>(PhantomData<W>);

impl<W: Whose> Operation for OwnerUtxos<W> {
    type Part = Chain;
    type Request = UtxosRequest;
    type Answer = UtxosAnswer;

    const ABOUT: About = W::UTXOS;

    fn run(
        chain: &Chain,
        request: UtxosRequest,
        known: Known<'_>,
    ) -> Result<Answered<UtxosAnswer>, ChainReadError> {
        let network = chain.network();
        let owner = W::find(&request.owner, request.kind, network)?;
        let asset = request.asset.as_deref();
        let held: Option<AssetFilter> =
            asset.map(|text| owners::find_asset(text, network)).transpose()?;
        let (paging, cursor) = (request.paging(chain.limits)?, request.cursor()?);
        let view = chain.view_at(request.at.as_ref(), cursor.as_ref())?;
        owner.check(&view)?;
        let owner = owner.key(&view)?;
        let question = Question::new(&owner.key, paging.reverse, held.as_ref());
        cursor.map_or(Ok(()), |cursor| cursor.check(question))?;
        let (point, partial) = chain.standing(&view)?;
        let block = view.point()?.hash;
        known.unless_same(exactly(&point), || {
            let page = view.owner_utxos(owner, paging, held.as_ref())?;
            Ok(UtxosAnswer {
                point,
                partial,
                items: page.utxos.iter().map(|utxo| Utxo::new(utxo, network)).collect(),
                next_cursor: page.next.map(|after| Cursor { question, block, after }.encode()),
                with_owners: owner.key.tag != IndexTag::Address,
            })
        })
    }
}

/// Whose balance, and when.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BalanceRequest {
    /// The owner.
    owner: String,
    /// Cardano: what a credential in bare hexadecimal is the hash of.
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    #[cfg_attr(feature = "schema", schema(inline))]
    kind: Option<Kind>,
    /// Answer as of this block inside the rollback window, instead of the tip: a height, a block
    /// hash, or on Cardano slot:NUMBER for the newest block of that slot or an earlier one.
    #[cfg_attr(feature = "clap", arg(long, value_name = "BLOCK"))]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "300"))]
    at: Option<At>,
}

/// What an owner holds, and the block the answer is true of.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BalanceAnswer {
    point: Point,
    /// What the database keeps, when that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    partial: Option<Partial>,
    #[serde(flatten)]
    balance: json::Balance,
}

impl Answer for BalanceAnswer {
    fn show(&self, lines: &mut Lines) {
        lines.field("amount", self.balance.amount);
        assets(lines, &self.balance.amounts);
        lines.field("outputs", self.balance.utxo_count);
        as_of(lines, &self.point, self.partial.as_ref());
    }
}

/// The balance of an owner.
#[derive(Debug)]
pub struct OwnerBalance<W>(PhantomData<W>);

impl<W: Whose> Operation for OwnerBalance<W> {
    type Part = Chain;
    type Request = BalanceRequest;
    type Answer = BalanceAnswer;

    const ABOUT: About = W::BALANCE;

    fn run(
        chain: &Chain,
        request: BalanceRequest,
        known: Known<'_>,
    ) -> Result<Answered<BalanceAnswer>, ChainReadError> {
        let network = chain.network();
        let owner = W::find(&request.owner, request.kind, network)?;
        let view = chain.view_at(request.at.as_ref(), None)?;
        owner.check(&view)?;
        let (point, partial) = chain.standing(&view)?;
        known.unless_same(exactly(&point), || {
            let rows_max = chain.limits.balance_rows_max;
            let balance = view.owner_balance(owner.key(&view)?, rows_max)?;
            Ok(BalanceAnswer { point, partial, balance: json::Balance::new(&balance, network) })
        })
    }
}
