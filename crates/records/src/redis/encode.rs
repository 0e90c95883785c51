//! Cells and indexes as keys, commands and answers.

use std::ops::Bound;

use super::client::{Command, Reply};
use crate::{
    port::{Action, Cell, Expect, Fields, IndexPage, Key, ReadCell, ScanIndex, WriteCell, Written},
    version::Version,
};

/// Name and text of the functions.
pub(crate) const LIBRARY: &str = "utxokeep_records_2";
pub(crate) const LIBRARY_CODE: &str = include_str!("library.lua");

/// The hash tag of a shard: its number.
pub(crate) fn tag_of(shard: u16) -> String {
    shard.to_string()
}

/// Makes commands for one store.
#[derive(Debug, Clone)]
pub(crate) struct Encoder {
    pub(crate) prefix: String,
}

impl Encoder {
    fn cell_key(&self, key: &Key) -> Vec<u8> {
        let mut name = format!("{}:{{{}}}:", self.prefix, tag_of(key.shard)).into_bytes();
        name.extend(&key.name);
        name
    }

    fn index_key(&self, shard: u16, index: u8) -> Vec<u8> {
        format!("{}:{{{}}}#{index}", self.prefix, tag_of(shard)).into_bytes()
    }

    pub(crate) fn read(&self, read: &ReadCell) -> Command {
        let key = self.cell_key(&read.key);
        match &read.fields {
            Fields::All => Command::new("FCALL_RO").arg("utxokeep_all_2").arg("1").arg(key),
            Fields::Named(names) => {
                let mut command = Command::new("HMGET").arg(key).arg("@");
                command.args.extend(names.iter().cloned());
                command
            }
        }
    }

