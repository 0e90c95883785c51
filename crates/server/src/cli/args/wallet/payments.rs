//! What the commands that spend take.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::{Named, OnePage, OneTx};
use crate::wallets::{Choose, PayTo, Rate, Units};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Lease {
    /// Lease outputs, all or none.
    Acquire(LeaseAcquire),
    /// Renew leases that the owner holds, from now on. One that has expired is refused.
    Renew(LeaseRenew),
    /// End one lease of an owner, or all.
    Release(LeaseRelease),
    /// List active leases, also of outputs that a live transaction spends by now.
    List(OnePage),
    /// Remove rows of leases that have expired. They count for nothing; `serve` does it by itself.
    Clean(Named),
}

/// A request that may be sent twice.
#[derive(Debug, Args)]
pub(in crate::cli) struct Once {
    /// With the same key and the same options again, the first answer is given and nothing is
    /// changed.
    #[arg(long, value_name = "KEY")]
    pub(in crate::cli) idempotency_key: Option<String>,
}

/// For whom, and for how long.
#[derive(Debug, Args)]
pub(in crate::cli) struct Terms {
    /// Who leases: 64 hexadecimal digits, or any other text as a name, whose SHA-256 is the owner. By
    /// default somebody new, who is named in the answer.
    #[arg(long, value_name = "OWNER")]
    pub(in crate::cli) owner: Option<String>,
    /// How long, in seconds; by default `[wallet] lease_secs_default`.
    #[arg(long, value_name = "SECONDS")]
    pub(in crate::cli) seconds: Option<u32>,
    /// Hold until the spend has this many confirmations, whatever the clock says by then.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) hold_confirmations: Option<u32>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LeaseAcquire {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Outputs to lease.
    #[arg(required = true, value_name = "TXID:INDEX")]
    pub(in crate::cli) outpoints: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) terms: Terms,
    #[command(flatten)]
    pub(in crate::cli) once: Once,
}

#[derive(Debug, Args)]
#[command(mut_arg("owner", |arg| arg.required(true).help("Who holds the leases: 64 hexadecimal digits, or a name.")))]
pub(in crate::cli) struct LeaseRenew {
    #[command(flatten)]
    pub(in crate::cli) lease: LeaseAcquire,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LeaseRelease {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// One output; by default all of the owner.
    #[arg(value_name = "TXID:INDEX")]
    pub(in crate::cli) outpoint: Option<String>,
    /// Who holds the leases: 64 hexadecimal digits, or a name.
    #[arg(long, value_name = "OWNER")]
    pub(in crate::cli) owner: String,
}

/// Which guards must not refuse.
#[derive(Debug, Args)]
pub(in crate::cli) struct Guards {
    /// A guard that must not refuse the payment; repeat it for more. One of `fee_max`,
    /// `fee_rate_max`, `fee_rate_min`, `incremental_rate`, `dust`, `unspendable_value`, `zero_value`,
    /// `not_yet_valid`, `nonstandard_script`, `weight_max`.
    #[arg(long, value_name = "GUARD")]
    pub(in crate::cli) allow: Vec<String>,
}

/// What is paid, and with which coins.
#[derive(Debug, Args)]
pub(in crate::cli) struct Coins {
    /// An address to pay, and how much; repeat it for more.
    #[arg(long, value_name = "ADDRESS=AMOUNT", value_parser = parse_payment)]
    pub(in crate::cli) pay: Vec<PayTo>,
    /// Fee for each virtual byte, with up to three decimal places.
    #[arg(long, value_name = "RATE")]
    pub(in crate::cli) fee_rate: Rate,
    /// What spending a coin is expected to cost one day; by default 10.
    #[arg(long, value_name = "RATE")]
    pub(in crate::cli) long_term_fee_rate: Option<Rate>,
    /// How to choose.
    #[arg(long, value_enum, default_value = "least-waste")]
    pub(in crate::cli) algorithm: Choose,
    /// Confirmations that a coin needs; 0 also allows own change in no block.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(in crate::cli) min_conf: u32,
    /// Also use what others paid in transactions without a block.
    #[arg(long)]
    pub(in crate::cli) allow_untrusted: bool,
    /// Also use outputs of transactions that were not sent yet.
    #[arg(long)]
    pub(in crate::cli) allow_pending: bool,
    /// An output that must not be used; repeat it for more.
    #[arg(long, value_name = "TXID:INDEX")]
    pub(in crate::cli) exclude: Vec<String>,
    /// The most inputs; by default 250.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) inputs_max: Option<u32>,
    /// Change below this goes to the fee; never less than what nodes call dust for its address.
    #[arg(long, value_name = "AMOUNT")]
    pub(in crate::cli) change_min: Option<Units>,
    /// Decides what is random; by default another one each time.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) seed: Option<u64>,
    #[command(flatten)]
    pub(in crate::cli) guards: Guards,
    #[command(flatten)]
    pub(in crate::cli) terms: Terms,
}

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("wanted").required(true).args(["pay", "value"]),
    mut_arg("owner", |arg| arg.requires("lease")),
    mut_arg("seconds", |arg| arg.requires("lease")),
    mut_arg("hold_confirmations", |arg| arg.requires("lease")),
    mut_arg("idempotency_key", |arg| arg.requires("lease"))
)]
pub(in crate::cli) struct Select {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// How much is needed, in place of --pay: one output to a native segwit key.
    #[arg(long, value_name = "AMOUNT")]
    pub(in crate::cli) value: Option<Units>,
    /// Lease the coins in the same step; without it nothing is changed.
    #[arg(long)]
    pub(in crate::cli) lease: bool,
    #[command(flatten)]
    pub(in crate::cli) coins: Coins,
    #[command(flatten)]
    pub(in crate::cli) once: Once,
}

