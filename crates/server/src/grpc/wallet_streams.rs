//! Answers of the wallet ledger that come in parts: labels, and what was pruned.

use std::{sync::Arc, vec};

use prost::Message as _;
use tokio::sync::mpsc;
use tonic::{
    Status,
    codegen::tokio_stream::{self, Iter, wrappers::ReceiverStream},
};
use utxokeep_wallet::LabelCursor;

use super::{
    calls::Calls, proto, wallet_from_proto as from, wallet_operations::Limits,
    wallet_to_proto as to,
};
use crate::wallets::{PruneWallet, Wallets};

/// Parts end behind the transaction that makes them this long, so that clients with the usual limit
/// of 4 MiB can read them.
const PART_BYTES: usize = 1 << 20;

/// Pages of labels on their way to a client.
pub(super) type Labels = ReceiverStream<Result<proto::ExportLabelsResponse, Status>>;

/// Parts of what was pruned.
pub(super) type Pruned = Iter<vec::IntoIter<Result<proto::PruneWalletResponse, Status>>>;

async fn label_page(
    calls: &Calls<Wallets>,
    wallet: &Arc<str>,
    after: Option<LabelCursor>,
) -> Result<Option<(String, LabelCursor)>, Status> {
    let wallet = Arc::clone(wallet);
    calls.run(move |wallets| Ok(wallets.export_labels_page(&wallet, after.as_ref())?)).await
}

/// Starts to export labels. The first page is read before anything is answered, so that most
/// failures are those of the call; the others follow as the client takes them.
pub(super) async fn labels(
    calls: Calls<Wallets>,
    request: proto::ExportLabelsRequest,
) -> Result<Labels, Status> {
    let wallet: Arc<str> = request.wallet.into();
    let mut next = label_page(&calls, &wallet, None).await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some((lines, last)) = next {
            // An error means that the client is gone.
            if sender.send(Ok(proto::ExportLabelsResponse { lines })).await.is_err() {
                return;
            }
            next = match label_page(&calls, &wallet, Some(last)).await {
                Ok(page) => page,
                Err(status) => {
                    let _ = sender.send(Err(status)).await;
                    return;
                }
            };
        }
    });
    Ok(ReceiverStream::new(receiver))
}

/// Prunes, then hands out what was removed.
pub(super) async fn pruned(
    calls: Calls<Wallets>,
    request: proto::PruneWalletRequest,
    limits: &Limits,
) -> Result<Pruned, Status> {
    let rule = PruneWallet {
        wallet: request.wallet,
        dead_older_than_secs: request.dead_older_than_secs,
        confirmed_up_to: request.confirmed_up_to_height,
        txs_max: from::entries("txs_max", request.txs_max, limits.page_entries)?,
        discard: request.discard,
        is_dry_run: request.dry_run,
    };
    let prune = move |wallets: &Wallets| {
        let archive = wallets.prune_wallet(&rule)?;
        let removed = archive.transactions.into_iter().map(to::details);
        Ok(parts(removed, PART_BYTES))
    };
    let parts: Vec<_> = calls.run(prune).await?.into_iter().map(Ok).collect();
    Ok(tokio_stream::iter(parts))
}

fn parts(
    removed: impl Iterator<Item = proto::WalletTransactionDetails>,
    part_bytes: usize,
) -> Vec<proto::PruneWalletResponse> {
    let mut parts: Vec<proto::PruneWalletResponse> = Vec::new();
    let mut bytes = part_bytes;
    for details in removed {
        if bytes >= part_bytes {
            parts.push(proto::PruneWalletResponse::default());
            bytes = 0;
        }
        bytes += details.encoded_len();
        if let Some(part) = parts.last_mut() {
            part.transactions.push(details);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_everything_once_and_end_when_they_are_long() {
        let removed = |raw: usize| proto::WalletTransactionDetails {
            raw: Some(vec![1; raw]),
            ..proto::WalletTransactionDetails::default()
        };
        let all: Vec<_> = [40, 70, 10, 500, 20, 20].into_iter().map(removed).collect();
        let parts = parts(all.clone().into_iter(), 100);
        let sizes: Vec<_> = parts.iter().map(|part| part.transactions.len()).collect();
        assert_eq!(sizes, [2, 2, 2]);
        let again: Vec<_> = parts.into_iter().flat_map(|part| part.transactions).collect();
        assert_eq!(again, all);
        assert!(super::parts(std::iter::empty(), 100).is_empty());
    }
}
