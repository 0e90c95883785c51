//! What every engine must do, as checks that panic. Each uses keys of its own, so that all of them
//! can run on one store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::similar_names, reason = "scores are of stores")]

use std::{
    ops::Bound,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    Barrier, Expect, Key, ReadCell, RecordError, RecordStore, SCORE_MAX, ScanIndex, Version,
    Versions, WriteCell, Written,
};

/// Runs every check. `pass_ms` lets the store's clock pass, by waiting where it is a real one.
pub fn all(store: &dyn RecordStore, pass_ms: &dyn Fn(u64)) {
    a_write_needs_the_version_it_expects(store);
    a_write_that_is_sent_again_recognises_itself(store);
    fields_are_set_unset_and_read_by_name(store);
    indexes_change_with_their_cell_or_not_at_all(store);
    scans_page_by_score_and_member(store);
    cells_expire_by_the_clock_of_the_server(store, pass_ms);
    a_write_that_comes_late_is_refused(store, pass_ms);
    a_large_cell_is_written_and_read_whole(store);
    calls_that_cannot_work_are_refused_before_anything_is_sent(store);
    of_racing_writers_one_wins_each_version(store);
}

/// One write, with a barrier.
pub fn write(store: &dyn RecordStore, write: WriteCell) -> Written {
    store.write(&[write], Barrier::Safe).unwrap()[0]
}

fn version_of(store: &dyn RecordStore, key: &Key) -> Option<Version> {
    let cells = store.read(&[ReadCell::version(key.clone())]).unwrap();
    cells[0].as_ref().map(|cell| cell.version)
}

fn scan(
    store: &dyn RecordStore,
    (shard, index): (u16, u8),
    from: Bound<(u64, Vec<u8>)>,
    until: u64,
    limit: usize,
) -> Vec<(u64, Vec<u8>)> {
    store.scan(&[ScanIndex { shard, index, from, until, limit }]).unwrap().remove(0)
}

/// Absent, wrong and right versions, and deletion.
pub fn a_write_needs_the_version_it_expects(store: &dyn RecordStore) {
    let versions = Versions::seeded(1);
    let key = Key::new(3, "suite-version");
    let (first, second, other) = (versions.next(), versions.next(), versions.next());
    let third = versions.next();
    assert_eq!(version_of(store, &key), None);
    let update = WriteCell::update(key.clone(), first, second).set("a", "2");
    assert_eq!(write(store, update.clone()), Written::Mismatch(None));
    assert_eq!(version_of(store, &key), None, "a refused write leaves nothing");
    let create = WriteCell::create(key.clone(), first).set("a", "1");
    assert_eq!(write(store, create), Written::Done);
    let again = WriteCell::create(key.clone(), other);
    assert_eq!(write(store, again), Written::Mismatch(Some(first)));
    assert_eq!(write(store, update.clone()), Written::Done);
    let late = WriteCell::update(key.clone(), first, other).set("a", "3");
    assert_eq!(write(store, late), Written::Mismatch(Some(second)));
    let cell = store.read(&[ReadCell::all(key.clone())]).unwrap().remove(0).unwrap();
    assert_eq!((cell.version, cell.get(b"a")), (second, Some(&b"2"[..])));
    assert_eq!(
        write(store, WriteCell::delete(key.clone(), first)),
        Written::Mismatch(Some(second))
    );
    assert_eq!(write(store, WriteCell::delete(key.clone(), second)), Written::Done);
    assert_eq!(write(store, WriteCell::delete(key.clone(), second)), Written::Mismatch(None));
    assert_eq!(version_of(store, &key), None);
    assert_eq!(write(store, update), Written::Mismatch(None), "a deleted cell has no version");
    let again = WriteCell::create(key.clone(), third).set("b", "4");
    assert_eq!(write(store, again), Written::Done, "a deleted cell can be made again");
    let cell = store.read(&[ReadCell::all(key.clone())]).unwrap().remove(0).unwrap();
    assert_eq!((cell.get(b"a"), cell.get(b"b")), (None, Some(&b"4"[..])), "nothing is left of it");
    let discards = WriteCell::discard(key.clone(), third);
    assert_eq!(write(store, discards.clone()), Written::Done);
    assert_eq!(write(store, discards), Written::Mismatch(None));
    assert_eq!(version_of(store, &key), None);
}

