//! Reads the texts in the source of the crate.

use std::{fs, path::Path};

/// A text of the source, and the file it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) file: String,
    pub(crate) text: String,
}

/// What matters of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Text(String),
    Word(String),
    Mark(char),
}

/// All texts of the crate, by file. A text that a macro puts together is one text.
pub(crate) fn texts() -> Vec<Text> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    read_dir(&root, &root, &mut all);
    assert!(!all.is_empty());
    all
}

fn read_dir(root: &Path, dir: &Path, all: &mut Vec<Text>) {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_dir(root, &path, all);
        } else {
            let file = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let source = fs::read_to_string(&path).unwrap();
            // Tests stand at the end of a file and may ask what they like.
            let program = source.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
            let found = of_file(&tokens(program));
            all.extend(found.into_iter().map(|text| Text { file: file.clone(), text }));
        }
    }
}

/// Texts of one file. Macros have one parameter, and give `concat!` of texts and that.
fn of_file(tokens: &[Token]) -> Vec<String> {
    let mut found = Vec::new();
    let mut macros: Vec<(String, Vec<Token>)> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at..] {
            [Token::Word(word), Token::Mark('!'), Token::Word(name), ..]
                if word == "macro_rules" =>
            {
                let end = at + 3 + block_len(&tokens[at + 3..]);
                macros.push((name.clone(), tokens[at + 3..end].to_vec()));
                at = end;
                continue;
            }
            [Token::Word(name), Token::Mark('!'), Token::Mark('('), Token::Text(argument), ..] => {
                if let Some((_, body)) = macros.iter().find(|(known, _)| known == name) {
                    found.push(expand(body, argument));
                    at += 4;
                    continue;
                }
            }
            [Token::Text(text), ..] => found.push(text.clone()),
            _ => {}
        }
        at += 1;
    }
    found
}

/// Tokens of a block in braces, with these.
fn block_len(tokens: &[Token]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('{') => depth += 1,
            Token::Mark('}') if depth == 1 => return at + 1,
            Token::Mark('}') => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

fn expand(body: &[Token], argument: &str) -> String {
    // Behind the pattern there is what the macro gives.
    let start = body.iter().position(|token| *token == Token::Mark('>')).unwrap();
    let mut text = String::new();
    for pair in body[start..].windows(2) {
        match pair {
            [Token::Mark('$'), Token::Word(_)] => text.push_str(argument),
            [_, Token::Text(part)] => text.push_str(part),
            _ => {}
        }
    }
    text
}

fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, behind)| behind);
        } else if first == '"' {
            let (text, behind) = literal(&rest[1..]);
            tokens.push(Token::Text(text));
            rest = behind;
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            // A quote as a character, which starts no text.
            let len = if rest.starts_with("'\"'") { 3 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.push(Token::Mark(first));
            }
            rest = &rest[len..];
        }
    }
    tokens
}

/// A text behind its first quote, and what follows the last one.
fn literal(source: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = source.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, &source[at + 1..]),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => text.push('\n'),
                // The text goes on at the next word.
                Some('\n') => {
                    let gap = chars.as_str().len() - chars.as_str().trim_start().len();
                    for _ in 0..chars.as_str()[..gap].chars().count() {
                        chars.next();
                    }
                }
                Some(other) => text.push(other),
                None => break,
            },
            _ => text.push(c),
        }
    }
    panic!("a text without an end");
}
