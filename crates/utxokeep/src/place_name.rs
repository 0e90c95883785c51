//! What a node store is called, however its URL is spelled: a move knows its stores by these names.
//!
//! Nothing secret is in a name, and nothing that changes how a store is used but not which one it is:
//! user, password, order of servers, level of acknowledgement.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Port of a server of `PostgreSQL` whose URL names none.
const POSTGRES_PORT: &str = "5432";

/// Name of the store at a URL.
#[must_use]
pub fn name_for_move(url: &str) -> String {
    let (engine, place) = url.split_once(':').unwrap_or((url, ""));
    match engine {
        "rocksdb" | "sqlite" => format!("{engine}:{}", file(place).display()),
        "postgres" | "postgresql" => postgres(place),
        "redis" | "rediss" => cluster("redis", place, "prefix", "uk"),
        "aerospike" | "aerospikes" => cluster("aerospike", place, "set", "utxokeep"),
        _ => url.to_owned(),
    }
}

/// A path without links, `.` and `..`, as far as it is there.
fn file(place: &str) -> PathBuf {
    let path = Path::new(place);
    let beside = || {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(parent.join(path.file_name()?))
    };
    let found = path.canonicalize().ok().or_else(beside);
    found.or_else(|| std::path::absolute(path).ok()).unwrap_or_else(|| path.to_owned())
}

/// The value of a parameter; of several the last, as the engines take it.
fn parameter<'p>(parameters: &'p str, name: &str) -> Option<&'p str> {
    let pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(found, _)| *found == name).map(|(_, value)| value).next_back()
}

/// Servers in one order.
fn sorted(hosts: impl Iterator<Item = String>) -> String {
    let hosts: BTreeSet<String> = hosts.map(|host| host.to_ascii_lowercase()).collect();
    hosts.into_iter().collect::<Vec<_>>().join(",")
}

/// A store on a cluster: its servers, the namespace if it has one, and the name of its own.
fn cluster(engine: &str, place: &str, own: &str, usual: &str) -> String {
    let place = place.strip_prefix("//").unwrap_or(place);
    // A password may hold a question mark, but no @.
    let place = place.split_once('@').map_or(place, |(_, place)| place);
    let (place, parameters) = place.split_once('?').unwrap_or((place, ""));
    let (hosts, namespace) = place.split_once('/').unwrap_or((place, ""));
    let hosts = sorted(hosts.split(',').map(str::to_owned));
    let namespace = if namespace.is_empty() { String::new() } else { format!("/{namespace}") };
    let own = parameter(parameters, own)
        .filter(|value| *value != usual)
        .map_or_else(String::new, |value| format!("?{own}={value}"));
    format!("{engine}://{hosts}{namespace}{own}")
}

/// A store on `PostgreSQL`: its servers, the database, and the schema where the URL chooses one.
fn postgres(place: &str) -> String {
    let place = place.strip_prefix("//").unwrap_or(place);
    let (place, parameters) = place.split_once('?').unwrap_or((place, ""));
    let (user, place) = place.rsplit_once('@').unwrap_or(("", place));
    let user = user.split_once(':').map_or(user, |(user, _)| user);
    let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
    let asked = |name| parameter(parameters, name).unwrap_or_default();
    let first = |texts: [&str; 3]| {
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let hosts = first([hosts, asked("host"), "localhost"]);
    let port = first([asked("port"), POSTGRES_PORT, ""]);
    let with_port = |host: &str| {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        if has_port { host.to_owned() } else { format!("{host}:{port}") }
    };
    let hosts = sorted(hosts.split(',').map(with_port));
    let user = if user.is_empty() { asked("user") } else { user };
    let database = first([database, asked("dbname"), user]);
    let schema = asked("options");
    let schema = if schema.contains("search_path") { format!("?{schema}") } else { String::new() };
    format!("postgres://{hosts}/{database}{schema}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_store_has_one_name_however_its_url_is_spelled() {
        for (name, urls) in [
            (
                "postgres://host:5432/db",
                &[
                    "postgres://me:secret@host/db",
                    "postgresql://host:5432/db",
                    "postgres://HOST/db?user=me&password=secret&connect_timeout=5",
                    "postgres:///db?host=host",
                    "postgres://db:secret@host",
                ][..],
            ),
            ("postgres://a:5432,b:1/db", &["postgres://a,b:1/db", "postgresql://x@b:1,a:5432/db"]),
            (
                "redis://a:1,b:2?prefix=one",
                &[
                    "redis://:secret@a:1,b:2?ack=disk&prefix=one",
                    "rediss://me:s?cret@b:2,a:1,b:2/?prefix=one&retry_for_ms=9",
                    "redis://A:1,b:2?prefix=two&prefix=one",
                ],
            ),
            (
                "redis://a:1",
                &["redis://a:1", "redis://a:1?prefix=uk", "redis://me:s@a:1/?ack=disk"],
            ),
            (
                "aerospike://a:1,b:2/ns?set=two",
                &[
                    "aerospike://me:secret@a:1,b:2/ns?set=two&ack=primary",
                    "aerospikes://b:2,a:1/ns?consistency=available&set=two",
                ],
            ),
            ("aerospike://a:1/ns", &["aerospike://a:1/ns?set=utxokeep", "aerospike://a:1/ns"]),
            ("memory:", &["memory:"]),
        ] {
            for url in urls {
                assert_eq!(name_for_move(url), name, "{url}");
            }
        }
    }

    #[test]
    fn stores_of_one_server_have_different_names() {
        let urls = [
            "postgres://host/db",
            "postgres://host/other",
            "postgres://host:1/db",
            "postgres://host/db?options=-c%20search_path%3Dmine",
            "redis://a:1",
            "redis://a:1?prefix=one",
            "redis://a:1,b:2",
            "aerospike://a:1/ns",
            "aerospike://a:1/other",
            "aerospike://a:1/ns?set=two",
        ];
        let names: BTreeSet<String> = urls.iter().map(|url| name_for_move(url)).collect();
        assert_eq!(names.len(), urls.len(), "{names:?}");
    }

    #[test]
    fn files_are_known_by_their_place_and_not_by_the_way_there() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("a/b")).unwrap();
        let (home, there) =
            (home.display().to_string(), format!("{home}/a", home = home.display()));
        for engine in ["rocksdb", "sqlite"] {
            for spelled in ["a", "a/", "./a", "a/b/..", "a//."] {
                let url = format!("{engine}:{home}/{spelled}");
                assert_eq!(name_for_move(&url), format!("{engine}:{there}"), "{spelled}");
            }
            // One that is not there yet.
            let new = format!("{engine}:{home}/a/../a/new?x");
            assert_eq!(name_for_move(&new), format!("{engine}:{there}/new?x"));
        }
    }
}
