//! Statement texts: placeholders, lists of rows, and a bounded cache.

use crate::error::SqlError;
use crate::options::Dialect;
use crate::value::{Kind, Value};
use rustc_hash::FxHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

/// Rows per statement. Few sizes, so that few texts exist and all of them stay prepared.
const CHUNK_ROWS: [usize; 4] = [512, 64, 8, 1];

/// `SQLite` takes 32,766 parameters and `PostgreSQL` 65,535.
pub(crate) const PARAMETERS_MAX: usize = 32_000;

/// How the rows of a statement are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum List {
    /// No rows: the head is the whole statement.
    None,
    /// `($1, $2), ($3, $4)` behind the word VALUES.
    Values,
    /// ` ($1, $2)` for one column, ` (VALUES ($1, $2), …)` for more, behind the word IN.
    In,
}

/// What identifies a statement text. The text itself is made once and then cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape<'a> {
    pub(crate) head: &'a str,
    pub(crate) tail: &'a str,
    pub(crate) list: List,
    /// Parameters of head and tail, numbered before those of the rows.
    pub(crate) fixed: usize,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl<'a> Shape<'a> {
    pub(crate) fn plain(sql: &'a str, parameters: usize) -> Self {
        Self { head: sql, tail: "", list: List::None, fixed: parameters, columns: 0, rows: 0 }
    }

    /// The whole text, with `$n` on `PostgreSQL` and `?n` on `SQLite`.
    pub(crate) fn text(&self, dialect: Dialect) -> Result<String, SqlError> {
        let sign = match dialect {
            Dialect::Sqlite => '?',
            Dialect::Postgres => '$',
        };
        let mut text = String::with_capacity(self.head.len() + self.tail.len() + 64);
        let mut highest = placeholders(self.head, dialect, &mut text);
        if self.list != List::None {
            self.write_rows(sign, &mut text);
            highest = highest.max(placeholders(self.tail, dialect, &mut text));
        }
        // PostgreSQL would take a parameter too many, and SQLite count a missing one as null.
        if highest != self.fixed {
            return Err(SqlError::usage(format!(
                "{} parameters were given, the statement has {highest}",
                self.fixed
            )));
        }
        Ok(text)
    }

    fn write_rows(&self, sign: char, text: &mut String) {
        let grouped = self.list == List::Values || self.columns > 1;
        text.push_str(match (self.list, grouped) {
            (List::In, true) => " (VALUES ",
            (List::In, false) => " (",
            _ => " ",
        });
        let mut number = self.fixed;
        for row in 0..self.rows {
            for column in 0..self.columns {
                let before = match (row, column, grouped) {
                    (0, 0, true) => "(",
                    (_, 0, true) => "),(",
                    (0, 0, false) => "",
                    _ => ",",
                };
                number += 1;
                // Writing to a String cannot fail.
                let _ = write!(text, "{before}{sign}{number}");
            }
        }
        text.push_str(if grouped { ")" } else { "" });
        text.push_str(if self.list == List::In { ")" } else { "" });
    }
}

/// Puts `?n` in place of `$n` for `SQLite`, and counts: the highest n is returned as well.
fn placeholders(sql: &str, dialect: Dialect, out: &mut String) -> usize {
    let mut highest = 0;
    let mut copied = 0;
    for (at, number) in Placeholders::new(sql) {
        highest = highest.max(number);
        if dialect == Dialect::Sqlite {
            out.push_str(&sql[copied..at]);
            out.push('?');
            copied = at + 1;
        }
    }
    out.push_str(&sql[copied..]);
    highest
}

/// The `$n` of a statement with their places, outside of quotes and comments.
struct Placeholders<'a> {
    bytes: &'a [u8],
    next: usize,
    /// The byte that ends what is being skipped.
    skip_to: Option<u8>,
}

impl<'a> Placeholders<'a> {
    fn new(sql: &'a str) -> Self {
        Self { bytes: sql.as_bytes(), next: 0, skip_to: None }
    }
}

