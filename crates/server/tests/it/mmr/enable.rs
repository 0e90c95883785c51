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
    assert!(error.contains("or --from-persisted URL, behind `chain mmr enable`"), "{error}");
    assert!(error.contains("nothing was changed"), "{error}");
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

/// A database whose pass found no block behind the first few; answers what it complained about.
fn without_some_blocks(rule: &str) -> (User, String) {
    let user = User::with_chain("");
    let whole = RegtestA::default().bytes("blocks.dat.xz");
    let mut end = 0;
    for _ in 0..6 {
        let len: [u8; 4] = whole[end + 4..end + 8].try_into().unwrap();
        // Behind four bytes of the network, its lowest byte first.
        end += 8 + len.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
    }
    fs::write(user.path("few.dat"), &whole[..end]).unwrap();
    let error = user.refused(4, &["chain", "mmr", "enable", "--rule", rule, "few.dat"]);
    (user, error)
}

#[test]
fn a_missing_block_is_named_with_what_to_do_and_the_pass_resumes_there() {
    let (user, error) = without_some_blocks("tombstone");
    let status = user.json(&["chain", "status"]);
    let next = status["mmr_build_next_height"].as_u64().unwrap();
    assert!((4..=12).contains(&next), "{next}");
    assert!(error.contains(&format!("at height {next} is in none of the sources")), "{error}");
    assert!(error.contains("the database works as before"), "{error}");
    assert!(error.contains(&format!("which resumes at height {next}")), "{error}");
    assert_eq!(status["store"], "classic");
    assert_eq!(status["mmr_build_holds_undo_above"], 12);
    let text = user.done(&["chain", "status"]);
    assert!(text.contains("undo data above height 12 is kept for it"), "{text}");
    let output = user.run(&["chain", "mmr", "enable", &blocks()]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(told(&output).contains(&format!("resuming at height {next}")), "{}", told(&output));
    assert_eq!(user.root(), User::with_chain(MMR).root());
    assert_eq!(user.json(&["chain", "status"]).get("mmr_build_holds_undo_above"), None);
}

#[test]
fn a_pass_keeps_its_rule_and_refuses_another() {
    let (user, _) = without_some_blocks("utreexo");
    let other = ["chain", "mmr", "enable", "--rule", "tombstone", &blocks()];
    let error = user.refused(4, &other);
    assert!(
        error.contains("with the rule utreexo, and is asked to go on with tombstone"),
        "{error}"
    );
    assert!(error.contains("`chain mmr enable --rule utreexo`"), "{error}");
    user.configure(MMR_OF_TOMBSTONES);
    let error = user.refused(4, &["chain", "mmr", "enable", &blocks()]);
    assert!(error.contains("nothing was changed"), "{error}");
    // Without a word about rules it goes on with its own.
    user.configure("");
    let built = user.json(&["chain", "mmr", "enable", &blocks()]);
    assert_eq!((&built["built"], &built["rule"]), (&true.into(), &"utreexo".into()));
    assert_eq!(user.root(), User::with_chain(UTREEXO).root());
    // What an interrupted pass has left can be dropped for another rule.
    let (user, _) = without_some_blocks("utreexo");
    assert_eq!(user.json(&["chain", "mmr", "disable"])["dropped"], true);
    assert_eq!(user.json(&other)["rule"], "tombstone");
}

/// The files of a block persister have every block.
#[test]
fn a_pass_reads_the_blocks_from_persisted_files() {
    let persisted = User::new();
    let place = format!("file:{}", persisted.path("files").display());
    persisted.configure(&format!(
        "[index]\nrollback_window_blocks = 1000\n[persister]\nenabled = true\nurl = \"{place}\"\n\
         blocks = \"{}\"\n",
        blocks()
    ));
    persisted.import(&["--no-bulk"]);
    let server = persisted.serve();
    server.wait_for_metric("utxokeep_persister_height", |height| height > 299.5);
    server.stop();

    let user = User::with_chain("");
    let enable = ["chain", "mmr", "enable", "--from-persisted", &place];
    let both = user.refused(2, &[&enable[..], &[&blocks()]].concat());
    assert!(both.contains("cannot be used with"), "{both}");
    let built = user.json(&enable);
    assert_eq!((&built["built"], &built["height"]), (&true.into(), &300.into()));
    assert_eq!(user.root(), User::with_chain(MMR).root());
    assert_eq!(user.json(&["chain", "verify"])["clean"], true);
    // Resumed: what it has been through is not read again.
    let (user, _) = without_some_blocks("tombstone");
    user.done(&enable);
    assert_eq!(user.root(), User::with_chain(MMR).root());
}

/// A node that cannot be reached is told; nothing else changes.
#[test]
fn a_pass_asks_the_configured_node_where_no_files_are_named() {
    let user = User::with_chain("");
    fs::write(user.path("cookie"), "__cookie__:aa").unwrap();
    user.configure(&format!(
        "[chain]\nsource = {{ kind = \"bitcoind\", url = \"http://127.0.0.1:1\", cookie_file = {:?} }}\n",
        user.path("cookie")
    ));
    let output = user.run(&["chain", "mmr", "enable"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("the node gave no block"), "{}", told(&output));
    assert_eq!(user.json(&["chain", "status"])["mmr_build_next_height"], 1);
    // Files that are named go before the node.
    user.done(&["chain", "mmr", "enable", &blocks()]);
    user.configure("");
    assert_eq!(user.root(), User::with_chain(MMR).root());
}

const MMR_OF_TOMBSTONES: &str = "[index]\nstore = \"mmr\"\nmmr_rule = \"tombstone\"\n";

/// The tip goes back during the pause, below blocks that the pass went through or above them.
#[test]
fn a_rollback_between_two_passes_is_noticed() {
    let (user, _) = without_some_blocks("tombstone");
    user.done(&["chain", "rollback", "200"]);
    let output = user.run(&["chain", "mmr", "enable", &blocks()]);
    assert!(output.status.success(), "{}", told(&output));
    let imported = User::with_chain(MMR);
    assert_eq!(user.root(), imported.root_at(200));
    user.import(&[]);
    assert_eq!(user.root(), imported.root());
}
