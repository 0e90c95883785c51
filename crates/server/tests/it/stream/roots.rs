//! The root of the Merkle mountain range in the stream.

use std::collections::BTreeMap;

use super::{
    CLIENTS,
    client::{Client, Told},
    served::{Dice, Limits, World},
};

/// Whoever carries an event out that ends a block can compare the set with the root in it.
#[test]
fn an_event_that_ends_a_block_has_the_root_of_the_set_behind_it() {
    let mut dice = Dice(5);
    let limits = Limits { event_outputs_max: 3, has_mmr: true, ..Limits::default() };
    let mut world = World::new(13, 25, limits);
    world.mine();
    let mut clients: Vec<Client> =
        CLIENTS.map(|(face, is_filtered)| Client::new(face, is_filtered, 0)).into();
    clients.iter_mut().for_each(Client::record);
    let mut roots = BTreeMap::from([(world.tip(), world.mmr())]);
    for _ in 0..200 {
        world.mine();
        roots.insert(world.tip(), world.mmr());
        for client in &mut clients {
            if dice.roll(3) > 0 {
                client.read_to_tip(&world);
            }
        }
    }
    for (client, (_, is_filtered)) in clients.iter_mut().zip(CLIENTS) {
        client.read_to_tip(&world);
        let is_of_block = |told: &&Told| told.name == "apply" || told.name == "undo";
        let told: Vec<&Told> = client.recorded().iter().filter(is_of_block).collect();
        let (mut applied, mut undone, mut parts) = (0, 0, 0);
        for (at, event) in told.iter().enumerate() {
            if !event.is_last {
                assert_eq!(event.mmr, None, "the set is that of no block");
                parts += 1;
                continue;
            }
            let Some(root) = &event.mmr else {
                // The block below has left as well, and is undone next.
                let is_followed = told.get(at + 1).is_some_and(|next| next.name == "undo");
                assert!(event.name == "undo" && (is_filtered || is_followed), "{event:?}");
                continue;
            };
            // What the writer said when the block was the tip, if it ever was.
            if let Some(expected) = roots.get(&event.cursor) {
                assert_eq!(root, expected, "{event:?}");
                applied += u32::from(event.name == "apply");
                undone += u32::from(event.name == "undo");
            }
        }
        // What is not watched is not told.
        let (least_applied, least_undone) = if is_filtered { (15, 0) } else { (80, 3) };
        assert!(applied >= least_applied && undone >= least_undone, "{applied} {undone}");
        assert!(is_filtered || parts > 10, "{parts}");
    }
}

#[test]
fn a_database_without_a_range_tells_no_root() {
    let mut world = World::new(14, 0, Limits::default());
    for _ in 0..10 {
        world.mine();
    }
    for (face, is_filtered) in CLIENTS {
        let mut client = Client::new(face, is_filtered, 0);
        client.record();
        client.read_to_tip(&world);
        assert!(client.recorded().iter().all(|told| told.mmr.is_none()));
    }
}
