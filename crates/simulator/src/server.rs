//! The server as a child process, seen only from outside: its ready file, its ports, its death.
//!
//! The demo and black-box tests use it. They start it on a data directory, kill it with SIGKILL in
//! the middle of things, and start it again. Its log goes to a file beside the data, so that
//! whoever finds something missing can read it. Dropping a [`RunningServer`] kills it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::process::{Child, Command};

use crate::endpoint::Endpoint;

/// Between two looks at the ready file.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Settings of whoever runs this are not the server's.
const SETTING_PREFIX: &str = "FIELDPOST_";

/// The server did not do as it should.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The process or its files could not be handled.
    #[error("the server process: {0}")]
    Io(#[from] io::Error),
    /// It ended instead of listening.
    #[error("the server ended with {status} before it was ready; its log ends with:\n{log_tail}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// Its last words.
        log_tail: String,
    },
    /// It did not get ready.
    #[error("the server was not ready within {patience:?}; its log ends with:\n{log_tail}")]
    NotReady {
        /// How long it was awaited.
        patience: Duration,
        /// Its last words.
        log_tail: String,
    },
    /// The ready file says something else than the contract.
    #[error("the ready file cannot be read: {0}")]
    ReadyFile(#[from] serde_json::Error),
}

/// What the ready file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct ReadyFile {
    http: SocketAddr,
    mqtt: Option<SocketAddr>,
}

/// A data directory and the program that serves it. Everything is removed when it is dropped,
/// unless it is kept or a test fails.
#[derive(Debug)]
pub struct Site {
    binary: PathBuf,
    /// A command in front of the program, which becomes it.
    launcher: Vec<OsString>,
    settings: Vec<(OsString, OsString)>,
    directory: tempfile::TempDir,
    /// The HTTP listener.
    pub http: Endpoint,
    /// The MQTT listener.
    pub mqtt: Endpoint,
}

impl Site {
    /// An empty data directory for `binary`, whose listeners take any free loopback port.
    /// `settings` are further environment variables, such as `("FIELDPOST_NOTIFY__RETRY_BASE",
    /// "500ms")`.
    ///
    /// # Errors
    /// When no temporary directory can be made.
    pub fn new(binary: &Path, settings: &[(&str, &str)]) -> io::Result<Self> {
        let ports = ["HTTP", "MQTT", "GRPC"].map(|way| (format!("FIELDPOST_{way}__LISTEN"), "127.0.0.1:0"));
        let ports = ports.iter().map(|(key, value)| (key.as_str(), *value));
        // How full this machine's disk is changes nothing unless a test asks for it.
        let disk = [("FIELDPOST_NOTICES__STORAGE_FREE", "0B"), ("FIELDPOST_STREAMS__DISK_FREE", "0B")];
        let settings = ports
            .chain(disk)
            .chain(settings.iter().copied())
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        let directory = tempfile::Builder::new().prefix("fieldpost-").tempdir()?;
        let (http, mqtt) = (Endpoint::unknown(), Endpoint::unknown());
        Ok(Self { binary: binary.to_owned(), launcher: Vec::new(), settings, directory, http, mqtt })
    }

    /// From the next start on `launcher` starts the program, which it gets with its arguments
    /// behind its own. It must become the program: a server is signalled by the id of the process
    /// that was started.
    pub fn start_through<I: IntoIterator<Item: Into<OsString>>>(&mut self, launcher: I) {
        self.launcher = launcher.into_iter().map(Into::into).collect();
    }

    /// Sets an environment variable from the next start on.
    pub fn set(&mut self, key: &str, value: &str) {
        self.settings.retain(|(other, _)| other != key);
        self.settings.push((key.into(), value.into()));
    }

    /// Where the server keeps everything; made by its first start.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Where the server's log is.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }

    /// Leaves data and log in place and says where.
    pub fn keep(&mut self) -> &Path {
        self.directory.disable_cleanup(true);
        self.directory.path()
    }

