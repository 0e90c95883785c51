//! Who may use the routes of wallets: programs that know the token, and no page of another origin.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use serde_json::json;
use utxokeep_server::access::{Pages, RestAccess, Token};

use crate::{
    http::{Reply, exchange},
    wallet_rest::{
        client::{Api, txid},
        described::ROUTES,
        program::{serve, start},
    },
};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const WALLETS: &str = "/api/v1/wallets";
/// What a browser adds to a request of a page of another origin.
const CROSS_SITE: &str = "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n";

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

/// Requests as browsers send them for pages of other origins: forms, images, scripts, frames, `fetch`
/// without a question first, and everything once a name was made to lead here.
fn foreign_requests(address: &str) -> Vec<(&'static str, String, &'static str)> {
    let json = "Content-Type: application/json\r\n";
    vec![
        ("POST", format!("{CROSS_SITE}Content-Type: text/plain\r\n"), "foreign_page"),
        (
            "POST",
            format!("{CROSS_SITE}Content-Type: application/x-www-form-urlencoded\r\n"),
            "foreign_page",
        ),
        ("POST", format!("{CROSS_SITE}{json}"), "foreign_page"),
        ("POST", format!("Origin: null\r\n{json}"), "foreign_page"),
        // Another server of this machine is the same site, and another origin.
        ("POST", format!("Origin: http://localhost:3000\r\n{json}"), "foreign_page"),
        ("POST", format!("Sec-Fetch-Site: same-site\r\n{json}"), "foreign_page"),
        ("GET", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: image\r\n".to_owned(), "foreign_page"),
        (
            "GET",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n"
                .to_owned(),
            "foreign_page",
        ),
        (
            "POST",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"
                .to_owned(),
            "foreign_page",
        ),
        ("GET", "Host: evil.example\r\n".to_owned(), "foreign_host"),
        ("GET", "Host: evil.example\r\nSec-Fetch-Site: same-origin\r\n".to_owned(), "foreign_host"),
        (
            "POST",
            format!("Host: evil.example\r\nOrigin: http://evil.example\r\n{json}"),
            "foreign_host",
        ),
        ("GET", format!("Host: {address}\r\nHost: evil.example\r\n"), "foreign_host"),
        // What a page says twice counts as foreign, though the first is ours.
        (
            "GET",
            format!("Origin: http://{address}\r\nOrigin: http://evil.example\r\n"),
            "foreign_page",
        ),
        ("GET", "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n".to_owned(), "foreign_page"),
        ("OPTIONS", format!("{CROSS_SITE}Access-Control-Request-Method: POST\r\n"), "foreign_page"),
        ("OPTIONS", format!("{CROSS_SITE}Access-Control-Request-Method: GET\r\n"), "foreign_page"),
    ]
}

#[test]
fn a_page_of_another_origin_reads_and_changes_nothing_even_with_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let program = start(dir.path(), "");
    let make = json!({ "name": "w", "network": "regtest" }).to_string();
    assert_eq!(program.ask("POST", WALLETS, &make).status, 201);
    let archive = format!("{WALLETS}/w/archive");
    let address = program.rest().to_string();
    let with_token = format!("Authorization: Bearer {}\r\n", program.token());
    for path in [archive.as_str(), "/api/v1/wallets", "/health", "/metrics", "/openapi.json"] {
        for (method, lines, code) in foreign_requests(&address) {
            for token in ["", &with_token] {
                let refused = program.send(method, path, &format!("{lines}{token}"), "");
                refused.bad(403, code);
                assert!(!refused.headers.contains("access-control-"), "{refused:?}");
            }
        }
    }
    let absolute = format!("GET http://evil.example{WALLETS} HTTP/1.1\r\nHost: {address}\r\n");
    let absolute = format!("{absolute}{with_token}Connection: close\r\n\r\n");
    exchange(program.rest(), absolute.as_bytes()).bad(403, "foreign_host");
    let shown = program.ask("GET", &format!("{WALLETS}/w"), "").good();
    assert!(shown["archived_at"].is_null(), "{shown}");
    // The page of this server itself, in a browser.
    let own = format!("Origin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n{with_token}");
    let lines = format!("Host: {address}\r\n{own}Content-Type: application/json\r\n");
    assert_eq!(program.send("POST", &archive, &lines, "{}").status, 200);
    let metrics = program.send("GET", "/metrics", "", "").text;
    assert!(metrics.contains("utxokeep_rest_refused_total{reason=\"foreign_host\"}"), "{metrics}");
}

