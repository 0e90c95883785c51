//! Requests that spend: leases, selections, transactions to be signed, higher fees.

use serde::{Deserialize, Serialize};
use utxokeep_wallet::Algorithm;

use super::{Rate, Units};

/// An output to pay.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PayTo {
    /// The address; on Bitcoin also an output script in hexadecimal.
    pub address: String,
    /// How much.
    pub amount: Units,
}

impl std::str::FromStr for PayTo {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "expected an address, = and a whole number";
        let (address, amount) = text.rsplit_once('=').ok_or(WRONG)?;
        let amount = amount.parse().map_err(|_| WRONG)?;
        Ok(Self { address: address.to_owned(), amount })
    }
}

/// Who takes a lease, and for how long.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseFor {
    /// 64 hexadecimal digits that the owner chose, or any other text: then it is a name, and its
    /// SHA-256 is the owner. A new owner is made when not given, and is named in the answer.
    #[cfg_attr(feature = "clap", arg(long, value_name = "OWNER"))]
    pub owner: Option<String>,
    /// How long, in seconds; `[wallet] lease_secs_default` when not given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SECONDS"))]
    pub seconds: Option<u32>,
    /// Hold until the spend has this many confirmations, whatever the clock says by then.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub hold_confirmations: Option<u32>,
}

/// Outputs to lease, all or none.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AcquireLeases {
    /// Name of the wallet.
    pub wallet: String,
    /// The outputs, as `TXID:INDEX`.
    #[cfg_attr(feature = "clap", arg(required = true, value_name = "TXID:INDEX"))]
    pub outpoints: Vec<String>,
    /// Who takes them, and for how long.
    #[serde(default)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub lease: LeaseFor,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(skip_serializing)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY"))]
    pub idempotency_key: Option<String>,
}

/// Leases to end.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseLeases {
    /// Name of the wallet.
    pub wallet: String,
    /// Who holds them: 64 hexadecimal digits, or a name.
    #[cfg_attr(feature = "clap", arg(long, value_name = "OWNER"))]
    pub owner: String,
    /// One output, as `TXID:INDEX`; all of the owner when not given.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID:INDEX"))]
    pub outpoint: Option<String>,
}

/// How coins are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "clap", value(rename_all = "kebab-case"))]
pub enum Choose {
    /// All of those below; the choice with the least waste wins.
    #[default]
    LeastWaste,
    /// Large coins first: few inputs.
    LargestFirst,
    /// Old coins first; coins in no block come last.
    OldestFirst,
    /// Coins in a random order.
    SingleRandomDraw,
    /// A search for a choice with low fees, best without change.
    BranchAndBound,
}

impl From<Choose> for Algorithm {
    fn from(choose: Choose) -> Self {
        match choose {
            Choose::LeastWaste => Self::LeastWaste,
            Choose::LargestFirst => Self::LargestFirst,
            Choose::OldestFirst => Self::OldestFirst,
            Choose::SingleRandomDraw => Self::SingleRandomDraw,
            Choose::BranchAndBound => Self::BranchAndBound,
        }
    }
}

/// What coins are wanted for, and which may be used.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Payment {
    /// What is paid; sum and weight come from here. Repeat the option for more.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long = "pay", value_name = "ADDRESS=AMOUNT"))]
    pub outputs: Vec<PayTo>,
    /// How much is needed, when there are no outputs: one output to a native segwit key.
    #[cfg_attr(feature = "clap", arg(long, value_name = "AMOUNT"))]
    pub value: Option<Units>,
    /// Fee for each virtual byte, with up to three decimal places.
    #[cfg_attr(feature = "clap", arg(long, value_name = "RATE"))]
    pub fee_rate: Rate,
    /// What spending a coin is expected to cost one day, for each virtual byte; 10 when not given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "RATE"))]
    pub long_term_fee_rate: Option<Rate>,
    /// How to choose.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value_t))]
    #[cfg_attr(feature = "schema", schema(inline))]
    pub algorithm: Choose,
    /// Confirmations that a coin needs; 0 also allows own change in no block. 1 when not given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub min_confirmations: Option<u32>,
    /// Also use what others paid in transactions without a block.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub allow_untrusted: bool,
    /// Also use outputs of transactions that were not sent yet.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub allow_pending: bool,
    /// Outputs that must not be used, as `TXID:INDEX`. Repeat the option for more.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TXID:INDEX"))]
    pub exclude: Vec<String>,
    /// More inputs than this are not taken; 250 when not given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub inputs_max: Option<u32>,
    /// Change below this goes to the fee; never less than what nodes call dust for the address that
    /// change goes to, 294 for a native segwit key.
    #[cfg_attr(feature = "clap", arg(long, value_name = "AMOUNT"))]
    pub change_min: Option<Units>,
    /// Decides what is random; another one each time when not given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub seed: Option<u64>,
    /// Lease the coins in the same step; without it a selection changes nothing.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub lease: Option<LeaseFor>,
    /// Guards that must not refuse the payment, by name: `fee_max`, `fee_rate_max`, `fee_rate_min`,
    /// `incremental_rate`, `dust`, `unspendable_value`, `zero_value`, `not_yet_valid`,
    /// `nonstandard_script`, `weight_max`. Repeat the option for more.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "GUARD"))]
    pub allow: Vec<String>,
}

