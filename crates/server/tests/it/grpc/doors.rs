//! Clients that connect and say nothing: they are sent away, and take nobody's place for ever.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    grpc::program::serve,
    program::{PATIENCE, Serving},
};

/// A node store whose clients may be silent for a second.
fn config(dir: &Path) -> String {
    format!(
        "[txstore]\nurl = \"sqlite:{}\"\n[rest]\nconnections_max = 3\nidle_secs_max = 1\n\
         [grpc]\nconnections_max = 3\nidle_secs_max = 1\n",
        dir.join("node.db").display()
    )
}

/// Connects and sends so much.
fn client(address: SocketAddr, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(sent).unwrap();
    stream
}

/// Whether the server ends the connection, whatever it says before.
fn is_sent_away(mut stream: TcpStream) -> bool {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn silent_clients_are_sent_away_and_others_get_their_places() {
    let dir = tempfile::tempdir().unwrap();
    let program = Serving::start(serve(dir.path(), &config(dir.path())));
    let half = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Half";
    let answered = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let rest = [&b""[..], half, answered].map(|sent| client(program.rest(), sent));
    // All places are taken: this one waits in front of the door until one is free.
    assert!(program.get("/health").contains(" 200 OK"));
    for stream in rest {
        assert!(is_sent_away(stream));
    }
    let grpc = [&b""[..], b"PRI * HTTP/2", b"\r"].map(|sent| client(program.grpc(), sent));
    let mut working =
        client(program.grpc(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let mut settings = [0; 9];
    working.read_exact(&mut settings).unwrap();
    assert_eq!(settings[3], 4, "the server speaks HTTP/2");
    for stream in grpc {
        assert!(is_sent_away(stream));
    }
    program.stop();
}

#[test]
fn clients_that_take_no_answer_are_sent_away_and_others_get_their_places() {
    let dir = tempfile::tempdir().unwrap();
    let program = Serving::start(serve(dir.path(), &config(dir.path())));
    // More than the buffers of both ends hold.
    let many = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let stalled = [(); 3].map(|()| client(program.rest(), &many));
    assert!(program.get("/health").contains(" 200 OK"));
    drop(stalled);
    program.stop();
}

#[test]
fn a_slow_client_that_goes_on_is_not_sent_away_by_the_limit_of_silence() {
    let dir = tempfile::tempdir().unwrap();
    let program = Serving::start(serve(dir.path(), &config(dir.path())));
    let mut working =
        client(program.grpc(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    std::thread::sleep(Duration::from_millis(2_500));
    let ping = b"\0\0\x08\x06\0\0\0\0\0PINGPONG";
    working.write_all(ping).unwrap();
    let mut said = Vec::new();
    while !said.windows(8).any(|part| part == b"PINGPONG") {
        let mut part = [0; 64];
        let read = working.read(&mut part).unwrap();
        assert!(read > 0, "it was sent away: {said:?}");
        said.extend_from_slice(&part[..read]);
    }
    program.stop();
}

#[test]
fn too_few_descriptors_are_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let program = serve(dir.path(), &config(dir.path()));
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 100; exec \"$@\"", "sh"]);
    command.arg(program.get_program()).args(program.get_args()).stdout(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("may open 100 files") && said.contains("ulimit -Hn"), "{said}");
}