    /// Starts the server and waits until all its listeners accept; the endpoints then lead there.
    ///
    /// # Errors
    /// When it ends, or is not ready within `patience`.
    pub async fn start(&self, patience: Duration) -> Result<RunningServer, ServerError> {
        let mut child = self.launch()?;
        let addresses = self.await_ready(&mut child, patience).await?;
        self.http.move_to(addresses.http);
        addresses.mqtt.into_iter().for_each(|mqtt| self.mqtt.move_to(mqtt));
        Ok(RunningServer { child, http: self.http.clone(), mqtt: self.mqtt.clone() })
    }

    /// Starts the server and waits until it says `line` in its log, ready or not; the endpoints
    /// lead nowhere.
    ///
    /// # Errors
    /// When it ends, or has not said so within `patience`.
    pub async fn start_until_it_says(
        &self,
        line: &str,
        patience: Duration,
    ) -> Result<RunningServer, ServerError> {
        let earlier = self.log().len();
        let mut child = self.launch()?;
        let said = || self.log().get(earlier..).is_some_and(|said| said.contains(line)).then_some(());
        self.wait_for(&mut child, patience, || Ok(said())).await?;
        Ok(RunningServer { child, http: self.http.clone(), mqtt: self.mqtt.clone() })
    }

    /// Waits until `server`, which was started before it was ready, is.
    ///
    /// # Errors
    /// When it ends, or is not ready within `patience`.
    pub async fn until_ready(
        &self,
        server: &mut RunningServer,
        patience: Duration,
    ) -> Result<(), ServerError> {
        let addresses = self.await_ready(&mut server.child, patience).await?;
        self.http.move_to(addresses.http);
        addresses.mqtt.into_iter().for_each(|mqtt| self.mqtt.move_to(mqtt));
        Ok(())
    }

    fn ready_file(&self) -> PathBuf {
        self.directory.path().join("ready.json")
    }