    pub(crate) fn write(&self, write: &WriteCell, has_barrier: bool) -> Command {
        let shard = write.key.shard;
        let mut indexes: Vec<u8> = write.index.iter().map(|change| change.index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let mut command = Command::new("FCALL").arg("utxokeep_write_2");
        let args = &mut command.args;
        args.push((1 + indexes.len()).to_string().into_bytes());
        args.push(self.cell_key(&write.key));
        args.extend(indexes.iter().map(|&index| self.index_key(shard, index)));
        args.push(match write.expect {
            Expect::Absent => Vec::new(),
            Expect::Version(version) => version.to_bytes().to_vec(),
        });
        args.push(write.version.to_bytes().to_vec());
        args.push(match write.action {
            Action::Keep => b"K".to_vec(),
            Action::Delete | Action::Discard => b"D".to_vec(),
        });
        args.push(write.expire_ms.map(|ms| ms.to_string().into_bytes()).unwrap_or_default());
        args.push(if has_barrier { b"1".to_vec() } else { b"0".to_vec() });
        args.push(write.not_after_ms.map(|ms| ms.to_string().into_bytes()).unwrap_or_default());
        args.push(write.set.len().to_string().into_bytes());
        args.push(write.unset.len().to_string().into_bytes());
        for (name, value) in &write.set {
            args.extend([name.clone(), value.clone()]);
        }
        args.extend(write.unset.iter().cloned());
        for change in &write.index {
            let place = indexes.iter().position(|index| *index == change.index);
            // The cell is the first of the keys, counted from 1.
            args.push((place.unwrap_or_default() + 2).to_string().into_bytes());
            args.push(change.score.map(|score| score.to_string().into_bytes()).unwrap_or_default());
            args.push(change.member.clone());
        }
        command
    }

    pub(crate) fn scan(&self, scan: &ScanIndex) -> Command {
        let (score, member, includes) = match &scan.from {
            Bound::Unbounded => (0, &[][..], true),
            Bound::Included((score, member)) => (*score, &member[..], true),
            Bound::Excluded((score, member)) => (*score, &member[..], false),
        };
        Command::new("FCALL_RO")
            .arg("utxokeep_scan_2")
            .arg("1")
            .arg(self.index_key(scan.shard, scan.index))
            .arg(score.to_string())
            .arg(member)
            .arg(if includes { "1" } else { "0" })
            .arg(scan.until.to_string())
            .arg(scan.limit.to_string())
    }
}

/// What a read answered; `Err` says what is wrong with the cell.
pub(crate) fn cell(read: &ReadCell, reply: Reply) -> Result<Option<Cell>, String> {
    let Reply::List(list) = reply else { return Err(format!("an answer of {reply:?}")) };
    let mut list = list.into_iter();
    let first = list.next().unwrap_or(Reply::Nil);
    let mut fields = Vec::new();
    match &read.fields {
        Fields::All => {
            while let (Some(name), Some(value)) = (list.next(), list.next()) {
                let pair = (name.into_bytes(), value.into_bytes());
                let (Some(name), Some(value)) = pair else {
                    return Err("a field that is no string".to_owned());
                };
                fields.push((name, value));
            }
        }
        Fields::Named(names) => {
            let found = names.iter().zip(list);
            let found = found.filter_map(|(name, value)| Some((name.clone(), value.into_bytes()?)));
            fields.extend(found);
        }
    }
    fields.sort_unstable();
    fields.dedup();
    match first {
        Reply::Nil if fields.is_empty() => Ok(None),
        Reply::Bytes(bytes) => match Version::from_bytes(&bytes) {
            Some(version) => Ok(Some(Cell { version, fields })),
            None => Err(format!("a version of {} bytes", bytes.len())),
        },
        _ => Err("fields without a version".to_owned()),
    }
}

/// What a write answered; `None` when it is no answer of the function.
pub(crate) fn written(reply: &Reply) -> Option<Written> {
    let Reply::Bytes(bytes) = reply else { return None };
    match bytes.split_first()? {
        (b'D', []) => Some(Written::Done),
        (b'A', []) => Some(Written::Mismatch(None)),
        (b'M', version) => Some(Written::Mismatch(Some(Version::from_bytes(version)?))),
        _ => None,
    }
}

/// What TIME answered, in milliseconds.
pub(crate) fn time_ms(reply: Reply) -> Option<u64> {
    let Reply::List(parts) = reply else { return None };
    let mut parts = parts.into_iter().map(|part| part.into_text()?.parse::<u64>().ok());
    let (seconds, micros) = (parts.next()??, parts.next()??);
    Some(seconds * 1_000 + micros / 1_000)
}

/// What a scan answered.
pub(crate) fn page(reply: Reply) -> Option<IndexPage> {
    let Reply::List(list) = reply else { return None };
    let mut rows = Vec::with_capacity(list.len() / 2);
    let mut list = list.into_iter();
    while let (Some(score), Some(member)) = (list.next(), list.next()) {
        rows.push((score.into_text()?.parse().ok()?, member.into_bytes()?));
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_arguments_are_pinned() {
        let encoder = Encoder { prefix: "uk".to_owned() };
        let key = Key::new(12, [b'u', 0xff]);
        let write = WriteCell::update(key.clone(), Version::new(1), Version::new(2))
            .set("r", "x")
            .unset("s")
            .expires_in_ms(30)
            .not_after_ms(99)
            .index(3, "m", Some(7))
            .index(1, "m", None);
        let command = encoder.write(&write, true);
        let args: Vec<String> =
            command.args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
        assert_eq!(
            args.join(" "),
            "utxokeep_write_2 3 uk:{12}:u\\xff uk:{12}#1 uk:{12}#3 \
             \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01 \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02 \
             K 30 1 99 1 1 r x s 3 7 m 2  m"
        );
        let read = encoder.read(&ReadCell::fields(key, [b"r".to_vec()]));
        assert_eq!((read.name, read.args.len()), ("HMGET", 3));
    }

    #[test]
    fn another_text_of_the_library_needs_another_number() {
        // FNV-1a, 64 bits. Servers that have this number keep the text that they were given first.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = LIBRARY_CODE.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        assert_eq!((LIBRARY, hash), ("utxokeep_records_2", 0x8f12_d38d_996e_d034));
        assert!(LIBRARY_CODE.starts_with(&format!("#!lua name={LIBRARY}\n")));
    }

    #[test]
    fn a_damaged_cell_is_told_from_an_absent_one() {
        let read = ReadCell::fields(Key::new(1, "k"), [b"r".to_vec()]);
        let bytes = |bytes: &[u8]| Reply::Bytes(bytes.to_vec());
        let list = |first, second| Reply::List(vec![first, second]);
        assert_eq!(cell(&read, list(Reply::Nil, Reply::Nil)), Ok(None));
        assert!(cell(&read, list(Reply::Nil, bytes(b"x"))).is_err());
        assert!(cell(&read, list(bytes(b"short"), bytes(b"x"))).is_err());
        let found = cell(&read, list(bytes(&[0; 8]), bytes(b"x"))).unwrap().unwrap();
        assert_eq!(found.get(b"r"), Some(&b"x"[..]));
        assert_eq!(written(&bytes(b"D")), Some(Written::Done));
        assert_eq!(written(&bytes(b"A")), Some(Written::Mismatch(None)));
        assert_eq!(written(&bytes(b"Mshort")), None);
        assert_eq!(written(&Reply::Nil), None);
    }
}
