//! Spending: leases, selections, transactions to be signed, higher fees.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::{Desk, files::NewFile, rows};
use crate::{
    cli::{
        args::{Bump, Coins, LeaseAcquire, LeaseRelease, OnePage, Psbt, Select, Terms},
        error::CliError,
        exit::Exit,
        output::{Human, Lines},
    },
    wallets::{AcquireLeases, BumpFee, CreatePsbt, LeaseFor, ReleaseLeases, SelectCoins, Units},
};

fn lease_for(terms: &Terms) -> LeaseFor {
    LeaseFor {
        owner: terms.owner.clone(),
        seconds: terms.seconds,
        hold_confirmations: terms.hold_confirmations,
    }
}

fn payment(coins: &Coins, value: Option<Units>, with_lease: bool) -> SelectCoins {
    SelectCoins {
        outputs: coins.pay.clone(),
        value,
        fee_rate: coins.fee_rate,
        long_term_fee_rate: coins.long_term_fee_rate,
        algorithm: coins.algorithm,
        min_confirmations: Some(coins.min_conf),
        allow_untrusted: coins.allow_untrusted,
        allow_pending: coins.allow_pending,
        exclude: coins.exclude.clone(),
        inputs_max: coins.inputs_max,
        change_min: coins.change_min,
        seed: coins.seed,
        lease: with_lease.then(|| lease_for(&coins.terms)),
        idempotency_key: None,
        allow: coins.guards.allow.clone(),
    }
}

fn leases(args: &LeaseAcquire) -> AcquireLeases {
    AcquireLeases {
        outpoints: args.outpoints.clone(),
        lease: lease_for(&args.terms),
        idempotency_key: args.once.idempotency_key.clone(),
    }
}

impl Desk {
    pub(super) fn acquire(&self, args: &LeaseAcquire) -> anyhow::Result<Exit> {
        self.print(&self.wallets.acquire_leases(&args.wallet.name, &leases(args))?)
    }

    pub(super) fn renew(&self, args: &LeaseAcquire) -> anyhow::Result<Exit> {
        self.print(&self.wallets.renew_leases(&args.wallet.name, &leases(args))?)
    }

    pub(super) fn clean_leases(&self, wallet: &str) -> anyhow::Result<Exit> {
        self.print(&self.wallets.clean_leases(wallet)?)
    }

    pub(super) fn release(&self, args: &LeaseRelease) -> anyhow::Result<Exit> {
        let request = ReleaseLeases { owner: args.owner.clone(), outpoint: args.outpoint.clone() };
        self.print(&self.wallets.release_leases(&args.wallet.name, &request)?)
    }

    pub(super) fn leases(&self, args: &OnePage) -> anyhow::Result<Exit> {
        let name = &args.wallet.name;
        self.print(&rows(&args.page, |page| self.wallets.list_leases(name, &page))?)
    }

    pub(super) fn select(&self, args: &Select) -> anyhow::Result<Exit> {
        let mut request = payment(&args.coins, args.value, args.lease);
        request.idempotency_key.clone_from(&args.once.idempotency_key);
        self.print(&self.wallets.select_coins(&args.wallet.name, &request)?)
    }

    pub(super) fn psbt(&self, args: &Psbt) -> anyhow::Result<Exit> {
        let key = args.once.idempotency_key.as_deref();
        let file = self.new_file(&args.wallet.name, args.out.out.as_deref(), key)?;
        let request = CreatePsbt {
            payment: payment(&args.coins, None, true),
            change_address: args.change_address.clone(),
            lock_height: args.lock_height,
            record: args.record,
            idempotency_key: args.once.idempotency_key.clone(),
        };
        let made = self.wallets.create_psbt(&args.wallet.name, &request)?;
        self.deliver(&made, &made.psbt, file)
    }

    pub(super) fn bump(&self, args: &Bump) -> anyhow::Result<Exit> {
        let key = args.once.idempotency_key.as_deref();
        let file = self.new_file(&args.tx.wallet.name, args.out.out.as_deref(), key)?;
        let request = BumpFee {
            fee_rate: args.fee_rate,
            incremental_rate: args.incremental_rate,
            change: args.change,
            change_address: args.change_address.clone(),
            change_min: args.change_min,
            lease_of: args.lease_of.clone(),
            lease: lease_for(&args.terms),
            inputs_max: args.inputs_max,
            dry_run: args.dry_run,
            idempotency_key: args.once.idempotency_key.clone(),
            allow: args.guards.allow.clone(),
        };
        let made = self.wallets.bump_fee(&args.tx.wallet.name, &args.tx.txid, &request)?;
        self.deliver(&made, &made.psbt, file)
    }

    /// Made before anything else, so that a wrong name changes nothing. A request that happened
    /// before may find its file there.
    fn new_file(
        &self,
        wallet: &str,
        path: Option<&Path>,
        key: Option<&str>,
    ) -> anyhow::Result<Option<NewFile>> {
        let Some(path) = path else { return Ok(None) };
        let happened = || match key {
            Some(key) => Ok(self.wallets.is_answered(wallet, key)?),
            None => Ok(false),
        };
        NewFile::create_or_repeat(path, &self.ledger_url, happened).map(Some)
    }

    /// Coins are leased by now: when the file cannot be written, the PSBT is printed in its place.
    fn deliver<T: Serialize + Human>(
        &self,
        answer: &T,
        psbt: &str,
        file: Option<NewFile>,
    ) -> anyhow::Result<Exit> {
        let Some(file) = file else {
            return self.print(&Delivered { answer, psbt, file: None });
        };
        let path = file.path().display().to_string();
        let written = file.write(&STANDARD.decode(psbt)?);
        if let Err(error @ CliError::OtherContent { .. }) = written {
            return Err(error.into());
        }
        let file = written.is_ok().then_some(path.as_str());
        self.print(&Delivered { answer, psbt, file })?;
        written?;
        Ok(Exit::Success)
    }
}

/// An answer with a PSBT. People see the PSBT itself only if it is not in a file.
#[derive(Debug, Serialize)]
struct Delivered<'a, T> {
    #[serde(flatten)]
    answer: &'a T,
    #[serde(skip)]
    psbt: &'a str,
    #[serde(skip)]
    file: Option<&'a str>,
}

impl<T: Human> Human for Delivered<'_, T> {
    fn describe(&self, lines: &mut Lines) {
        self.answer.describe(lines);
        match self.file {
            Some(file) => lines.field("psbt", format_args!("in {file}")),
            None => lines.field("psbt", self.psbt),
        };
    }
}
