//! Public chain data that is too large to be part of the project.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{path::PathBuf, process::Command};

use tempfile::TempDir;

const VARIABLE: &str = "UTXOKEEP_TESTDATA";

/// A file or directory of the data; `None`, with a message, where there is none.
pub(crate) fn testdata(name: &str) -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os(VARIABLE).map_or(beside, PathBuf::from).join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {name} is not there; set {VARIABLE} to the directory that has it");
    None
}

/// The first epochs of the preview network, as the database directory of a node.
pub(crate) fn unpack_preview() -> Option<TempDir> {
    let archive = testdata("cardano/preview-immutable.tar.xz")?;
    let dir = TempDir::new().unwrap();
    let immutable = dir.path().join("immutable");
    std::fs::create_dir(&immutable).unwrap();
    let status = Command::new("tar")
        .args(["--strip-components=1", "-xJf"])
        .arg(archive)
        .arg("-C")
        .arg(immutable)
        .status()
        .unwrap();
    assert!(status.success(), "tar could not unpack the archive");
    Some(dir)
}
