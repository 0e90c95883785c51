//! A disk that is full while a node is followed: reads go on, health says so, and following resumes
//! by itself when there is room.

use std::{
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
    process::Command,
};

use utxokeep_testkit::bitcoind::Bitcoind;

use super::{
    mine_spend,
    program::{config_of, get, source_of, wait_for_node},
};
use crate::{
    grpc::disk::{APART, may_mount},
    program::{Serving, until, utxokeep},
};

/// Outputs of a block, so that a few blocks fill what RocksDB has reserved.
const OUTPUTS: u64 = 6_000;

#[test]
fn a_full_disk_is_waited_out_while_a_node_is_followed() {
    let Some(node) = Bitcoind::start_or_skip(&["-rest"]) else { return };
    if !may_mount() {
        return;
    }
    node.generate(140);
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small");
    fs::create_dir(&small).unwrap();
    let more = "[storage]\ncache_mib = 16\n[index]\nmuhash = true\n";
    let config = config_of(dir.path(), &source_of(&node), more);
    let data = small.join("data");
    let program = utxokeep(&["serve", "--listen", "127.0.0.1:0", "--config"]);
    let mount = "mount -t tmpfs -o size=64m tmpfs \"$0\" && exec \"$@\"";
    let mut command = Command::new(APART[0]);
    command.args([APART[1], "sh", "-c", mount]).arg(&small);
    command.arg(program.get_program()).args(program.get_args());
    command.arg(&config).arg("--data").arg(&data);
    let program = Serving::start(command);
    wait_for_node(&program, &node);
    assert!(program.get("/health").contains(" 200 OK"));

    // The file system is to be seen only from inside the program.
    let inside = PathBuf::from(format!("/proc/{}/root", program.id()));
    let filler = inside.join(small.strip_prefix("/").unwrap()).join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[1; 4_096]).is_ok() {}
    let is_full = |answer: &str| answer.contains("the disk is full");
    for at in 0..30 {
        if is_full(&program.body("/health")) {
            break;
        }
        mine_spend(&node, 1 + at, OUTPUTS);
    }
    program.wait_for("/health", |answer| {
        answer.contains(" 503 ") && is_full(answer) && answer.contains("cannot be kept")
    });
    let stands = get(&program, "/api/v1/status");
    assert!(stands["height"].as_u64().unwrap() < node.height(), "{stands}");
    assert!(is_full(stands["source"]["fault"].as_str().unwrap_or_default()), "{stands}");
    // A fork while nothing can be kept, and reads all the while.
    node.invalidate_from(node.height() - 1);
    node.generate(4);
    let digest = get(&program, "/api/v1/chain/digest");
    assert_eq!(digest["point"]["hash"], stands["best_hash"], "{digest} {stands}");

    drop(file);
    fs::remove_file(&filler).unwrap();
    wait_for_node(&program, &node);
    until("health", || program.get("/health").contains(" 200 OK"));
    assert!(program.log().contains("the chain index takes no writes"), "{}", program.log());
    node.generate(1);
    wait_for_node(&program, &node);
    let output = program.stop();
    assert!(!output.contains("panicked"), "{output}");
}
