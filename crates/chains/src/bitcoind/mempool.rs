//! The mempool of Bitcoin Core: listed by RPC, its transactions fetched by binary REST.
//!
//! Nothing is asked before it is needed, so a node that does not allow these calls can still be
//! followed.

use std::{
    collections::BTreeSet,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{runtime, sync::Mutex, task::JoinSet};
use utxokeep_core::{BlockHash, HashParseError, Txid};

use super::{
    BitcoindError, BitcoindOptions,
    http::Client,
    rest,
    rpc::{self, MempoolInfo, MempoolTxids},
};
use crate::live::{LiveError, MempoolList, MempoolSource};

/// How often a waiting caller looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often a list is asked for again because the node's chain moved meanwhile.
const LIST_ATTEMPTS_MAX: u32 = 5;

/// The mempool of a Bitcoin Core node. Connections are kept between questions.
#[derive(Debug)]
pub struct BitcoinMempool {
    options: BitcoindOptions,
    worker: Option<Worker>,
}

#[derive(Debug)]
enum Question {
    List { txs_max: usize },
    Bodies(Vec<Txid>),
}

#[derive(Debug)]
enum Answer {
    List(MempoolList),
    Bodies(Vec<Option<Vec<u8>>>),
}

/// The thread that talks to the node; it ends when the questions end.
#[derive(Debug)]
struct Worker {
    questions: mpsc::Sender<Question>,
    answers: mpsc::Receiver<Result<Answer, BitcoindError>>,
    _thread: JoinHandle<()>,
}

impl BitcoinMempool {
    /// Connects when it is needed.
    #[must_use]
    pub const fn new(options: BitcoindOptions) -> Self {
        Self { options, worker: None }
    }

    /// Asks, and waits for the answer or until it is to stop. After a failure the next question
    /// connects anew, with credentials that are read again.
    fn ask(
        &mut self,
        question: Question,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Answer, BitcoindError> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(&self.options)?,
        };
        worker.questions.send(question).map_err(|_| BitcoindError::Closed)?;
        loop {
            if is_stopped() {
                return Err(BitcoindError::Closed);
            }
            match worker.answers.recv_timeout(LOOK_EVERY) {
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(BitcoindError::Closed),
                Ok(answer) => {
                    let answer = answer?;
                    self.worker = Some(worker);
                    return Ok(answer);
                }
            }
        }
    }
}

impl MempoolSource for BitcoinMempool {
    fn address(&self) -> String {
        self.options.url.to_string()
    }

    fn list(
        &mut self,
        txs_max: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<MempoolList, LiveError> {
        match self.ask(Question::List { txs_max }, is_stopped)? {
            Answer::List(list) => Ok(list),
            Answer::Bodies(_) => Err(BitcoindError::Closed.into()),
        }
    }

    fn bodies(
        &mut self,
        txids: &[Txid],
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Option<Vec<u8>>>, LiveError> {
        if txids.is_empty() {
            return Ok(Vec::new());
        }
        match self.ask(Question::Bodies(txids.to_vec()), is_stopped)? {
            Answer::Bodies(bodies) => Ok(bodies),
            Answer::List(_) => Err(BitcoindError::Closed.into()),
        }
    }
}

impl Worker {
    fn start(options: &BitcoindOptions) -> Result<Self, BitcoindError> {
        let failed = |source| BitcoindError::Start { source };
        let runtime = runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(failed)?;
        let (questions, asked) = mpsc::channel::<Question>();
        let (answer, answers) = mpsc::channel();
        let options = options.clone();
        let work = move || {
            let mut node = Node::new(options);
            while let Ok(question) = asked.recv() {
                if answer.send(runtime.block_on(node.answer(question))).is_err() {
                    break;
                }
            }
            drop(node);
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("bitcoind-mempool".to_owned()).spawn(work);
        Ok(Self { questions, answers, _thread: thread.map_err(failed)? })
    }
}

/// The connections to the node.
struct Node {
    options: BitcoindOptions,
    rpc: Client,
    rest: Vec<Arc<Mutex<Client>>>,
}

impl Node {
    fn new(options: BitcoindOptions) -> Self {
        let limit = Duration::from_millis(options.answer_timeout_ms);
        let client = || Client::new(options.url.clone(), limit);
        let connections = options.fetch_connections_max.max(1);
        let rest = (0..connections).map(|_| Arc::new(Mutex::new(client()))).collect();
        Self { rpc: client(), rest, options }
    }

    async fn answer(&mut self, question: Question) -> Result<Answer, BitcoindError> {
        Ok(match question {
            Question::List { txs_max } => Answer::List(self.list(txs_max).await?),
            Question::Bodies(txids) => Answer::Bodies(self.bodies(&txids).await?),
        })
    }

    /// Lists between two looks at the tip, which must be the same. The node removes what a block
    /// holds before it names the block as its best, so a list between them is of that chain.
    async fn list(&mut self, txs_max: usize) -> Result<MempoolList, BitcoindError> {
        let authorization = self.options.credentials.read()?;
        for _ in 0..LIST_ATTEMPTS_MAX {
            let before: String =
                rpc::best_block_hash().ask_client(&mut self.rpc, &authorization).await?;
            let info: MempoolInfo =
                MempoolInfo::CALL.ask_client(&mut self.rpc, &authorization).await?;
            check_size(info.size, txs_max)?;
            let found: MempoolTxids =
                MempoolTxids::call().ask_client(&mut self.rpc, &authorization).await?;
            check_size(found.txids.len(), txs_max)?;
            let after: String =
                rpc::best_block_hash().ask_client(&mut self.rpc, &authorization).await?;
            if before == after {
                return self.read(&after, &found);
            }
        }
        Err(BitcoindError::ChainMoves)
    }

    fn read(&self, tip: &str, found: &MempoolTxids) -> Result<MempoolList, BitcoindError> {
        let wrong = |error: HashParseError| {
            let what = format!("a hash in the list of its mempool that is none: {error}");
            BitcoindError::Wrong { url: self.options.url.to_string(), what }
        };
        let tip = BlockHash::from_reversed_hex(tip).map_err(wrong)?;
        let txids: Result<BTreeSet<Txid>, _> =
            found.txids.iter().map(|text| Txid::from_reversed_hex(text)).collect();
        Ok(MempoolList { tip, sequence: found.mempool_sequence, txids: txids.map_err(wrong)? })
    }

    /// Fetches over all connections at once, each its share in turn.
    async fn bodies(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<u8>>>, BitcoindError> {
        let mut shares = JoinSet::new();
        for (at, client) in self.rest.iter().enumerate() {
            let share: Vec<(usize, Txid)> =
                txids.iter().copied().enumerate().skip(at).step_by(self.rest.len()).collect();
            let client = Arc::clone(client);
            shares.spawn(async move {
                let mut client = client.lock().await;
                let mut found = Vec::with_capacity(share.len());
                for (place, txid) in share {
                    found.push((place, rest::mempool_tx(&mut client, &txid).await?));
                }
                Ok::<_, BitcoindError>(found)
            });
        }
        let mut bodies = vec![None; txids.len()];
        while let Some(share) = shares.join_next().await {
            for (place, body) in share.map_err(|_| BitcoindError::Closed)?? {
                bodies[place] = body;
            }
        }
        Ok(bodies)
    }
}

fn check_size(found: usize, txs_max: usize) -> Result<(), BitcoindError> {
    if found > txs_max {
        return Err(BitcoindError::MempoolTooLarge { found, txs_max });
    }
    Ok(())
}
