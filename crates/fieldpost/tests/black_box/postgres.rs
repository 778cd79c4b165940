//! A real PostgreSQL of our own for the tests of one process, on loopback.
//!
//! It takes a second to make, so the tests share one and have a database each; a test that kills it
//! starts one for itself. `postgres/server.sh` does the work; a server ends with this process,
//! however that ends.

use std::fs::{read_dir, write};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::ports::free_ports;

/// Of the superuser `postgres`; must not be found in any log.
pub(crate) const PASSWORD: &str = "a-password-for-tests";

/// Nothing is synced: a killed process loses nothing by that, a power cut would.
pub(crate) const FAST: &[&str] = &["fsync=off", "full_page_writes=off"];

/// A server, running unless it was killed.
pub(crate) struct Postgres {
    port: u16,
    directory: PathBuf,
    script: Mutex<Script>,
}

struct Script {
    orders: ChildStdin,
    done: BufReader<ChildStdout>,
    _child: Child,
}

/// A new, empty database of the shared server.
pub(crate) struct Database {
    /// The server; not to be killed.
    pub(crate) server: &'static Postgres,
    /// Its name.
    pub(crate) name: String,
}

/// A new database of the server that the tests share.
pub(crate) fn database() -> Database {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    static MADE: AtomicU32 = AtomicU32::new(0);
    let server = SERVER.get_or_init(|| Postgres::start(FAST));
    let name = format!("test_{}", MADE.fetch_add(1, Ordering::Relaxed));
    server.sql("postgres", &format!("CREATE DATABASE {name}"));
    Database { server, name }
}

impl Database {
    /// How to reach it, with the password.
    pub(crate) fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// See [`Postgres::sql`].
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.server.sql(&self.name, statements)
    }
}

impl Postgres {
    /// A new one that accepts connections, with settings of `postgresql.conf`, each `name=value`.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let directory =
            tempfile::Builder::new().prefix("fieldpost-postgres-").tempdir().expect("a directory");
        let directory = directory.keep(); // the script removes it
        let shown = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        write(directory.join("cert.pem"), shown.cert.pem()).expect("written");
        write(directory.join("key.pem"), shown.signing_key.serialize_pem()).expect("written");
        write(directory.join("password"), PASSWORD).expect("written");
        let [port] = free_ports();
        let mut child =
            Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/black_box/postgres/server.sh"))
                .args([&directory, &programs()])
                .arg(port.to_string())
                .args(settings)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a shell");
        let orders = child.stdin.take().expect("it is piped");
        let done = BufReader::new(child.stdout.take().expect("it is piped"));
        let server = Self { port, directory, script: Mutex::new(Script { orders, done, _child: child }) };
        server.done("start");
        server
    }

    /// How to reach a database of it, with the password.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    /// The file of the certificate that it shows, which only those trust who are told of it.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.join("cert.pem")
    }

    /// Has psql run statements in a database, as a script, and gives the rows: `|` between columns.
    ///
    /// # Panics
    /// If one fails.
    pub(crate) fn sql(&self, database: &str, statements: &str) -> String {
        let mut psql = Command::new(programs().join("psql"))
            .args([
                "--no-psqlrc",
                "--quiet",
                "--tuples-only",
                "--no-align",
                "--set=ON_ERROR_STOP=1",
                "--dbname",
            ])
            .arg(self.url(database))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("psql");
        let mut script = psql.stdin.take().expect("it is piped");
        script.write_all(statements.as_bytes()).expect("it reads");
        drop(script);
        let ended = psql.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{statements}\n{said}\n{}", self.log_tail());
        String::from_utf8_lossy(&ended.stdout).trim_end().to_owned()
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&self) {
        self.order("kill");
    }

    /// Starts it again on the same data; it then accepts connections.
    pub(crate) fn start_again(&self) {
        self.order("start");
    }

    fn order(&self, order: &str) {
        writeln!(self.script.lock().expect("no panic").orders, "{order}").expect("the script runs");
        self.done(order);
    }

    fn done(&self, order: &str) {
        let mut done = String::new();
        let read = self.script.lock().expect("no panic").done.read_line(&mut done);
        assert!(
            read.is_ok() && done.trim_end() == order,
            "PostgreSQL did not {order}; scripts/setup test installs it. Its log:\n{}",
            self.log_tail()
        );
    }

    fn log_tail(&self) -> String {
        let logs = ["initdb.log", "server.log"]
            .map(|log| std::fs::read_to_string(self.directory.join(log)).unwrap_or_default());
        let lines: Vec<&str> = logs.iter().flat_map(|log| log.lines()).collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// The folder of the newest version that Debian has installed.
fn programs() -> PathBuf {
    let installed = read_dir("/usr/lib/postgresql").expect("scripts/setup test installs PostgreSQL");
    let versions = installed.filter_map(|version| version.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let newest = versions.max().expect("a version of PostgreSQL");
    PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin"))
}

#[test]
fn what_was_committed_outlives_a_kill() {
    let server = Postgres::start(FAST);
    server.sql("postgres", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1), (2)");
    server.kill();
    server.start_again();
    assert_eq!(server.sql("postgres", "SELECT n, n * 2 FROM kept ORDER BY n"), "1|2\n2|4");
    assert!(server.certificate().is_file());
}

#[test]
fn each_database_is_a_new_one() {
    let [one, two] = [database(), database()];
    one.sql("CREATE TABLE mine ()");
    assert_ne!(one.url(), two.url());
    assert_eq!(two.sql("SELECT count(*) FROM pg_tables WHERE tablename = 'mine'"), "0");
}
