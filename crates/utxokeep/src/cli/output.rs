//! The only place that writes to stdout and stderr.

use std::{
    fmt::Display,
    io::{self, Write},
};

use serde::Serialize;

use crate::json::Partial;

/// A result that people can read.
pub(super) trait Human {
    /// Describes it, line by line.
    fn describe(&self, lines: &mut Lines);
}

/// Lines for people: labelled values, which are aligned, and plain rows.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<Line>);

#[derive(Debug)]
enum Line {
    Field(&'static str, String),
    Row(String),
}

impl Lines {
    /// A labelled value.
    pub(super) fn field(&mut self, label: &'static str, value: impl Display) -> &mut Self {
        self.0.push(Line::Field(label, value.to_string()));
        self
    }

    /// A labelled value, or a dash when there is none.
    pub(super) fn optional(
        &mut self,
        label: &'static str,
        value: Option<impl Display>,
    ) -> &mut Self {
        match value {
            Some(value) => self.field(label, value),
            None => self.field(label, "-"),
        }
    }

    /// A line as it is.
    pub(super) fn row(&mut self, text: impl Into<String>) -> &mut Self {
        self.0.push(Line::Row(text.into()));
        self
    }

    fn render(&self) -> String {
        let width = self.0.iter().fold(0, |width, line| match line {
            Line::Field(label, _) => width.max(label.len()),
            Line::Row(_) => width,
        });
        let text = |line: &Line| match line {
            Line::Field(label, value) => format!("{label:<width$}  {value}\n"),
            Line::Row(text) => format!("{text}\n"),
        };
        self.0.iter().map(text).collect()
    }
}

/// Says what a database keeps that does not keep everything.
pub(super) fn partial(lines: &mut Lines, partial: Option<&Partial>) {
    if let Some(partial) = partial {
        lines.field("partial", format_args!("the index keeps {partial}"));
    }
}

/// Prints a result, as JSON or for people.
pub(super) fn result(json: bool, value: &(impl Serialize + Human)) -> anyhow::Result<()> {
    let text = if json {
        serde_json::to_string_pretty(value)? + "\n"
    } else {
        let mut lines = Lines::default();
        value.describe(&mut lines);
        lines.render()
    };
    self::text(&text)
}

/// Prints a result that is a file of its own.
pub(super) fn text(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
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

/// Prints an error and what caused it.
pub(super) fn error(error: &anyhow::Error) {
    to_stderr(&format!("error: {error}"));
    let mut last = error.to_string();
    for cause in error.chain().skip(1) {
        let text = cause.to_string();
        // Errors that include their source in their own text would say it twice.
        if !last.contains(&text) {
            to_stderr(&format!("caused by: {text}"));
        }
        last = text;
    }
}

fn to_stderr(line: &str) {
    // Nobody is left to tell when stderr is closed.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_aligned_and_rows_kept() {
        let mut lines = Lines::default();
        lines.field("height", 3).optional("best hash", None::<u8>).row("as it is");
        assert_eq!(lines.render(), "height     3\nbest hash  -\nas it is\n");
    }
}
