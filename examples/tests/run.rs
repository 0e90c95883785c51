//! Every example is run, and says what its page says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{path::Path, process::Command};

const BLOCKS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/testkit/data/regtest-a/blocks.dat.xz");
const OWNER: &str = "bcrt1pfeesnyr2tx";

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_index_lists_what_an_owner_has_and_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("chain");
    let args = [BLOCKS, text(&data), OWNER];
    let first = said(env!("CARGO_BIN_EXE_example-index"), &args);
    let (_, first) = first.split_once('\n').unwrap();
    assert!(first.lines().count() > 0 && first.contains(':'), "{first}");
    let again = said(env!("CARGO_BIN_EXE_example-index"), &args);
    let (_, again) = again.split_once('\n').unwrap();
    assert_eq!(first, again);
}

#[test]
fn the_wallet_has_what_the_index_lists() {
    let dir = tempfile::tempdir().unwrap();
    let chain = dir.path().join("chain");
    let listed = said(env!("CARGO_BIN_EXE_example-index"), &[BLOCKS, text(&chain), OWNER]);
    let amounts = listed.lines().skip(1).map(|line| line.rsplit_once(' ').unwrap().1);
    let sum: u64 = amounts.map(|amount| amount.parse::<u64>().unwrap()).sum();
    let told = said(env!("CARGO_BIN_EXE_example-wallet"), &[BLOCKS, text(dir.path()), OWNER]);
    assert!(told.starts_with(&format!("confirmed {sum} at height ")), "{told} {listed}");
}

#[test]
fn the_node_store_lets_one_of_two_spend() {
    let dir = tempfile::tempdir().unwrap();
    for place in ["rocksdb:", "sqlite:"] {
        let url = format!("{place}{}", dir.path().join(place.trim_end_matches(':')).display());
        let told = said(env!("CARGO_BIN_EXE_example-node-store"), &[&url]);
        assert!(told.contains("2 spends the output") && told.contains("3 is refused: "), "{told}");
    }
}
