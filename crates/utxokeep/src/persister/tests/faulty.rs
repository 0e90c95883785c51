//! A place that fails for a while: attempts are bounded, nothing is lost, the watermark stays.

use std::fs;

use super::*;

#[test]
fn nothing_moves_while_files_cannot_be_written_and_all_is_there_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let mut world = World::new(SimulatorConfig::default());
    world.mine(3);
    let mut persister = world.persister(place.clone());
    run(&mut persister).unwrap();
    let before = place.watermark().unwrap();
    // A file where the folder must be: no file of a block can be written or read.
    let (folder, aside) = (dir.path().join("0000000"), dir.path().join("aside"));
    fs::rename(&folder, &aside).unwrap();
    fs::write(&folder, b"in the way").unwrap();
    world.mine(20);
    for _ in 0..3 {
        let error = run(&mut world.persister(place.clone())).unwrap_err();
        assert!(matches!(error, PersisterError::Store { .. }), "{error}");
        assert!(error.to_string().contains("(3 attempts)"), "{error}");
        assert_eq!(place.watermark().unwrap(), before);
        assert_eq!(world.index.reached(NAME).unwrap(), before.unwrap().block.map(|(at, _)| at));
    }
    fs::remove_file(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    run(&mut world.persister(place.clone())).unwrap();
    is_sound(&world.index, &place);
    assert_eq!(digest(&rebuilt(&place)), world.digest());
}

/// A planted mistake: a watermark that moves before the files are there is what `verify` is for.
#[test]
fn a_watermark_ahead_of_its_files_is_caught() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let calm = SimulatorConfig { reorg_percent: 0, ..SimulatorConfig::default() };
    let mut world = World::new(calm);
    world.mine(5);
    run(&mut world.persister(place.clone())).unwrap();
    world.mine(2);
    place.put_watermark(Some(world.tip())).1.unwrap();
    let report = verify(&world.index, &place, Height::GENESIS, &mut |_, _| true).unwrap();
    assert_eq!(report.faults_total, 2);
    let error = PersistedList::open(place, Height::GENESIS, 4, &mut |_| true).unwrap_err();
    assert!(matches!(error, PersisterError::Missing { .. }), "{error}");
}
