//! URLs of `PostgreSQL`: what the driver reads itself, and the parameters about TLS that it lacks.

use crate::error::SqlError;
use percent_encoding::percent_decode_str;
use std::path::PathBuf;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// Where a server is, and whose certificate it must show.
pub(crate) struct ServerUrl {
    pub(crate) config: Config,
    pub(crate) trust: Trust,
}

/// Whose certificate is taken, once a connection is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Anybody's: nobody listens in, but somebody may pretend to be the server.
    Anybody,
    /// One that an authority in this file has signed, for whatever name.
    SignedBy(PathBuf),
    /// One for the name in the URL, signed by an authority in this file, or by one that the
    /// machine trusts.
    Named(Option<PathBuf>),
}

impl ServerUrl {
    /// Reads a URL. No message repeats a value of it, which could be a password.
    pub(crate) fn parse(url: &str) -> Result<Self, SqlError> {
        let (place, parameters) = split(url);
        let (mut mode, mut root, mut others) = (None, None, Vec::new());
        for parameter in parameters.split('&').filter(|text| !text.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(decoded(value)?),
                Some(("sslrootcert", value)) => root = Some(decoded(value)?),
                _ => others.push(parameter),
            }
        }
        let mut config = format!("{place}?{}", others.join("&"))
            .parse::<Config>()
            .map_err(|_| refused(place, &others))?;
        let (mode, trust) = encryption(mode.as_deref(), root.filter(|file| !file.is_empty()))?;
        config.ssl_mode(mode);
        Ok(Self { config, trust })
    }
}

/// The part before the parameters, and the parameters. As for the driver, a password may hold a
/// question mark, and ends with the first `@`.
fn split(url: &str) -> (&str, &str) {
    let host = url.find('@').unwrap_or(0);
    match url[host..].find('?') {
        Some(mark) => (&url[..host + mark], &url[host + mark + 1..]),
        None => (url, ""),
    }
}

fn decoded(value: &str) -> Result<String, SqlError> {
    let text = percent_decode_str(value).decode_utf8();
    let text = text.map_err(|_| SqlError::config("a parameter of the URL is not valid UTF-8"))?;
    Ok(text.into_owned())
}

/// Names the parameter that the driver does not take, if it is one.
fn refused(place: &str, parameters: &[&str]) -> SqlError {
    let is_taken = |text: &str| format!("postgres://host/?{text}").parse::<Config>().is_ok();
    if place.parse::<Config>().is_ok()
        && let Some(parameter) = parameters.iter().find(|text| !is_taken(text))
    {
        let name = parameter.split_once('=').map_or(*parameter, |(name, _)| name);
        return SqlError::config(format!(
            "the parameter {name:?} of a PostgreSQL URL is not known, or its value cannot be used"
        ));
    }
    SqlError::config("a PostgreSQL URL looks like postgres://user:password@host/name")
}

fn encryption(mode: Option<&str>, root: Option<String>) -> Result<(SslMode, Trust), SqlError> {
    // The word by which other programs ask for the authorities that the machine trusts.
    let is_system = root.as_deref() == Some("system");
    let file = root.filter(|_| !is_system).map(PathBuf::from);
    let is_given = is_system || file.is_some();
    match (mode, file) {
        (None | Some("prefer" | "disable"), _) if is_given => Err(SqlError::config(
            "sslrootcert is looked at with sslmode=verify-full, verify-ca or require only",
        )),
        (Some("disable"), _) => Ok((SslMode::Disable, Trust::Anybody)),
        (None | Some("prefer"), _) => Ok((SslMode::Prefer, Trust::Anybody)),
        (Some("verify-full"), file) => Ok((SslMode::Require, Trust::Named(file))),
        (Some("require" | "verify-ca"), _) if is_system => Err(SqlError::config(
            "sslrootcert=system needs sslmode=verify-full: everybody can get a certificate from \
             an authority that the machine trusts, so the name has to be looked at",
        )),
        (Some("require"), None) => Ok((SslMode::Require, Trust::Anybody)),
        (Some("require" | "verify-ca"), Some(file)) => {
            Ok((SslMode::Require, Trust::SignedBy(file)))
        }
        (Some("verify-ca"), None) => Err(SqlError::config(
            "sslmode=verify-ca needs sslrootcert=FILE, the certificate of the authority that \
             signs for the server",
        )),
        (Some(_), _) => {
            Err(SqlError::config("sslmode is disable, prefer, require, verify-ca or verify-full"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(parameters: &str) -> Result<(SslMode, Trust), String> {
        let url = format!("postgres://user:secret?@host/name?{parameters}");
        let read = ServerUrl::parse(&url).map_err(|error| error.to_string())?;
        assert_eq!(read.config.get_dbname(), Some("name"));
        assert_eq!(read.config.get_password(), Some(&b"secret?"[..]));
        Ok((read.config.get_ssl_mode(), read.trust))
    }

    #[test]
    fn an_sslmode_is_honoured_or_refused_and_never_ignored() {
        let file = || PathBuf::from("/etc/our ca.pem");
        let root = "sslrootcert=/etc/our%20ca.pem";
        let with_root = |mode: &str| trust(&format!("{root}&sslmode={mode}&connect_timeout=3"));
        assert_eq!(trust(""), Ok((SslMode::Prefer, Trust::Anybody)));
        assert_eq!(trust("sslmode=disable"), Ok((SslMode::Disable, Trust::Anybody)));
        assert_eq!(trust("sslmode=require"), Ok((SslMode::Require, Trust::Anybody)));
        assert_eq!(trust("sslmode=verify-full"), Ok((SslMode::Require, Trust::Named(None))));
        assert_eq!(
            trust("sslmode=verify-full&sslrootcert=system"),
            Ok((SslMode::Require, Trust::Named(None)))
        );
        assert_eq!(with_root("require"), Ok((SslMode::Require, Trust::SignedBy(file()))));
        assert_eq!(with_root("verify-ca"), Ok((SslMode::Require, Trust::SignedBy(file()))));
        assert_eq!(with_root("verify-full"), Ok((SslMode::Require, Trust::Named(Some(file())))));
        for (parameters, part) in [
            ("sslmode=allow", "sslmode is disable, prefer"),
            ("sslmode=", "sslmode is disable, prefer"),
            ("sslmode=verify-ca", "needs sslrootcert=FILE"),
            ("sslmode=require&sslrootcert=system", "needs sslmode=verify-full"),
            (root, "is looked at with"),
            ("sslmode=disable&sslrootcert=a.pem", "is looked at with"),
        ] {
            let refused = trust(parameters).unwrap_err();
            assert!(refused.contains(part), "{parameters}: {refused}");
        }
    }

    #[test]
    fn an_unknown_parameter_is_named_without_its_value() {
        for parameters in ["sslkey=hidden", "sslmode=require&sslcert=hidden&connect_timeout=3"] {
            let refused = trust(parameters).unwrap_err();
            assert!(refused.contains("\"ssl") && !refused.contains("hidden"), "{refused}");
        }
        let refused = ServerUrl::parse("postgres://user:hidden@host:port/name").err().unwrap();
        assert!(refused.to_string().contains("looks like") && !refused.to_string().contains("hid"));
    }
}
