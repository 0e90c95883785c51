use super::*;
use crate::node::GateRules;

const JUMP: u32 = 144;

fn at(height: u32) -> Height {
    Height::new(height)
}

fn rules(must_report: bool) -> GateRules {
    GateRules {
        needs_persister: false,
        requires_mined_set: must_report,
        requires_assembly_state: must_report,
        skip_during_catch_up: false,
        min_height: 0,
        height_jump_blocks_max: JUMP,
        since: None,
    }
}

fn marks_allow(heights: &Heights, must_report: bool) -> bool {
    heights.marks_gap(at(1_000), &rules(must_report)).is_none()
}

fn assembly_allows(heights: &Heights, must_report: bool) -> bool {
    heights.assembly_gap(at(1_000), &rules(must_report)).is_none()
}

fn tell(heights: &mut Heights, report: ChainReport) -> Taken {
    heights.take(report, Some(1), JUMP)
}

fn see(heights: &mut Heights, by: Witness, height: u32) -> bool {
    let taken = tell(heights, ChainReport::Newest(Sighting { height: at(height), by }));
    taken == Taken::Believed
}

/// A store that is told a height by blocks, one after the other.
fn known(height: u32) -> Heights {
    let mut heights = Heights::default();
    see(&mut heights, Witness::Block, height - 1);
    assert!(see(&mut heights, Witness::Block, height), "the next block is the second witness");
    heights
}

#[test]
fn a_jump_is_held_until_a_second_witness_agrees() {
    for (by, height, newest) in [
        (Witness::Block, 5_001, Some(5_001)),
        (Witness::Block, 5_000, None),
        (Witness::Block, 4_990, None),
        (Witness::Block, 5_145, None),
        (Witness::BlockState, 5_000, Some(5_000)),
        (Witness::BlockState, 5_010, Some(5_000)),
        (Witness::Log, 4_900, Some(4_900)),
        (Witness::Operator, 5_000, Some(5_000)),
        (Witness::Operator, 6_000, None),
    ] {
        let mut heights = known(1_000);
        assert!(!see(&mut heights, Witness::Block, 5_000));
        assert_eq!(heights.newest(), Some(at(1_000)));
        assert_eq!(see(&mut heights, by, height), newest.is_some(), "{by} {height}");
        assert_eq!(heights.newest(), Some(at(newest.unwrap_or(1_000))), "{by} {height}");
        assert_eq!(heights.held().is_none(), newest.is_some(), "{by} {height}");
    }
}

#[test]
fn the_first_height_of_a_store_is_a_jump_too() {
    let mut heights = Heights::default();
    assert!(!see(&mut heights, Witness::Block, u32::MAX));
    assert_eq!((heights.newest(), heights.safe(false)), (None, None));
    let mut heights = Heights::default();
    assert!(see(&mut heights, Witness::Block, JUMP), "near the start there is nothing to lose");
}

#[test]
fn a_wrong_height_silences_nobody() {
    let mut heights = known(1_002);
    assert!(!see(&mut heights, Witness::Block, 4_000_000_000));
    assert!(see(&mut heights, Witness::Block, 1_003));
    assert_eq!((heights.newest(), heights.held()), (Some(at(1_003)), None), "it is taken back");
    see(&mut heights, Witness::Block, 4_000_000_000);
    assert!(see(&mut heights, Witness::BlockState, 1_004), "another witness takes nothing back");
    assert!(heights.held().is_some());
}

#[test]
fn who_lags_behind_does_not_pull_others_down() {
    let mut heights = known(1_000);
    assert!(see(&mut heights, Witness::Log, 7));
    assert_eq!(heights.newest(), Some(at(1_000)));
    assert!(see(&mut heights, Witness::Block, 990));
    assert_eq!(heights.newest(), Some(at(990)), "the same witness may go back");
    assert!(see(&mut heights, Witness::Operator, 980));
    assert_eq!(heights.newest(), Some(at(980)), "and a person may put it right");
}

#[test]
fn nothing_completes_above_the_newest_block() {
    let mut heights = known(1_000);
    let _ = tell(&mut heights, ChainReport::Completed(at(1_000)));
    let _ = tell(&mut heights, ChainReport::Reorganised(at(995)));
    assert_eq!(heights.completed(), Some(at(995)));
    let _ = tell(&mut heights, ChainReport::Completed(at(1_000)));
    assert_eq!(heights.completed(), Some(at(995)), "the chain went back while it ran");
    see(&mut heights, Witness::Block, 990);
    assert_eq!(heights.completed(), Some(at(990)));
    let mut unknown = Heights::default();
    let _ = tell(&mut unknown, ChainReport::Completed(at(7)));
    assert_eq!(unknown.completed(), None);
}

