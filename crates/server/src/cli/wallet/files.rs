//! Files that commands read and write.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::cli::error::CliError;

/// The text of a file, or of stdin when the name is `-`. More than `bytes_max` is refused.
pub(super) fn read_text(path: &Path, bytes_max: usize) -> Result<String, CliError> {
    String::from_utf8(read_bytes(path, bytes_max)?).map_err(|_| {
        let source = io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8");
        CliError::ReadFile { path: path.to_owned(), source }
    })
}

/// The bytes of a file, likewise.
pub(in crate::cli) fn read_bytes(path: &Path, bytes_max: usize) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::ReadFile { path: path.to_owned(), source };
    let mut input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(failed)?)
    };
    let mut bytes = Vec::new();
    // One byte above the limit tells a file that fits from one that does not.
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    input.by_ref().take(limit).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > bytes_max {
        return Err(CliError::FileTooLong { path: path.to_owned(), bytes_max });
    }
    Ok(bytes)
}

/// A file that did not exist before, or that has what is to be written. A new one goes away again
/// unless it is written.
pub(in crate::cli) struct NewFile {
    path: PathBuf,
    file: File,
    is_new: bool,
}

impl NewFile {
    pub(in crate::cli) fn create(path: &Path) -> Result<Self, CliError> {
        let file = File::create_new(path)
            .map_err(|source| CliError::WriteFile { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file, is_new: true })
    }

    /// The same where `happened` says that this was asked for before: then the file may be there, if
    /// it has what is to be written, or the beginning of it, which a crash left.
    pub(super) fn create_or_repeat(
        path: &Path,
        ledger_url: &str,
        happened: impl FnOnce() -> anyhow::Result<bool>,
    ) -> anyhow::Result<Self> {
        let exists = match Self::create(path) {
            Err(CliError::WriteFile { path, source })
                if source.kind() == io::ErrorKind::AlreadyExists =>
            {
                CliError::WriteFile { path, source }
            }
            created => return Ok(created?),
        };
        refuse_ledger(path, ledger_url)?;
        if !fs::metadata(path).is_ok_and(|file| file.is_file()) || !happened()? {
            return Err(exists.into());
        }
        let file = OpenOptions::new().read(true).append(true).open(path);
        let file = file.map_err(|source| CliError::WriteFile { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file, is_new: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::cli) fn write(mut self, content: &[u8]) -> Result<(), CliError> {
        let missing = if self.is_new { Some(content) } else { self.missing(content)? };
        let missing = missing.ok_or_else(|| CliError::OtherContent { path: self.path.clone() })?;
        let written = self.file.write_all(missing).and_then(|()| self.file.sync_all());
        let written = written.and_then(|()| sync_directory_of(&self.path));
        written.map_err(|source| CliError::WriteFile { path: self.path.clone(), source })?;
        self.is_new = false;
        Ok(())
    }

    /// What the file lacks of `content`; `None` when it has something else.
    fn missing<'c>(&self, content: &'c [u8]) -> Result<Option<&'c [u8]>, CliError> {
        let found = read_bytes(&self.path, content.len());
        match found {
            Ok(found) => Ok(content.strip_prefix(found.as_slice())),
            Err(CliError::FileTooLong { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.is_new {
            // An empty file that stays harms nobody.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Refuses to write to a file of the ledger itself, under whatever name.
pub(super) fn refuse_ledger(path: &Path, ledger_url: &str) -> Result<(), CliError> {
    let Some(ledger) = ledger_url.strip_prefix("sqlite:") else { return Ok(()) };
    let ledger = ledger.strip_prefix("//").unwrap_or(ledger);
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let asked = identity(path);
    for end in ["", "-wal", "-shm"] {
        let own = identity(Path::new(&format!("{ledger}{end}")));
        if own.is_some() && own == asked {
            return Err(CliError::ArchiveIsLedger { path: path.to_owned() });
        }
    }
    Ok(())
}

/// A file to which lines of JSON are added.
pub(super) struct Archive {
    path: PathBuf,
    file: File,
}

impl Archive {
    pub(super) fn open(path: &Path) -> Result<Self, CliError> {
        let failed = |source| CliError::WriteFile { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        let mut file = match options.clone().create_new(true).open(path) {
            Ok(file) => {
                sync_directory_of(path).map_err(failed)?;
                file
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                options.open(path).map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        };
        end_last_line(&mut file).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Adds lines, and waits until they are on disk.
    pub(super) fn append<'l>(
        &mut self,
        lines: impl Iterator<Item = &'l str>,
    ) -> Result<(), CliError> {
        let failed = |source| CliError::NotArchived { path: self.path.clone(), source };
        let mut text = String::new();
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all()).map_err(failed)
    }
}

/// Ends a line that a crash has cut, so that the next one stands for itself.
fn end_last_line(file: &mut File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(());
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    if last == *b"\n" { Ok(()) } else { file.write_all(b"\n") }
}

/// Makes sure that a new file is still there after a power cut.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_refused_and_short_ones_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("text");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        assert!(matches!(read_text(&path, 4), Err(CliError::FileTooLong { bytes_max: 4, .. })));
        fs::write(&path, [0xff]).unwrap();
        assert!(matches!(read_text(&path, 5), Err(CliError::ReadFile { .. })));
    }

    #[test]
    fn a_new_file_stays_only_if_it_is_written_and_never_replaces_another() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new");
        drop(NewFile::create(&path).unwrap());
        assert!(!path.exists());
        NewFile::create(&path).unwrap().write(b"text").unwrap();
        assert!(NewFile::create(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"text");
    }

    #[test]
    fn what_was_asked_for_before_may_be_in_its_file_already() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("again");
        let again = |happened| NewFile::create_or_repeat(&path, "sqlite:none", || Ok(happened));
        again(false).unwrap().write(b"text").unwrap();
        assert!(again(false).is_err());
        again(true).unwrap().write(b"text").unwrap();
        for other in ["tex", "test", "te"] {
            let refused = again(true).unwrap().write(other.as_bytes());
            assert!(matches!(refused, Err(CliError::OtherContent { .. })), "{other}");
        }
        drop(again(true).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"text");
        // A crash left its beginning, or nothing.
        for cut in ["", "te"] {
            fs::write(&path, cut).unwrap();
            again(true).unwrap().write(b"text").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"text");
        }
        let ledger = format!("sqlite:{}", path.display());
        assert!(NewFile::create_or_repeat(&path, &ledger, || Ok(true)).is_err());
    }
}
