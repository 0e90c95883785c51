//! `chain mmr enable` and `disable`: the same root as an import, wherever the pass is cut.

use std::{process::Stdio, thread, time::Duration};

use super::*;

#[test]
fn the_root_is_the_same_however_the_tree_came_to_be() {
    for config in [MMR, UTREEXO] {
        let imported = User::with_chain(config);
        let expected = imported.root();
        let block_by_block = User::new();
        block_by_block.configure(config);
        block_by_block.import(&["--no-bulk"]);
        assert_eq!(block_by_block.root(), expected);

        let enabled = User::with_chain("");
        let rule = if config == MMR { "tombstone" } else { "utreexo" };
        let built = enabled.json(&["chain", "mmr", "enable", "--rule", rule, &blocks()]);
        assert_eq!(built["built"], true);
        assert_eq!(built["mmr"]["root"], expected["root"]);
        assert_eq!(enabled.root(), expected);
        assert_eq!(enabled.root_at(280), imported.root_at(280));
        assert_eq!(enabled.json(&["chain", "verify"])["clean"], true);
        // It goes on like any other.
        enabled.done(&["chain", "rollback", "200"]);
        enabled.import(&[]);
        assert_eq!(enabled.root(), expected);
    }
}

#[test]
fn a_pass_that_needs_blocks_says_so_before_it_changes_anything() {
    let user = User::with_chain("");
    let error = user.refused(4, &["chain", "mmr", "enable"]);
    assert!(error.contains("the blocks from height 1 to 12 are needed"), "{error}");
    assert!(error.contains("behind `chain mmr enable`; nothing was changed"), "{error}");
    assert_eq!(user.json(&["chain", "status"]).get("mmr_build_next_height"), None);
}

/// Undo data for every block: nothing has to be read again.
#[test]
fn a_pass_over_undo_data_alone_needs_no_blocks() {
    let user = User::new();
    user.configure("[index]\nrollback_window_blocks = 1000\n");
    user.import(&["--no-bulk"]);
    let built = user.json(&["chain", "mmr", "enable"]);
    let expected = User::with_chain(MMR).root();
    assert_eq!(built["mmr"]["root"], expected["root"]);
}

#[test]
fn enabling_twice_and_disabling_twice_say_what_is_there() {
    let user = User::with_chain(MMR);
    let error = user.refused(4, &["chain", "mmr", "enable", &blocks()]);
    assert!(
        error.contains("keeps a Merkle mountain range already; nothing was changed"),
        "{error}"
    );
    let output = user.run(&["chain", "mmr", "disable"]);
    assert!(told(&output).contains("the configuration says [index] store = \"mmr\""));
    user.configure("");
    assert_eq!(user.json(&["chain", "mmr", "disable"])["dropped"], false);
    let status = user.json(&["chain", "status"]);
    assert_eq!((&status["store"], status.get("mmr")), (&"classic".into(), None));
    let tables = status["tables"].as_array().unwrap();
    assert!(tables.iter().all(|table| !table["name"].as_str().unwrap().contains("mmr")));
    assert_eq!(user.json(&["chain", "verify"])["clean"], true);

    user.configure("[index]\nstore = \"classic\"\n");
    let error = user.refused(4, &["chain", "mmr", "enable", &blocks()]);
    assert!(error.contains("say \"mmr\" or take the setting out first"), "{error}");
    user.configure(UTREEXO);
    let both = ["chain", "mmr", "enable", "--rule", "tombstone", &blocks()];
    assert!(user.refused(2, &both).contains("contradicts [index] mmr_rule"), "two rules");
}

/// Starts a pass and ends it after a while, as often as it takes until one ends by itself.
fn cut_until_done(signal: &str, expected: &Value) -> u32 {
    let user = User::with_chain("");
    let (mut cuts, mut stopped, mut resumed) = (0, 0, 0);
    for attempt in 1.. {
        let mut enable = user.command(&["chain", "mmr", "enable", &blocks()]);
        let child = enable.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(40 * attempt));
        let id = child.id().to_string();
        Command::new("kill").args(["-s", signal, &id]).stderr(Stdio::null()).status().unwrap();
        let output = child.wait_with_output().unwrap();
        resumed += u32::from(told(&output).contains("resuming at height"));
        if output.status.success() {
            break;
        }
        cuts += 1;
        // A signal that comes before the program listens for it ends it at once, without a code.
        let code = output.status.code();
        let is_expected = code.is_none() || (signal == "INT" && code == Some(130));
        assert!(is_expected, "{code:?}: {}", told(&output));
        stopped += u32::from(code == Some(130));
        // In between it is a database like any other.
        let status = user.json(&["chain", "status"]);
        assert_eq!(status["height"], 300);
        if status["store"] == "mmr" {
            // The signal came behind the last commit.
            break;
        }
        assert_eq!(status["store"], "classic");
    }
    assert_eq!(user.root()["root"], expected["root"], "{signal}");
    assert_eq!(user.json(&["chain", "verify"])["clean"], true);
    // What a pass had done when it was asked to stop is not done again.
    assert!(stopped == 0 || resumed > 0, "{stopped} stops, {resumed} resumed");
    cuts
}

#[test]
fn ctrl_c_and_kill_9_at_any_moment_leave_a_pass_that_resumes() {
    let expected = User::with_chain(MMR).root();
    let counts = ["INT", "KILL"].map(|signal| cut_until_done(signal, &expected));
    assert!(counts.iter().all(|cuts| *cuts > 0), "{counts:?}");
}