/// The same write twice is done once.
pub fn a_write_that_is_sent_again_recognises_itself(store: &dyn RecordStore) {
    let versions = Versions::seeded(2);
    let key = Key::new(3, "suite-again");
    let (first, second, third) = (versions.next(), versions.next(), versions.next());
    let create =
        WriteCell::create(key.clone(), first).set("n", "1").index(9, "suite-again", Some(4));
    for barrier in [Barrier::Safe, Barrier::None, Barrier::Safe] {
        let written = store.write(std::slice::from_ref(&create), barrier).unwrap();
        assert_eq!(written, [Written::Done]);
    }
    let update = WriteCell::update(key.clone(), first, second).set("n", "2");
    assert_eq!(write(store, update.clone()), Written::Done);
    assert_eq!(write(store, update.clone()), Written::Done);
    assert_eq!(write(store, create), Written::Mismatch(Some(second)));
    let overtaking = WriteCell::update(key.clone(), second, third).set("n", "3");
    assert_eq!(write(store, overtaking), Written::Done);
    assert_eq!(write(store, update), Written::Mismatch(Some(third)));
    let cell = store.read(&[ReadCell::all(key)]).unwrap().remove(0).unwrap();
    assert_eq!(cell.get(b"n"), Some(&b"3"[..]));
}

/// Names with any bytes; values that are empty; a cell without fields.
pub fn fields_are_set_unset_and_read_by_name(store: &dyn RecordStore) {
    let versions = Versions::seeded(3);
    let key = Key::new(5, [b'f', 0, 0xff, b'{', b'}']);
    let (first, second, third) = (versions.next(), versions.next(), versions.next());
    let odd = vec![0, b'\r', b'\n', 0xff];
    let create = WriteCell::create(key.clone(), first)
        .set(odd.clone(), odd.clone())
        .set("empty", "")
        .set("message", "x")
        .set("gone", "y");
    assert_eq!(write(store, create), Written::Done);
    let update = WriteCell::update(key.clone(), first, second).unset("gone").unset("never");
    assert_eq!(write(store, update), Written::Done);
    let reads = [
        ReadCell::all(key.clone()),
        ReadCell::fields(key.clone(), [b"gone".to_vec(), b"empty".to_vec(), odd.clone()]),
        ReadCell::version(key.clone()),
        ReadCell::all(Key::new(5, "suite-none")),
        ReadCell::fields(Key::new(6, "suite-none"), [b"a".to_vec()]),
    ];
    let cells = store.read(&reads).unwrap();
    let all = cells[0].as_ref().unwrap();
    let names: Vec<&[u8]> = all.fields.iter().map(|(name, _)| name.as_slice()).collect();
    assert_eq!(names, [&odd[..], b"empty", b"message"]);
    assert_eq!((all.get(&odd), all.get(b"empty")), (Some(&odd[..]), Some(&b""[..])));
    assert_eq!((all.version, all.get(b"gone")), (second, None));
    let some = cells[1].as_ref().unwrap();
    assert_eq!((some.fields.len(), some.get(&odd)), (2, Some(&odd[..])));
    assert_eq!(cells[2].as_ref().unwrap().fields, []);
    assert_eq!((&cells[3], &cells[4]), (&None, &None));
    let bare = WriteCell::update(key.clone(), second, third).unset(odd);
    let bare = bare.unset("empty").unset("message");
    assert_eq!(write(store, bare), Written::Done);
    assert_eq!(version_of(store, &key), Some(third), "a cell without fields is there");
}