#[test]
fn a_persister_bounds_what_is_safe_from_its_first_report_on() {
    let mut heights = known(100);
    assert_eq!((heights.safe(false), heights.safe(true)), (Some(at(100)), None));
    assert_eq!(tell(&mut heights, ChainReport::Persisted(at(95))), Taken::Believed);
    assert_eq!(heights.safe(false), Some(at(95)), "the example: 95 of 100");
    let far = tell(&mut heights, ChainReport::Persisted(at(4_000)));
    assert_eq!(far, Taken::Held { height: at(4_000), newest: Some(at(100)) });
    assert_eq!(heights.safe(false), Some(at(95)), "nobody has written what is not there");
    let _ = tell(&mut heights, ChainReport::Reorganised(at(90)));
    assert_eq!(heights.safe(false), Some(at(90)));
    let _ = tell(&mut heights, ChainReport::NoPersister);
    assert!(!heights.has_persister());

    let mut alone = Heights::default();
    assert_ne!(tell(&mut alone, ChainReport::Persisted(at(5_000))), Taken::Believed);
    assert_eq!(alone.safe(false), None, "there is one, and it has reached nothing");
    assert_eq!(tell(&mut alone, ChainReport::Persisted(at(5_001))), Taken::Believed);
    assert_eq!(alone.safe(false), Some(at(5_001)));
}

#[test]
fn what_a_persister_takes_back_is_no_second_witness() {
    for (by, report) in [
        ("a lower height", ChainReport::Persisted(at(95))),
        ("the newest height", ChainReport::Persisted(at(100))),
        ("the next height", ChainReport::Persisted(at(101))),
        ("an operator", ChainReport::NoPersister),
    ] {
        let mut heights = known(100);
        assert_ne!(tell(&mut heights, ChainReport::Persisted(at(1_000_000))), Taken::Believed);
        assert_eq!(tell(&mut heights, report), Taken::Believed, "{by}");
        assert_eq!(heights.held(), None, "{by}");
        assert!(!see(&mut heights, Witness::Block, 1_000_000), "{by}");
        assert!(heights.newest() <= Some(at(101)), "{by}");
    }
    let mut heights = known(100);
    assert!(!see(&mut heights, Witness::Block, 1_000_000));
    assert_eq!(tell(&mut heights, ChainReport::Persisted(at(95))), Taken::Believed);
    assert!(heights.held().is_some(), "a persister takes back nothing of a node");
}

#[test]
fn claims_far_above_the_chain_have_reached_nothing() {
    let heights = known(1_000);
    for (claim, has_reached) in [(999, false), (1_000, true), (1_144, true), (1_145, false)] {
        let mut heights = heights;
        let _ = tell(&mut heights, ChainReport::MinedSet(at(claim)));
        let is_running = true;
        let _ =
            tell(&mut heights, ChainReport::Assembly(Assembly { is_running, height: at(claim) }));
        assert_eq!(marks_allow(&heights, false), has_reached, "{claim}");
        assert_eq!(assembly_allows(&heights, false), has_reached, "{claim}");
    }
}

