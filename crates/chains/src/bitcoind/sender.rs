//! Giving transactions to a node, for callers that are plain threads.
//!
//! # Invariants
//!
//! * Nothing is sent to a node of another network: it is asked first, on the same connection.
//! * A transaction may be given twice. What the node has already counts as sent.

use std::{thread, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime;
use utxokeep_core::{
    BlockHash, Network, hex_encode,
    wallet::{FeeRate, NodeAnswer},
};

use super::{
    BitcoindError, BitcoindUrl, Credentials,
    access::Authorization,
    http::Client,
    probe::chain_name,
    rpc::{Call, ChainInfo},
};

/// Numbers of errors with which a node says what it thinks of a transaction.
const UNREADABLE: i64 = -22;
const VERIFY_ERROR: i64 = -25;
const REJECTED: i64 = -26;
const IN_CHAIN: i64 = -27;

/// The highest fee rate that a node takes as a ceiling: one coin for a thousand virtual bytes.
const CEILING_SAT_PER_KVB_MAX: u64 = 99_999_999;

/// A Bitcoin Core node that takes transactions. Nothing is connected to between questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxSender {
    url: BitcoindUrl,
    credentials: Credentials,
    answer_timeout_ms: u64,
}

/// What one transaction was answered to.
#[derive(Debug, Deserialize)]
struct Tested {
    #[serde(default)]
    allowed: Option<bool>,
    #[serde(rename = "reject-reason")]
    reject_reason: Option<String>,
    #[serde(rename = "reject-details")]
    reject_details: Option<String>,
    vsize: Option<u64>,
    fees: Option<Fees>,
}

#[derive(Debug, Deserialize)]
struct Fees {
    base: Value,
}

impl TxSender {
    /// Connects when it is needed.
    #[must_use]
    pub const fn new(url: BitcoindUrl, credentials: Credentials, answer_timeout_ms: u64) -> Self {
        Self { url, credentials, answer_timeout_ms }
    }

    /// Where the node is.
    #[must_use]
    pub fn address(&self) -> String {
        self.url.to_string()
    }

    /// What the node would say to a transaction. Nothing is sent on. A fee rate above `ceiling` is
    /// refused; without one the node has none either. The answer comes with the node's last block.
    pub fn test(
        &self,
        network: Network,
        raw: &[u8],
        ceiling: Option<FeeRate>,
    ) -> Result<(NodeAnswer, BlockHash), BitcoindError> {
        let params = json!([[hex_encode(raw)], coins_per_kvb(ceiling)]);
        self.with_node(network, async move |client, authorization, info| {
            let wrong = |what: String| BitcoindError::Wrong { url: self.url.to_string(), what };
            let call = Call::new("testmempoolaccept", params);
            let tip = BlockHash::from_reversed_hex(&info.bestblockhash)
                .map_err(|_| wrong("a best block whose hash cannot be read".to_owned()))?;
            let answers: Vec<Tested> = match call.ask_client(client, authorization).await {
                Ok(answers) => answers,
                Err(error) => return Ok((refusal(error)?, tip)),
            };
            let answer = answers.into_iter().next();
            let answer =
                answer.ok_or_else(|| wrong("no answer to testmempoolaccept".to_owned()))?;
            let said = match answer {
                Tested { allowed: Some(true), vsize, fees, .. } => {
                    let fee = fees.as_ref().and_then(|fees| satoshi(&fees.base));
                    NodeAnswer::Takes { fee, vsize }
                }
                Tested { reject_reason: Some(reason), reject_details, .. } => {
                    match (NodeAnswer::of_reason(&reason), reject_details) {
                        // The details begin with the reason and say more.
                        (NodeAnswer::Refuses(_), Some(details)) if details.starts_with(&reason) => {
                            NodeAnswer::Refuses(short(&details))
                        }
                        (NodeAnswer::Refuses(reason), _) => NodeAnswer::Refuses(short(&reason)),
                        (other, _) => other,
                    }
                }
                _ => {
                    return Err(wrong("testmempoolaccept says neither yes nor why not".to_owned()));
                }
            };
            Ok((said, tip))
        })
    }

