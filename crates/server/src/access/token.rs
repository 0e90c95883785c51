//! The token of this server, and the file that holds it.

use std::{
    fmt, fs,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use utxokeep_core::{ErrorKind, hex_encode};

/// Bytes of randomness in a new token.
const RANDOM_BYTES: usize = 32;
/// A shorter one could be guessed.
const LENGTH_MIN: usize = 32;
/// Longer than any that somebody means.
const LENGTH_MAX: usize = 4_096;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read the access token in {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The file cannot be created.
    #[error(
        "cannot create the access token {}; name a file that holds one with [server] token_file",
        file.display()
    )]
    Create {
        /// The file.
        file: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A directory, a device or a pipe stands where the file should be.
    #[error(
        "{} is not a file, so it holds no access token and was left as it is; name a file that holds one \
         with [server] token_file",
        file.display()
    )]
    NotAFile {
        /// Where the file should be.
        file: PathBuf,
    },
    /// What it holds is no token.
    #[error(
        "{} holds no access token: {LENGTH_MIN} to {LENGTH_MAX} letters, digits and - . _ ~ + / = in one \
         line are expected",
        file.display()
    )]
    Malformed {
        /// The file.
        file: PathBuf,
    },
}

impl TokenError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Malformed { .. } | Self::NotAFile { .. } => ErrorKind::Invalid,
            Self::Read { .. } | Self::Create { .. } => ErrorKind::Failed,
        }
    }
}

/// A token that clients send as `Authorization: Bearer TOKEN`.
#[derive(Clone)]
pub struct Token {
    text: String,
    digest: [u8; 32],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A token of this text; `None` when it could be guessed or cannot stand in a header.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        let fits = (LENGTH_MIN..=LENGTH_MAX).contains(&text.len());
        (fits && text.bytes().all(is_allowed))
            .then(|| Self { text: text.to_owned(), digest: digest(text.as_bytes()) })
    }

    /// Reads the token in a file. A file that others may read is reported.
    pub fn load(file: &Path) -> Result<Self, TokenError> {
        let (token, _, mode) = read(file)?;
        if mode & 0o077 != 0 {
            warn_of_readers(file, mode);
        }
        Ok(token)
    }

    /// Reads the token in a file of our own, which is created when it does not exist and is kept
    /// from other users.
    pub fn load_or_create(file: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Create { file: file.to_owned(), source };
        let found = match fs::symlink_metadata(file) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(file).map_err(failed)?;
                return Self::load(file);
            }
            Err(source) => return Err(TokenError::Read { file: file.to_owned(), source }),
        };
        let (token, opened, mode) = read(file)?;
        if mode & 0o077 != 0 && found.is_symlink() {
            // Somebody else's file: who may read it is theirs to say.
            warn_of_readers(file, mode);
        } else if mode & 0o077 != 0 {
            tracing::warn!(
                file = %file.display(),
                "other users of this machine could read the access token; it is kept from them now. \
                 Delete the file and restart to get another token"
            );
            opened.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
        }
        Ok(token)
    }

    /// Whether a header `Authorization` carries this token. Takes as long for any wrong token.
    #[must_use]
    pub fn is_sent_in(&self, header: &[u8]) -> bool {
        const SCHEME: &[u8] = b"bearer ";
        let Some((scheme, sent)) = header.split_at_checked(SCHEME.len()) else { return false };
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return false;
        }
        let sent = digest(sent.trim_ascii());
        // Digests tell nothing about how far two tokens agree, and all bytes are looked at.
        sent.iter().zip(&self.digest).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }

    /// What a client sends as `Authorization`.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.text)
    }
}

/// The token in a file, the open file and its mode. Nothing of the file is changed.
fn read(file: &Path) -> Result<(Token, File, u32), TokenError> {
    let failed = |source| TokenError::Read { file: file.to_owned(), source };
    // A pipe would keep the program waiting for somebody who writes to it.
    let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
    let opened =
        OpenOptions::new().read(true).custom_flags(without_waiting).open(file).map_err(failed)?;
    let found = opened.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(TokenError::NotAFile { file: file.to_owned() });
    }
    let mut bytes = Vec::new();
    (&opened).take(LENGTH_MAX as u64 + 2).read_to_end(&mut bytes).map_err(failed)?;
    let text = std::str::from_utf8(&bytes).ok().map(str::trim_end);
    let token = text.and_then(Token::new);
    let token = token.ok_or_else(|| TokenError::Malformed { file: file.to_owned() })?;
    Ok((token, opened, found.permissions().mode()))
}

fn warn_of_readers(file: &Path, mode: u32) {
    tracing::warn!(
        file = %file.display(),
        mode = format_args!("{:o}", mode & 0o777),
        "other users of this machine may read the access token; chmod 600 keeps it from them"
    );
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Creates the file with all of its content, or not at all; a file that appears meanwhile stays.
fn create(file: &Path) -> io::Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let mut random = [0; RANDOM_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    // One of a process that had the same id and was killed.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    let written = writeln!(new, "{}", hex_encode(&random)).and_then(|()| new.sync_all());
    // Unlike a rename this never replaces the token of a program that starts at the same time.
    let linked = written.and_then(|()| match fs::hard_link(&unfinished, file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    fs::remove_file(&unfinished)?;
    linked?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_right() {
        let text = "0123456789abcdef0123456789abcdef";
        let token = Token::new(text).unwrap();
        assert!(token.is_sent_in(format!("Bearer {text}").as_bytes()));
        assert!(token.is_sent_in(format!("bearer  {text} ").as_bytes()));
        for wrong in [
            String::new(),
            "Bearer".to_owned(),
            "Bearer ".to_owned(),
            format!("Bearer {}", &text[1..]),
            format!("Bearer {text}0"),
            format!("Basic {text}"),
            text.to_owned(),
        ] {
            assert!(!token.is_sent_in(wrong.as_bytes()), "{wrong}");
        }
        assert!(!format!("{token:?}").contains(text));
    }

    #[test]
    fn what_could_be_guessed_is_no_token() {
        for text in ["", "secret", &"a".repeat(31), &"ä".repeat(40), &"a b".repeat(20)] {
            assert!(Token::new(text).is_none(), "{text}");
        }
    }

    #[test]
    fn programs_that_start_together_agree_on_one_token() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/dir/token");
        // One process has one id: the second finds what the first has made.
        create(&file).unwrap();
        let first = Token::load_or_create(&file).unwrap();
        create(&file).unwrap();
        assert_eq!(Token::load(&file).unwrap().text, first.text, "it is never replaced");
        assert_eq!(
            fs::read_dir(file.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left over"
        );
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        Token::load_or_create(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&file, "short").unwrap();
        assert!(matches!(Token::load_or_create(&file), Err(TokenError::Malformed { .. })));
    }
}
