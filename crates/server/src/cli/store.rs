//! `store bench`: an engine of the node store beside a bare client of it.

use std::time::Duration;

use serde::Serialize;
use utxokeep_txstore::bench::{BareRates, BenchRow};

use super::{
    args::StoreBench,
    error::CliError,
    exit::Exit,
    interrupt::Interrupt,
    open::Session,
    output::{self, Human, Lines},
};
use crate::store_bench::{self, StoreBenchPlan, StoreRates};

/// One line of the table.
#[derive(Debug, Serialize)]
struct Line {
    ack: String,
    operation: &'static str,
    batch: usize,
    clients: usize,
    store_per_second: f64,
    bare_per_second: Option<f64>,
    floor_per_second: Option<f64>,
    of_bare: Option<f64>,
    of_floor: Option<f64>,
    rounds: Option<usize>,
    reads: Option<usize>,
    writes: Option<usize>,
}

impl Line {
    fn new(ack: &str, row: &BenchRow) -> Self {
        let of = |rate: fn(&BareRates) -> f64| row.bare.as_ref().map(rate);
        let (same, floor) = (of(|bare| bare.same), of(|bare| bare.floor));
        let ratio =
            |rate: Option<f64>| rate.filter(|rate| *rate > 0.0).map(|rate| row.store / rate);
        let size = row.bare.as_ref().map(|bare| bare.size);
        Self {
            ack: ack.to_owned(),
            operation: row.operation.name(),
            batch: row.batch,
            clients: row.clients,
            store_per_second: row.store,
            bare_per_second: same,
            floor_per_second: floor,
            of_bare: ratio(same),
            of_floor: ratio(floor),
            rounds: size.map(|size| size.rounds),
            reads: size.map(|size| size.reads),
            writes: size.map(|size| size.writes),
        }
    }

    /// At most 80 columns.
    fn text(&self) -> String {
        let Self { ack, operation, batch, clients, store_per_second: store, .. } = self;
        let begin = format!("{ack:<8} {operation:<12} {batch:>5} {clients:>7} {store:>9.0}");
        let both = self.bare_per_second.zip(self.floor_per_second);
        let ratios = self.of_bare.zip(self.of_floor);
        match both.zip(ratios) {
            Some(((bare, floor), (of_bare, of_floor))) => {
                format!("{begin} {bare:>9.0} {of_bare:>5.2} {floor:>9.0} {of_floor:>5.2}")
            }
            None => begin,
        }
    }

    fn head(has_bare: bool) -> String {
        let begin = format!(
            "{:<8} {:<12} {:>5} {:>7} {:>9}",
            "ack", "operation", "batch", "clients", "store/s"
        );
        if !has_bare {
            return begin;
        }
        format!("{begin} {:>9} {:>5} {:>9} {:>5}", "bare/s", "ratio", "floor/s", "ratio")
    }
}

#[derive(Debug, Serialize)]
struct Refused {
    ack: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Report {
    engine: String,
    /// `release`, or `debug`, whose figures say little.
    build: &'static str,
    seconds_per_case: f64,
    has_bare_client: bool,
    is_stopped: bool,
    refused: Vec<Refused>,
    rows: Vec<Line>,
}

impl Report {
    fn new(rates: StoreRates, seconds_per_case: f64) -> Self {
        let (mut refused, mut rows) = (Vec::new(), Vec::new());
        for level in &rates.levels {
            let ack = level.level.clone();
            refused.extend(level.refused.clone().map(|reason| Refused { ack, reason }));
            rows.extend(level.rows.iter().map(|row| Line::new(&level.level, row)));
        }
        let has_bare_client = rows.iter().any(|row| row.bare_per_second.is_some());
        let StoreRates { engine, is_stopped, .. } = rates;
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        Self { engine, build, seconds_per_case, has_bare_client, is_stopped, refused, rows }
    }
}

/// Columns of a line.
const COLUMNS: usize = 80;

/// A text in lines, broken behind spaces and commas.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive([' ', ',']) {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() || (last.chars().count() + word.trim_end().chars().count()) <= COLUMNS {
            last.push_str(word);
        } else {
            lines.push(format!("  {word}"));
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

impl Human for Report {
    fn describe(&self, lines: &mut Lines) {
        lines.row(format!(
            "{}, {} build, operations per second, {} s for each figure",
            self.engine, self.build, self.seconds_per_case
        ));
        lines.row(Line::head(self.has_bare_client));
        for row in &self.rows {
            lines.row(row.text());
        }
        if !self.has_bare_client {
            lines.row("no bare client for this engine: only the store was measured");
        }
        for Refused { ack, reason } in &self.refused {
            for line in wrapped(&format!("{ack}: not measured: {reason}")) {
                lines.row(line);
            }
        }
        if self.is_stopped {
            lines.row("stopped: the rest was not measured");
        }
    }
}

/// Measures, and removes what it made also when it is stopped.
pub(super) fn bench(session: &Session, args: &StoreBench) -> anyhow::Result<Exit> {
    let url = args.url.as_deref().unwrap_or(&session.config().txstore.url);
    if url.is_empty() {
        return Err(CliError::NoEngine.into());
    }
    let number = |numbers: &[u32]| numbers.iter().map(|&number| number as usize).collect();
    let plan = StoreBenchPlan {
        batches: number(&args.batches),
        clients: number(&args.clients),
        lasts: Duration::from_secs_f64(args.seconds_per_case),
        every_ack: args.every_ack,
    };
    let stop = Interrupt::watch()?.flag();
    let mut rates =
        store_bench::run(url, &session.config().txstore, &plan, &stop, &mut |ack, row| {
            tracing::info!("{}", Line::new(ack, row).text());
        })?;
    let failure = rates.failure.take();
    let nothing_measured = rates.levels.iter().all(|level| level.rows.is_empty());
    if nothing_measured && let Some(failure) = failure {
        return Err(failure.into());
    }
    let report = Report::new(rates, args.seconds_per_case);
    let exit = if report.is_stopped { Exit::Interrupted } else { Exit::Success };
    output::result(session.json(), &report)?;
    // Minutes of figures are not thrown away because a later one could not be had.
    failure.map_or(Ok(exit), |failure| Err(failure.into()))
}