    /// Sends a transaction.
    pub fn send(
        &self,
        network: Network,
        raw: &[u8],
        ceiling: Option<FeeRate>,
    ) -> Result<NodeAnswer, BitcoindError> {
        let params = json!([hex_encode(raw), coins_per_kvb(ceiling)]);
        self.with_node(network, async move |client, authorization, _| {
            let call = Call::new("sendrawtransaction", params);
            match call.ask_client::<String>(client, authorization).await {
                Ok(_) => Ok(NodeAnswer::Takes { fee: None, vsize: None }),
                Err(error) => refusal(error),
            }
        })
    }

    /// Runs `work` on a connection to the node, on a thread of its own: the caller may be part of
    /// another runtime.
    fn with_node<T: Send>(
        &self,
        network: Network,
        work: impl AsyncFnOnce(&mut Client, &Authorization, &ChainInfo) -> Result<T, BitcoindError>
        + Send,
    ) -> Result<T, BitcoindError> {
        let failed = |source| BitcoindError::Start { source };
        let talk = move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build()
                .map_err(failed)?;
            runtime.block_on(async {
                let authorization = self.credentials.read()?;
                let limit = Duration::from_millis(self.answer_timeout_ms);
                let mut client = Client::new(self.url.clone(), limit);
                let info: ChainInfo =
                    ChainInfo::CALL.ask_client(&mut client, &authorization).await?;
                if info.chain != chain_name(network) {
                    let (found, wanted) = (info.chain, network);
                    return Err(BitcoindError::OtherNetwork { found, wanted });
                }
                work(&mut client, &authorization, &info).await
            })
        };
        thread::scope(|scope| {
            let name = "bitcoind-sender".to_owned();
            let thread = thread::Builder::new().name(name).spawn_scoped(scope, talk);
            thread.map_err(failed)?.join().unwrap_or(Err(BitcoindError::Closed))
        })
    }
}

/// An error that is the node's word about the transaction.
fn refusal(error: BitcoindError) -> Result<NodeAnswer, BitcoindError> {
    match error {
        BitcoindError::Refused { code: UNREADABLE | VERIFY_ERROR | REJECTED, message, .. } => {
            Ok(match NodeAnswer::of_reason(&message) {
                NodeAnswer::Refuses(reason) => NodeAnswer::Refuses(short(&reason)),
                other => other,
            })
        }
        BitcoindError::Refused { code: IN_CHAIN, .. } => Ok(NodeAnswer::InBlock),
        other => Err(other),
    }
}

/// The node's words, short enough for an answer.
fn short(reason: &str) -> String {
    reason.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// As nodes take fee rates: coins for a thousand virtual bytes, 0 for no ceiling.
fn coins_per_kvb(ceiling: Option<FeeRate>) -> String {
    let rate = ceiling.map_or(0, |rate| u64::from(rate.get()).saturating_mul(4));
    let rate = rate.min(CEILING_SAT_PER_KVB_MAX);
    format!("0.{rate:08}")
}

/// An amount in coins, as JSON has it, in satoshi.
fn satoshi(coins: &Value) -> Option<u64> {
    let coins = coins.as_f64().filter(|coins| (0.0..21_000_000.1).contains(coins))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
    let satoshi = (coins * 1e8).round() as u64;
    Some(satoshi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_are_written_as_nodes_read_them() {
        assert_eq!(coins_per_kvb(None), "0.00000000");
        assert_eq!(coins_per_kvb(Some(FeeRate::per_vbyte(1_000))), "0.01000000");
        assert_eq!(coins_per_kvb(Some(FeeRate::per_vbyte(u32::MAX))), "0.99999999");
    }

    #[test]
    fn amounts_of_nodes_are_exact() {
        for (text, amount) in
            [("0.00000141", 141), ("0.1", 10_000_000), ("20999999.97690000", 2_099_999_997_690_000)]
        {
            assert_eq!(satoshi(&serde_json::from_str(text).unwrap()), Some(amount), "{text}");
        }
        assert_eq!(satoshi(&json!(-1)), None);
        assert_eq!(satoshi(&json!("1")), None);
    }
}