    fn launch(&self) -> Result<Child, ServerError> {
        let ready_file = self.ready_file();
        if let Err(error) = fs::remove_file(&ready_file)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error.into());
        }
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut words = self.launcher.iter().map(OsString::as_os_str).chain([self.binary.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        for (key, _) in
            std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with(SETTING_PREFIX))
        {
            command.env_remove(key);
        }
        let child = command
            .arg("serve")
            .arg("--data-dir")
            .arg(self.data_dir())
            .arg("--ready-file")
            .arg(&ready_file)
            .envs(self.settings.iter().map(|(key, value)| (key, value)))
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        Ok(child)
    }

    async fn await_ready(&self, child: &mut Child, patience: Duration) -> Result<ReadyFile, ServerError> {
        let ready_file = self.ready_file();
        let written = || match fs::read(&ready_file) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        };
        self.wait_for(child, patience, written).await
    }

    /// Looks again and again, as long as the process lives.
    async fn wait_for<T>(
        &self,
        child: &mut Child,
        patience: Duration,
        look: impl Fn() -> Result<Option<T>, ServerError>,
    ) -> Result<T, ServerError> {
        let started = Instant::now();
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if let Some(status) = child.try_wait()? {
                return Err(ServerError::Ended { status, log_tail: self.log_tail() });
            }
            if started.elapsed() > patience {
                return Err(ServerError::NotReady { patience, log_tail: self.log_tail() });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The last lines of the server's log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        const LINES: usize = 20;
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// All that its servers have said; why it cannot be read, if it cannot.
    #[must_use]
    pub fn log(&self) -> String {
        match fs::read(self.log_path()) {
            Ok(log) => String::from_utf8_lossy(&log).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server's data and log are kept in {}", self.keep().display());
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct RunningServer {
    child: Child,
    http: Endpoint,
    mqtt: Endpoint,
}

impl RunningServer {
    /// Its process id, while it has not been seen to end.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills it with SIGKILL, in the middle of whatever it does, and waits until it is dead.
    ///
    /// # Errors
    /// When it had ended by itself.
    pub async fn kill(mut self) -> io::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            return Err(io::Error::other(format!("the server had ended by itself with {status}")));
        }
        self.child.kill().await?;
        self.http.lose();
        self.mqtt.lose();
        Ok(())
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When it does not within `patience`.
    pub async fn ended(mut self, patience: Duration) -> io::Result<ExitStatus> {
        tokio::time::timeout(patience, self.child.wait()).await.map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// Asks it to end with SIGTERM and waits until it has.
    ///
    /// # Errors
    /// When it had ended by itself, or does not end within `patience`.
    pub async fn stop(mut self, patience: Duration) -> io::Result<ExitStatus> {
        let Some(process_id) = self.child.id() else {
            return Err(io::Error::other("the server had ended by itself"));
        };
        let asked = Command::new("sh").arg("-c").arg(format!("kill -TERM {process_id}")).status().await?;
        if !asked.success() {
            return Err(io::Error::other("the server cannot be signalled"));
        }
        self.http.lose();
        self.mqtt.lose();
        tokio::time::timeout(patience, self.child.wait()).await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);
    const READY: &str =
        r#"printf '{"http":"127.0.0.1:1","mqtt":"127.0.0.1:2"}' > "$4.tmp"; mv "$4.tmp" "$4""#;
    const FOR_EVER: &str = "exec tail -f /dev/null";

    /// A site whose program is this shell script: the shell runs the file `serve`, which it takes
    /// for its argument.
    fn site(script: &str) -> Site {
        let site = Site::new(Path::new("/bin/sh"), &[("FIELDPOST_A__B", "set")]).expect("a site");
        fs::write(site.directory.path().join("serve"), script).expect("it can be written");
        site
    }

    #[tokio::test]
    async fn a_server_is_reachable_from_ready_to_kill() {
        let site = site(&format!("echo $FIELDPOST_A__B >&2; {READY}; {FOR_EVER}"));
        let server = site.start(PATIENCE).await.expect("it starts");
        assert_eq!((site.http.address().await.port(), site.mqtt.address().await.port()), (1, 2));
        assert_eq!(site.log_tail(), "set");
        server.kill().await.expect("it runs");
        let gone = tokio::time::timeout(Duration::from_millis(1), site.http.address()).await;
        assert!(gone.is_err(), "{gone:?}");
    }

    #[tokio::test]
    async fn a_server_is_asked_to_stop_with_sigterm() {
        let server = site(&format!("{READY}; {FOR_EVER}")).start(PATIENCE).await.expect("it starts");
        assert_eq!(server.stop(PATIENCE).await.expect("it stops").signal(), Some(15));
    }

    #[tokio::test]
    async fn a_server_that_ends_or_hangs_at_the_start_is_told_with_its_log() {
        let error = site("echo no such key >&2; exit 2").start(PATIENCE).await.unwrap_err();
        assert!(
            matches!(&error, ServerError::Ended { log_tail, .. } if log_tail == "no such key"),
            "{error}"
        );
        let error = site(FOR_EVER).start(Duration::from_millis(20)).await.unwrap_err();
        assert!(matches!(error, ServerError::NotReady { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_waits_is_known_by_what_it_says_until_it_is_ready() {
        let mut site = site(&format!("echo waits for $A >&2; read go < fifo; {READY}; {FOR_EVER}"));
        site.set("A", "b");
        site.set("A", "c");
        let fifo = site.directory.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
        let mut server = site.start_until_it_says("waits for c", PATIENCE).await.expect("it says so");
        fs::write(fifo, "go\n").expect("it can be written");
        site.until_ready(&mut server, PATIENCE).await.expect("it is ready");
        assert_eq!(site.http.address().await.port(), 1);
        server.kill().await.expect("it runs");
    }

    #[tokio::test]
    async fn a_launcher_stands_in_front_of_the_program() {
        let mut site = site(&format!("echo $0 $LAUNCHED >&2; {READY}; {FOR_EVER}"));
        site.start_through(["env", "LAUNCHED=yes"]);
        let server = site.start(PATIENCE).await.expect("it starts");
        assert_eq!(site.log_tail(), "serve yes");
        assert_eq!(server.stop(PATIENCE).await.expect("it stops").signal(), Some(15));
    }

    #[tokio::test]
    async fn a_server_that_died_by_itself_cannot_be_killed() {
        let mut server = site(READY).start(PATIENCE).await.expect("it starts");
        server.child.wait().await.expect("it ends");
        assert!(server.kill().await.unwrap_err().to_string().contains("ended by itself"));
    }
}