impl Iterator for Placeholders<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(byte) = self.bytes.get(self.next).copied() {
            let at = self.next;
            self.next += 1;
            match (self.skip_to, byte) {
                (Some(end), _) if end == byte => self.skip_to = None,
                (None, b'\'' | b'"') => self.skip_to = Some(byte),
                (None, b'-') if self.bytes.get(self.next) == Some(&b'-') => {
                    self.skip_to = Some(b'\n');
                }
                (None, b'$') => {
                    let digits = self.bytes[self.next..].iter().take_while(|d| d.is_ascii_digit());
                    let number = digits.fold(0_usize, |number, digit| {
                        number.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
                    });
                    if number > 0 {
                        return Some((at, number));
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// One statement of a set-based call: its shape and the rows it takes.
pub(crate) struct Chunk<'a, 'v> {
    pub(crate) shape: Shape<'a>,
    pub(crate) rows: &'v [Value<'v>],
    padding_rows: usize,
}

impl<'v> Chunk<'_, 'v> {
    /// All parameters in order: the fixed ones, the rows, and the last row again as padding.
    pub(crate) fn parameters<'s>(
        &'s self,
        fixed: &'s [Value<'s>],
    ) -> impl Iterator<Item = &'s Value<'s>> + use<'s, 'v> {
        let last = &self.rows[self.rows.len().saturating_sub(self.shape.columns)..];
        let padding = std::iter::repeat_n(last, self.padding_rows).flatten();
        fixed.iter().chain(self.rows).chain(padding)
    }
}

/// Cuts rows into statements of the fixed sizes. `IN` lists are filled up to the next size by
/// repeating the last key, which changes nothing; other lists end in smaller statements.
pub(crate) fn chunks<'a, 'v>(
    shape: Shape<'a>,
    rows: &'v [Value<'v>],
) -> Result<Vec<Chunk<'a, 'v>>, SqlError> {
    check_rows(&shape, rows)?;
    let columns = shape.columns;
    let sizes = CHUNK_ROWS.map(|size| (shape.fixed + size * columns <= PARAMETERS_MAX, size));
    let sizes = || sizes.iter().filter(|(fits, _)| *fits).map(|(_, size)| *size);
    let mut chunks = Vec::new();
    let mut rest = rows;
    while !rest.is_empty() {
        let left = rest.len() / columns;
        let padded = sizes().filter(|size| *size >= left).min().filter(|_| shape.list == List::In);
        let whole = sizes().find(|size| *size <= left);
        let Some(size) = padded.or(whole) else {
            return Err(SqlError::usage("one row has more parameters than a statement may have"));
        };
        let (now, later) = rest.split_at(size.min(left) * columns);
        let padding_rows = size.saturating_sub(left);
        chunks.push(Chunk { shape: Shape { rows: size, ..shape }, rows: now, padding_rows });
        rest = later;
    }
    Ok(chunks)
}

fn check_rows(shape: &Shape<'_>, rows: &[Value<'_>]) -> Result<(), SqlError> {
    if shape.columns == 0 || !rows.len().is_multiple_of(shape.columns) {
        return Err(SqlError::usage(format!(
            "{} values do not make rows of {} columns",
            rows.len(),
            shape.columns
        )));
    }
    let (first, others) = rows.split_at(shape.columns.min(rows.len()));
    for row in others.chunks_exact(shape.columns) {
        if first.iter().zip(row).any(|(one, other)| one.kind() != other.kind()) {
            return Err(SqlError::usage("rows of one call must have the same types"));
        }
    }
    Ok(())
}

/// Statements of one connection, the least recently used leave first.
pub(crate) struct Cache<S> {
    entries: Vec<Entry<S>>,
    entries_max: usize,
    clock: u64,
}

struct Entry<S> {
    hash: u64,
    head: String,
    tail: String,
    numbers: (List, usize, usize, usize),
    kinds: Vec<Kind>,
    used: u64,
    statement: S,
}

