//! Answers for people: labelled values and rows, made from what the answer serialises to, or by a
//! layout of its own where that pays.

use std::{borrow::Cow, fmt, fmt::Display};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, SeqAccess, Visitor},
};

use utxokeep_core::ErrorKind;

use super::Described;
use crate::times::utc;

/// What an operation answers with.
pub trait Answer: Serialize + Described + Send + 'static {
    /// Describes it for people. Without a layout of its own an answer shows its fields in order.
    fn show(&self, lines: &mut Lines) {
        lines.fields_of(self);
    }

    /// The answer itself, where it is lines of JSON: faces hand them on as they are.
    fn lines(&self) -> Option<&str> {
        None
    }

    /// What a person should do next, if anything; it is no part of the answer.
    fn advice(&self) -> Option<String> {
        None
    }

    /// What a command ends with, where the answer is not that all is well.
    fn fault(&self) -> Option<ErrorKind> {
        None
    }
}

/// Lines for people: labelled values, which are aligned, and plain rows.
#[derive(Debug, Default)]
pub struct Lines(Vec<Line>);

#[derive(Debug)]
enum Line {
    Field(Cow<'static, str>, String),
    Row(String),
}

impl Lines {
    /// A labelled value.
    pub fn field(&mut self, label: impl Into<Cow<'static, str>>, value: impl Display) -> &mut Self {
        self.0.push(Line::Field(label.into(), value.to_string()));
        self
    }

    /// A labelled value, or a dash when there is none.
    pub fn optional(
        &mut self,
        label: impl Into<Cow<'static, str>>,
        value: Option<impl Display>,
    ) -> &mut Self {
        match value {
            Some(value) => self.field(label, value),
            None => self.field(label, "-"),
        }
    }

    /// A line as it is.
    pub fn row(&mut self, text: impl Into<String>) -> &mut Self {
        self.0.push(Line::Row(text.into()));
        self
    }

    /// Every field of a value in the order it is written in. Lists of records become rows.
    pub fn fields_of(&mut self, value: &(impl Serialize + ?Sized)) -> &mut Self {
        let text = serde_json::to_string(value).unwrap_or_default();
        match serde_json::from_str(&text) {
            Ok(Shown::Record(fields)) => fields.iter().for_each(|(name, of)| self.named(name, of)),
            Ok(other) => _ = self.row(other.inline()),
            Err(_) => _ = self.row(text),
        }
        self
    }

    fn named(&mut self, name: &str, value: &Shown) {
        let label = label(name);
        match value {
            Shown::List(items) if items.iter().any(|item| matches!(item, Shown::Record(_))) => {
                self.field(label, items.len());
                for item in items {
                    self.row(format!("  {}", item.inline()));
                }
            }
            other => _ = self.field(label, other.of(name)),
        }
    }

    /// The text.
    #[must_use]
    pub fn render(&self) -> String {
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

/// A value whose fields keep their order.
enum Shown {
    Plain(String),
    List(Vec<Shown>),
    Record(Vec<(String, Shown)>),
}

impl Shown {
    /// The value on one line.
    fn inline(&self) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::List(items) if items.is_empty() => "none".to_owned(),
            Self::List(items) => items.iter().map(Self::inline).collect::<Vec<_>>().join(", "),
            Self::Record(fields) => {
                let field =
                    |(name, value): &(String, Self)| format!("{} {}", label(name), value.of(name));
                fields.iter().map(field).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// The value of a field of this name: microseconds since 1970 are shown as a time.
    fn of(&self, name: &str) -> String {
        match self {
            Self::Plain(text) if name.ends_with(TIME) => {
                text.parse().map_or_else(|_| text.clone(), utc)
            }
            other => other.inline(),
        }
    }
}

/// How names of fields end that hold microseconds since 1970.
const TIME: &str = "_at_us";

/// The name of a field for people.
fn label(name: &str) -> String {
    let name = name.strip_suffix(TIME).unwrap_or(name);
    let name = name.strip_prefix("is_").unwrap_or(name);
    name.replace('_', " ")
}

/// Text of somebody else, with control characters written out so that they cannot steer a terminal.
fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            safe.extend(c.escape_debug());
        } else {
            safe.push(c);
        }
    }
    safe
}

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Shown;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Shown, E> {
        Ok(Shown::Plain(if value { "yes" } else { "no" }.to_owned()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Shown, E> {
        Ok(Shown::Plain(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Shown, E> {
        Ok(Shown::Plain(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Shown, E> {
        Ok(Shown::Plain(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Shown, E> {
        Ok(Shown::Plain(safe(value)))
    }

    fn visit_unit<E>(self) -> Result<Shown, E> {
        Ok(Shown::Plain("-".to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shown, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Shown::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Shown, A::Error> {
        let mut record = Vec::new();
        while let Some(field) = fields.next_entry()? {
            record.push(field);
        }
        Ok(Shown::Record(record))
    }
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

    #[test]
    fn fields_keep_their_order_and_lists_of_records_become_rows() {
        #[derive(Serialize)]
        struct Row {
            tx_hash: &'static str,
            is_spent: bool,
        }
        #[derive(Serialize)]
        struct Whole {
            utxo_count: u64,
            best_hash: Option<String>,
            items: Vec<Row>,
            names: Vec<&'static str>,
            at: Row,
            created_at_us: i64,
        }
        let row = |tx_hash| Row { tx_hash, is_spent: true };
        let whole = Whole {
            utxo_count: 2,
            best_hash: None,
            items: vec![row("aa"), row("bb")],
            names: vec!["x", "y"],
            at: row("cc"),
            created_at_us: 1_000_000,
        };
        let mut lines = Lines::default();
        lines.fields_of(&whole);
        assert_eq!(
            lines.render(),
            "utxo count  2\nbest hash   -\nitems       2\n  tx hash aa spent yes\n  tx hash bb spent \
             yes\nnames       x, y\nat          tx hash cc spent yes\ncreated     1970-01-01T00:00:01Z\n"
        );
    }
}
