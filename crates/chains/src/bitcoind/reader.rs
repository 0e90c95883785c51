//! Single blocks from a node, for a reader that is a plain thread.

use std::{
    sync::mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::runtime;
use utxokeep_core::BlockHash;

use super::{BitcoindError, BitcoindOptions, BitcoindUrl, http::Client, rest};
use crate::BodyError;

/// How often a waiting reader looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Blocks of a node by their hashes. The connection is kept between questions.
#[derive(Debug)]
pub(crate) struct NodeBlocks {
    url: BitcoindUrl,
    limit: Duration,
    worker: Option<Worker>,
}

/// The thread that talks to the node; it ends when the questions end.
#[derive(Debug)]
struct Worker {
    questions: mpsc::Sender<BlockHash>,
    answers: mpsc::Receiver<Result<Option<Vec<u8>>, BitcoindError>>,
    _thread: JoinHandle<()>,
}

impl NodeBlocks {
    /// Connects when it is needed.
    pub(crate) fn new(options: &BitcoindOptions) -> Self {
        let limit = Duration::from_millis(options.answer_timeout_ms);
        Self { url: options.url.clone(), limit, worker: None }
    }

    /// Where the node is.
    pub(crate) fn address(&self) -> String {
        self.url.to_string()
    }

    /// Ends the connection.
    pub(crate) fn close(&mut self) {
        self.worker = None;
    }

    /// The bytes of a block; `None` when the node does not have it.
    pub(crate) fn raw(
        &mut self,
        hash: &BlockHash,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<u8>>, BodyError> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(self.url.clone(), self.limit)?,
        };
        worker.questions.send(*hash).map_err(|_| BitcoindError::Closed)?;
        loop {
            if is_stopped() {
                return Err(BodyError::Stopped);
            }
            match worker.answers.recv_timeout(LOOK_EVERY) {
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(BitcoindError::Closed.into());
                }
                Ok(answer) => {
                    let answer = answer?;
                    self.worker = Some(worker);
                    return Ok(answer);
                }
            }
        }
    }
}

impl Worker {
    fn start(url: BitcoindUrl, limit: Duration) -> Result<Self, BitcoindError> {
        let failed = |source| BitcoindError::Start { source };
        let runtime = runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(failed)?;
        let (questions, asked) = mpsc::channel::<BlockHash>();
        let (answer, answers) = mpsc::channel();
        let work = move || {
            let mut client = Client::new(url, limit);
            while let Ok(hash) = asked.recv() {
                let found = runtime.block_on(rest::block(&mut client, &hash));
                if answer.send(found.map(Result::ok)).is_err() {
                    break;
                }
            }
            drop(client);
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("bitcoind-blocks".to_owned()).spawn(work);
        Ok(Self { questions, answers, _thread: thread.map_err(failed)? })
    }
}
