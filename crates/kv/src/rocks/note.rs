//! The file that says how far acknowledged writes reach: its name, its text, and what it proves.
//!
//! There is one such file in a database, `ACKNOWLEDGED-SESSION-LOG`. It is renamed whenever the
//! database is opened to be written and whenever another log is begun, and renaming is atomic: no
//! crash leaves two. Two of them are of two states of a database, as when an older backup was copied
//! over a newer directory. RocksDB would open such a mixture, and lack what lies between the two.
//!
//! A copy that was taken during the same log has the same name. It brings the log and the manifest
//! of its time along, and nothing but a log could have been written since: what opens then is that
//! copy, whole.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use crate::KvError;

/// How the name begins. Earlier versions had nothing behind it.
pub(super) const STEM: &str = "ACKNOWLEDGED";
const TITLE: &str = "utxokeep acknowledged writes 2";
/// Without the manifest.
const TITLE_BEFORE: &str = "utxokeep acknowledged writes 1";
/// Longer than the file ever is.
const FILE_BYTES_MAX: usize = 1_024;
/// What Linux calls its boot; elsewhere there is none.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Looks at a directory whose files are being renamed, before what is seen is believed.
const LOOKS_MAX: usize = 16;

/// A place in the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Reach {
    /// Number of the log; 0 for none.
    pub(super) log: u64,
    /// The file has at least this many bytes.
    pub(super) bytes: u64,
    /// Whole records reach at least to this byte. Less than `bytes` where another write was under
    /// way when the length was taken.
    pub(super) whole: u64,
}

/// A manifest, which RocksDB syncs with every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Manifest {
    /// Number in its name; 0 where it is unknown. It never shrinks.
    pub(super) number: u64,
    /// The file has at least this many bytes.
    pub(super) bytes: u64,
}

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// What was handed to the operating system.
    pub(super) written: Reach,
    /// What a commit waited for the disk with.
    pub(super) synced: Reach,
    /// The manifest that `CURRENT` named.
    pub(super) manifest: Manifest,
    /// Boot of the machine that `written` is true for; empty where that is unknown.
    pub(super) boot: String,
}

impl Mark {
    /// Always of the same length for the same boot id, so that writing in place leaves no rest.
    pub(super) fn encode(&self) -> String {
        let mut text = String::with_capacity(FILE_BYTES_MAX);
        let reach = |name: &str, Reach { log, bytes, whole }: Reach| {
            format!("{name} log {log:020} bytes {bytes:020} whole {whole:020}\n")
        };
        text.push_str(TITLE);
        text.push('\n');
        text.push_str(&reach("written", self.written));
        text.push_str(&reach("synced", self.synced));
        // Writing into a text does not fail.
        let Manifest { number, bytes } = self.manifest;
        let _ = writeln!(text, "manifest {number:020} bytes {bytes:020}");
        let _ = writeln!(text, "boot {:>40}", self.boot);
        let _ = writeln!(text, "crc32c {:08x}", crc32c::crc32c(text.as_bytes()));
        text
    }

    fn decode(text: &str) -> Option<Self> {
        let (body, sum) = text.split_at_checked(text.rfind("crc32c ")?)?;
        if u32::from_str_radix(sum.strip_prefix("crc32c ")?.trim_end(), 16)
            != Ok(crc32c::crc32c(body.as_bytes()))
        {
            return None;
        }
        let mut lines = body.lines();
        let has_manifest = match lines.next()? {
            TITLE => true,
            TITLE_BEFORE => false,
            _ => return None,
        };
        let mut reach = |name: &str| {
            let mut words = lines.next()?.split_ascii_whitespace();
            (words.next()? == name).then_some(())?;
            let mut number = |name: &str| {
                (words.next()? == name).then_some(())?;
                words.next()?.parse().ok()
            };
            Some(Reach { log: number("log")?, bytes: number("bytes")?, whole: number("whole")? })
        };
        let (written, synced) = (reach("written")?, reach("synced")?);
        let manifest = if has_manifest {
            let (number, bytes) = lines.next()?.strip_prefix("manifest ")?.split_once(" bytes ")?;
            Manifest { number: number.parse().ok()?, bytes: bytes.parse().ok()? }
        } else {
            Manifest::default()
        };
        let boot = lines.next()?.strip_prefix("boot ")?.trim().to_owned();
        Some(Self { written, synced, manifest, boot })
    }
}

pub(super) fn boot_id() -> String {
    let text = fs::read_to_string(BOOT_ID).unwrap_or_default();
    text.trim().chars().filter(char::is_ascii).take(40).collect()
}

