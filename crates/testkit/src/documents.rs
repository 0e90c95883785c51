//! Documents are checked like code: links lead somewhere, the first pages stay short, and what they
//! list is what there is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

const README_LINES_MAX: usize = 150;
const ARCHITECTURE_WORDS_MAX: usize = 2_500;
/// Words that only somebody knows who knows how the project began.
const INSIDE: [&str; 8] = [
    "reference sys\u{74}em",
    "seed desig\u{6e}",
    "the seed'\u{73} ",
    "the pla\u{6e}'s",
    "the design this program grew fro\u{6d}",
    "this program grew fro\u{6d}",
    "unpublished specificatio\u{6e}",
    "code of the specificatio\u{6e}",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Files of the repository that end in one of `endings`, without build output and hidden ones.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with('.') || name == "target" || name == "data" {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn crates() -> Vec<String> {
    let dirs = fs::read_dir(root().join("crates")).unwrap();
    let mut names: Vec<_> =
        dirs.map(|dir| dir.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_first_pages_are_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= README_LINES_MAX, "README.md has {lines} lines");
    let words = read("ARCHITECTURE.md").split_whitespace().count();
    assert!(words <= ARCHITECTURE_WORDS_MAX, "ARCHITECTURE.md has {words} words");
}

/// The example of a doctest is the one that a reader meets first.
#[test]
fn the_first_page_shows_the_example_of_the_engine() {
    let (page, source) = (read("README.md"), read("crates/utxokeep/src/engine.rs"));
    let between = |text: &str, from: &str, to: &str| {
        let (_, rest) = text.split_once(from).unwrap();
        rest.split_once(to).unwrap().0.to_owned()
    };
    let shown = between(&page, "```rust,no_run\n", "```\n");
    let tested: String = between(&source, "/// ```no_run\n", "/// ```\n")
        .lines()
        .map(|line| {
            line.trim_start_matches("///").strip_prefix(' ').unwrap_or("").to_owned() + "\n"
        })
        .collect();
    assert_eq!(shown, tested);
    assert!(shown.lines().count() <= 20, "{}", shown.lines().count());
}

#[test]
fn every_crate_is_in_the_house_and_in_the_layout() {
    let (house, layout) = (read("ARCHITECTURE.md"), read("CONTRIBUTING.md"));
    for name in crates() {
        let room = ["├── ", "└── "].iter().any(|edge| house.contains(&format!("{edge}{name}/")));
        assert!(room, "ARCHITECTURE.md does not name crates/{name}");
        assert!(layout.contains(&format!("**`crates/{name}`**")), "CONTRIBUTING.md: {name}");
    }
}

#[test]
fn every_crate_can_be_published_or_says_that_it_is_not() {
    for name in crates() {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let readme = read(&format!("crates/{name}/README.md"));
        assert!(readme.starts_with("# utxokeep"), "crates/{name}/README.md");
        if manifest.contains("publish = false") {
            continue;
        }
        for field in ["description", "readme", "keywords", "categories"] {
            let is_there = manifest.lines().any(|line| line.starts_with(&format!("{field} = ")));
            assert!(is_there, "crates/{name}/Cargo.toml has no {field}");
        }
    }
}

#[test]
fn every_variable_is_in_the_guide_for_contributors() {
    let guide = read("CONTRIBUTING.md");
    let mut variables = BTreeSet::new();
    let scripts = ["Makefile", ".ci/run", "scripts/cargo", "scripts/common.sh"];
    let sources = files(&[".rs"]).into_iter().chain(scripts.map(|name| root().join(name)));
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        for (at, found) in text.match_indices("UTXOKEEP_") {
            // Cargo's own, such as those that a build script hands on, begin with something else.
            if text[..at].ends_with('_') {
                continue;
            }
            let rest = &text[at + found.len()..];
            let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let name: String = rest.chars().take_while(|c| is_part(*c)).collect();
            if !name.is_empty() {
                variables.insert(format!("UTXOKEEP_{name}"));
            }
        }
    }
    assert!(variables.len() > 30, "{variables:?}");
    let missing: Vec<_> = variables
        .iter()
        .filter(|name| !["`", "=", "["].iter().any(|end| guide.contains(&format!("`{name}{end}"))))
        .collect();
    assert!(missing.is_empty(), "not in CONTRIBUTING.md: {missing:?}");
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let headings = text.lines().filter_map(|line| {
        is_code ^= line.starts_with("```");
        (!is_code)
            .then_some(line)?
            .strip_prefix('#')
            .map(|rest| rest.trim_start_matches('#').trim())
    });
    let named = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    headings.map(anchor).chain(named.map(str::to_owned)).collect()
}

fn links(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code
    });
    lines
        .flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next()))
        .collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages: BTreeMap<PathBuf, String> = files(&[".md"])
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    let mut broken = Vec::new();
    let mut count = 0;
    for (page, text) in &pages {
        for link in links(text).into_iter().filter(|link| !link.contains("://")) {
            count += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let leads = target.canonicalize().is_ok_and(|target| {
                heading.is_empty()
                    || pages.get(&target).is_none_or(|text| anchors(text).contains(heading))
            });
            if !leads {
                broken.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(count > 150, "only {count} links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Paths below `crates/` that a page names in backquotes, such as `core/src/types.rs`.
fn sources(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.map(|name| name.strip_prefix("crates/").unwrap_or(name)).filter(|name| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '.');
        name.chars().all(is_plain)
            && ["/src/", "/tests/"].iter().any(|part| name.contains(part))
            && crates().iter().any(|room| name.starts_with(&format!("{room}/")))
    })
}

#[test]
fn every_source_that_a_document_names_is_there() {
    let mut count = 0;
    for page in files(&[".md"]) {
        if page.ends_with("CHANGELOG.md") {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        for source in sources(&text) {
            count += 1;
            let is_there = root().join("crates").join(source).exists();
            assert!(is_there, "{}: crates/{source} does not exist", page.display());
        }
    }
    assert!(count > 40, "only {count} were found");
}

#[test]
fn no_document_or_comment_needs_an_insider() {
    for path in files(&[".md", ".rs", ".proto", ".toml", ".sql"]) {
        let text = fs::read_to_string(&path).unwrap();
        for word in INSIDE {
            assert!(!text.contains(word), "{}: {word:?}", path.display());
        }
    }
}