#[test]
fn what_was_said_before_a_restart_opens_nothing_until_it_is_said_again() {
    let mut heights = known(1_000);
    let _ = tell(&mut heights, ChainReport::Restarted);
    assert_eq!(heights, known(1_000), "a node that reports nothing is not waited for");
    let running = ChainReport::Assembly(Assembly { is_running: true, height: at(1_000) });
    let (marks, caught_up) = (ChainReport::MinedSet(at(1_000)), ChainReport::CatchingUp(false));
    let allowed = |heights: &Heights| {
        let marks = marks_allow(heights, false);
        (marks, assembly_allows(heights, false), !heights.may_catch_up(None))
    };
    for report in [running, marks, caught_up] {
        let _ = tell(&mut heights, report);
    }
    assert_eq!(allowed(&heights), (true, true, true));
    let before = heights;
    let _ = tell(&mut heights, ChainReport::Restarted);
    assert_eq!(allowed(&heights), (false, false, false));
    assert_eq!(heights.assembly(), before.assembly(), "it is still shown");
    assert_eq!(heights.not_said_again(None).len(), 3);
    assert_eq!(heights.safe(false), before.safe(false), "blocks are not of the moment");
    assert_eq!(Heights::decode(&heights.encode()), Ok(heights), "in another process too");
    let _ = tell(&mut heights, ChainReport::Reorganised(at(999)));
    assert_eq!(allowed(&heights), (false, false, false), "nobody said it again");
    see(&mut heights, Witness::Block, 1_000);
    for (report, expected) in [
        (running, (false, true, false)),
        (marks, (true, true, false)),
        (caught_up, (true, true, true)),
    ] {
        let _ = tell(&mut heights, report);
        assert_eq!(allowed(&heights), expected);
    }
    let _ = tell(&mut heights, ChainReport::Restarted);
    let _ = tell(&mut heights, ChainReport::NoNodeState);
    assert_eq!(allowed(&heights), (true, true, true), "an operator says that it never will");
    assert!(!marks_allow(&heights, true), "unless the settings ask for it");
    assert!(!assembly_allows(&heights, true));
}

#[test]
fn bytes_are_pinned_and_come_back() {
    let mut heights = known(300);
    assert_eq!(heights.encode(), [0xa2, 0, 0x82, 0x19, 1, 0x2c, 0, 8, 1]);
    see(&mut heights, Witness::Log, 70_000);
    for report in [
        ChainReport::Persisted(at(290)),
        ChainReport::MinedSet(at(300)),
        ChainReport::Assembly(Assembly { is_running: true, height: at(299) }),
        ChainReport::CatchingUp(false),
        ChainReport::Completed(at(288)),
    ] {
        let _ = heights.take(report, Some(1_700_000_000_000), JUMP);
    }
    let bytes = heights.encode();
    assert_eq!(Heights::decode(&bytes), Ok(heights));
    assert_eq!(Heights::decode(&Heights::default().encode()), Ok(Heights::default()));
    for cut in 0..bytes.len() {
        assert!(Heights::decode(&bytes[..cut]).is_err(), "{cut}");
    }
    let mut restarted = heights;
    let _ = restarted.take(ChainReport::Restarted, None, JUMP);
    let counted = [10, 0x83, 1, 1, 1, 11, 0x83, 1, 1, 1];
    assert!(restarted.encode().ends_with(&counted), "each claim of the moment was made once");
    assert_eq!(Heights::decode(&restarted.encode()), Ok(restarted));
    for wrong in [
        &[0xa1, 12, 1][..],
        &[0xa1, 10, 0x82, 1, 1],
        &[0xa1, 9, 8],
        &[0xa1, 0, 0x82, 1, 9],
        &[0xa1, 0, 0x81, 1],
    ] {
        assert!(Heights::decode(wrong).is_err());
    }
}

#[test]
fn the_start_of_one_service_closes_only_its_own_gate() {
    let mut heights = known(1_000);
    let marks = ChainReport::MinedSet(at(1_000));
    let first = heights.said();
    let _ = tell(&mut heights, ChainReport::Restarted);
    let _ = tell(&mut heights, marks);
    let second = heights.said();
    let _ = tell(&mut heights, ChainReport::Restarted);
    let is_open = |heights: &Heights, since| {
        heights.marks_gap(at(1_000), &GateRules { since, ..rules(false) }).is_none()
    };
    assert!(is_open(&heights, Some(first)), "it heard the node itself");
    assert!(!is_open(&heights, Some(second)) && !is_open(&heights, None));
    let _ = tell(&mut heights, marks);
    assert!(is_open(&heights, Some(first)) && is_open(&heights, Some(second)));
}

#[test]
fn what_format_2_said_of_the_last_start_is_understood() {
    // Newest 5 by a block, marks 5, block assembly running at 5; the marks are from before a start.
    let bytes = [0xa4, 0, 0x82, 5, 0, 4, 5, 5, 0x82, 0xf5, 5, 9, 1];
    let heights = Heights::decode(&bytes).unwrap();
    assert_eq!(heights.not_said_again(None), ["its marks (mined_set_height)"]);
    assert_eq!(Heights::decode(&heights.encode()), Ok(heights));
    assert!(Heights::decode(&[0xa1, 9, 8]).is_err(), "four claims");
}
