//! Tests that cannot run on this machine say so. A test that passes because it did nothing is not
//! seen in the output of a runner, so each leaves a line in a file, which `scripts/cargo` counts at
//! the end.

use std::{fs::OpenOptions, io::Write, path::Path};

/// Names the file; `scripts/cargo` sets it. Without it the message on stderr is all there is.
const FILE: &str = "UTXOKEEP_SKIPPED_FILE";

/// Notes that the present test is skipped for lack of `what`, such as `test data`. `message` says
/// more. Where `required` names a variable that is set, the test fails in its place.
///
/// # Panics
/// When the variable is set: on the machine of CI a skipped test would hide a failure.
pub fn skipped(what: &str, required: &str, message: &str) {
    assert!(std::env::var_os(required).is_none(), "{message}, and {required} is set");
    #[allow(clippy::print_stderr, reason = "a skipped test has to say so")]
    {
        eprintln!("skipped for lack of {what}: {message}");
    }
    if let Some(file) = std::env::var_os(FILE) {
        note(Path::new(&file), what, &test_name());
    }
}

/// Program and test. Runners name the thread of a test after it.
fn test_name() -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name).unwrap_or_default();
    let thread = std::thread::current();
    format!("{} {}", program.to_string_lossy(), thread.name().unwrap_or("a thread"))
}

/// One line in one write, so that processes that note at the same time do not mix theirs.
fn note(file: &Path, what: &str, test: &str) {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    let written =
        opened.and_then(|mut file| file.write_all(format!("{what}\t{test}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot note a skipped test: {error}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_skipped_test_leaves_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("skipped");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let file = &file;
                scope.spawn(move || note(file, "test data", &format!("it test_{number}")));
            }
        });
        let text = std::fs::read_to_string(&file).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        let expected: Vec<_> =
            (0..8).map(|number| format!("test data\tit test_{number}")).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn names_the_test_that_is_skipped() {
        assert!(test_name().ends_with("names_the_test_that_is_skipped"), "{}", test_name());
    }

    #[test]
    #[should_panic(expected = "blocks are missing, and PATH is set")]
    fn fails_where_it_is_required() {
        skipped("test data", "PATH", "blocks are missing");
    }
}
