//! Credentials for RPC: read anew for each connection, because a node makes a new cookie at every
//! start.

use std::{
    env, fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::BitcoindError;

/// No cookie or password file is longer.
const SECRET_BYTES_MAX: u64 = 4_096;

/// How the node knows us. Holds the place of a secret, never the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// The `.cookie` file in the node's data directory.
    CookieFile(PathBuf),
    /// A user of the node's configuration.
    User {
        /// `rpcuser`, or the name in `rpcauth`.
        name: String,
        /// Where the password is.
        password: PasswordPlace,
    },
}

/// Where a password is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordPlace {
    /// In a file, alone; a line end behind it does not count.
    File(PathBuf),
    /// In a variable of the environment.
    Variable(String),
}

/// The value of the `Authorization` header.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Authorization(String);

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorization(hidden)")
    }
}

impl Authorization {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Credentials {
    /// Reads the secret.
    pub(super) fn read(&self) -> Result<Authorization, BitcoindError> {
        let pair = match self {
            Self::CookieFile(path) => {
                let cookie = read_secret(path).map_err(|source| {
                    let path = path.clone();
                    if source.kind() == io::ErrorKind::NotFound {
                        BitcoindError::NoCookie { path }
                    } else {
                        BitcoindError::Secret { path, source }
                    }
                })?;
                if !cookie.contains(':') {
                    return Err(BitcoindError::BadCookie { path: path.clone() });
                }
                cookie
            }
            Self::User { name, password } => {
                let password = match password {
                    PasswordPlace::File(path) => read_secret(path)
                        .map_err(|source| BitcoindError::Secret { path: path.clone(), source })?,
                    PasswordPlace::Variable(variable) => env::var(variable)
                        .map_err(|_| BitcoindError::NoPassword { variable: variable.clone() })?,
                };
                format!("{name}:{password}")
            }
        };
        Ok(Authorization(format!("Basic {}", STANDARD.encode(pair))))
    }
}

fn read_secret(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(SECRET_BYTES_MAX).read_to_string(&mut text)?;
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_from_their_places_and_shown_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "__cookie__:hunter2\n").unwrap();
        let cookie = Credentials::CookieFile(path.clone()).read().unwrap();
        assert_eq!(cookie.as_str(), "Basic X19jb29raWVfXzpodW50ZXIy");
        assert_eq!(format!("{cookie:?}"), "Authorization(hidden)");

        fs::write(&path, "hunter2\r\n").unwrap();
        let user = |password| Credentials::User { name: "me".to_owned(), password };
        let by_file = user(PasswordPlace::File(path.clone())).read().unwrap();
        assert_eq!(by_file.as_str(), "Basic bWU6aHVudGVyMg==");
        let error = Credentials::CookieFile(path.clone()).read().unwrap_err();
        assert!(matches!(error, BitcoindError::BadCookie { .. }), "{error}");
        assert!(!error.is_worth_retrying());

        let absent = Credentials::CookieFile(dir.path().join("none")).read().unwrap_err();
        assert!(matches!(absent, BitcoindError::NoCookie { .. }), "{absent}");
        assert!(absent.is_worth_retrying(), "a node that starts makes one");
        let variable = PasswordPlace::Variable("TEST_NO_SUCH_PASSWORD".to_owned());
        let absent = user(variable).read().unwrap_err();
        assert!(matches!(absent, BitcoindError::NoPassword { .. }), "{absent}");
    }
}
