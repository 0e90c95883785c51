//! `wallet labels`: files of BIP-329.

use serde::Serialize;

use super::{Desk, files};
use crate::{
    cli::{
        args::{LabelsExport, LabelsImport},
        exit::Exit,
        output::{self, Human, Lines},
    },
    wallets::{ImportLabels, LabelLines, LineBytes},
};

/// The longest file of labels.
const LABELS_BYTES_MAX: usize = 64 << 20;

/// What was written to a file of labels.
#[derive(Debug, Serialize)]
struct LabelsExported {
    labels: usize,
}

impl Human for LabelsExported {
    fn describe(&self, lines: &mut Lines) {
        lines.field("labels", self.labels);
    }
}

impl Desk {
    pub(super) fn export_labels(&self, args: &LabelsExport) -> anyhow::Result<Exit> {
        let Some(path) = &args.out else {
            output::text(&self.wallets.export_labels(&args.request)?.0)?;
            return Ok(Exit::Success);
        };
        let file = files::NewFile::create(path)?;
        let LabelLines(lines) = self.wallets.export_labels(&args.request)?;
        file.write(lines.as_bytes())?;
        self.tell(&LabelsExported { labels: lines.lines().count() })
    }

    pub(super) fn import_labels(&self, args: &LabelsImport) -> anyhow::Result<Exit> {
        let lines = LineBytes(files::read_bytes(&args.file, LABELS_BYTES_MAX)?);
        let request = ImportLabels { wallet: args.request.wallet.clone(), lines };
        self.print(&self.wallets.import_labels(&request)?)
    }
}