/// Rows come and go with the write that names them.
pub fn indexes_change_with_their_cell_or_not_at_all(store: &dyn RecordStore) {
    let versions = Versions::seeded(4);
    let (shard, key) = (7, Key::new(7, "suite-index"));
    let (first, second, third) = (versions.next(), versions.next(), versions.next());
    let rows = |index| scan(store, (shard, index), Bound::Unbounded, SCORE_MAX, 10);
    let create =
        WriteCell::create(key.clone(), first).index(1, "m", Some(10)).index(2, "m", Some(0));
    assert_eq!(write(store, create), Written::Done);
    assert_eq!((rows(1), rows(2)), (vec![(10, b"m".to_vec())], vec![(0, b"m".to_vec())]));
    let refused = WriteCell::update(key.clone(), second, third).index(1, "m", Some(11));
    assert_eq!(write(store, refused), Written::Mismatch(Some(first)));
    assert_eq!(rows(1), [(10, b"m".to_vec())]);
    let moved = WriteCell::update(key.clone(), first, second)
        .index(1, "m", Some(SCORE_MAX))
        .index(2, "m", None)
        .index(2, "other", Some(5))
        .index(3, "never", None);
    assert_eq!(write(store, moved), Written::Done);
    assert_eq!(rows(1), [(SCORE_MAX, b"m".to_vec())]);
    assert_eq!(rows(2), [(5, b"other".to_vec())]);
    assert_eq!(rows(3), []);
    let deleted = WriteCell::delete(key, second).index(1, "m", None).index(2, "other", None);
    assert_eq!(write(store, deleted), Written::Done);
    assert_eq!((rows(1), rows(2)), (vec![], vec![]));
}

/// Pages over many rows of one score and of several, in any order of writing.
pub fn scans_page_by_score_and_member(store: &dyn RecordStore) {
    let versions = Versions::seeded(5);
    let shard = 11;
    let mut expected = Vec::new();
    let mut writes = Vec::new();
    for number in 0..500_u64 {
        let mixed = versions.next_u64();
        let score = [0, 7, 7, 8, 1 << 40][usize::try_from(mixed % 5).unwrap()];
        let member = mixed.to_be_bytes().to_vec();
        expected.push((score, member.clone()));
        let key = Key::new(shard, format!("suite-scan-{number}"));
        writes.push(WriteCell::create(key, versions.next()).index(4, member, Some(score)));
    }
    expected.sort();
    let written = store.write(&writes, Barrier::Safe).unwrap();
    assert!(written.iter().all(|written| *written == Written::Done));
    for limit in [1, 7, 499, 500, 10_000] {
        let (mut found, mut from) = (Vec::new(), Bound::Unbounded);
        loop {
            let page = scan(store, (shard, 4), from, SCORE_MAX, limit);
            let Some(last) = page.last().cloned() else { break };
            assert!(page.len() <= limit);
            found.extend(page);
            from = Bound::Excluded(last);
            if limit == 1 && found.len() > 50 {
                break;
            }
        }
        assert_eq!(found, expected[..found.len()], "limit {limit}");
        assert!(limit == 1 || found.len() == expected.len());
    }
    let within = |least: u64, until: u64| {
        let rows = expected.iter().filter(|(score, _)| (least..=until).contains(score));
        rows.cloned().collect::<Vec<_>>()
    };
    let from = |score: u64, member: &[u8]| Bound::Included((score, member.to_vec()));
    assert_eq!(scan(store, (shard, 4), Bound::Unbounded, 7, 10_000), within(0, 7));
    assert_eq!(scan(store, (shard, 4), from(7, b""), 7, 10_000), within(7, 7));
    assert_eq!(scan(store, (shard, 4), from(1, b""), 6, 10_000), []);
    let (score, member) = expected[250].clone();
    let at = scan(store, (shard, 4), from(score, &member), score, 1);
    assert_eq!(at, [(score, member.clone())], "a row is found by itself");
    let absent = [&member[..], &[0]].concat();
    let behind = scan(store, (shard, 4), from(score, &absent), SCORE_MAX, 1);
    assert_eq!(behind, [expected[251].clone()], "the row to begin at need not be there");
    let pages = [4, 5].map(|index| ScanIndex {
        shard,
        index,
        from: Bound::Unbounded,
        until: SCORE_MAX,
        limit: 3,
    });
    let pages = store.scan(&pages).unwrap();
    assert_eq!((pages[0].len(), pages[1].len()), (3, 0));
}