#[derive(Debug, Args)]
#[command(mut_arg("pay", |arg| arg.required(true)))]
pub(in crate::cli) struct Psbt {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    #[command(flatten)]
    pub(in crate::cli) coins: Coins,
    /// Where change goes; by default to a new address of a change keychain, if there is one of the
    /// kind that most inputs have.
    #[arg(long, value_name = "ADDRESS")]
    pub(in crate::cli) change_address: Option<String>,
    /// Lock time: only blocks above this height may hold the transaction; 0 for any. Descriptors with
    /// `after` may ask for a later one.
    #[arg(long, value_name = "HEIGHT", default_value = "0")]
    pub(in crate::cli) lock_height: u32,
    /// Record the transaction as made, if its id is final before it is signed.
    #[arg(long)]
    pub(in crate::cli) record: bool,
    #[command(flatten)]
    pub(in crate::cli) once: Once,
    #[command(flatten)]
    pub(in crate::cli) out: PsbtOut,
}

/// Where a PSBT goes.
#[derive(Debug, Args)]
pub(in crate::cli) struct PsbtOut {
    /// Write the PSBT to a new file, in binary as signers read files; the answer has it in base64.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Bump {
    #[command(flatten)]
    pub(in crate::cli) tx: OneTx,
    /// What the replacement pays for each virtual byte, at least; 0 for the least that nodes take.
    #[arg(long, value_name = "RATE")]
    pub(in crate::cli) fee_rate: Rate,
    /// What nodes ask a replacement to pay on top for its own size; by default 1.
    #[arg(long, value_name = "RATE")]
    pub(in crate::cli) incremental_rate: Option<Rate>,
    /// Which output of the old transaction is change, when the keychains do not tell.
    #[arg(long, value_name = "INDEX")]
    pub(in crate::cli) change: Option<u32>,
    /// Where change goes; by default where it went before, or to a new address of a change keychain
    /// when coins are added and there was no change.
    #[arg(long, value_name = "ADDRESS")]
    pub(in crate::cli) change_address: Option<String>,
    /// Change below this is left out; never less than what nodes call dust for its address.
    #[arg(long, value_name = "AMOUNT")]
    pub(in crate::cli) change_min: Option<Units>,
    /// Owner of leases on the inputs, which move to the new owner: 64 hexadecimal digits, or a name.
    #[arg(long, value_name = "OWNER")]
    pub(in crate::cli) lease_of: Option<String>,
    /// The most inputs; by default 250.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) inputs_max: Option<u32>,
    /// Only say what the replacement would be.
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    #[command(flatten)]
    pub(in crate::cli) guards: Guards,
    #[command(flatten)]
    pub(in crate::cli) terms: Terms,
    #[command(flatten)]
    pub(in crate::cli) once: Once,
    #[command(flatten)]
    pub(in crate::cli) out: PsbtOut,
}

fn parse_payment(text: &str) -> Result<PayTo, &'static str> {
    const WRONG: &str = "expected an address, = and a whole number";
    let (address, amount) = text.rsplit_once('=').ok_or(WRONG)?;
    let amount = amount.parse().map_err(|_| WRONG)?;
    Ok(PayTo { address: address.to_owned(), amount })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_is_an_address_and_an_amount() {
        let payment = parse_payment("bcrt1q=5000").unwrap();
        assert_eq!((payment.address.as_str(), payment.amount), ("bcrt1q", Units(5_000)));
        for wrong in ["", "bcrt1q", "bcrt1q=", "bcrt1q=0.5", "bcrt1q=-1", "=x"] {
            assert!(parse_payment(wrong).is_err(), "{wrong}");
        }
    }
}
