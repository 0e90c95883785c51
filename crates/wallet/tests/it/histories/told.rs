//! A reader of events beside a random history: what it has put together from them is what the
//! ledger has, after every step.

use std::collections::BTreeMap;

use utxokeep_core::{Height, Txid, wallet::confirmations};
use utxokeep_wallet::{
    EventDepths, Ledger, TxState, TxStatus, TxSummary, WalletEvent, WalletEventKind, WalletId,
};

/// A transaction as its events tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    state: TxState,
    /// Depths that were told since it is in its block.
    depths: Vec<u32>,
}

/// What a reader knows that has seen every event once.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    cursor: i64,
    txs: BTreeMap<Txid, Told>,
    /// Events that it has seen, for a reader that starts over.
    seen: Vec<WalletEvent>,
}

impl Reader {
    /// Reads on, in pages of a few, and compares.
    pub(crate) fn compare(
        &mut self,
        ledger: &Ledger,
        wallet: WalletId,
        history: &[TxSummary],
        tip: Option<Height>,
    ) {
        loop {
            let page = ledger.events(wallet, Some(self.cursor), 7).unwrap();
            for event in &page.events {
                assert_eq!(event.id, self.cursor + 1);
                self.cursor = event.id;
                self.take(event);
                self.seen.push(*event);
            }
            if !page.has_more {
                break;
            }
        }
        let known: BTreeMap<Txid, TxState> = history.iter().map(|tx| (tx.txid, tx.state)).collect();
        // What was pruned is in the ledger no more, which is no event; it was at rest.
        self.txs.retain(|txid, told| {
            assert!(
                known.contains_key(txid)
                    || !matches!(told.state, TxState::Pending | TxState::Unconfirmed),
                "{told:?}"
            );
            known.contains_key(txid)
        });
        let told: BTreeMap<Txid, TxState> =
            self.txs.iter().map(|(txid, told)| (*txid, told.state)).collect();
        assert_eq!(told, known);
        for told in self.txs.values() {
            let TxState::Confirmed(height) = told.state else { continue };
            let count = confirmations(Some(height), tip).max(1);
            let due = EventDepths::default();
            let due = due.as_slice().iter().filter(|depth| **depth <= count);
            assert!(due.clone().all(|depth| told.depths.contains(depth)), "{told:?} at {count}");
        }
    }

    /// A reader that starts over sees the same events in the same order.
    pub(crate) fn read_again(&self, ledger: &Ledger, wallet: WalletId) {
        let (mut cursor, mut all) = (None, Vec::new());
        loop {
            let page = ledger.events(wallet, cursor, 100).unwrap();
            all.extend(page.events);
            cursor = Some(page.next_cursor);
            if !page.has_more {
                break;
            }
        }
        assert_eq!(all, self.seen);
    }

    fn take(&mut self, event: &WalletEvent) {
        let before = self.txs.get(&event.txid).cloned();
        let state = match event.kind {
            WalletEventKind::LeaseExpired => return,
            WalletEventKind::Removed => {
                assert!(self.txs.remove(&event.txid).is_some());
                return;
            }
            WalletEventKind::Confirmed => TxState::Confirmed(event.block_height.unwrap()),
            WalletEventKind::Created => TxState::Pending,
            WalletEventKind::Seen => TxState::Unconfirmed,
            WalletEventKind::Replaced => TxState::Replaced,
            WalletEventKind::Failed => TxState::Failed,
            WalletEventKind::Reorganised => {
                // It names the block that was told before.
                let left = before.as_ref().and_then(|told| told.state.block());
                assert_eq!(left, event.block_height);
                match event.status.unwrap() {
                    TxStatus::Orphaned => TxState::Orphaned,
                    _ => TxState::Unconfirmed,
                }
            }
        };
        assert_eq!(event.status, Some(state.status()));
        let mut depths = Vec::new();
        if let Some(depth) = event.confirmations {
            let stays = before.as_ref().filter(|told| told.state == state);
            depths = stays.map(|told| told.depths.clone()).unwrap_or_default();
            // Once for each depth, from the block itself on.
            assert!(depths.last().map_or(depth == 1, |last| depth > *last), "{event:?} {depths:?}");
            depths.push(depth);
        } else {
            // Nothing is told that was known.
            assert_ne!(before.map(|told| told.state), Some(state), "{event:?}");
        }
        self.txs.insert(event.txid, Told { state, depths });
    }
}