/// Coins to choose.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(
    feature = "clap",
    command(
        mut_arg("owner", |arg| arg.requires("lease")),
        mut_arg("seconds", |arg| arg.requires("lease")),
        mut_arg("hold_confirmations", |arg| arg.requires("lease"))
    )
)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SelectCoins {
    /// Name of the wallet.
    pub wallet: String,
    /// What they are wanted for.
    #[serde(flatten)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub payment: Payment,
    /// Lease the coins in the same step; without it nothing is changed. Only a command says it so.
    #[serde(skip)]
    #[cfg_attr(feature = "clap", arg(long = "lease", id = "lease"))]
    pub with_lease: bool,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(skip_serializing)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY"))]
    pub idempotency_key: Option<String>,
}

impl SelectCoins {
    /// On which terms the coins are to be leased, if they are.
    pub(crate) fn lease(&self) -> Option<LeaseFor> {
        let unnamed = || self.with_lease.then(LeaseFor::default);
        self.payment.lease.clone().or_else(unnamed)
    }

    pub(crate) fn is_dry(&self) -> bool {
        self.lease().is_none()
    }
}

/// A payment to be signed elsewhere.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreatePsbt {
    /// Name of the wallet.
    pub wallet: String,
    /// What to pay, and with which coins. They are always leased.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub payment: Payment,
    /// Where change goes; when not given, a new address of a change keychain, if there is one of the
    /// kind that most inputs have.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDRESS"))]
    pub change_address: Option<String>,
    /// Lock time: only blocks above this height may hold the transaction; 0 for any. Descriptors with
    /// `after` may ask for a later one.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT", default_value_t))]
    pub lock_height: u32,
    /// Record the transaction as created, when its id is final before it is signed.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub record: bool,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(skip_serializing)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY"))]
    pub idempotency_key: Option<String>,
}

/// A higher fee for a transaction that is in no block.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BumpFee {
    /// Name of the wallet.
    pub wallet: String,
    /// Id of the transaction, as nodes print it.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID"))]
    pub tx_hash: String,
    /// What the replacement pays for each virtual byte, at least; 0 for the least that nodes take.
    #[cfg_attr(feature = "clap", arg(long, value_name = "RATE"))]
    pub fee_rate: Rate,
    /// What nodes ask a replacement to pay on top for its own size; 1 when not given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "RATE"))]
    pub incremental_rate: Option<Rate>,
    /// Which output of the old transaction is change, when the keychains do not tell.
    #[cfg_attr(feature = "clap", arg(long, value_name = "INDEX"))]
    pub change: Option<u32>,
    /// Where change goes; when not given, where it went before, or to a new address of a change
    /// keychain when coins are added and there was no change.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDRESS"))]
    pub change_address: Option<String>,
    /// Change below this is left out; never less than what nodes call dust for its address.
    #[cfg_attr(feature = "clap", arg(long, value_name = "AMOUNT"))]
    pub change_min: Option<Units>,
    /// Owner of leases on the inputs, which move to the new owner: 64 hexadecimal digits, or a
    /// name.
    #[cfg_attr(feature = "clap", arg(long, value_name = "OWNER"))]
    pub lease_of: Option<String>,
    /// Who leases the inputs of the replacement.
    #[serde(default)]
    #[cfg_attr(feature = "clap", command(flatten))]
    pub lease: LeaseFor,
    /// More inputs than this are not taken; 250 when not given.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub inputs_max: Option<u32>,
    /// Only say what the replacement would be.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long = "dry-run"))]
    pub is_dry_run: bool,
    /// Guards that must not refuse the replacement, by name: `fee_max`, `fee_rate_max`, `fee_rate_min`,
    /// `incremental_rate`, `dust`, `unspendable_value`, `zero_value`, `not_yet_valid`,
    /// `nonstandard_script`, `weight_max`. Repeat the option for more.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "GUARD"))]
    pub allow: Vec<String>,
    /// Sent again with the same key, the request is answered as before and changes nothing.
    #[serde(skip_serializing)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY"))]
    pub idempotency_key: Option<String>,
}

impl BumpFee {
    pub(crate) const fn is_dry(&self) -> bool {
        self.is_dry_run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_is_an_address_and_an_amount() {
        let payment: PayTo = "bcrt1q=5000".parse().unwrap();
        assert_eq!((payment.address.as_str(), payment.amount), ("bcrt1q", Units(5_000)));
        for wrong in ["", "bcrt1q", "bcrt1q=", "bcrt1q=0.5", "bcrt1q=-1", "=x"] {
            assert!(wrong.parse::<PayTo>().is_err(), "{wrong}");
        }
    }
}
