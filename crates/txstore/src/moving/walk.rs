//! Two stores side by side, transaction by transaction and value by value.

use std::collections::{BTreeMap, BTreeSet};

use utxokeep_core::{
    Txid,
    node::{ChangeSet, ItemGroup, NamedState},
};
use utxokeep_fault::crash_point;

use super::{
    image::{TxImage, changes, difference, images},
    is_moved,
};
use crate::{
    backend::{StoreReads, Touched},
    engine::NodeStore,
    error::StoreError,
    heights::WHOLE_STORE,
};

/// Values that an engine has for itself: its format, what it knows of settled transactions, a lock.
pub(super) const OF_ENGINE: [&str; 4] = ["format", "settled_opened", "settled_floor", "lock"];

/// How often items that others hold up are tried again.
const ROUNDS_MAX: usize = 100;

/// Reads one state of a store as its engine has it.
fn read<T>(
    store: &NodeStore,
    mut work: impl FnMut(&StoreReads<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    store.read(|facts| work(facts.view))
}

/// Ids behind `after` that either store has, in order, and whether these are all there are. Of a page
/// that is full only what lies before the end of both pages is known.
fn page<K: Ord + Clone>(one: Vec<K>, other: Vec<K>, limit: usize) -> (Vec<K>, bool) {
    let end = |list: &Vec<K>| if list.len() < limit { None } else { list.last().cloned() };
    let until = match (end(&one), end(&other)) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    let mut all: BTreeSet<K> = one.into_iter().chain(other).collect();
    if let Some(until) = &until {
        all.retain(|key| key <= until);
    }
    (all.into_iter().collect(), until.is_none())
}

/// Images of both stores, for the transactions that follow on `after`.
pub(super) struct TxPage {
    pub(super) txids: Vec<Txid>,
    pub(super) source: Vec<Option<TxImage>>,
    pub(super) is_last: bool,
}

/// Transactions of the source behind `after`; with `both` those that only the target has as well.
pub(super) fn next_txs(
    source: &NodeStore,
    target: &NodeStore,
    after: Option<&Txid>,
    limit: usize,
    both: bool,
) -> Result<TxPage, StoreError> {
    let of_target =
        if both { read(target, |view| view.txids_after(after, limit))? } else { Vec::new() };
    read(source, |view| {
        let of_source = view.txids_after(after, limit)?;
        let (txids, is_last) = page(of_source, of_target.clone(), limit);
        let source = images(view, &txids)?;
        Ok(TxPage { txids, source, is_last })
    })
}

/// These transactions as the source has them; `txids` ascend.
pub(super) fn images_of(source: &NodeStore, txids: Vec<Txid>) -> Result<TxPage, StoreError> {
    let found = read(source, |view| images(view, &txids))?;
    Ok(TxPage { txids, source: found, is_last: false })
}

/// What differs between the transactions of a page and those of the target.
pub(super) fn differing(
    target: &NodeStore,
    page: &TxPage,
) -> Result<Vec<(Txid, &'static str)>, StoreError> {
    let found = read(target, |view| images(view, &page.txids))?;
    let pairs = page.txids.iter().zip(page.source.iter().zip(&found));
    let differs = |(txid, (wanted, found)): (&Txid, (&Option<TxImage>, &Option<TxImage>))| {
        Some((*txid, difference(wanted.as_ref(), found.as_ref())?))
    };
    Ok(pairs.filter_map(differs).collect())
}

/// Makes the target have the transactions of a page as the source has them; answers how many it
/// changed.
pub(super) fn copy_txs(target: &NodeStore, page: &TxPage) -> Result<u64, StoreError> {
    let wanted: BTreeMap<Txid, Option<&TxImage>> =
        page.txids.iter().copied().zip(page.source.iter().map(Option::as_ref)).collect();
    let plan = |view: &StoreReads<'_>, txids: &[Txid]| -> Result<Vec<ChangeSet>, StoreError> {
        let found = images(view, txids)?;
        let pairs = txids.iter().zip(&found);
        let plan = |(txid, found): (&Txid, &Option<TxImage>)| {
            changes(*txid, found.as_ref(), wanted.get(txid).copied().flatten())
        };
        Ok(pairs.map(plan).collect())
    };
    if target.backend.commits_items() {
        return copy_items(target, page.txids.clone(), &plan);
    }
    let mut changed = 0;
    let touched = Touched::Only(page.txids.clone());
    target.backend.write(&touched, &mut |view| {
        let mut all = ChangeSet::default();
        changed = 0;
        for change in plan(view, &page.txids)? {
            changed += u64::from(!change.is_empty());
            all.append(change);
        }
        Ok(all)
    })?;
    crash_point("move_copied");
    Ok(changed)
}