#[test]
fn every_route_of_wallets_wants_the_token() {
    let api = Api::guarded(RestAccess { token: Token::new(TOKEN), ..RestAccess::default() });
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    for route in ROUTES {
        let (method, path) = route.split_once(' ').unwrap();
        let path = path.replace("{wallet}", "none").replace("{descriptor_id}", "1");
        let path = path.replace("{tx_hash}", &txid(1)).replace("{outpoint}", &txid(1));
        let path = path.replace("{chain}", "bitcoin").replace("{network}", "regtest");
        let missing = api.send_with(method, &path, "application/json", "{}", "");
        missing.bad(401, "token_missing");
        assert!(missing.headers.contains("www-authenticate: bearer"), "{missing:?}");
        let twice = format!("{right}Authorization: Bearer x\r\n");
        for wrong in ["Authorization: Bearer 0123\r\n", "Authorization: Basic YTpi\r\n", &twice] {
            let refused = api.send_with(method, &path, "application/json", "{}", wrong);
            refused.bad(401, "token_wrong");
        }
        let known = api.send_with(method, &path, "application/json", "{}", &right);
        assert_ne!(known.status, 401, "{route}: {known:?}");
    }
    // Also where nothing is: an unknown route tells nothing to a stranger who would write.
    api.send_with("POST", "/api/v1/none", "", "", "").bad(401, "token_missing");
    for open in ["/health", "/metrics", "/openapi.json", "/docs/"] {
        assert_eq!(api.get(open).status, 200, "{open}");
    }
}

#[test]
fn the_token_is_made_at_the_first_start_kept_and_never_said() {
    let dir = tempfile::tempdir().unwrap();
    let program = start(dir.path(), "");
    let (file, token) = (program.token_file(), program.token());
    assert_eq!(file, dir.path().join("none/access-token"));
    assert_eq!((token.len(), mode(&file)), (64, 0o600));
    assert_eq!(mode(&dir.path().join("ledger")), 0o600);
    program.ask("GET", WALLETS, "").good();
    program.send("GET", WALLETS, "Authorization: Bearer wrong\r\n", "").bad(401, "token_wrong");
    assert!(!program.stop_by("INT").contains(&token));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let program = start(dir.path(), "");
    assert_eq!((program.token(), mode(&file)), (token, 0o600));
    assert!(program.stop_by("INT").contains("could read the access token"));

    let own = dir.path().join("own");
    let setting = format!("[server]\ntoken_file = \"{}\"\n", own.display());
    let missing = serve(dir.path(), &setting).args(["--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(!own.exists(), "a file that was named is never created");
    fs::write(&own, format!("{TOKEN}\n")).unwrap();
    let program = start(dir.path(), &setting);
    assert_eq!((program.token_file(), program.token()), (own, TOKEN.to_owned()));
    program.ask("GET", WALLETS, "").good();
}

#[test]
fn what_is_no_token_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("none");
    fs::create_dir(&data).unwrap();
    let (file, other, folder) =
        (data.join("access-token"), dir.path().join("other"), dir.path().join("folder"));
    fs::write(&other, "something else").unwrap();
    fs::create_dir(&folder).unwrap();
    for (place, open) in [(&other, 0o644), (&folder, 0o755)] {
        fs::set_permissions(place, fs::Permissions::from_mode(open)).unwrap();
        std::os::unix::fs::symlink(place, &file).unwrap();
        let refused = serve(dir.path(), "").args(["--listen", "127.0.0.1:0"]).output().unwrap();
        assert_eq!((refused.status.code(), mode(place)), (Some(2), open), "{refused:?}");
        assert!(
            !String::from_utf8_lossy(&refused.stderr).contains("kept from them"),
            "{refused:?}"
        );
        fs::remove_file(&file).unwrap();
    }
    // Nobody ever writes to this pipe.
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let refused = serve(dir.path(), "").args(["--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    fs::remove_file(&file).unwrap();
    // A token of somebody else's file is used, and the file stays as it is.
    fs::write(&other, TOKEN).unwrap();
    std::os::unix::fs::symlink(&other, &file).unwrap();
    let program = start(dir.path(), "");
    assert_eq!((program.token(), mode(&other)), (TOKEN.to_owned(), 0o644));
}

#[test]
fn listening_beyond_loopback_without_a_token_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("[server]\nrest_token_required = false\n", "--listen", "rest_token_required"),
        ("", "--grpc-listen", "grpc_token_required"),
    ];
    for (settings, option, named) in cases {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let output = serve(dir.path(), settings).args([option, address]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(named), "{said}");
            assert!(said.contains("unsafe_no_token_beyond_loopback"), "{said}");
        }
    }
}

