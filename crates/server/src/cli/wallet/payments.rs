//! `wallet psbt` and `bump`: transactions to be signed, which may go to files.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use utxokeep::ops::Answer;

use super::{
    Desk,
    files::{NewFile, read_bytes},
};
use crate::cli::{
    args::{Broadcast, Bump, Psbt},
    error::CliError,
    exit::Exit,
    output::{Human, Lines},
};

/// No PSBT is longer, in binary or base64.
const PSBT_BYTES_MAX: usize = 16 << 20;

impl Desk {
    pub(super) fn psbt(&self, args: &Psbt) -> anyhow::Result<Exit> {
        let request = &args.request;
        let key = request.idempotency_key.as_deref();
        let file = self.new_file(&request.wallet, args.out.out.as_deref(), key)?;
        let made = self.wallets.create_psbt(request)?;
        self.deliver(&made, &made.psbt, file)
    }

    pub(super) fn bump(&self, args: &Bump) -> anyhow::Result<Exit> {
        let request = &args.request;
        let key = request.idempotency_key.as_deref();
        let file = self.new_file(&request.wallet, args.out.out.as_deref(), key)?;
        let made = self.wallets.bump_fee(request)?;
        self.deliver(&made, &made.psbt, file)
    }

    pub(super) fn broadcast(&self, args: &Broadcast) -> anyhow::Result<Exit> {
        let mut request = args.request.clone();
        if let Some(path) = &args.psbt_file {
            let bytes = read_bytes(path, PSBT_BYTES_MAX)?;
            request.psbt = Some(match String::from_utf8(bytes) {
                Ok(text) if !text.starts_with("psbt") => text.trim().to_owned(),
                Ok(text) => STANDARD.encode(text),
                Err(binary) => STANDARD.encode(binary.as_bytes()),
            });
        }
        self.print(&self.wallets.broadcast_tx(&request)?)
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
    fn deliver<T: Answer>(
        &self,
        answer: &T,
        psbt: &str,
        file: Option<NewFile>,
    ) -> anyhow::Result<Exit> {
        let Some(file) = file else {
            return self.tell(&Delivered { answer, psbt, file: None });
        };
        let path = file.path().display().to_string();
        let written = file.write(&STANDARD.decode(psbt)?);
        if let Err(error @ CliError::OtherContent { .. }) = written {
            return Err(error.into());
        }
        let file = written.is_ok().then_some(path.as_str());
        self.tell(&Delivered { answer, psbt, file })?;
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

impl<T: Answer> Human for Delivered<'_, T> {
    fn describe(&self, lines: &mut Lines) {
        self.answer.show(lines);
        match self.file {
            Some(file) => lines.field("psbt", format_args!("in {file}")),
            None => lines.field("psbt", self.psbt),
        };
    }
}