/// Name of the file in a session, while `log` is the newest log.
pub(super) fn name(session: u64, log: u64) -> String {
    format!("{STEM}-{session:016x}-{log:06}")
}

fn is_note(name: &str) -> bool {
    name == STEM || name.strip_prefix(STEM).is_some_and(|rest| rest.starts_with('-'))
}

/// The files of this kind in `dir`, by name. While somebody renames one, both of its names or none
/// may be seen.
pub(super) fn listed(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_note(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The note of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) name: String,
    /// Nothing is claimed by a file that cannot be read whole.
    mark: Mark,
}

/// Reads the note in `dir`; there is none in a database of an older version. Two are refused.
pub(super) fn find(dir: &Path) -> Result<Option<Note>, KvError> {
    let fault = |error| KvError::engine("reading ACKNOWLEDGED", error);
    for _ in 0..LOOKS_MAX {
        let names = match listed(dir) {
            Ok(names) => names,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(fault(error)),
        };
        match &names[..] {
            [] => return Ok(None),
            [name] => match fs::read(dir.join(name)) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(FILE_BYTES_MAX)]);
                    let mark = Mark::decode(&text).unwrap_or_default();
                    return Ok(Some(Note { name: name.clone(), mark }));
                }
                // Renamed since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(fault(error)),
            },
            // A name that is gone never comes back, so the second was there beside the first.
            [first, second, ..] if [first, second, first].iter().all(|one| exists(dir, one)) => {
                return Err(KvError::Mixed {
                    path: dir.to_owned(),
                    first: first.clone(),
                    second: second.clone(),
                });
            }
            _ => {}
        }
    }
    Ok(None)
}

fn exists(dir: &Path, name: &str) -> bool {
    dir.join(name).symlink_metadata().is_ok()
}

impl Note {
    /// What the database must still have in its logs.
    pub(super) fn claimed(&self) -> Reach {
        let is_same_boot = !self.mark.boot.is_empty() && self.mark.boot == boot_id();
        if is_same_boot { self.mark.written } else { self.mark.synced }
    }

    /// Refuses a `CURRENT` from before this note, which came from an older copy, and a manifest that
    /// is shorter than it was: RocksDB takes the rest for the whole, and forgets tables and rows.
    pub(super) fn refuse_other_manifest(&self, dir: &Path) -> Result<(), KvError> {
        let Manifest { number: noted, bytes: noted_bytes } = self.mark.manifest;
        let Some((number, file)) = current_manifest(dir) else { return Ok(()) };
        if number < noted {
            return Err(KvError::Mixed {
                path: dir.to_owned(),
                first: format!("CURRENT, which names {file}"),
                second: format!("{}, which knows a newer manifest", self.name),
            });
        }
        match fs::metadata(dir.join(&file)) {
            Ok(found) if number == noted && found.len() < noted_bytes => {
                let path = dir.to_owned();
                Err(KvError::CutManifest { path, file, bytes: found.len(), noted_bytes })
            }
            // RocksDB says what else is wrong with it.
            _ => Ok(()),
        }
    }
}

/// What the database in `dir` must still have in its logs. Nothing where there is no note, or where
/// it cannot be read whole.
pub(super) fn claimed(dir: &Path) -> Result<Reach, KvError> {
    Ok(find(dir)?.map(|note| note.claimed()).unwrap_or_default())
}

/// Number and name of the manifest that `CURRENT` names, where that can be read.
pub(super) fn current_manifest(dir: &Path) -> Option<(u64, String)> {
    let named = fs::read_to_string(dir.join("CURRENT")).ok()?;
    let named = named.trim_end();
    Some((named.strip_prefix("MANIFEST-")?.parse().ok()?, named.to_owned()))
}

/// A log as it lies on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) log: u64,
    /// Length of the file.
    pub(super) bytes: u64,
    /// Where whole records end.
    pub(super) whole: u64,
}

/// Which log lacks acknowledged writes, from which byte on, and what is wrong with it. `logs` are
/// in the order of their numbers.
pub(super) fn shortfall(claimed: Reach, logs: &[Extent]) -> Option<(u64, u64, &'static str)> {
    if claimed.log == 0 {
        return None;
    }
    if logs.last().is_none_or(|newest| newest.log < claimed.log) {
        return Some((claimed.log, 0, "the file is missing, and acknowledged writes were in it"));
    }
    let log = logs.iter().find(|log| log.log == claimed.log)?;
    if log.bytes < claimed.bytes || log.whole < claimed.whole {
        return Some((log.log, log.whole, "it ends before writes that were acknowledged"));
    }
    None
}

