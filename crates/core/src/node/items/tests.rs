//! Items belong together through what one of them changes.

use super::*;

fn id(name: u8) -> Txid {
    Txid::from_bytes([name; 32])
}

fn ids(names: &[u8]) -> BTreeSet<Txid> {
    names.iter().map(|name| id(*name)).collect()
}

/// Groups of items that read and change these.
fn groups(items: &[(&[u8], &[u8])]) -> Vec<ItemGroup> {
    let touches = |(number, (reads, changes)): (usize, &(&[u8], &[u8]))| Touches {
        number,
        reads: ids(reads),
        changes: ids(changes),
    };
    let mut all = ChangeSet::default();
    for txid in
        ids(&items.iter().flat_map(|(_, changes)| changes.iter().copied()).collect::<Vec<_>>())
    {
        all.bodies.push((txid, None));
    }
    group(items.iter().enumerate().map(touches).collect(), all)
}

fn numbers(groups: &[ItemGroup]) -> Vec<Vec<usize>> {
    groups.iter().map(|group| group.items.clone()).collect()
}

#[test]
fn items_that_only_read_the_same_record_are_independent() {
    let groups = groups(&[(&[1, 2], &[2]), (&[1, 3], &[3]), (&[1], &[])]);
    assert_eq!(numbers(&groups), [vec![0], vec![1], vec![2]]);
    assert_eq!(groups[0].reads, [id(1), id(2)]);
    assert_eq!(groups[1].changes.bodies, [(id(3), None)]);
    assert!(groups[2].changes.is_empty());
}

#[test]
fn an_item_belongs_to_the_one_that_changes_what_it_read_before_or_after() {
    assert_eq!(numbers(&groups(&[(&[1], &[]), (&[2], &[2]), (&[1], &[1])])), [vec![0, 2], vec![1]]);
    assert_eq!(numbers(&groups(&[(&[1], &[1]), (&[2], &[2]), (&[1], &[])])), [vec![0, 2], vec![1]]);
}

#[test]
fn a_chain_of_shared_records_is_one_group() {
    let groups =
        groups(&[(&[1], &[1]), (&[3], &[3]), (&[1, 2], &[2]), (&[2, 3], &[4]), (&[9], &[9])]);
    assert_eq!(numbers(&groups), [vec![0, 1, 2, 3], vec![4]]);
    assert_eq!(groups[0].changes.bodies.len(), 4);
    assert_eq!(groups[1].changes.bodies, [(id(9), None)]);
}
