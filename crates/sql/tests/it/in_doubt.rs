//! Commits whose answer is lost on the way: each happens once, and its caller learns of it.

use crate::place::EngineUnderTest;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use utxokeep_sql::{Database, Options, SqlError, migrate_up};

/// What happens to the next commit that passes.
enum Loss {
    /// The server gets it, the client no answer.
    Answer,
    /// Nobody gets it.
    Request,
    /// The server gets it when the test says so, long after the client gave up.
    Late(Receiver<()>, Sender<Vec<u8>>),
}

/// A line between client and server on which commits get lost.
struct Line {
    port: u16,
    next: Arc<Mutex<Option<Loss>>>,
    is_down: Arc<AtomicBool>,
}

impl Line {
    fn to(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let next = Arc::new(Mutex::new(None));
        let is_down = Arc::new(AtomicBool::new(false));
        let (losses, down) = (Arc::clone(&next), Arc::clone(&is_down));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if down.load(Ordering::SeqCst) {
                    continue;
                }
                let (socket, losses) = (socket.clone(), Arc::clone(&losses));
                thread::spawn(move || carry(client, &socket, &losses));
            }
        });
        Self { port, next, is_down }
    }

    fn lose(&self, loss: Loss) {
        *self.next.lock().unwrap() = Some(loss);
    }
}

/// Carries what a client says to the server, and the answers back, until a commit is lost.
fn carry(mut client: TcpStream, socket: &Path, losses: &Mutex<Option<Loss>>) {
    let mut server = UnixStream::connect(socket).unwrap();
    let is_cut = Arc::new(AtomicBool::new(false));
    let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let cut = Arc::clone(&is_cut);
    let (answers, answered) = channel();
    thread::spawn(move || {
        let mut buffer = [0; 16_384];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if cut.load(Ordering::SeqCst) {
                let _ = answers.send(buffer[..read].to_vec());
            } else if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut buffer = [0; 16_384];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        let bytes = &buffer[..read];
        let loss = bytes.ends_with(b"COMMIT\0").then(|| losses.lock().unwrap().take()).flatten();
        is_cut.store(loss.is_some(), Ordering::SeqCst);
        match loss {
            None if server.write_all(bytes).is_ok() => continue,
            None | Some(Loss::Request) => {}
            Some(Loss::Answer) => {
                server.write_all(bytes).unwrap();
                answered.recv().unwrap();
            }
            Some(Loss::Late(when, answer)) => {
                client.shutdown(Shutdown::Both).unwrap();
                when.recv().unwrap();
                server.write_all(bytes).unwrap();
                answer.send(answered.recv().unwrap()).unwrap();
            }
        }
        break;
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

/// A database behind a line, with commits marked or not.
fn behind_a_line(place: &EngineUnderTest, is_marked: bool) -> (Line, Database) {
    let (_, rest) = place.server().url().split_once('@').unwrap();
    let (host, name) = rest.split_once('/').unwrap();
    let directory = PathBuf::from(host.replace("%2F", "/").replace("%25", "%"));
    let line = Line::to(directory.join(".s.PGSQL.5432"));
    let url = format!("postgres://utxokeep@127.0.0.1:{}/{name}?sslmode=disable", line.port);
    let options = Options::default().with(|settings| settings.commit_doubt_wait_ms = 2_000);
    let database = Database::open(&url, &options).unwrap();
    if is_marked {
        migrate_up(&database, "test", &[], 0).unwrap();
    }
    // Without a key, so that whatever happens twice shows.
    database.write(|tx| tx.execute_batch("CREATE TABLE event (id BIGINT NOT NULL)")).unwrap();
    (line, database)
}

/// Writes an event; how often it ran, and what came of it.
fn write(database: &Database) -> (u32, Result<u64, SqlError>) {
    let mut runs = 0;
    let outcome = database.write(|tx| {
        runs += 1;
        tx.execute("INSERT INTO event (id) VALUES ($1)", &[1_i64.into()])
    });
    (runs, outcome)
}

fn events(database: &Database) -> i64 {
    let count = "SELECT COUNT(*) FROM event";
    database.read(|tx| tx.query_one(count, &[], |row| row.int(0))).unwrap_or(-1)
}

#[test]
fn a_commit_whose_answer_is_lost_is_found_and_not_repeated() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let (line, database) = behind_a_line(&place, true);
    for round in 1..4 {
        line.lose(Loss::Answer);
        let (runs, outcome) = write(&database);
        assert_eq!((runs, outcome.unwrap()), (1, 1));
        assert_eq!(events(&database), round);
    }
}

#[test]
fn a_commit_that_never_arrived_is_run_again() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let (line, database) = behind_a_line(&place, true);
    for round in 1..4 {
        line.lose(Loss::Request);
        let (runs, outcome) = write(&database);
        assert_eq!((runs, outcome.unwrap()), (2, 1));
        assert_eq!(events(&database), round);
    }
}

#[test]
fn a_commit_that_arrives_after_it_was_given_up_is_refused() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let (line, database) = behind_a_line(&place, true);
    let ((go, when), (answer, answered)) = (channel(), channel());
    line.lose(Loss::Late(when, answer));
    let (runs, outcome) = write(&database);
    assert_eq!((runs, outcome.unwrap()), (2, 1));
    go.send(()).unwrap();
    let answer = String::from_utf8_lossy(&answered.recv().unwrap()).into_owned();
    assert!(answer.contains("division by zero"), "{answer}");
    assert_eq!(events(&database), 1);
}

/// The twin of the tests above: without marks nothing tells, and the caller learns just that.
#[test]
fn without_marks_or_without_a_server_the_outcome_is_unknown_and_said_to_be() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let (line, database) = behind_a_line(&place, false);
    line.lose(Loss::Answer);
    let (runs, outcome) = write(&database);
    assert!(matches!(outcome, Err(SqlError::CommitUnknown { .. })), "{outcome:?}");
    assert_eq!((runs, events(&database)), (1, 1));

    migrate_up(&database, "test", &[], 0).unwrap();
    line.lose(Loss::Answer);
    line.is_down.store(true, Ordering::SeqCst);
    let (runs, outcome) = write(&database);
    assert!(matches!(outcome, Err(SqlError::CommitUnknown { .. })), "{outcome:?}");
    line.is_down.store(false, Ordering::SeqCst);
    assert_eq!((runs, events(&database)), (1, 2));
}

/// Rows of connections that were not used for long are removed; one that still lives makes its
/// row anew.
#[test]
fn a_connection_whose_row_was_removed_goes_on() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let (_line, database) = behind_a_line(&place, true);
    assert_eq!(write(&database).0, 1);
    place.open().write(|tx| tx.execute("DELETE FROM utxokeep_commits", &[])).unwrap();
    let (runs, outcome) = write(&database);
    assert_eq!((runs, outcome.unwrap()), (2, 1));
    assert_eq!(events(&database), 2);
}

#[test]
fn a_read_is_never_marked_whatever_its_statement_looks_like() {
    let Some(place) = EngineUnderTest::postgres() else { return };
    let (_line, database) = behind_a_line(&place, true);
    assert_eq!(write(&database).0, 1);
    let sql = "WITH one AS (SELECT id FROM event) SELECT id FROM one";
    // More often than there are connections, so that one of them has written before.
    for _ in 0..3 {
        let found = database.read(|tx| tx.query_one(sql, &[], |row| row.int(0)));
        assert!(matches!(found, Ok(1)), "{found:?}");
    }
}
