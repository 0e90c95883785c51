//! JSON-RPC: the few methods that following needs, each with its answer as a type.

use std::time::Duration;

use hyper::{StatusCode, body::Bytes};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use utxokeep_core::BlockHash;

use super::{
    BitcoindError, BitcoindUrl,
    access::Authorization,
    http::{Answer, Client, Connection, Question},
};

/// No answer of these methods is longer, but that of `getrawmempool`.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Ids of about two million transactions.
const MEMPOOL_BYTES_MAX: usize = 128 << 20;
const LIST_MEMPOOL: &str = "getrawmempool";

/// The node loads its blocks and answers nothing yet.
const IN_WARM_UP: i64 = -28;
const METHOD_NOT_FOUND: i64 = -32_601;

/// A call and what it is called for people.
pub(super) struct Call {
    method: &'static str,
    params: Value,
    /// How long the node is asked to wait.
    patience: Duration,
}

/// Part of the answer to `getblockchaininfo`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ChainInfo {
    pub(super) chain: String,
    pub(super) blocks: u64,
    pub(super) bestblockhash: String,
    #[serde(default)]
    pub(super) pruned: bool,
    pub(super) pruneheight: Option<u64>,
}

impl ChainInfo {
    pub(super) const CALL: Call =
        Call { method: "getblockchaininfo", params: Value::Null, patience: Duration::ZERO };
}

/// Part of the answer to `getnetworkinfo`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct NetworkInfo {
    pub(super) version: u64,
}

impl NetworkInfo {
    pub(super) const CALL: Call =
        Call { method: "getnetworkinfo", params: Value::Null, patience: Duration::ZERO };
}

/// The answer to `waitfornewblock`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Tip {
    pub(super) hash: String,
    pub(super) height: u64,
}

impl Tip {
    /// Waits until the tip is another than `known`, or for `wait`.
    pub(super) fn wait(known: &str, wait: Duration) -> Call {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Call { method: "waitfornewblock", params: json!([wait_ms, known]), patience: wait }
    }
}

/// Part of the answer to `getmempoolinfo`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct MempoolInfo {
    pub(super) size: usize,
}

impl MempoolInfo {
    pub(super) const CALL: Call =
        Call { method: "getmempoolinfo", params: Value::Null, patience: Duration::ZERO };
}

/// The answer to `getrawmempool`, with its number among all changes of the mempool.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct MempoolTxids {
    pub(super) txids: Vec<String>,
    pub(super) mempool_sequence: u64,
}

impl MempoolTxids {
    pub(super) fn call() -> Call {
        Call { method: LIST_MEMPOOL, params: json!([false, true]), patience: Duration::ZERO }
    }
}

/// Hash of the newest block, as people write it.
pub(super) fn best_block_hash() -> Call {
    Call { method: "getbestblockhash", params: Value::Null, patience: Duration::ZERO }
}

/// A header as hexadecimal text; also of a block that is on no chain any more.
pub(super) fn header(hash: &BlockHash) -> Call {
    let params = json!([hash.to_reversed_hex(), false]);
    Call { method: "getblockheader", params, patience: Duration::ZERO }
}

impl Call {
    /// A call that is answered at once.
    pub(super) const fn new(method: &'static str, params: Value) -> Self {
        Self { method, params, patience: Duration::ZERO }
    }

    fn body(&self) -> Bytes {
        let params = if self.params.is_null() { json!([]) } else { self.params.clone() };
        let call = json!({
            "jsonrpc": "1.0", "id": "utxokeep", "method": self.method, "params": params,
        });
        call.to_string().into()
    }

    fn question<'q>(&self, authorization: &'q Authorization) -> Question<'q> {
        Question {
            path: "/",
            call: Some((authorization, self.body())),
            what: self.method,
            patience: self.patience,
            bytes_max: if self.method == LIST_MEMPOOL {
                MEMPOOL_BYTES_MAX
            } else {
                ANSWER_BYTES_MAX
            },
        }
    }

    /// Asks over a connection that does not recover.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        connection: &mut Connection,
        url: &BitcoindUrl,
        authorization: &Authorization,
    ) -> Result<T, BitcoindError> {
        let answer = connection.ask(&self.question(authorization)).await?;
        self.read(url, &answer)
    }

    /// Asks over a connection that is opened again when it is closed.
    pub(super) async fn ask_client<T: DeserializeOwned>(
        &self,
        client: &mut Client,
        authorization: &Authorization,
    ) -> Result<T, BitcoindError> {
        let answer = client.ask(&self.question(authorization)).await?;
        self.read(client.url(), &answer)
    }

    fn read<T: DeserializeOwned>(
        &self,
        url: &BitcoindUrl,
        answer: &Answer,
    ) -> Result<T, BitcoindError> {
        match answer.status {
            StatusCode::UNAUTHORIZED => return Err(BitcoindError::Credentials),
            StatusCode::FORBIDDEN => {
                return Err(BitcoindError::Forbidden { method: self.method });
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                let state = said(&answer.body);
                return Err(BitcoindError::Starting { state });
            }
            _ => {}
        }
        let wrong = |what: String| BitcoindError::Wrong { url: url.to_string(), what };
        let reply: Reply = serde_json::from_slice(&answer.body).map_err(|_| {
            let status = answer.status;
            wrong(format!("status {status} and no JSON as the answer to {}", self.method))
        })?;
        match reply.error {
            Some(RpcError { code: IN_WARM_UP, message }) => {
                Err(BitcoindError::Starting { state: message })
            }
            Some(RpcError { code: METHOD_NOT_FOUND, .. }) => {
                Err(BitcoindError::Forbidden { method: self.method })
            }
            Some(RpcError { code, message }) => {
                Err(BitcoindError::Refused { method: self.method, code, message })
            }
            None => serde_json::from_value(reply.result)
                .map_err(|error| wrong(format!("as the answer to {}: {error}", self.method))),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Reply {
    #[serde(default)]
    result: Value,
    error: Option<RpcError>,
}

#[derive(Debug, Deserialize)]
struct RpcError {
    code: i64,
    message: String,
}

/// The node's words, short enough for a log.
pub(super) fn said(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
    text.trim().chars().filter(|c| !c.is_control()).collect()
}