impl<S: Clone> Cache<S> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries: Vec::new(), entries_max, clock: 0 }
    }

    /// The statement for this shape and these types of its fixed parameters and of one row.
    pub(crate) fn get(&mut self, shape: &Shape<'_>, kinds: &[Kind]) -> Option<S> {
        self.clock += 1;
        let hash = hash(shape, kinds);
        let found = self.entries.iter_mut().find(|entry| {
            entry.hash == hash
                && entry.numbers == numbers(shape)
                && entry.head == shape.head
                && entry.tail == shape.tail
                && entry.kinds == kinds
        })?;
        found.used = self.clock;
        Some(found.statement.clone())
    }

    pub(crate) fn put(&mut self, shape: &Shape<'_>, kinds: &[Kind], statement: S) {
        if self.entries.len() >= self.entries_max {
            let oldest = (0..self.entries.len()).min_by_key(|index| self.entries[*index].used);
            oldest.map(|index| self.entries.swap_remove(index));
        }
        self.entries.push(Entry {
            hash: hash(shape, kinds),
            head: shape.head.to_owned(),
            tail: shape.tail.to_owned(),
            numbers: numbers(shape),
            kinds: kinds.to_vec(),
            used: self.clock,
            statement,
        });
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

fn numbers(shape: &Shape<'_>) -> (List, usize, usize, usize) {
    (shape.list, shape.fixed, shape.columns, shape.rows)
}

fn hash(shape: &Shape<'_>, kinds: &[Kind]) -> u64 {
    let mut hasher = FxHasher::default();
    shape.hash(&mut hasher);
    kinds.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(list: List, fixed: usize, columns: usize, rows: usize) -> Shape<'static> {
        Shape { head: "H", tail: " T", list, fixed, columns, rows }
    }

    #[test]
    fn numbers_become_those_of_the_engine_outside_of_quotes_and_comments() {
        let sql = "SELECT '$1', \"$2\" -- don't $3\n, $2 || $1";
        let shape = Shape::plain(sql, 2);
        assert_eq!(shape.text(Dialect::Postgres).unwrap(), sql);
        assert_eq!(
            shape.text(Dialect::Sqlite).unwrap(),
            "SELECT '$1', \"$2\" -- don't $3\n, ?2 || ?1"
        );
    }

    #[test]
    fn parameters_too_many_or_too_few_are_refused() {
        for given in [0, 2] {
            let outcome = Shape::plain("SELECT $1", given).text(Dialect::Postgres);
            assert!(matches!(outcome, Err(SqlError::Usage { .. })), "{given} given");
        }
    }

    #[test]
    fn lists_are_written_behind_their_word() {
        let postgres = |shape: Shape<'_>| shape.text(Dialect::Postgres).unwrap();
        assert_eq!(postgres(shape(List::Values, 0, 2, 2)), "H ($1,$2),($3,$4) T");
        assert_eq!(postgres(shape(List::In, 0, 1, 3)), "H ($1,$2,$3) T");
        assert_eq!(postgres(shape(List::In, 0, 2, 2)), "H (VALUES ($1,$2),($3,$4)) T");
    }

    #[test]
    fn rows_behind_fixed_parameters_are_numbered_after_them() {
        let shape = Shape { head: "x = $1 AND y IN", tail: "", ..shape(List::In, 1, 1, 2) };
        assert_eq!(shape.text(Dialect::Sqlite).unwrap(), "x = ?1 AND y IN (?2,?3)");
    }

    #[test]
    fn lists_of_values_are_cut_into_few_sizes_and_keys_are_filled_up() {
        let sizes = |list, rows: usize| -> Vec<(usize, usize)> {
            let values = vec![Value::Int(Some(1)); rows];
            let chunks = chunks(shape(list, 0, 1, 0), &values).unwrap();
            chunks.iter().map(|chunk| (chunk.shape.rows, chunk.padding_rows)).collect()
        };
        assert_eq!(sizes(List::Values, 0), []);
        assert_eq!(sizes(List::Values, 586), [(512, 0), (64, 0), (8, 0), (1, 0), (1, 0)]);
        assert_eq!(sizes(List::In, 0), []);
        assert_eq!(sizes(List::In, 1), [(1, 0)]);
        assert_eq!(sizes(List::In, 586), [(512, 0), (512, 438)]);
        assert_eq!(sizes(List::In, 3), [(8, 5)]);
    }

    #[test]
    fn wide_rows_take_smaller_statements() {
        let values = vec![Value::Int(Some(1)); 100 * 512];
        let chunks = chunks(shape(List::Values, 0, 100, 0), &values).unwrap();
        assert!(chunks.iter().all(|chunk| chunk.shape.rows == 64));
        assert_eq!(chunks.len(), 8);
    }

    #[test]
    fn a_row_wider_than_a_statement_is_refused() {
        let columns = PARAMETERS_MAX + 1;
        let values = vec![Value::Int(Some(1)); columns];
        for list in [List::Values, List::In] {
            let outcome = chunks(shape(list, 0, columns, 0), &values);
            assert!(matches!(outcome, Err(SqlError::Usage { .. })));
        }
    }

    #[test]
    fn the_cache_forgets_what_was_used_longest_ago() {
        let mut cache = Cache::new(2);
        let (one, two, three) = (Shape::plain("1", 0), Shape::plain("2", 0), Shape::plain("3", 0));
        cache.put(&one, &[], 1);
        cache.put(&two, &[], 2);
        assert_eq!(cache.get(&one, &[]), Some(1));
        cache.put(&three, &[], 3);
        assert_eq!(cache.len(), 2);
        assert_eq!(cache.get(&two, &[]), None);
        assert_eq!(cache.get(&one, &[]), Some(1));
        assert_eq!(cache.get(&three, &[Kind::Int]), None, "other types are another statement");
    }
}
