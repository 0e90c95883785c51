//! `wallet record`: bytes or parts of a transaction, from arguments or files.

use super::{Desk, files::read_text};
use crate::{
    cli::{args::Record, error::CliError, exit::Exit},
    wallets::{PlainTx, SeenIn},
};

impl Desk {
    pub(super) fn record(&self, args: &Record) -> anyhow::Result<Exit> {
        let mut request = args.request.clone();
        (request.raw, request.parts) = self.content(args)?;
        request.seen = match (args.mempool, &request.block) {
            (_, Some(_)) => SeenIn::Block,
            (true, None) => SeenIn::Mempool,
            (false, None) => SeenIn::Created,
        };
        self.print(&self.wallets.record_tx(&request)?)
    }

    fn content(&self, args: &Record) -> Result<(Option<String>, Option<PlainTx>), CliError> {
        // Two digits for each byte, and the end of the line. Parts in JSON are not much longer.
        let chars_max = self.wallets.config().raw_tx_bytes_max.get() as usize * 2 + 2;
        if let Some(path) = &args.raw_file {
            return Ok((Some(read_text(path, chars_max)?.trim().to_owned()), None));
        }
        let Some(path) = &args.parts_file else {
            return Ok((args.request.raw.clone(), None));
        };
        let text = read_text(path, chars_max)?;
        let parts = serde_json::from_str(&text)
            .map_err(|source| CliError::BadParts { path: path.clone(), source })?;
        Ok((None, Some(parts)))
    }
}
