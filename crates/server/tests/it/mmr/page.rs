//! The examples of docs/mmr.md are carried out, and print what the page says.

use super::*;
use crate::http::Reply;

const PAGE: &str = include_str!("../../../../../docs/mmr.md");

/// A command of the page, and what it prints there.
struct Example<'p> {
    command: &'p str,
    printed: Vec<&'p str>,
}

/// What stands between the fences of one kind, in order, with the kind.
fn fenced(page: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut found = Vec::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(kind), None) => open = Some((kind, Vec::new())),
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    found
}

/// The bytes that the page names in its example of a leaf.
fn bytes_of_the_page(name: &str) -> Vec<u8> {
    let page = include_str!("../../../../../docs/mmr.md");
    let lines = page.lines().filter_map(|line| line.strip_prefix(name));
    let found = lines.filter_map(|rest| rest.strip_prefix(' ').map(str::trim));
    let mut found = found.filter_map(utxokeep_core::hex_decode);
    let bytes = found.next().unwrap_or_else(|| panic!("the page has no {name}"));
    assert!(found.next().is_none(), "the page has {name} twice");
    bytes
}

/// The example of a leaf, byte by byte, is what the program proves.
#[test]
fn the_leaf_of_the_page_is_the_one_that_is_proven() {
    let parts = ["txid", "index", "height, coinbase", "amount", "script length", "script"];
    let content = parts.map(bytes_of_the_page).concat();
    assert_eq!(content, bytes_of_the_page("content"));
    let blake = |bytes: &[u8]| {
        let hash = blake2b_simd::Params::new().hash_length(32).hash(bytes);
        hash.as_bytes().to_vec()
    };
    assert_eq!(blake(&content), bytes_of_the_page("H(content)"));
    let index = 5790_u32.to_be_bytes();
    let hashed = [&[0][..], &content[..32], &index, &bytes_of_the_page("H(content)")].concat();
    assert_eq!(hashed, bytes_of_the_page("hashed as leaf"));
    let leaf = bytes_of_the_page("leaf");
    assert_eq!(blake(&hashed), leaf);
    let txid = content[..32].try_into().unwrap();
    assert_eq!(utxokeep_core::mmr::mmr_leaf_hash(txid, 5790, &content).as_slice(), leaf);

    let user = User::with_chain(MMR);
    let file = user.prove(LIVE, "proof.json", &[]);
    let proof: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(proof["content"], utxokeep_core::hex_encode(&content));
    let shown = user.json(&["utxo", "show", &LIVE.join(":")]);
    assert_eq!(shown["amount"], "150");
    let number = |name| {
        let mut bytes = bytes_of_the_page(name);
        bytes.reverse();
        bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    assert_eq!((number("index"), number("amount")), (5790, 150));
    assert_eq!(number("height, coinbase"), 2 * 136);
    assert_eq!(shown["block"], 136);
}

fn examples<'p>(lines: &[&'p str]) -> Vec<Example<'p>> {
    let mut examples: Vec<Example<'p>> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), examples.last_mut()) {
            (Some(command), _) => examples.push(Example { command, printed: Vec::new() }),
            (None, Some(example)) => example.printed.push(line),
            (None, None) => panic!("no command before {line:?}"),
        }
    }
    examples
}

/// Whether a line is as the page has it; `…` stands for anything.
fn is_like(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    if first.len() == pattern.len() {
        return rest.is_empty();
    }
    let parts: Vec<&str> = parts.collect();
    for (at, part) in parts.iter().enumerate() {
        if at + 1 == parts.len() {
            return rest.ends_with(part);
        }
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
    }
    true
}

/// Whether lines are as the page has them; a line `…` stands for any number of them.
fn are_like(patterns: &[&str], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((pattern, others)) if pattern.trim() == "…" => {
            (0..=lines.len()).any(|skipped| are_like(others, &lines[skipped..]))
        }
        Some((pattern, others)) => lines
            .split_first()
            .is_some_and(|(line, rest)| is_like(pattern, line) && are_like(others, rest)),
    }
}

/// Carries out a command; answers what it prints, its complaints too.
fn carry_out(user: &User, command: &str) -> String {
    let (command, file) = match command.split_once(" > ") {
        Some((command, file)) => (command, Some(file)),
        None => (command, None),
    };
    let words: Vec<&str> = command.split_whitespace().collect();
    let printed = match words.split_first() {
        Some((&"utxokeep", args)) => {
            let output = user.run(args);
            let told = told(&output);
            let is_progress = |line: &str| line.starts_with("building: ") || line.contains("ing: ");
            let told: String = told.lines().filter(|line| !is_progress(line)).fold(
                String::new(),
                |mut told, line| {
                    told.push_str(line);
                    told.push('\n');
                    told
                },
            );
            String::from_utf8(output.stdout).unwrap() + &told
        }
        Some((&"curl", args)) => {
            let path = args.last().unwrap().strip_prefix("http://127.0.0.1:8080").unwrap();
            let server = user.serve();
            let text = Reply::parse(&server.get(path)).text;
            server.stop();
            text + "\n"
        }
        Some((&"python3", args)) => {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
            let script = format!("{script}{}", args[0]);
            let mut run = Command::new("python3");
            run.arg(script).args(&args[1..]).current_dir(user.home.path());
            let Ok(output) = run.output() else {
                assert!(
                    std::env::var_os("UTXOKEEP_REQUIRE_PYTHON").is_none(),
                    "python3 is required"
                );
                return "skipped".to_owned();
            };
            let complaints = told(&output);
            String::from_utf8(output.stdout).unwrap() + &complaints
        }
        _ => panic!("the page has a command that this test does not know: {command}"),
    };
    match file {
        Some(file) => {
            fs::write(user.path(file), printed).unwrap();
            String::new()
        }
        None => printed,
    }
}

#[test]
fn the_examples_of_the_page_print_what_it_says() {
    let user = User::new();
    fs::copy(blocks(), user.path("blocks.dat.xz")).unwrap();
    let mut count = 0;
    for (kind, lines) in fenced(PAGE) {
        match kind {
            "toml" => user.configure(&(lines.join("\n") + "\n")),
            "console" => {
                for Example { command, printed } in examples(&lines) {
                    let found = carry_out(&user, command);
                    let found: Vec<&str> = found.lines().collect();
                    let is_right = are_like(&printed, &found) || found == ["skipped"];
                    assert!(is_right, "$ {command}\n{}\n", found.join("\n"));
                    count += 1;
                }
            }
            _ => {}
        }
    }
    assert!(count >= 10, "{count}");
}

#[test]
fn dots_on_the_page_stand_for_what_they_may_and_nothing_else() {
    assert!(is_like("seconds  …", "seconds  0.31"));
    assert!(is_like("\"root\": \"…\",", "\"root\": \"ab\","));
    assert!(!is_like("height  300", "height  3000"));
    assert!(!is_like("\"root\": \"…\",", "\"leaf\": \"ab\","));
    assert!(are_like(&["a", "…", "z"], &["a", "b", "c", "z"]));
    assert!(!are_like(&["a", "…", "z"], &["a", "b", "c"]));
}
