//! Binary REST: headers from a block on, blocks, and transactions of the mempool.

use std::time::Duration;

use hyper::StatusCode;
use utxokeep_core::{BlockHash, Header, Network, Txid};

use super::{
    BitcoindError, BitcoindUrl,
    http::{Answer, Client, Question},
    rpc::said,
};
use crate::bitcoin::{HEADER_LEN, MAX_BLOCK_BYTES, decode_header_of, decode_tx, sha256d};

/// Headers that a node hands out at once.
pub(super) const HEADERS_MAX: usize = 2_000;

/// Asks whether the node offers REST at all.
pub(super) async fn probe(client: &mut Client) -> Result<(), BitcoindError> {
    let question = Question {
        path: "/rest/chaininfo.json",
        call: None,
        what: "the state of its chain",
        patience: Duration::ZERO,
        bytes_max: 256 << 10,
    };
    let answer = client.ask(&question).await?;
    match answer.status {
        StatusCode::OK => Ok(()),
        StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => Err(BitcoindError::NoRest),
        _ => Err(unexpected(client.url(), &answer, question.what)),
    }
}

/// Headers of the node's chain from `first` on, which is among them; none when `first` is not on the
/// node's chain.
pub(super) async fn headers(
    client: &mut Client,
    network: Network,
    first: &BlockHash,
    count_max: usize,
) -> Result<Vec<Header>, BitcoindError> {
    let path = format!("/rest/headers/{}.bin?count={count_max}", first.to_reversed_hex());
    let question = Question {
        path: &path,
        call: None,
        what: "headers",
        patience: Duration::ZERO,
        bytes_max: count_max * HEADER_LEN,
    };
    let answer = client.ask(&question).await?;
    if answer.status != StatusCode::OK {
        return Err(unexpected(client.url(), &answer, question.what));
    }
    let wrong = |what: String| BitcoindError::Wrong { url: client.url().to_string(), what };
    let (whole, rest) = answer.body.as_chunks::<HEADER_LEN>();
    if !rest.is_empty() {
        return Err(wrong(format!("headers of {} bytes", answer.body.len())));
    }
    let mut headers: Vec<Header> = Vec::with_capacity(whole.len());
    for raw in whole {
        let header = decode_header_of(raw, network).map_err(|error| {
            wrong(format!("a header behind block {}: {error}", first.to_reversed_hex()))
        })?;
        let is_next = match headers.last() {
            Some(before) => header.prev == before.hash,
            None => header.hash == *first,
        };
        if !is_next {
            let hash = header.hash.to_reversed_hex();
            return Err(wrong(format!("header {hash}, which does not link to the one before")));
        }
        headers.push(header);
    }
    Ok(headers)
}

/// A block; `None` when the node has never heard of it or does not keep it, with its words.
pub(super) async fn block(
    client: &mut Client,
    hash: &BlockHash,
) -> Result<Result<Vec<u8>, String>, BitcoindError> {
    let path = format!("/rest/block/{}.bin", hash.to_reversed_hex());
    let question = Question {
        path: &path,
        call: None,
        what: "a block",
        patience: Duration::ZERO,
        bytes_max: MAX_BLOCK_BYTES,
    };
    let answer = client.ask(&question).await?;
    match answer.status {
        StatusCode::OK => {
            let head = answer.body.first_chunk::<HEADER_LEN>();
            if head.is_none_or(|head| sha256d(head) != *hash.as_bytes()) {
                let what = format!("another block as {}", hash.to_reversed_hex());
                return Err(BitcoindError::Wrong { url: client.url().to_string(), what });
            }
            Ok(Ok(answer.body))
        }
        StatusCode::NOT_FOUND => Ok(Err(said(&answer.body))),
        _ => Err(unexpected(client.url(), &answer, question.what)),
    }
}

/// A transaction of the mempool; `None` when it is not there.
pub(super) async fn mempool_tx(
    client: &mut Client,
    txid: &Txid,
) -> Result<Option<Vec<u8>>, BitcoindError> {
    let path = format!("/rest/tx/{}.bin", txid.to_reversed_hex());
    let question = Question {
        path: &path,
        call: None,
        what: "a transaction",
        patience: Duration::ZERO,
        bytes_max: MAX_BLOCK_BYTES,
    };
    let answer = client.ask(&question).await?;
    match answer.status {
        StatusCode::OK => {
            let is_asked_for = decode_tx(&answer.body).is_ok_and(|tx| tx.txid == *txid);
            if !is_asked_for {
                let what = format!("something else as transaction {}", txid.to_reversed_hex());
                return Err(BitcoindError::Wrong { url: client.url().to_string(), what });
            }
            Ok(Some(answer.body))
        }
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(unexpected(client.url(), &answer, question.what)),
    }
}

fn unexpected(url: &BitcoindUrl, answer: &Answer, what: &str) -> BitcoindError {
    let said = said(&answer.body);
    if answer.status == StatusCode::SERVICE_UNAVAILABLE {
        return BitcoindError::Starting { state: said };
    }
    let what = format!("status {} when asked for {what}: {said}", answer.status);
    BitcoindError::Wrong { url: url.to_string(), what }
}
