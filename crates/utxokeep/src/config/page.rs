//! `docs/config.md` and `utxokeep.toml`, made from the list of settings.

use std::fmt::Write;

use toml::{Table, Value};

use super::{Config, SETTINGS, Setting, schema::SECTIONS};

/// Widest line of a comment in the example file.
const COMMENT_WIDTH: usize = 98;

/// The default as it would stand in the file; `None` when the default is to leave it out.
fn default_text(setting: &Setting) -> Option<String> {
    let defaults = Table::try_from(Config::default()).expect("defaults are plain TOML values");
    let value = defaults.get(setting.section)?.as_table()?.get(setting.name)?;
    Some(match value {
        Value::Integer(number) => with_separators(*number),
        other => other.to_string(),
    })
}

/// `50_000` for 50000, as TOML allows.
fn with_separators(number: i64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + 4);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('_');
        }
        out.push(digit);
    }
    out
}

/// The reference page.
#[must_use]
pub fn page() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         <!-- Generated from crates/utxokeep/src/config/schema.rs by `make docs`. -->\n\n\
         A file in TOML, given by `--config FILE` or `UTXOKEEP_CONFIG`; without one every setting \
         has its default. `utxokeep.toml` at the root of the repository lists them all. An unknown \
         section, setting or value is an error that names it. The column \
         \"Teranode, Yaci\" has the name of the setting there: see \
         [Coming from Teranode](coming-from-teranode.md) and \
         [Coming from Yaci](coming-from-yaci.md).\n",
    );
    for (section, help) in SECTIONS {
        let _ = write!(
            out,
            "\n## `[{section}]`\n\n{}\n\n\
             | setting | allowed | default | Teranode, Yaci | what it does |\n|---|---|---|---|---|\n",
            help.trim()
        );
        for setting in SETTINGS.iter().filter(|setting| setting.section == *section) {
            let default = default_text(setting).map_or("left out".to_owned(), |d| format!("`{d}`"));
            let elsewhere = match setting.elsewhere {
                "" => String::new(),
                names => format!("`{}`", names.replace(", ", "`, `")),
            };
            let _ = writeln!(
                out,
                "| `{}` | {} | {default} | {elsewhere} | {} |",
                setting.name,
                setting.allowed,
                setting.help.trim(),
            );
        }
    }
    out
}

/// A file with every setting at its default.
#[must_use]
pub fn example_file() -> String {
    let mut out = String::from(
        "# Every setting of utxokeep with its default. Settings that are commented out are left\n\
         # out by default. Use it with `--config utxokeep.toml`; docs/config.md says more.\n",
    );
    for (section, help) in SECTIONS {
        out.push('\n');
        comment(&mut out, help);
        let _ = writeln!(out, "[{section}]");
        for setting in SETTINGS.iter().filter(|setting| setting.section == *section) {
            out.push('\n');
            comment(&mut out, setting.help);
            let _ = match default_text(setting) {
                Some(default) => writeln!(out, "{} = {default}", setting.name),
                None => writeln!(out, "# {} = {}", setting.name, setting.example),
            };
        }
    }
    out
}

fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > COMMENT_WIDTH {
            let _ = writeln!(out, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_structures_and_example_file_agree() {
        let example = example_file();
        assert_eq!(Config::parse(&example, "x").unwrap(), {
            let mut config = Config::default();
            let stated = SETTINGS.iter().filter(|s| default_text(s).is_some());
            config.stated = stated.map(Setting::key).collect();
            config
        });
        let uncommented: String = example
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.contains(" = ") => rest,
                _ => line,
            })
            .flat_map(|line| [line, "\n"])
            .collect();
        // A rule of the tree is refused where there is no tree.
        let uncommented = uncommented.replace("store = \"classic\"", "store = \"mmr\"");
        let all = Config::parse(&uncommented, "x").unwrap();
        for setting in SETTINGS {
            assert!(all.is_stated(&setting.key()), "{} is not in the example", setting.key());
        }
        let defaults = Table::try_from(all).unwrap();
        let fields: usize =
            defaults.values().map(|section| section.as_table().unwrap().len()).sum();
        assert_eq!(fields, SETTINGS.len());
    }

    #[test]
    fn every_setting_of_yaci_has_one_here() {
        let names = [
            "enabled",
            "store",
            "pruneDepth",
            "rollbackWindow",
            "pruneBatchSize",
            "index.address_hash",
            "index.payment_credential",
            "indexingStrategy",
            "delta.selfContained",
        ];
        for name in names {
            let full = format!("yaci.node.utxo.{name}");
            assert!(SETTINGS.iter().any(|setting| setting.elsewhere == full), "{full}");
        }
    }
}
