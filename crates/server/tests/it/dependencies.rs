//! The policy for dependencies in `deny.toml`, as far as it can be checked without a network:
//! licences, sources and versions. Advisories are checked by `cargo deny check advisories`.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::Value;
use toml::Table;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn run(program: &str, args: &[&str]) -> Vec<u8> {
    let named = std::env::var_os(program.to_uppercase());
    let mut command = Command::new(named.unwrap_or_else(|| program.into()));
    let output = command.args(args).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Every package that this platform builds, with all features. Those of other platforms are not
/// downloaded, and so tell nothing about their licences.
fn packages() -> Vec<Value> {
    let about = String::from_utf8(run("rustc", &["-vV"])).unwrap();
    let platform = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let args = ["metadata", "--format-version", "1", "--all-features", "--locked", "--offline"];
    let args = [&args[..], &["--filter-platform", platform]].concat();
    let metadata: Value = serde_json::from_slice(&run("cargo", &args)).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn table(file: &str) -> Table {
    std::fs::read_to_string(root().join(file)).unwrap().parse().unwrap()
}

fn policy() -> Table {
    table("deny.toml")
}

fn allowed_licences() -> BTreeSet<String> {
    let policy = policy();
    let allowed = policy["licenses"]["allow"].as_array().unwrap().iter();
    allowed.map(|licence| licence.as_str().unwrap().to_owned()).collect()
}

/// Whether a licence expression (SPDX, or the old form with a slash) can be met with allowed licences.
/// `None` when it is no expression.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> Option<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (met, rest) = any_of(&words, allowed)?;
    rest.is_empty().then_some(met)
}

type Parsed<'a> = Option<(bool, &'a [&'a str])>;

fn any_of<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> Parsed<'a> {
    let (mut met, mut words) = all_of(words, allowed)?;
    while let Some((&"OR", rest)) = words.split_first() {
        let (other, rest) = all_of(rest, allowed)?;
        (met, words) = (met | other, rest);
    }
    Some((met, words))
}

fn all_of<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> Parsed<'a> {
    let (mut met, mut words) = one_of(words, allowed)?;
    while let Some((&"AND", rest)) = words.split_first() {
        let (other, rest) = one_of(rest, allowed)?;
        (met, words) = (met & other, rest);
    }
    Some((met, words))
}

fn one_of<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> Parsed<'a> {
    match words {
        ["(", rest @ ..] => match any_of(rest, allowed)? {
            (met, [")", rest @ ..]) => Some((met, rest)),
            _ => None,
        },
        [")" | "OR" | "AND" | "WITH", ..] | [] => None,
        [licence, "WITH", exception, rest @ ..] => {
            Some((allowed.contains(&format!("{licence} WITH {exception}")), rest))
        }
        [licence, rest @ ..] => Some((allowed.contains(*licence), rest)),
    }
}

#[test]
fn every_dependency_has_a_licence_that_the_policy_allows() {
    let allowed = allowed_licences();
    let packages = packages();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in &packages {
        let licence = package["license"].as_str().unwrap_or("");
        let (name, version) = (&package["name"], &package["version"]);
        assert_eq!(is_met(licence, &allowed), Some(true), "{name} {version}: {licence:?}");
    }
}

#[test]
fn every_dependency_comes_from_the_registry_in_a_version_that_is_named() {
    let policy = policy();
    assert_eq!(policy["sources"]["unknown-registry"].as_str(), Some("deny"));
    assert_eq!(policy["sources"]["unknown-git"].as_str(), Some("deny"));
    assert_eq!(policy["bans"]["wildcards"].as_str(), Some("deny"));
    // Of all platforms. Ours are those without a source; all others come from one registry.
    let lock = table("Cargo.lock");
    let locked = lock["package"].as_array().unwrap().iter();
    let sources: BTreeSet<&str> =
        locked.filter_map(|package| package.get("source")?.as_str()).collect();
    assert_eq!(sources.len(), 1, "{sources:?}");
    assert!(sources.iter().all(|source| source.starts_with("registry+https://")), "{sources:?}");
    for package in packages() {
        let (name, source) = (&package["name"], &package["source"]);
        // What theirs ask for is theirs to say.
        for dependency in package["dependencies"].as_array().unwrap() {
            let is_ours = source.is_null() && dependency["path"].is_null();
            assert!(!is_ours || dependency["req"] != "*", "{name}: {dependency}");
        }
    }
}

#[test]
fn a_licence_expression_is_met_by_one_side_of_or_and_both_sides_of_and() {
    let allowed: BTreeSet<String> =
        ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for met in ["MIT", "MIT/GPL-3.0", "GPL-3.0 OR MIT", "(GPL-3.0 OR MIT) AND ISC"] {
        assert_eq!(is_met(met, &allowed), Some(true), "{met}");
    }
    assert_eq!(is_met("Apache-2.0 WITH LLVM-exception OR GPL-3.0", &allowed), Some(true));
    for unmet in ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "MIT WITH LLVM-exception"] {
        assert_eq!(is_met(unmet, &allowed), Some(false), "{unmet}");
    }
    for broken in ["", "MIT OR", "(MIT", "MIT MIT", "AND"] {
        assert_eq!(is_met(broken, &allowed), None, "{broken}");
    }
}

/// Names of all that is compiled for a library with these features, tests left out.
fn compiled_for(library: &str, features: &str) -> BTreeSet<String> {
    let tree = ["tree", "--locked", "--offline", "--edges", "normal,build", "--prefix", "none"];
    let asked = ["-p", library, "--no-default-features", "--features", features];
    let listed = String::from_utf8(run("cargo", &[&tree[..], &asked].concat())).unwrap();
    listed.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn one_engine_is_compiled_without_the_others() {
    let engines = [
        ("rocksdb", "librocksdb-sys"),
        ("sqlite", "rusqlite"),
        ("postgres", "tokio-postgres"),
        ("s3", "reqwest"),
    ];
    let libraries = [
        ("utxokeep-kv", &engines[..1]),
        ("utxokeep-index", &engines[..1]),
        ("utxokeep-sql", &engines[1..3]),
        ("utxokeep-wallet", &engines[1..3]),
        ("utxokeep-txstore", &engines[..]),
    ];
    for (library, has) in libraries {
        for (feature, driver) in has {
            let compiled = compiled_for(library, feature);
            let drivers: Vec<_> =
                engines.iter().filter(|(_, driver)| compiled.contains(*driver)).collect();
            assert_eq!(drivers, [&(*feature, *driver)], "{library} with {feature}");
        }
    }
}
