//! A server, a database with an outbox, and a relay between them.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as StdCommand, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use simulator::server::Site;
use tokio::process::{Child, Command};
use tokio::time::{Instant, interval};

use crate::contract::rig::{BINARY, Rig, in_place};
pub(super) use crate::contract::rig::{PATIENCE, each_in};
use crate::postgres::{self, PASSWORD, Postgres};

/// Of a relay, where the server asks for one.
const TOKEN: &str = "a-token-for-tests";
/// Between two looks at a condition.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where the outbox is.
enum OutboxDatabase {
    Shared(postgres::Database),
    Own(Postgres),
}

/// A server whose port stays, an outbox, and a relay if one was started.
pub(super) struct RelayRig {
    pub(super) server: Rig,
    database: OutboxDatabase,
    relay: Option<Child>,
    folder: tempfile::TempDir,
}

/// A transaction that goes on until it is told to end.
pub(super) struct OpenTransaction {
    psql: std::process::Child,
}

impl OpenTransaction {
    pub(super) fn commit(self) {
        self.end("COMMIT;\n");
    }

    pub(super) fn roll_back(self) {
        self.end("ROLLBACK;\n");
    }

    fn end(mut self, how: &str) {
        let mut input = self.psql.stdin.take().expect("it is piped");
        input.write_all(how.as_bytes()).expect("it reads");
        drop(input);
        assert!(self.psql.wait().expect("it ends").success());
    }
}

/// The command that runs a script in a database, up to the first statement that fails.
pub(super) fn psql(url: &str) -> StdCommand {
    let mut psql = StdCommand::new(postgres::programs().join("psql"));
    psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]).arg(url);
    psql
}

/// The statement that writes a row.
pub(super) fn outbox_row(to: &str, key: Option<&str>, payload: &Value, attributes: Option<&str>) -> String {
    let text = |text: Option<&str>| {
        text.map_or_else(|| "NULL".to_owned(), |text| format!("'{}'", text.replace('\'', "''")))
    };
    format!(
        "INSERT INTO fieldpost_outbox (destination, key, payload, attributes) VALUES ({}, {}, {}, {});\n",
        text(Some(to)),
        text(key),
        text(Some(&payload.to_string())),
        text(attributes)
    )
}

impl RelayRig {
    /// With an outbox in a new database, and no relay yet.
    pub(super) async fn start() -> Self {
        Self::over(OutboxDatabase::Shared(postgres::database()), &[]).await
    }

    /// The same with a PostgreSQL of its own, to be killed.
    pub(super) async fn start_alone() -> Self {
        Self::over(OutboxDatabase::Own(Postgres::start(postgres::FAST)), &[]).await
    }

    /// With a relay inside the server.
    pub(super) async fn start_inside(settings: &[(&str, &str)]) -> Self {
        let database = OutboxDatabase::Shared(postgres::database());
        let url = database.url();
        let settings = [&[("FIELDPOST_RELAY__DATABASE", url.as_str())], settings].concat();
        Self::over(database, &settings).await
    }

    /// With a token that has these scopes.
    pub(super) async fn start_with_tokens(scopes: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let digest = Sha256::digest(TOKEN).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let config =
            format!("[[auth.tokens]]\nname = \"relay\"\nsha256 = \"{digest}\"\nscopes = {}\n", json!(scopes));
        let file = folder.path().join("fieldpost.toml");
        std::fs::write(&file, config).expect("written");
        let mut site = Site::new(Path::new(BINARY), &[]).expect("a directory");
        let script = format!("exec \"$@\" --config {}", file.display());
        site.start_through(["sh", "-c", &script, "sh"]);
        in_place(&mut site);
        let server = Rig::on(site).await;
        Self { folder, ..Self::beside(server, OutboxDatabase::Shared(postgres::database())).await }
    }

    async fn over(database: OutboxDatabase, settings: &[(&str, &str)]) -> Self {
        Self::beside(Rig::start_in_place(settings).await.0, database).await
    }

