//! The only place that writes to stdout and stderr.

use std::{
    fmt::Display,
    io::{self, IsTerminal as _, Write},
};

use serde::Serialize;
use utxokeep::ops::Answer;
pub(super) use utxokeep::ops::Lines;
use utxokeep_core::ErrorKind;

use crate::{json::Partial, kinds};

/// A result that people can read.
pub(super) trait Human {
    /// Describes it, line by line.
    fn describe(&self, lines: &mut Lines);
}

/// Says what a database keeps that does not keep everything.
pub(super) fn partial(lines: &mut Lines, partial: Option<&Partial>) {
    if let Some(partial) = partial {
        lines.field("partial", format_args!("the index keeps {partial}"));
    }
}

/// Prints a result, as JSON or for people.
pub(super) fn result(json: bool, value: &(impl Serialize + Human)) -> anyhow::Result<()> {
    shown(json, value, |lines| value.describe(lines))
}

/// Prints the answer of an operation, as JSON or for people.
pub(super) fn answer(json: bool, answer: &impl Answer) -> anyhow::Result<()> {
    shown(json, answer, |lines| answer.show(lines))
}

/// JSON for a program is what REST sends; people at a terminal get it in lines.
fn shown(
    json: bool,
    value: &impl Serialize,
    describe: impl FnOnce(&mut Lines),
) -> anyhow::Result<()> {
    let text = if !json {
        let mut lines = Lines::default();
        describe(&mut lines);
        lines.render()
    } else if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)? + "\n"
    } else {
        serde_json::to_string(value)? + "\n"
    };
    self::text(&text)
}

/// Prints a result that is a file of its own.
pub(super) fn text(text: &str) -> anyhow::Result<()> {
    bytes(text.as_bytes())
}

/// The same for one that need not be text.
pub(super) fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // Who closes the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Tells of progress or of what the program is about to do.
pub(super) fn note(text: impl Display) {
    to_stderr(&format!("{text}"));
}

/// Tells of something that is wrong but not the program's failure.
pub(super) fn warning(text: impl Display) {
    to_stderr(&format!("warning: {text}"));
}

/// Prints an error and what caused it; for programs as one line of JSON.
pub(super) fn error(json: bool, error: &anyhow::Error) {
    let mut texts = vec![error.to_string()];
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Errors that include their source in their own text would say it twice.
        if !texts.last().is_some_and(|last| last.contains(&cause)) {
            texts.push(cause);
        }
    }
    if json {
        return error_json(kinds::kind_of_chain(error.chain()), &texts.join(": "));
    }
    to_stderr(&format!("error: {}", texts.join("\ncaused by: ")));
}

/// Prints an error as JSON: a word with a stable meaning, and a text for people.
pub(super) fn error_json(kind: ErrorKind, message: &str) {
    to_stderr(&serde_json::json!({ "code": kind.to_string(), "message": message }).to_string());
}

fn to_stderr(line: &str) {
    // Nobody is left to tell when stderr is closed.
    let _ = writeln!(io::stderr().lock(), "{line}");
}
