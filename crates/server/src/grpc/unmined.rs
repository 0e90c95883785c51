//! Walking over unmined transactions, page by page.

use tokio::sync::mpsc;
use tonic::{Status, codegen::tokio_stream::wrappers::ReceiverStream};
use utxokeep_core::{Height, Txid};

use super::{
    calls::Calls,
    fault::{Fault, Within},
    from_proto as from,
    operations::Limits,
    proto, to_proto as to,
};

/// Pages on their way to a client.
pub(super) type Pages = ReceiverStream<Result<proto::ListUnminedResponse, Status>>;

/// Where a walk stands.
#[derive(Debug)]
struct Walk {
    cutoff: Height,
    after: Option<(Height, Txid)>,
    /// Entries that may still be answered.
    left: u64,
    page_entries: usize,
}

impl Walk {
    fn new(request: proto::ListUnminedRequest, limits: &Limits) -> Result<Self, Fault> {
        let most = limits.page_entries;
        let page_entries = request.page_entries;
        Ok(Self {
            cutoff: from::height("cutoff_height", request.cutoff_height)?,
            after: request.after.map(from::unmined).transpose().within("after")?,
            left: request.limit.unwrap_or(u64::MAX),
            page_entries: page_entries
                .map_or(Ok(most), |entries| from::limit("page_entries", entries, most))?,
        })
    }

    /// The next page; `None` at the end.
    async fn page(&mut self, calls: &Calls) -> Result<Option<proto::ListUnminedResponse>, Status> {
        let asked = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.page_entries);
        if asked == 0 {
            return Ok(None);
        }
        let (cutoff, after) = (self.cutoff, self.after);
        let found = calls.run(move |store| Ok(store.unmined(cutoff, after, asked)?)).await?;
        let Some(last) = found.last() else { return Ok(None) };
        self.after = Some(*last);
        self.left = if found.len() < asked {
            0
        } else {
            self.left.saturating_sub(u64::try_from(asked).unwrap_or(u64::MAX))
        };
        let transactions = found.iter().map(to::unmined).collect();
        Ok(Some(proto::ListUnminedResponse { transactions }))
    }
}

/// Starts a walk. The first page is read before anything is answered, so that most failures are
/// those of the call; the others follow as the client takes them.
pub(super) async fn pages(
    calls: Calls,
    request: proto::ListUnminedRequest,
    limits: &Limits,
) -> Result<Pages, Status> {
    let mut walk = Walk::new(request, limits)?;
    let mut next = walk.page(&calls).await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(page) = next {
            // An error means that the client is gone.
            if sender.send(Ok(page)).await.is_err() {
                return;
            }
            next = match walk.page(&calls).await {
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
