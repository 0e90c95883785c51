//! Proofs of the program, checked by a verifier in another language that has only the page.

use super::{proofs::changed, *};

/// The verifier on a file; `None` without Python, where `UTXOKEEP_REQUIRE_PYTHON` does not say that
/// there has to be one.
pub(super) fn verifier(user: &User, args: &[&str]) -> Option<Output> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/mmr_check.py");
    let run = Command::new("python3").arg(script).args(args).current_dir(user.home.path()).output();
    match run {
        Ok(output) => Some(output),
        Err(error) => {
            let is_required = std::env::var_os("UTXOKEEP_REQUIRE_PYTHON").is_some();
            assert!(!is_required, "python3 is required: {error}");
            #[allow(clippy::print_stderr, reason = "a skipped test has to say so")]
            {
                eprintln!(
                    "skipped: there is no python3; UTXOKEEP_REQUIRE_PYTHON=1 makes this fail"
                );
            }
            None
        }
    }
}

#[test]
fn a_second_verifier_takes_the_programs_proofs_and_refuses_forged_ones() {
    let user = User::with_chain(MMR);
    let root = user.root()["root"].as_str().unwrap().to_owned();
    user.prove(LIVE, "live.json", &[]);
    user.prove(SPENT, "spent.json", &[]);
    user.prove(LIVE, "earlier.json", &["--at", "299"]);
    user.prove(LIVE, "live.cbor", &["--format", "cbor"]);
    user.prove(SPENT, "spent.cbor", &["--format", "cbor"]);
    for name in ["live.json", "spent.json", "earlier.json", "live.cbor", "spent.cbor"] {
        let Some(output) = verifier(&user, &[name]) else { return };
        assert!(output.status.success(), "{name}: {}", told(&output));
    }
    for name in ["live.json", "live.cbor"] {
        let taken = verifier(&user, &["--root", &root, name]).unwrap();
        assert!(taken.status.success(), "{}", told(&taken));
        let other = verifier(&user, &["--root", &"0".repeat(64), name]).unwrap();
        assert_eq!(other.status.code(), Some(1), "{}", told(&other));
    }
    let good: Value = serde_json::from_slice(&fs::read(user.path("live.json")).unwrap()).unwrap();
    for (field, value) in good.as_object().unwrap() {
        // No hash commits to network, height and block.
        if ["network", "height", "block_hash"].contains(&field.as_str()) {
            continue;
        }
        let mut forged = good.clone();
        forged[field] = changed(value);
        fs::write(user.path("forged.json"), forged.to_string()).unwrap();
        let output = verifier(&user, &["--root", &root, "forged.json"]).unwrap();
        assert_eq!(output.status.code(), Some(1), "{field}: {}", told(&output));
    }
    let bytes = fs::read(user.path("live.cbor")).unwrap();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(user.path(&format!("flipped-{at}.cbor")), flipped).unwrap();
    }
    // One run for all of them: each is refused, or differs in what no hash commits to.
    let names: Vec<String> = (0..bytes.len()).map(|at| format!("flipped-{at}.cbor")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let args = [&["--keep-going", "--root", &root], names.as_slice()].concat();
    let output = verifier(&user, &args).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let taken = said.lines().filter(|line| line.contains(": ok")).count();
    // Height (one or two bytes), block hash (32) and the letters of the network are not bound.
    assert!(taken < 32 + 2 + "bitcoin/regtest".len(), "{taken}: {said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(verifier(&user, &["--self-test"]).unwrap().status.success());
}