    async fn beside(server: Rig, database: OutboxDatabase) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Self { server, database, relay: None, folder };
        rig.sql(&rig.printed(&["sql"]));
        rig
    }

    pub(super) fn url(&self) -> String {
        self.database.url()
    }

    pub(super) fn postgres(&self) -> &Postgres {
        match &self.database {
            OutboxDatabase::Shared(database) => database.server,
            OutboxDatabase::Own(server) => server,
        }
    }

    pub(super) fn sql(&self, statements: &str) -> String {
        match &self.database {
            OutboxDatabase::Shared(database) => database.sql(statements),
            OutboxDatabase::Own(server) => server.sql("postgres", statements),
        }
    }

    /// `fieldpost relay` with these words; how it ended.
    pub(super) fn run(&self, words: &[&str]) -> Output {
        StdCommand::new(BINARY).arg("relay").args(words).output().expect("it runs")
    }

    /// What it prints, which has to be all right.
    pub(super) fn printed(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The same for a command about this database.
    pub(super) fn about(&self, words: &[&str]) -> String {
        self.printed(&[words, &["--database", &self.url()]].concat())
    }

    pub(super) async fn relay(&mut self, flags: &[&str]) {
        self.relay = Some(self.spawn(flags, &self.url()).await);
    }

    /// A relay that reaches the database otherwise.
    pub(super) async fn relay_at(&mut self, url: &str) {
        self.relay = Some(self.spawn(&[], url).await);
    }

    /// A relay with the token of [`RelayRig::start_with_tokens`].
    pub(super) async fn relay_with_token(&mut self) {
        self.write_token(TOKEN);
        self.relay_with_file().await;
    }

    /// A relay with a token that the server does not know.
    pub(super) async fn relay_with_old_token(&mut self) {
        self.write_token("a-token-of-before");
        self.relay_with_file().await;
    }

    async fn relay_with_file(&mut self) {
        let file = self.token_file();
        self.relay(&["--token-file", file.to_str().expect("text")]).await;
    }

    /// The file of the relay's token has the one that the server knows, from now on.
    pub(super) fn rotate_token(&self) {
        self.write_token(TOKEN);
    }

    fn write_token(&self, token: &str) {
        std::fs::write(self.token_file(), format!("{token}\n")).expect("written");
    }

    fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// Returns once the relay's log says this.
    pub(super) async fn until_log(&self, part: &str) {
        let (started, mut again) = (Instant::now(), interval(LOOK_EVERY));
        while !self.log().contains(part) {
            again.tick().await;
            assert!(started.elapsed() < PATIENCE, "{part} is not in the log:\n{}", self.log());
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn another_relay(&self, flags: &[&str]) -> Child {
        futures_util::FutureExt::now_or_never(self.spawn(flags, &self.url())).expect("the address is known")
    }

    async fn spawn(&self, flags: &[&str], url: &str) -> Child {
        let server = format!("http://{}", self.server.site.http.address().await);
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a log");
        Command::new(BINARY)
            .args(["relay", "run", "--database", url, "--server", &server])
            .args(flags)
            .stdin(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("it runs")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("relay.log")
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub(super) async fn kill_relay(&mut self) {
        let mut relay = self.relay.take().expect("it runs");
        relay.kill().await.expect("killed");
    }

    /// Kills the relay, and starts another one.
    pub(super) async fn restart_relay(&mut self) {
        self.kill_relay().await;
        self.relay(&[]).await;
    }

    /// A signal to the relay.
    pub(super) fn signal(&self, signal: Signal) {
        let id = self.relay.as_ref().and_then(|relay| Pid::from_raw(relay.id()? as i32));
        kill_process(id.expect("it runs"), signal).expect("it is there");
    }

    /// SIGTERM to the relay; how it ended.
    pub(super) async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        let mut relay = self.relay.take().expect("it runs");
        let ended = tokio::time::timeout(PATIENCE, relay.wait()).await.expect("it ends").expect("it ends");
        assert!(!self.log().contains(PASSWORD), "{}", self.log());
        ended
    }

    /// A transaction that has run these statements, and goes on.
    pub(super) fn open_transaction(&self, statements: &str) -> OpenTransaction {
        let mut psql = psql(&self.url()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql");
        let input = psql.stdin.as_mut().expect("it is piped");
        write!(input, "BEGIN;\n{statements}SELECT 'begun';\n").expect("it reads");
        let mut line = String::new();
        let mut output = std::io::BufReader::new(psql.stdout.as_mut().expect("it is piped"));
        std::io::BufRead::read_line(&mut output, &mut line).expect("it answers");
        assert_eq!(line.trim_end(), "begun");
        OpenTransaction { psql }
    }

    /// Returns once a query gives this.
    pub(super) async fn until_sql(&self, query: &str, expect: &str) {
        let (started, mut again) = (Instant::now(), interval(LOOK_EVERY));
        loop {
            again.tick().await;
            let found = self.sql(query);
            if found == expect {
                return;
            }
            let late = started.elapsed() > PATIENCE;
            assert!(!late, "{query} gives {found}, not {expect}\n{}\n{}", self.log(), self.server_log());
        }
    }

    /// Returns once a stream has so many messages.
    pub(super) async fn until_messages(&self, stream: &str, count: u64) {
        let (started, mut again) = (Instant::now(), interval(LOOK_EVERY));
        loop {
            again.tick().await;
            let path = format!("/v1/streams/{stream}");
            let found = self.server.json("GET", &path, "").await.json();
            if found["messages"] == count {
                return;
            }
            let late = started.elapsed() > PATIENCE;
            assert!(!late, "{found}, not {count}\n{}\n{}", self.log(), self.server_log());
        }
    }

    /// The relays, once they are so.
    pub(super) async fn until_relays(&self, are_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let list = self
            .server
            .api
            .until("/v1/relays", PATIENCE, |list: &Value| are_so(list["items"].as_array().expect("items")));
        match list.await {
            Ok(list) => list["items"].as_array().expect("items").clone(),
            Err(error) => panic!("{error}: {}\n{}", self.server.get("/v1/relays").await, self.log()),
        }
    }

    fn server_log(&self) -> String {
        std::fs::read_to_string(self.server.site.log_path()).unwrap_or_default()
    }
}

impl OutboxDatabase {
    fn url(&self) -> String {
        match self {
            Self::Shared(database) => database.url(),
            Self::Own(server) => server.url("postgres"),
        }
    }
}