/// Takes the claim back, because its loss was accepted. What it said is kept in `lost`.
pub(super) fn put_aside(dir: &Path, lost: &Path) -> io::Result<()> {
    listed(dir)?.iter().try_for_each(|name| fs::rename(dir.join(name), lost.join(STEM)))
}

/// Takes the claim back, because the database is deleted.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    let names = match listed(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    names.iter().try_for_each(|name| fs::remove_file(dir.join(name)))
}

/// Where a note of this name is.
pub(super) fn path(dir: &Path, session: u64, log: u64) -> PathBuf {
    dir.join(name(session, log))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: Reach = Reach { log: 9, bytes: 500, whole: 400 };

    #[test]
    fn a_mark_is_read_as_it_was_written_and_a_torn_one_claims_nothing() {
        let synced = Reach { log: 8, ..REACH };
        let manifest = Manifest { number: 17, bytes: 70 };
        let mark = Mark { written: REACH, synced, manifest, boot: "a-b".to_owned() };
        let text = mark.encode();
        assert_eq!(Mark::decode(&text), Some(mark));
        for cut in 0..text.len() - 1 {
            assert_eq!(Mark::decode(&text[..cut]), None, "{cut}");
        }
        assert_eq!(Mark::decode(&text.replace("500", "501")), None);
        assert_eq!(Mark::decode(&"\0".repeat(text.len())), None);
    }

    #[test]
    fn a_mark_of_the_version_before_is_read() {
        let mark = Mark { written: REACH, boot: "a-b".to_owned(), ..Mark::default() };
        let text = mark.encode();
        let (body, _) = text.split_at(text.rfind("crc32c ").unwrap());
        let body: String = body
            .lines()
            .filter(|line| !line.starts_with("manifest"))
            .fold(String::new(), |text, line| text + &line.replace(TITLE, TITLE_BEFORE) + "\n");
        let sum = crc32c::crc32c(body.as_bytes());
        assert_eq!(Mark::decode(&format!("{body}crc32c {sum:08x}\n")), Some(mark));
    }

    #[test]
    fn two_notes_are_of_two_states_and_an_older_manifest_is_of_an_older_copy() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path();
        assert_eq!(find(path).unwrap(), None);
        let mark = Mark { manifest: Manifest { number: 7, bytes: 3 }, ..Mark::default() };
        fs::write(path.join(name(1, 4)), mark.encode()).unwrap();
        let note = find(path).unwrap().unwrap();
        for (manifest, is_older) in [("MANIFEST-000006", true), ("MANIFEST-000007", false)] {
            fs::write(path.join("CURRENT"), format!("{manifest}\n")).unwrap();
            fs::write(path.join(manifest), b"1234").unwrap();
            assert_eq!(note.refuse_other_manifest(path).is_err(), is_older, "{manifest}");
        }
        fs::write(path.join("MANIFEST-000007"), b"12").unwrap();
        let cut = note.refuse_other_manifest(path);
        assert!(
            matches!(cut, Err(KvError::CutManifest { bytes: 2, noted_bytes: 3, .. })),
            "{cut:?}"
        );
        for other in [name(1, 5), name(2, 4), STEM.to_owned()] {
            fs::write(path.join(&other), b"").unwrap();
            assert!(matches!(find(path), Err(KvError::Mixed { .. })), "{other}");
            fs::remove_file(path.join(&other)).unwrap();
        }
        assert_eq!(find(path).unwrap(), Some(note));
    }

    #[test]
    fn only_a_log_that_lacks_acknowledged_writes_falls_short() {
        let log = |log, bytes, whole| Extent { log, bytes, whole };
        let sound: [&[Extent]; 5] = [
            &[log(9, 500, 400)],
            &[log(8, 1, 1), log(9, 600, 600)],
            // It went into tables, and a newer one was begun.
            &[log(10, 0, 0)],
            &[log(7, 9, 9), log(10, 0, 0)],
            &[log(9, 500, 450), log(10, 0, 0)],
        ];
        for logs in sound {
            assert_eq!(shortfall(REACH, logs), None, "{logs:?}");
        }
        let short: [(&[Extent], u64); 5] = [
            (&[], 0),
            (&[log(8, 900, 900)], 0),
            (&[log(9, 499, 450)], 450),
            (&[log(9, 500, 399)], 399),
            (&[log(9, 0, 0), log(10, 10, 10)], 0),
        ];
        for (logs, from) in short {
            let (number, at, _) = shortfall(REACH, logs).unwrap();
            assert_eq!((number, at), (9, from), "{logs:?}");
        }
        assert_eq!(shortfall(Reach::default(), &[]), None);
    }
}
