//! The root in the chain log, for those who follow it.

use utxokeep_index::{Cursor, LogEvent};

use super::*;

/// A reader that is behind meets blocks that left and blocks that came; after each event it knows the
/// root of the block it stands on, if the chain has it.
#[test]
fn the_log_has_the_root_after_each_event() {
    let archive = simulate(31, 25, 160);
    let chain = chain_of(&archive);
    for rule in RULES {
        let index = InMemory::default().open(settings(rule, 60));
        let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
        let (mut cursor, mut undone, mut applied) = (Cursor::START, 0, 0);
        let mut on_chain = BTreeMap::new();
        for header in archive.headers() {
            follower.accept(header, &archive).unwrap();
            let view = index.view().unwrap();
            let now = follower.writer().tip().unwrap();
            on_chain.insert(now.hash, root(&index, None));
            for event in view.log().events(cursor, usize::MAX).unwrap() {
                cursor = event.cursor();
                let found = view.log().mmr_root(cursor).unwrap();
                let (height, hash) = cursor.block().unwrap();
                match event {
                    LogEvent::Applied(_) => {
                        let found = found.expect("it is on the chain");
                        assert_eq!((found.height, found.hash, found.rule), (height, hash, rule));
                        // What the writer said when the block was the tip, if it ever was.
                        let found = (found.leaves, found.root);
                        assert_eq!(*on_chain.entry(hash).or_insert(found), found);
                        applied += 1;
                    }
                    LogEvent::Undone(_) => {
                        let here = view.block(height).unwrap();
                        let is_here = here.is_some_and(|entry| entry.hash == hash);
                        assert_eq!(found.is_some(), is_here);
                        if let Some(found) = found {
                            assert_eq!((found.leaves, found.root), on_chain[&hash]);
                        }
                        undone += 1;
                    }
                }
            }
        }
        assert!(undone > 10 && applied > chain.len(), "{undone} undone, {applied} applied");
        let expected = naive_roots(rule, &archive, &chain);
        for (hash, expected) in chain.iter().zip(&expected) {
            assert_eq!(on_chain[hash], *expected);
        }
        // Before the first block, below the window, and on a block that nobody knows.
        prune_fully(follower.writer_mut());
        let view = index.view().unwrap();
        let oldest = index.status().unwrap().undo_base.unwrap().get();
        assert_eq!(view.log().mmr_root(Cursor::START).unwrap(), None);
        for (height, hash) in (0..).zip(&chain) {
            let found = view.log().mmr_root(Cursor::at(Height::new(height), *hash)).unwrap();
            assert_eq!(found.is_some(), height >= oldest, "{height}");
            let other = Cursor::at(Height::new(height), BlockHash::from_bytes([9; 32]));
            assert_eq!(view.log().mmr_root(other).unwrap(), None);
        }
    }
    let classic = fresh(common::settings(60), &archive, &chain[..20]);
    let view = classic.view().unwrap();
    let tip = view.log().tip().unwrap().cursor();
    assert_eq!(view.log().mmr_root(tip).unwrap(), None);
}