/// A time is set, kept by nothing, and taken away by the next write.
pub fn cells_expire_by_the_clock_of_the_server(store: &dyn RecordStore, pass_ms: &dyn Fn(u64)) {
    let versions = Versions::seeded(6);
    let (gone, kept) = (Key::new(2, "suite-lock"), Key::new(2, "suite-kept"));
    let (first, second, third) = (versions.next(), versions.next(), versions.next());
    let lock = WriteCell::create(gone.clone(), first).set("fence", "1").expires_in_ms(300);
    assert_eq!(write(store, lock.clone()), Written::Done);
    let stays = WriteCell::create(kept.clone(), first).expires_in_ms(300);
    assert_eq!(write(store, stays), Written::Done);
    assert_eq!(write(store, WriteCell::update(kept.clone(), first, second)), Written::Done);
    let taken = WriteCell::create(gone.clone(), third);
    assert_eq!(write(store, taken.clone()), Written::Mismatch(Some(first)));
    let before = store.now_ms(2).unwrap();
    pass_ms(400);
    assert!(store.now_ms(2).unwrap() >= before + 300);
    assert_eq!(version_of(store, &gone), None);
    assert_eq!(version_of(store, &kept), Some(second));
    let late = WriteCell::delete(gone.clone(), first);
    assert_eq!(write(store, late), Written::Mismatch(None));
    assert_eq!(write(store, taken), Written::Done, "a lock that expired is free");
    let cell = store.read(&[ReadCell::all(gone)]).unwrap().remove(0).unwrap();
    assert_eq!((cell.version, cell.fields), (third, vec![]), "nothing is left of the old one");
}

/// Times after which servers refuse a write.
pub fn a_write_that_comes_late_is_refused(store: &dyn RecordStore, pass_ms: &dyn Fn(u64)) {
    if !store.refuses_late_writes() {
        return;
    }
    let (key, versions) = (Key::new(5, "suite-late"), Versions::seeded(11));
    let now_ms = store.now_ms(key.shard).unwrap();
    pass_ms(30);
    let create = WriteCell::create(key.clone(), versions.next()).set("a", "1");
    let late = create.clone().not_after_ms(now_ms);
    assert_eq!(write(store, late.clone()), Written::Mismatch(None));
    assert_eq!(version_of(store, &key), None, "a refused write leaves nothing");
    assert_eq!(write(store, create.not_after_ms(now_ms + 3_600_000)), Written::Done);
    assert_eq!(
        write(store, late.clone()),
        Written::Done,
        "it happened before, and recognises itself"
    );
    let found = Some(late.version);
    let update = WriteCell::update(key.clone(), late.version, versions.next());
    assert_eq!(write(store, update.not_after_ms(now_ms)), Written::Mismatch(found));
    assert_eq!(write(store, WriteCell::delete(key, late.version)), Written::Done);
}

/// As many fields as a page of 20,000 outputs has, and a value of some length.
pub fn a_large_cell_is_written_and_read_whole(store: &dyn RecordStore) {
    let versions = Versions::seeded(7);
    let key = Key::new(8, "suite-large");
    let (first, second) = (versions.next(), versions.next());
    let mut create = WriteCell::create(key.clone(), first).set("b", vec![7; 300_000]);
    for vout in 0..20_000_u32 {
        create = create.set([&b"o"[..], &vout.to_be_bytes()].concat(), vout.to_be_bytes());
    }
    assert_eq!(write(store, create), Written::Done);
    let mut update = WriteCell::update(key.clone(), first, second);
    for vout in 0..10_000_u32 {
        update = update.unset([&b"o"[..], &vout.to_be_bytes()].concat());
    }
    assert_eq!(write(store, update), Written::Done);
    let cell = store.read(&[ReadCell::all(key.clone())]).unwrap().remove(0).unwrap();
    assert_eq!(cell.fields.len(), 10_001);
    assert_eq!(cell.get(b"b").map(<[u8]>::len), Some(300_000));
    let last = [&b"o"[..], &19_999_u32.to_be_bytes()].concat();
    let named = store.read(&[ReadCell::fields(key, [last.clone()])]).unwrap().remove(0).unwrap();
    assert_eq!(named.get(&last), Some(&19_999_u32.to_be_bytes()[..]));
}

