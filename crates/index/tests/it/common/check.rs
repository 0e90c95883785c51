//! Compares every answer of an index with the model's.

use utxokeep_core::{Height, IndexKey, OutPoint, Txid};
use utxokeep_index::{ChainIndex, Paging, QueryError, Utxo, View};
use utxokeep_kv::{Kv, Read};
use utxokeep_testkit::{Model, ModelCoin, ModelSet, digest_of, totals_of, utxos_of};

use super::{REGTEST, assert_clean};

/// Checks everything the index answers, at the tip and at every height of the window.
pub(crate) fn assert_agrees<K: Kv>(
    index: &ChainIndex<K>,
    model: &Model,
    scripts: &[Vec<u8>],
    base: u32,
) {
    let tip = model.tip().unwrap();
    let view = index.view().unwrap();
    let (height, entry) = view.tip().unwrap();
    let newest = &model.blocks()[tip as usize];
    assert_eq!((height.get(), entry.hash, entry.time), (tip, newest.hash, newest.time));
    assert_eq!(entry.totals, totals_of(model.live()));
    assert_eq!(index.status().unwrap().totals, Some(entry.totals));

    assert_outpoints(&view, model, base);
    let floor = view.floor().unwrap().unwrap().get();
    let window = index.settings().window.rollback_window;
    assert_eq!(floor, tip.saturating_sub(window).max(base));
    for height in floor..=tip {
        let view = index.view().unwrap().at(Height::new(height)).unwrap();
        let set = model.live_at(height);
        // Accumulators answer at once everywhere; scans are spread over the steps of a history.
        if index.settings().muhash || height == floor || (height + tip).is_multiple_of(4) {
            assert_digest(&view, &set, height == floor);
        }
        assert_past(&view, model, &set, height);
        for script in scripts {
            assert_script(&view, &set, script);
        }
    }
    for outside in [floor.checked_sub(1), Some(tip + 1)].into_iter().flatten() {
        let error = index.view().unwrap().at(Height::new(outside)).err().unwrap();
        assert!(matches!(error, QueryError::OutsideWindow { floor: named, .. }
            if named == Height::new(floor)));
    }
    assert_clean(index, "after a step");
}

fn assert_digest<S: Read>(view: &View<'_, S>, set: &ModelSet, audit: bool) {
    let expected = digest_of(set);
    let muhash = expected.muhash().unwrap().digest();
    let digest = view.digest(false).unwrap();
    assert_eq!((digest.totals, digest.muhash), (expected.totals(), Some(muhash)));
    if audit {
        let digest = view.digest(true).unwrap();
        assert_eq!((digest.totals, digest.muhash), (expected.totals(), Some(muhash)));
        assert_eq!(digest.ordered_hash, expected.ordered_hash());
    }
}

fn assert_coin(utxo: &Utxo, coin: &ModelCoin) {
    assert_eq!(utxo.address, coin.address);
    assert_eq!(
        (utxo.value, utxo.created.height.get(), utxo.tx_index, utxo.is_coinbase),
        (coin.value, coin.height, coin.tx_index, coin.is_coinbase)
    );
}

/// Live outputs are there, spent ones name their spender while that is kept, others are unknown.
fn assert_outpoints<S: Read>(view: &View<'_, S>, model: &Model, base: u32) {
    let unknown = OutPoint::new(Txid::from_bytes([0xee; 32]), 0);
    assert_eq!(view.utxo(unknown).unwrap(), None);
    for (number, outpoint) in model.ever_created().iter().enumerate() {
        let spend = model.spend_of(outpoint);
        let is_recent = spend.is_some_and(|(_, _, height)| height > base);
        if number % 5 > 0 && !is_recent {
            continue;
        }
        let found = view.utxo(*outpoint).unwrap();
        if let Some(coin) = model.live().get(outpoint) {
            let utxo = found.unwrap();
            assert_coin(&utxo, coin);
            assert_eq!(utxo.spent, None);
            assert_eq!(utxo.created.hash, model.blocks()[coin.height as usize].hash);
            continue;
        }
        let (coin, by, height) = spend.expect("what is not live was spent");
        // At or below the undo base a spent output may be gone, or wait for its prune pass.
        assert!(found.is_some() || height <= base, "{outpoint} was spent at {height}");
        if let Some(utxo) = found {
            assert_coin(&utxo, coin);
            let info = utxo.spent.unwrap();
            assert_eq!((info.txid, info.block.height.get()), (by, height));
            assert_eq!(info.block.hash, model.blocks()[height as usize].hash);
        }
    }
}

/// Outputs that later blocks touched look as they did at `height`.
fn assert_past<S: Read>(view: &View<'_, S>, model: &Model, set: &ModelSet, height: u32) {
    for block in &model.blocks()[height as usize + 1..] {
        let spent = block.spent.iter().map(|(outpoint, ..)| outpoint);
        for outpoint in spent.chain(block.created.iter().map(|(outpoint, _)| outpoint)) {
            match (view.utxo(*outpoint).unwrap(), set.get(outpoint)) {
                (Some(utxo), Some(coin)) => {
                    assert_coin(&utxo, coin);
                    assert_eq!(utxo.spent, None);
                }
                (found, expected) => assert!(found.is_none() && expected.is_none()),
            }
        }
    }
}

/// Balance and pages of every size in both orders.
fn assert_script<S: Read>(view: &View<'_, S>, set: &ModelSet, script: &[u8]) {
    let key = IndexKey::address(REGTEST, script);
    let mut expected = utxos_of(set, script);
    let balance = view.owner_balance(key, u64::MAX).unwrap();
    let sum: u128 = expected.iter().map(|(_, coin)| u128::from(coin.value)).sum();
    assert_eq!((balance.utxos, balance.value), (expected.len() as u64, sum));
    if let Some(too_few) = balance.utxos.checked_sub(1) {
        assert_eq!(view.owner_balance(key, balance.utxos).unwrap(), balance);
        let error = view.owner_balance(key, too_few).unwrap_err();
        assert!(matches!(error, QueryError::TooManyRows { max } if max == too_few));
    }
    for reverse in [false, true] {
        for limit in [1 + expected.len() / 7, 3 + expected.len() / 2, 1_000] {
            let mut pages: Vec<Utxo> = Vec::new();
            let mut after = None;
            loop {
                let paging = Paging { after, skip: 0, limit, reverse, scan_rows_max: u64::MAX };
                let page = view.owner_utxos(key, paging, None).unwrap();
                assert!(page.utxos.len() == limit || page.next.is_none());
                pages.extend(page.utxos);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(pages.len(), expected.len());
            for (utxo, (outpoint, coin)) in pages.iter().zip(&expected) {
                assert_eq!(utxo.outpoint, **outpoint);
                assert_coin(utxo, coin);
                assert_eq!(utxo.spent, None);
            }
        }
        let paging = Paging { after: None, skip: 2, limit: 1, reverse, scan_rows_max: u64::MAX };
        let page = view.owner_utxos(key, paging, None).unwrap();
        let names: Vec<_> = page.utxos.iter().map(|utxo| utxo.outpoint).collect();
        let third: Vec<_> = expected.iter().skip(2).take(1).map(|(name, _)| **name).collect();
        assert_eq!(names, third);
        expected.reverse();
    }
}