#[test]
fn beyond_loopback_only_probes_and_the_description_are_open() {
    let access =
        RestAccess { token: Token::new(TOKEN), closes_reads: true, ..RestAccess::default() };
    let api = Api::guarded(access);
    for open in ["/health", "/metrics", "/openapi.json", "/docs/"] {
        assert_eq!(api.get(open).status, 200, "{open}");
    }
    for closed in ["/api/v1/chain/tip", "/healthy", "/metrics/x", "/docsx", "/"] {
        api.get(closed).bad(401, "token_missing");
    }
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    api.send_with("GET", "/api/v1/chain/tip", "", "", &right).bad(404, "unknown_route");
}

#[test]
fn without_a_token_writes_are_json_still() {
    let api = Api::new();
    let (wallet, _) = api.wallet("w");
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    {
        for path in ["archive", "labels", "leases"] {
            let refused = api.send("POST", &format!("{wallet}/{path}"), kind, "{}");
            refused.bad(415, "unsupported_media_type");
        }
        api.send("POST", &format!("{wallet}/archive"), kind, "").bad(415, "unsupported_media_type");
    }
    api.send("POST", &format!("{wallet}/labels"), "", "{}").bad(415, "unsupported_media_type");
    let labels = api.send("POST", &format!("{wallet}/labels"), "application/json", "{}");
    labels.bad(415, "unsupported_media_type");
}

fn shared(reply: &Reply) -> bool {
    reply.headers.contains("access-control-allow-origin: https://explorer.example")
}

#[test]
fn pages_that_are_listed_read_the_chain_and_nothing_else() {
    let pages = Pages::new(&[], &["https://explorer.example".to_owned()]);
    let api = Api::guarded(RestAccess { token: Token::new(TOKEN), pages, ..RestAccess::default() });
    let page = "Origin: https://explorer.example\r\nSec-Fetch-Site: cross-site\r\n";
    let read = api.send_with("GET", "/openapi.json", "", "", page);
    assert!(read.status == 200 && shared(&read), "{read:?}");
    assert!(read.headers.contains("vary: origin"), "{read:?}");
    let asks = format!(
        "{page}Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: if-none-match\r\n"
    );
    let may = api.send_with("OPTIONS", "/api/v1/chain/tip", "", "", &asks);
    assert!(may.status == 204 && shared(&may), "{may:?}");
    assert!(may.headers.contains("access-control-allow-headers: if-none-match"), "{may:?}");
    let right = format!("{page}Authorization: Bearer {TOKEN}\r\n");
    let asks = format!("{page}Access-Control-Request-Method: POST\r\n");
    api.send_with("OPTIONS", WALLETS, "", "", &asks).bad(403, "foreign_page");
    api.send_with("POST", WALLETS, "application/json", "{}", &right).bad(403, "foreign_page");
    api.send_with("GET", WALLETS, "", "", &right).bad(403, "foreign_page");
    // A link on a foreign page that leads to wallets: the token is right, the page is not.
    let link = format!(
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: document\r\nAuthorization: Bearer {TOKEN}\r\n"
    );
    api.send_with("GET", WALLETS, "", "", &link).bad(403, "foreign_page");
    let other = "Origin: https://evil.example\r\n";
    api.send_with("GET", "/openapi.json", "", "", other).bad(403, "foreign_page");
}

#[test]
fn no_answer_can_be_framed_or_taken_for_something_else() {
    let api = Api::guarded(RestAccess { token: Token::new(TOKEN), ..RestAccess::default() });
    for path in ["/docs/", "/docs/swagger-ui.css", "/health", WALLETS, "/none"] {
        let reply = api.get(path);
        for header in [
            "x-frame-options: deny",
            "x-content-type-options: nosniff",
            "frame-ancestors 'none'",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(reply.headers.contains(header), "{path}: {reply:?}");
        }
    }
}
