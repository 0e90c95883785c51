//! `persister status` and `persister verify`.

use serde::Serialize;
use utxokeep::persister::{self, PersistedPlace, PersisterError, PersisterSettings};
use utxokeep_core::{Height, Network, OpenMode};

use super::{
    args::PersisterVerify,
    error::CliError,
    exit::Exit,
    interrupt::Interrupt,
    open::Session,
    output::{self, Human, Lines},
    progress::Progress,
};

#[derive(Debug, Serialize)]
struct Standing {
    place: String,
    /// Newest block whose files are complete, as the place says.
    persisted_height: Option<u32>,
    persisted_hash: Option<String>,
    /// Newest block of the chain that the chain database knows to be persisted; absent where the
    /// persister never ran beside it.
    cursor_height: Option<u32>,
    tip_height: Option<u32>,
    lag_blocks: u64,
}

impl Human for Standing {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("place", &self.place)
            .optional("persisted height", self.persisted_height)
            .optional("persisted hash", self.persisted_hash.as_ref())
            .optional("cursor height", self.cursor_height)
            .optional("tip height", self.tip_height)
            .field("blocks behind", self.lag_blocks);
    }
}

#[derive(Debug, Serialize)]
struct Verified {
    clean: bool,
    blocks_checked: u64,
    block_bytes: u64,
    file_bytes: u64,
    faults_total: u64,
    faults: Vec<Fault>,
}

#[derive(Debug, Serialize)]
struct Fault {
    height: u32,
    hash: String,
    reason: String,
}

impl Human for Verified {
    fn describe(&self, lines: &mut Lines) {
        for Fault { height, hash, reason } in &self.faults {
            lines.row(format!("block {height} {hash}: {reason}"));
        }
        lines
            .field("blocks checked", self.blocks_checked)
            .field("bytes of blocks", self.block_bytes)
            .field("bytes of files", self.file_bytes)
            .field("faults", self.faults_total);
    }
}

/// Opens the place of the configuration, to read it.
fn place(session: &Session, network: Network) -> anyhow::Result<PersistedPlace> {
    at_url(session, &session.config().persister.url, network)
}

/// Opens a place to read it, within the limits of the configuration.
pub(super) fn at_url(
    session: &Session,
    url: &str,
    network: Network,
) -> anyhow::Result<PersistedPlace> {
    if url.is_empty() {
        return Err(CliError::NoPersistedPlace.into());
    }
    let config = &session.config().persister;
    let (timeout, retry) = (config.timeout_ms.get().into(), PersisterSettings::of(config).retry);
    Ok(PersistedPlace::open(url, network, timeout, OpenMode::Read, retry)?)
}

/// Says how far the persister has come.
pub(super) fn status(session: &Session) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let network = index.settings().network();
    let place = place(session, network)?;
    let block = place.watermark()?.and_then(|mark| mark.block);
    let cursor = index.reached(persister::NAME)?;
    let tip = index.view()?.tip().map(|(height, _)| height);
    let count = |height: Option<Height>| height.map_or(0, |height| u64::from(height.get()) + 1);
    let standing = Standing {
        place: place.name(),
        persisted_height: block.map(|(height, _)| height.get()),
        persisted_hash: block.map(|(_, hash)| network.hash_text(hash.as_bytes())),
        cursor_height: cursor.map(Height::get),
        tip_height: tip.map(Height::get),
        lag_blocks: count(tip).saturating_sub(count(block.map(|(height, _)| height))),
    };
    output::result(session.json(), &standing)?;
    Ok(Exit::Success)
}

/// Reads every file.
pub(super) fn verify(session: &Session, args: &PersisterVerify) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::watch()?;
    let index = session.open()?;
    let network = index.settings().network();
    let place = place(session, network)?;
    let mut progress = Progress::start("verifying", false);
    let verified = persister::verify(&index, &place, args.from, &mut |done, total| {
        progress.update(done, total, || "blocks".to_owned());
        !interrupt.is_asked()
    });
    progress.finish();
    let report = match verified {
        Err(PersisterError::Stopped) => return Ok(Exit::Interrupted),
        report => report?,
    };
    let fault = |fault: persister::PersistedFault| Fault {
        height: fault.height.get(),
        hash: network.hash_text(fault.hash.as_bytes()),
        reason: fault.reason,
    };
    let verified = Verified {
        clean: report.faults_total == 0,
        blocks_checked: report.blocks,
        block_bytes: report.block_bytes,
        file_bytes: report.file_bytes,
        faults_total: report.faults_total,
        faults: report.faults.into_iter().map(fault).collect(),
    };
    output::result(session.json(), &verified)?;
    Ok(if verified.clean { Exit::Success } else { Exit::Unsound })
}
