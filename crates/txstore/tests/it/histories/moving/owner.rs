//! A source takes its marks from the move that they name, and from no other.

use super::*;

fn on_records() -> Place {
    Place::Records(Arc::new(MemoryRecords::new()))
}

/// A store in use, and half a copy of it that a move without retirement left at another place.
struct World {
    seed: u64,
    source: Place,
    running: NodeStore,
    history: History,
    left: Place,
}

impl World {
    fn new(seed: u64) -> Self {
        let (source, left) = (on_records(), on_records());
        let running = source.open(settings(seed)).unwrap();
        let mut history = History::new(seed);
        history.go(&running, 120, "source");
        let (opened, half) = (source.open_for_move(seed), left.open_for_move(seed));
        let stopped = move_until(&opened, &half, &Self::elsewhere(), 1).unwrap_err();
        assert!(matches!(stopped, MoveError::Stopped));
        Self { seed, source, running, history, left }
    }

    /// The move that was left.
    fn elsewhere() -> MoveOptions {
        MoveOptions { to: "elsewhere".to_owned(), ..options(5) }
    }

    fn retiring() -> MoveOptions {
        MoveOptions { retires_source: true, ..options(5) }
    }

    fn abandon_what_was_left(&self) -> Result<bool, MoveError> {
        let (opened, half) =
            (self.source.open_for_move(self.seed), self.left.open_for_move(self.seed));
        abandon_move(&opened, &half, &Self::elsewhere())
    }

    fn is_retired(&self) -> bool {
        matches!(
            self.source.open(settings(self.seed)),
            Err(StoreOpenError::MovedAway { ref to }) if to == "target"
        )
    }
}

#[test]
fn giving_up_a_copy_that_was_left_keeps_the_list_of_a_move_that_goes_on() {
    let mut world = World::new(3_610);
    let target = on_records();
    let (opened, half) = (world.source.open_for_move(world.seed), target.open_for_move(world.seed));
    let (mut refused, mut written) = (0, 0);
    let mut watch = |now: &MoveProgress| {
        if !now.is_retired {
            let (from, left) =
                (world.source.open_for_move(world.seed), world.left.open_for_move(world.seed));
            let error = abandon_move(&from, &left, &World::elsewhere()).unwrap_err();
            assert!(
                matches!(error, MoveError::OtherTarget { ref to } if to == "target"),
                "{error}"
            );
            refused += 1;
            world.history.go(&world.running, 3, "source");
            written += 1;
        }
        true
    };
    move_store(&opened, &half, &World::retiring(), &mut watch).unwrap();
    assert!(refused > 3 && written > 3, "{refused} {written}");
    drop(half);
    world.history.look(&target.open(settings(world.seed)).unwrap(), "target");
    assert!(world.is_retired());
}

#[test]
fn giving_up_a_copy_that_was_left_does_not_reopen_a_source_that_was_moved() {
    let world = World::new(3_620);
    let target = on_records();
    let (opened, half) = (world.source.open_for_move(world.seed), target.open_for_move(world.seed));
    let mut watch = |now: &MoveProgress| !now.is_retired;
    let stopped = move_store(&opened, &half, &World::retiring(), &mut watch).unwrap_err();
    assert!(matches!(stopped, MoveError::Stopped));
    let moved_to_target =
        |error: &MoveError| matches!(error, MoveError::MovedAway { to } if to == "target");
    let refused = world.abandon_what_was_left().unwrap_err();
    assert!(moved_to_target(&refused) && world.is_retired(), "{refused}");
    move_until(&opened, &half, &World::retiring(), u64::MAX).unwrap();
    let refused = world.abandon_what_was_left().unwrap_err();
    assert!(moved_to_target(&refused) && world.is_retired(), "{refused}");
    drop(half);
    world.history.look(&target.open(settings(world.seed)).unwrap(), "target");
}

#[test]
fn a_copy_that_was_left_is_given_up_where_no_other_move_was_begun() {
    let mut world = World::new(3_630);
    assert!(!world.abandon_what_was_left().unwrap());
    world.history.go(&world.running, 20, "source");
    world.history.look(&world.running, "source");
}

#[test]
fn a_move_that_is_given_up_while_it_goes_on_neither_retires_nor_ends() {
    for late in [false, true] {
        let mut world = World::new(3_640);
        let target = on_records();
        let (opened, half) =
            (world.source.open_for_move(world.seed), target.open_for_move(world.seed));
        let mut is_given_up = false;
        let mut watch = |now: &MoveProgress| {
            let is_time = if late { now.is_retired } else { now.is_following };
            if is_time && !is_given_up {
                is_given_up = true;
                let from = world.source.open_for_move(world.seed);
                let to = target.open_for_move(world.seed);
                assert_eq!(abandon_move(&from, &to, &World::retiring()).unwrap(), late);
                // No list names these.
                world.history.go(&world.running, 20, "source");
            }
            true
        };
        let refused = move_store(&opened, &half, &World::retiring(), &mut watch).unwrap_err();
        assert!(matches!(refused, MoveError::GivenUp), "late: {late}: {refused}");
        drop((opened, half));
        let half = target.open(settings(world.seed)).err();
        assert!(matches!(half, Some(StoreOpenError::HalfMoved { .. })), "{half:?}");
        assert!(!world.is_retired());
        world.history.go(&world.running, 20, "source");
        let (opened, half) =
            (world.source.open_for_move(world.seed), target.open_for_move(world.seed));
        move_until(&opened, &half, &World::retiring(), u64::MAX).unwrap();
        drop(half);
        world.history.look(&target.open(settings(world.seed)).unwrap(), "target");
    }
}

#[test]
fn a_source_is_retired_only_by_a_command_that_says_so() {
    let mut world = World::new(3_650);
    let target = on_records();
    let (opened, half) = (world.source.open_for_move(world.seed), target.open_for_move(world.seed));
    let stopped = move_until(&opened, &half, &World::retiring(), 2).unwrap_err();
    assert!(matches!(stopped, MoveError::Stopped));
    let refused = move_until(&opened, &half, &options(5), u64::MAX).unwrap_err();
    assert!(matches!(refused, MoveError::RetirementBegun), "{refused}");
    assert!(!world.is_retired());
    world.history.go(&world.running, 20, "source");

    // Half a copy at another place is finished beside the list, which it leaves alone.
    let left = world.left.open_for_move(world.seed);
    move_until(&opened, &left, &World::elsewhere(), u64::MAX).unwrap();
    drop(left);
    world.history.look(&world.left.open(settings(world.seed)).unwrap(), "the copy");
    assert!(!world.is_retired());

    let mut watch = |now: &MoveProgress| !now.is_retired;
    let stopped = move_store(&opened, &half, &World::retiring(), &mut watch).unwrap_err();
    assert!(matches!(stopped, MoveError::Stopped));
    let refused = move_until(&opened, &half, &options(5), u64::MAX).unwrap_err();
    assert!(matches!(refused, MoveError::RetirementBegun), "{refused}");
    move_until(&opened, &half, &World::retiring(), u64::MAX).unwrap();
    let done = move_until(&opened, &half, &options(5), u64::MAX).unwrap_err();
    assert!(matches!(done, MoveError::AlreadyMoved), "{done}");
    drop(half);
    world.history.look(&target.open(settings(world.seed)).unwrap(), "target");
}
