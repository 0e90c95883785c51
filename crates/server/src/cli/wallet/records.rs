//! What becomes of transactions: recorded, confirmed, labelled, removed.

use serde::Serialize;

use super::{Desk, files::read_text};
use crate::{
    cli::{
        args::{ConfirmTx, OneTx, RecordTx, SetTxLabel},
        error::CliError,
        exit::Exit,
        output::{Human, Lines},
    },
    wallets,
};

/// A transaction that is gone.
#[derive(Debug, Serialize)]
struct Removed<'a> {
    removed: &'a str,
}

impl Human for Removed<'_> {
    fn describe(&self, lines: &mut Lines) {
        lines.field("removed", self.removed);
    }
}

/// A transaction and its new label.
#[derive(Debug, Serialize)]
struct Labelled<'a> {
    txid: &'a str,
    label: &'a str,
}

impl Human for Labelled<'_> {
    fn describe(&self, lines: &mut Lines) {
        lines.field("transaction", self.txid).field("label", format_args!("{:?}", self.label));
    }
}

impl Desk {
    pub(super) fn record(&self, args: &RecordTx) -> anyhow::Result<Exit> {
        let (raw, parts) = self.content(args)?;
        let seen = match (args.mempool, &args.block.block) {
            (_, Some(_)) => wallets::SeenIn::Block,
            (true, None) => wallets::SeenIn::Mempool,
            (false, None) => wallets::SeenIn::Created,
        };
        let request = wallets::RecordTx {
            raw,
            parts,
            seen,
            block: args.block.block.clone(),
            position: args.block.position,
            replaces: args.replaces,
            label: args.label.clone(),
            credits: Some(args.credit.clone()).filter(|credits| !credits.is_empty()),
            owner: args.owner.clone(),
            idempotency_key: args.once.idempotency_key.clone(),
        };
        self.print(&self.wallets.record_tx(&args.wallet.name, &request)?)
    }

    fn content(
        &self,
        args: &RecordTx,
    ) -> Result<(Option<String>, Option<wallets::PlainTx>), CliError> {
        // Two digits for each byte, and the end of the line. Parts in JSON are not much longer.
        let chars_max = self.wallets.config().raw_tx_bytes_max.get() as usize * 2 + 2;
        if let Some(path) = &args.raw_file {
            return Ok((Some(read_text(path, chars_max)?.trim().to_owned()), None));
        }
        let Some(path) = &args.parts_file else {
            return Ok((args.raw.clone(), None));
        };
        let text = read_text(path, chars_max)?;
        let parts = serde_json::from_str(&text)
            .map_err(|source| CliError::BadParts { path: path.clone(), source })?;
        Ok((None, Some(parts)))
    }

    pub(super) fn publish(&self, tx: &OneTx) -> anyhow::Result<Exit> {
        self.print(&self.wallets.publish_tx(&tx.wallet.name, &tx.txid)?)
    }

    pub(super) fn abandon(&self, tx: &OneTx) -> anyhow::Result<Exit> {
        self.print(&self.wallets.abandon_tx(&tx.wallet.name, &tx.txid)?)
    }

    pub(super) fn unconfirm(&self, tx: &OneTx) -> anyhow::Result<Exit> {
        self.print(&self.wallets.unconfirm_tx(&tx.wallet.name, &tx.txid)?)
    }

    pub(super) fn confirm(&self, args: &ConfirmTx) -> anyhow::Result<Exit> {
        let request = wallets::ConfirmTx { block: args.block.clone(), position: args.position };
        let (name, txid) = (&args.tx.wallet.name, &args.tx.txid);
        self.print(&self.wallets.confirm_tx(name, txid, &request)?)
    }

    pub(super) fn remove(&self, tx: &OneTx) -> anyhow::Result<Exit> {
        self.wallets.remove_tx(&tx.wallet.name, &tx.txid)?;
        self.print(&Removed { removed: &tx.txid })
    }

    pub(super) fn label(&self, args: &SetTxLabel) -> anyhow::Result<Exit> {
        let request = wallets::SetLabel { label: args.label.clone() };
        self.wallets.set_tx_label(&args.tx.wallet.name, &args.tx.txid, &request)?;
        self.print(&Labelled { txid: &args.tx.txid, label: &args.label })
    }
}
