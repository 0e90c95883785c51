//! The example in Python against the program.

use std::process::Command;

use super::program::serve;
use crate::program::Serving;

/// An interpreter that has what the example needs. The one of the system is asked too: packages of
/// Debian are for that one. None where `UTXOKEEP_REQUIRE_PYTHON` says that there has to be one is a
/// failure.
fn python() -> Option<&'static str> {
    let runs = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    let has_packages = |python: &&str| runs(python, &["-c", "import grpc, google.protobuf"]);
    let python = ["python3", "/usr/bin/python3"].into_iter().find(has_packages);
    let python = python.filter(|_| runs("protoc", &["--version"]));
    if python.is_none() {
        let is_required = std::env::var_os("UTXOKEEP_REQUIRE_PYTHON").is_some();
        assert!(!is_required, "protoc and the Python packages grpcio and protobuf are required");
        #[allow(clippy::print_stderr, reason = "a skipped test has to say so")]
        {
            eprintln!("skipped: protoc or the Python packages grpcio and protobuf are missing");
        }
    }
    python
}

#[test]
fn the_example_in_python_creates_and_spends_once() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = Serving::start(serve(dir.path(), "[txstore]\nurl = \"memory:\"\n"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/grpc_client.py");
    let address = program.grpc().to_string();
    let output = Command::new(python).args([script, &address]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, "parent: ok\nfirst child: ok\nsecond child: error\n");
    program.stop();
}
