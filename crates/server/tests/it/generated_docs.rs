//! Pages under `docs/` and the example configuration are made from the code. This compares them;
//! with `UTXOKEEP_BLESS=1` (`make docs`) it writes them.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use utxokeep::{config, meters};
use utxokeep_server::{cli, grpc, kinds, rest};
use utxokeep_sql::{RETRIES_METRIC, RETRIES_METRIC_HELP};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Compares a generated file with the one in the repository, or writes it.
fn check(file: &str, expected: &str) {
    let path = root().join(file);
    if std::env::var_os("UTXOKEEP_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, expected).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).position(|(found, made)| found != made);
    let line = differs.unwrap_or_else(|| found.lines().count().min(expected.lines().count()));
    assert!(
        found == expected,
        "{file} differs from the code from line {} on; run `make docs` and look at the change",
        line + 1
    );
}

/// Name, kind, Teranode's name, and meaning.
type Row = (&'static str, &'static str, &'static str, &'static str);

fn write_table(out: &mut String, title: &str, rows: impl Iterator<Item = Row>) {
    let _ =
        write!(out, "\n## {title}\n\n| name | kind | Teranode | meaning |\n|---|---|---|---|\n");
    for (name, kind, teranode, help) in rows {
        let _ = writeln!(out, "| `{name}` | {kind} | {teranode} | {help} |");
    }
}

fn metrics_page() -> String {
    let mut out = String::from(
        "# Metrics\n\n<!-- Generated from the lists of metrics in the code by `make docs`. -->\n\n\
         In the text format of Prometheus at `/metrics`. Histograms are in seconds, unless \
         their name ends with `_items`. The column \"Teranode\" has the name \
         of the metric there, without its prefix `teranode_`: \
         [Coming from Teranode](coming-from-teranode.md).\n",
    );
    let faces = [("REST server", rest::METRICS), ("gRPC server", grpc::METRICS)];
    for &(title, metrics) in meters::LISTS.iter().chain(&faces) {
        let rows = metrics.iter();
        let rows =
            rows.map(|metric| (metric.name, metric.kind.name(), metric.teranode, metric.help));
        write_table(&mut out, title, rows);
    }
    let retries = (RETRIES_METRIC, "counter", "", RETRIES_METRIC_HELP);
    write_table(&mut out, "SQL engines", std::iter::once(retries));
    out
}

#[test]
fn command_line_page_is_current() {
    check("docs/cli.md", &cli::page());
}

#[test]
fn page_of_errors_is_current() {
    check("docs/errors.md", &kinds::page());
}

#[test]
fn configuration_page_is_current() {
    check("docs/config.md", &config::page());
}

#[test]
fn example_configuration_is_current() {
    check("utxokeep.toml", &config::example_file());
}

#[test]
fn metrics_page_is_current() {
    check("docs/metrics.md", &metrics_page());
}

#[test]
fn api_description_is_current() {
    let text = rest::openapi().to_pretty_json().unwrap();
    check("docs/openapi.json", &(text + "\n"));
}