/// What a list of transactions becomes.
type Plan<'p> = dyn Fn(&StoreReads<'_>, &[Txid]) -> Result<Vec<ChangeSet>, StoreError> + 'p;

/// The same where each transaction is a commit of its own.
fn copy_items(target: &NodeStore, mut open: Vec<Txid>, plan: &Plan<'_>) -> Result<u64, StoreError> {
    let mut changed = 0;
    for _ in 0..ROUNDS_MAX {
        let mut now = 0;
        let left = target.backend.write_items(&Touched::Only(open.clone()), &mut |view| {
            let plans = plan(view, &open)?;
            now = plans.iter().filter(|change| !change.is_empty()).count() as u64;
            let group = |(number, changes): (usize, ChangeSet)| ItemGroup {
                items: vec![number],
                reads: vec![open[number]],
                changes,
            };
            Ok(plans.into_iter().enumerate().map(group).collect())
        })?;
        crash_point("move_copied");
        let again: Vec<Txid> =
            left.again.iter().chain(&left.in_progress).map(|i| open[*i]).collect();
        changed += now.saturating_sub(again.len() as u64);
        if again.is_empty() {
            return Ok(changed);
        }
        open = again;
    }
    Err(StoreError::InProgress)
}

/// Values of the store as a whole behind `after` that differ, as the source has them; and the last name
/// that was looked at, if there may be more.
pub(super) fn next_states(
    source: &NodeStore,
    target: &NodeStore,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<NamedState>, Option<String>), StoreError> {
    let states = |store: &NodeStore| -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
        Ok(read(store, |view| view.states("", after, limit))?.into_iter().collect())
    };
    let (wanted, found) = (states(source)?, states(target)?);
    let names = |map: &BTreeMap<String, Vec<u8>>| map.keys().cloned().collect::<Vec<_>>();
    let (all, is_last) = page(names(&wanted), names(&found), limit);
    let last = if is_last { None } else { all.last().cloned() };
    let differs = |name: &String| is_moved(name) && wanted.get(name) != found.get(name);
    let differing = all.into_iter().filter(differs);
    Ok((differing.map(|name| (name.clone(), wanted.get(&name).cloned())).collect(), last))
}

/// Writes values of the store as a whole.
pub(super) fn write_states(store: &NodeStore, states: &[NamedState]) -> Result<(), StoreError> {
    if states.is_empty() {
        return Ok(());
    }
    store.backend.write(&Touched::Only(vec![WHOLE_STORE]), &mut |_| {
        Ok(ChangeSet::of_states(states.to_vec()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_full_pages_only_what_both_cover_is_known() {
        assert_eq!(page(vec![1, 3], vec![2], 3), (vec![1, 2, 3], true));
        assert_eq!(page(vec![1, 3], vec![2, 9], 2), (vec![1, 2, 3], false));
        assert_eq!(page(vec![5, 7], vec![], 2), (vec![5, 7], false));
        assert_eq!(page(vec![5, 9], vec![6], 2), (vec![5, 6, 9], false));
        assert_eq!(page::<u8>(vec![], vec![], 2), (vec![], true));
    }
}