/// Limits and contradictions.
pub fn calls_that_cannot_work_are_refused_before_anything_is_sent(store: &dyn RecordStore) {
    let key = || Key::new(1, "suite-refused");
    let (one, two) = (Version::new(1), Version::new(2));
    let create = || WriteCell::create(key(), one);
    let is_refused = |writes: &[WriteCell]| {
        matches!(store.write(writes, Barrier::Safe), Err(RecordError::Usage { .. }))
    };
    let mut contradiction = WriteCell::delete(key(), one);
    contradiction.expect = Expect::Absent;
    for broken in [
        WriteCell::create(Key::new(16_384, "k"), one),
        WriteCell::create(Key::new(1, ""), one),
        create().set("", "x"),
        create().set("@", "x"),
        create().set(vec![b'a'; 65], "x"),
        create().set("a", "x").set("a", "y"),
        create().set("a", "x").unset("a"),
        create().expires_in_ms(0),
        create().expires_in_ms(9).index(1, "m", Some(1)),
        create().index(1, "", Some(1)),
        create().index(1, "m", Some(SCORE_MAX + 1)),
        create().index(1, "m", Some(1)).index(1, "m", None),
        WriteCell::update(key(), one, one),
        WriteCell::delete(key(), two).set("a", "x"),
        contradiction,
    ] {
        assert!(is_refused(std::slice::from_ref(&broken)), "{broken:?}");
    }
    let good = WriteCell::create(Key::new(1, "suite-good"), one);
    assert!(is_refused(&[good.clone(), create().set("", "x")]), "a call is refused as a whole");
    assert!(is_refused(&[good.clone(), good]), "a cell is written once in a call");
    assert_eq!(version_of(store, &Key::new(1, "suite-good")), None);
    let page = ScanIndex { shard: 1, index: 1, from: Bound::Unbounded, until: 1, limit: 0 };
    assert!(matches!(store.scan(&[page]), Err(RecordError::Usage { .. })));
    assert_eq!(store.read(&[]), Ok(vec![]));
    assert_eq!(store.write(&[], Barrier::Safe), Ok(vec![]));
}

/// Eight threads each try to follow every version of four cells; a chain without forks comes of it.
pub fn of_racing_writers_one_wins_each_version(store: &dyn RecordStore) {
    const ROUNDS: u64 = 40;
    let keys: Vec<Key> = (0..4).map(|n| Key::new(40 + n, format!("suite-race-{n}"))).collect();
    for key in &keys {
        let first = WriteCell::create(key.clone(), Version::new(1)).set("n", 0_u64.to_be_bytes());
        assert_eq!(write(store, first), Written::Done);
    }
    let won = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (won, keys) = (&won, &keys);
            scope.spawn(move || {
                let versions = Versions::seeded(100 + thread);
                loop {
                    let reads: Vec<_> = keys.iter().cloned().map(ReadCell::all).collect();
                    let cells = store.read(&reads).unwrap();
                    let mut writes = Vec::new();
                    for (key, cell) in keys.iter().zip(cells) {
                        let cell = cell.unwrap();
                        let n = u64::from_be_bytes(cell.get(b"n").unwrap().try_into().unwrap());
                        if n < ROUNDS {
                            let next = versions.next();
                            let write = WriteCell::update(key.clone(), cell.version, next);
                            let row = format!("{}-{n}", key.shard);
                            let write = write.set("n", (n + 1).to_be_bytes());
                            writes.push(write.index(6, row, Some(n)));
                        }
                    }
                    if writes.is_empty() {
                        return;
                    }
                    for written in store.write(&writes, Barrier::Safe).unwrap() {
                        match written {
                            Written::Done => drop(won.fetch_add(1, Ordering::Relaxed)),
                            Written::Mismatch(found) => assert!(found.is_some()),
                            other => panic!("{other:?}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(won.into_inner(), ROUNDS * keys.len() as u64, "one winner for each version");
    for key in &keys {
        let rows = scan(store, (key.shard, 6), Bound::Unbounded, SCORE_MAX, 1_000);
        assert_eq!(rows.len() as u64, ROUNDS, "one row for each version");
    }
}
