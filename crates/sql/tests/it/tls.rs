//! Encrypted connections: what each `sslmode` takes and refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use utxokeep_sql::{Database, Options, SqlError};
use utxokeep_testkit::postgres::OwnServer;

/// Runs openssl with words that are separated by spaces.
fn openssl(directory: &Path, words: &str) {
    let made = Command::new("openssl")
        .args(words.split(' '))
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .expect("openssl is missing: run 'make setup'");
    assert!(made.status.success(), "{words}: {}", String::from_utf8_lossy(&made.stderr));
}

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
const FOR_LOCALHOST: &str = "-addext subjectAltName=DNS:localhost -subj /CN=localhost";

/// Makes `NAME.crt` and `NAME.key` of an authority.
fn authority(directory: &Path, name: &str) -> PathBuf {
    let of = format!("-keyout {name}.key -out {name}.crt -subj /CN={name}");
    openssl(directory, &format!("req -x509 {NEW_KEY} {of}"));
    directory.join(format!("{name}.crt"))
}

/// Makes `server.crt` and `server.key` for the name localhost, signed by `authority`.
fn signed(directory: &Path, authority: &str) {
    let out = "-keyout server.key -out server.csr";
    openssl(directory, &format!("req {NEW_KEY} {FOR_LOCALHOST} {out}").replace(" -days 2", ""));
    std::fs::write(directory.join("names"), "subjectAltName=DNS:localhost").unwrap();
    let by = format!("-CA {authority}.crt -CAkey {authority}.key -CAcreateserial");
    openssl(
        directory,
        &format!("x509 -req -in server.csr {by} -extfile names -days 2 -sha384 -out server.crt"),
    );
}

/// Gives the server the certificate that lies in `directory`.
fn install(server: &OwnServer, directory: &Path) {
    for name in ["server.crt", "server.key"] {
        server.put(name, &std::fs::read_to_string(directory.join(name)).unwrap()).unwrap();
    }
    server.psql(&["ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"]).unwrap();
}

struct Client<'s>(&'s OwnServer);

impl Client<'_> {
    /// Whether the connection is encrypted; the host is localhost, or `host` in the parameters.
    fn encrypted(&self, user: &str, parameters: &str) -> Result<bool, SqlError> {
        let port = self.0.port();
        let url =
            format!("postgres://{user}@localhost:{port}/postgres?hostaddr=127.0.0.1&{parameters}");
        Self::ask(&url)
    }

    fn ask(url: &str) -> Result<bool, SqlError> {
        let question = "SELECT CAST(ssl AS TEXT) FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let database = Database::open(url, &Options::default())?;
        database.read(|tx| tx.query_one(question, &[], |row| Ok(row.text(0)? == "true")))
    }

    fn is(&self, encrypted: bool, parameters: &str) {
        let found = self.encrypted(self.0.user(), parameters);
        assert!(matches!(found, Ok(found) if found == encrypted), "{parameters}: {found:?}");
    }

    fn refused(&self, parameters: &str, part: &str) {
        let refused = self.encrypted(self.0.user(), parameters);
        let Err(SqlError::Unsuitable { what }) = refused else {
            panic!("{parameters}: {refused:?}")
        };
        assert!(what.contains(part), "{parameters}: {what}");
    }
}

/// Reloading takes a moment; asks until a fresh connection is encrypted by the newest certificate.
fn until_reloaded(client: &Client<'_>, parameters: &str) {
    for _ in 0..200 {
        if matches!(client.encrypted(client.0.user(), parameters), Ok(true)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    client.is(true, parameters);
}

#[test]
fn an_sslmode_is_kept_or_the_server_is_refused_with_what_to_do() {
    let Some(server) = OwnServer::start_or_skip(&[]) else { return };
    let directory = TempDir::new().unwrap();
    let ours = authority(directory.path(), "ours").display().to_string();
    let other = authority(directory.path(), "other").display().to_string();
    let client = Client(&server);

    // A server without TLS.
    client.is(false, "");
    client.is(false, "sslmode=prefer");
    client.refused("sslmode=require", "offers no TLS");
    client.refused(&format!("sslmode=verify-full&sslrootcert={ours}"), "set ssl = on");

    signed(directory.path(), "ours");
    install(&server, directory.path());
    until_reloaded(&client, "sslmode=require");
    client.is(true, "");
    client.is(true, "sslmode=prefer");
    client.is(false, "sslmode=disable");
    for mode in ["require", "verify-ca", "verify-full"] {
        client.is(true, &format!("sslmode={mode}&sslrootcert={ours}"));
        let with_other = format!("sslmode={mode}&sslrootcert={other}");
        client.refused(&with_other, "sslrootcert=FILE");
    }
    // The authorities of this machine do not know ours.
    client.refused("sslmode=verify-full", "authority that is not trusted");

    // Another name: the certificate is for localhost only.
    let by_number = |mode: &str| {
        let place = format!("postgres://{}@{}/postgres", server.user(), server.address());
        Client::ask(&format!("{place}?sslmode={mode}&sslrootcert={ours}"))
    };
    assert!(matches!(by_number("verify-ca"), Ok(true)));
    let refused = by_number("verify-full");
    let Err(SqlError::Unsuitable { what }) = refused else { panic!("{refused:?}") };
    assert!(what.contains("another name") && what.contains("localhost"), "{what}");

    // A file that holds no certificate is the user's fault, found before anybody is asked.
    for file in ["nowhere.crt", "names", "ours.key"] {
        let file = directory.path().join(file).display().to_string();
        let refused = client.encrypted("nobody", &format!("sslmode=verify-ca&sslrootcert={file}"));
        assert!(matches!(&refused, Err(SqlError::Config { what }) if what.contains(&file)));
    }

    // A login that is bound to the connection, and one that cannot be.
    server.psql(&["CREATE ROLE bound LOGIN PASSWORD 'secret'"]).unwrap();
    let rules = "host all bound 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n\
                 local all all trust\n";
    server.put("pg_hba.conf", rules).unwrap();
    server.psql(&["SELECT pg_reload_conf()"]).unwrap();
    let bound = |parameters: &str| client.encrypted("bound:secret", parameters);
    let require = "sslmode=require&channel_binding=require";
    let encrypted = bound(require);
    assert!(matches!(encrypted, Ok(true)), "{encrypted:?}");
    let clear = bound("sslmode=disable&channel_binding=require");
    assert!(matches!(clear, Err(SqlError::Unavailable { .. })), "{clear:?}");
}

#[test]
fn a_certificate_that_signs_itself_is_trusted_where_the_user_named_it() {
    let Some(server) = OwnServer::start_or_skip(&[]) else { return };
    let directory = TempDir::new().unwrap();
    let out = "-keyout server.key -out server.crt";
    openssl(directory.path(), &format!("req -x509 {NEW_KEY} {FOR_LOCALHOST} {out}"));
    install(&server, directory.path());
    let client = Client(&server);
    let own = format!("sslrootcert={}", directory.path().join("server.crt").display());
    until_reloaded(&client, &format!("sslmode=verify-full&{own}"));
    client.is(true, &format!("sslmode=verify-ca&{own}"));
    let other = authority(directory.path(), "other").display().to_string();
    client.refused(&format!("sslmode=verify-ca&sslrootcert={other}"), "certificate");
    let place = format!("postgres://{}@{}/postgres", server.user(), server.address());
    let refused = Client::ask(&format!("{place}?sslmode=verify-full&{own}"));
    assert!(
        matches!(&refused, Err(SqlError::Unsuitable { what }) if what.contains("another name"))
    );
}
