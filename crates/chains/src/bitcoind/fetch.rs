//! Blocks that were announced, in their order, several under way at once.

use std::{collections::VecDeque, path::Path, sync::Arc, time::Duration};

use tokio::{sync::Mutex, task::JoinHandle};
use tracing::warn;
use utxokeep_core::{BlockHash, ChainPoint, Header, Height};

use super::{BitcoindError, BitcoindOptions, http::Client, rest};
use crate::{
    bodies::{BitcoinBodies, WantedBlock},
    live::{LiveEvent, Outbox},
};

/// Announced blocks from which on the node's files are worth looking into: a day of blocks.
const FROM_FILES_MIN: usize = 144;

/// What is fetched: a block of the node's chain.
#[derive(Debug, Clone, Copy)]
struct Place {
    height: Height,
    hash: BlockHash,
}

/// Fetches blocks from the node's files or by REST.
#[derive(Debug)]
pub(super) struct Fetcher {
    clients: Vec<Arc<Mutex<Client>>>,
    files: Option<BitcoinBodies>,
}

impl Fetcher {
    pub(super) fn new(options: &BitcoindOptions, limit: Duration) -> Self {
        let client = || Arc::new(Mutex::new(Client::new(options.url.clone(), limit)));
        let connections = options.fetch_connections_max.max(1);
        let files = options.blocks_dir.as_deref().map(|dir| files(dir, options));
        Self { clients: (0..connections).map(|_| client()).collect(), files }
    }

    /// Hands all blocks behind the one at `height` over, in order.
    pub(super) async fn hand_over(
        &mut self,
        headers: &[Header],
        height: Height,
        tip: Height,
        outbox: &Outbox,
    ) -> Result<(), BitcoindError> {
        let places = headers.iter().enumerate().map(|(at, header)| {
            let above = u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1);
            Place { height: height.plus(above), hash: header.hash }
        });
        let mut places: VecDeque<Place> = places.collect();
        if places.len() >= FROM_FILES_MIN {
            self.read_files(&mut places, tip, outbox).await?;
        }
        self.ask_node(places, outbox).await
    }

    /// Hands over what the files have, up to the first block that they have not.
    async fn read_files(
        &mut self,
        places: &mut VecDeque<Place>,
        tip: Height,
        outbox: &Outbox,
    ) -> Result<(), BitcoindError> {
        let Some(files) = &mut self.files else { return Ok(()) };
        while let Some(place) = places.front() {
            let point = ChainPoint { height: place.height, slot: 0, hash: place.hash };
            let wanted = WantedBlock { point, parent: None, tip };
            let raw = match files.raw(&wanted, &|| outbox.is_left()) {
                Ok(Some(raw)) => raw,
                Ok(None) => return Ok(()),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    warn!(error, "the node's block files cannot be read: blocks come by REST");
                    self.files = None;
                    return Ok(());
                }
            };
            places.pop_front();
            outbox.heard.message();
            outbox.send(LiveEvent::Block(raw)).await?;
        }
        Ok(())
    }

    async fn ask_node(
        &self,
        mut places: VecDeque<Place>,
        outbox: &Outbox,
    ) -> Result<(), BitcoindError> {
        let mut under_way: VecDeque<UnderWay> = VecDeque::with_capacity(self.clients.len());
        let mut clients = self.clients.iter().cycle();
        loop {
            while under_way.len() < self.clients.len()
                && let Some(place) = places.pop_front()
                && let Some(client) = clients.next()
            {
                under_way.push_back(UnderWay::start(Arc::clone(client), place));
            }
            let Some(mut first) = under_way.pop_front() else { return Ok(()) };
            let raw = (&mut first.0).await.map_err(|_| BitcoindError::Closed)??;
            outbox.heard.message();
            outbox.send(LiveEvent::Block(raw)).await?;
        }
    }
}

/// A block that is being fetched; dropping it gives up.
struct UnderWay(JoinHandle<Result<Vec<u8>, BitcoindError>>);

impl UnderWay {
    fn start(client: Arc<Mutex<Client>>, place: Place) -> Self {
        Self(tokio::spawn(async move {
            let mut client = client.lock().await;
            let found = rest::block(&mut client, &place.hash).await?;
            found.map_err(|said| missing(place, said))
        }))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn missing(place: Place, said: String) -> BitcoindError {
    if said.contains("pruned") {
        return BitcoindError::Pruned { wanted: place.height, kept: None };
    }
    BitcoindError::NotThere { hash: place.hash.to_reversed_hex(), said }
}

/// The key of obfuscated files is beside them. Nothing there is compressed, so nothing is unpacked.
fn files(dir: &Path, options: &BitcoindOptions) -> BitcoinBodies {
    BitcoinBodies::new(&[dir.to_owned()], options.network, None, dir)
}
