//! Whether a store or ledger was served from a place before.
//!
//! `serve` makes what is not there, so that a first start needs no other command. Where it was
//! before, making it again would hide that it is gone: deleted, moved away, on a disk that is not
//! mounted. So a served place leaves a file beside itself, in the directory above it. While that
//! file is there, nothing is made in place of what is gone.
//!
//! A directory that is gone together with the one above it leaves nothing that could tell, and a
//! database server may be another one than before: `[server] create_missing = false` makes nothing
//! anywhere.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use utxokeep_kv::{OpenMode, RocksKv};
use utxokeep_txstore::NodeStore;

use super::EngineError;
use crate::{
    config::Config,
    follow::tx_sender,
    node_store::{self, NodeStoreOpenError},
    wallets::{LedgerOpenError, Wallets},
};

/// What the name of the file ends with, behind that of the place.
const SUFFIX: &str = ".utxokeep-served";

/// A place on this machine.
struct ServedPlace<'u> {
    what: &'static str,
    named: &'u str,
    is_directory: bool,
    /// Says that it was served; none where there is no directory above it.
    mark: Option<PathBuf>,
}

impl<'u> ServedPlace<'u> {
    /// Of a URL that names a file or a directory; a server looks after itself.
    fn of(what: &'static str, url: &'u str) -> Option<Self> {
        let (engine, named) = url.split_once(':')?;
        let is_directory = match engine {
            "rocksdb" => true,
            "sqlite" => false,
            _ => return None,
        };
        let path = std::path::absolute(Path::new(named)).ok()?;
        let mark = path
            .file_name()
            .map(|name| path.with_file_name(format!(".{}{SUFFIX}", name.to_string_lossy())));
        Some(Self { what, named, is_directory, mark })
    }

    fn was_served(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| mark.symlink_metadata().is_ok())
    }

    /// Whether anything is there. What it is, and whether it is whole, opening says.
    fn is_there(&self) -> bool {
        if self.is_directory {
            RocksKv::tables_on_disk(Path::new(self.named)).map_or(true, |tables| !tables.is_empty())
        } else {
            let has_bytes = |path: &str| fs::metadata(path).is_ok_and(|found| found.len() > 0);
            has_bytes(self.named) || has_bytes(&format!("{}-wal", self.named))
        }
    }

    fn is_gone(&self) -> EngineError {
        EngineError::Gone {
            what: self.what,
            place: self.named.to_owned(),
            mark: self.mark.clone().unwrap_or_default(),
        }
    }

    /// Notes that it is served. Where that is not possible, its loss cannot be told one day; it can
    /// be served all the same.
    fn remember(&self) {
        let Some(mark) = self.mark.as_ref().filter(|_| !self.was_served()) else { return };
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(mark)?;
            writeln!(
                file,
                "The {} at {} was served by utxokeep. While this file is here, `utxokeep serve` does \
                 not make a new one in its place. Delete it to begin anew.",
                self.what, self.named
            )?;
            file.sync_all()?;
            mark.parent().map_or(Ok(()), |above| fs::File::open(above)?.sync_all())
        };
        if let Err(error) = write() {
            let mark = mark.display();
            tracing::warn!(%mark, %error, "if the {} is gone one day, nothing will tell", self.what);
        }
    }
}

/// Opens a place that is to be served.
fn serve_from<T, E: Into<EngineError>>(
    place: Option<ServedPlace<'_>>,
    mode: OpenMode,
    open: impl FnOnce(OpenMode) -> Result<T, E>,
    is_missing: impl FnOnce(&E) -> bool,
) -> Result<T, EngineError> {
    let opened = open_known(place.as_ref(), mode, open, is_missing)?;
    if let Some(place) = place {
        place.remember();
    }
    Ok(opened)
}

/// Opens a place; one that was served before is not created again. A database whose log is lost may
/// be left as an empty file, so that only opening it tells.
fn open_known<T, E: Into<EngineError>>(
    place: Option<&ServedPlace<'_>>,
    mode: OpenMode,
    open: impl FnOnce(OpenMode) -> Result<T, E>,
    is_missing: impl FnOnce(&E) -> bool,
) -> Result<T, EngineError> {
    let Some(place) = place.filter(|place| place.was_served()) else {
        return open(mode).map_err(Into::into);
    };
    if !place.is_there() {
        return Err(place.is_gone());
    }
    match open(mode.without_creating()) {
        Err(error) if is_missing(&error) => Err(place.is_gone()),
        opened => opened.map_err(Into::into),
    }
}

const fn mode(config: &Config, mode: OpenMode) -> OpenMode {
    if config.server.create_missing { mode } else { mode.without_creating() }
}

/// Opens the node store that is to be served.
pub(super) fn node_store(config: &Config, asked: OpenMode) -> Result<Arc<NodeStore>, EngineError> {
    let url = config.txstore.url.as_str();
    let open = |mode| node_store::open(url, &config.txstore, mode);
    let is_missing =
        |error: &NodeStoreOpenError| matches!(error, NodeStoreOpenError::Missing { .. });
    serve_from(ServedPlace::of("node store", url), mode(config, asked), open, is_missing)
}

/// Opens the wallet ledger that is to be served.
pub(super) fn wallet_ledger(config: &Config, asked: OpenMode) -> Result<Wallets, EngineError> {
    let open = |mode| Wallets::open(&config.wallet.url, &config.wallet, mode);
    let place = ServedPlace::of("wallet ledger", &config.wallet.url);
    let wallets = serve_from(place, mode(config, asked), open, is_missing_ledger)?;
    Ok(with_sender(wallets, config))
}

/// Opens the wallet ledger for one command, which creates none in place of one that was served.
pub fn known_ledger(config: &Config, mode: OpenMode) -> Result<Wallets, EngineError> {
    let open = |mode| Wallets::open(&config.wallet.url, &config.wallet, mode);
    let place = ServedPlace::of("wallet ledger", &config.wallet.url);
    // A command that creates nothing says by itself that nothing is there.
    let place = place.filter(|_| mode == OpenMode::Create);
    Ok(with_sender(open_known(place.as_ref(), mode, open, is_missing_ledger)?, config))
}

/// The ledger with the node of the configuration, if that takes transactions.
fn with_sender(wallets: Wallets, config: &Config) -> Wallets {
    tx_sender(config).into_iter().fold(wallets, Wallets::with_sender)
}

const fn is_missing_ledger(error: &LedgerOpenError) -> bool {
    matches!(error, LedgerOpenError::Missing { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_on_this_machine_are_remembered_beside_themselves() {
        let mark = |url| ServedPlace::of("node store", url).and_then(|place| place.mark);
        for url in ["rocksdb:/data/node", "sqlite:/data/node", "rocksdb:/data/node/"] {
            assert_eq!(mark(url), Some("/data/.node.utxokeep-served".into()), "{url}");
        }
        for url in ["postgres://host/name", "memory:", "rocksdb:/"] {
            assert_eq!(mark(url), None, "{url}");
        }
        assert!(mark("rocksdb:node").unwrap().is_absolute());
    }
}
