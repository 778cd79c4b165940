//! The agent `fieldpost spool` as a child process, seen only from outside.
//!
//! Used by black-box tests and benchmarks, as [`crate::server`] is. Dropping a [`RunningSpool`]
//! kills it.

use std::ffi::OsStr;
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

#[derive(Deserialize)]
struct ReadySpool {
    http: SocketAddr,
    mqtt: Option<SocketAddr>,
}

/// A directory and the agent that has it. Everything is removed when it is dropped, unless a test
/// fails.
#[derive(Debug)]
pub struct SpoolSite {
    binary: PathBuf,
    /// What starts the agent, if it is not started directly.
    launcher: Vec<String>,
    flags: Vec<String>,
    directory: tempfile::TempDir,
    /// Where it takes HTTP.
    pub http: Endpoint,
    /// Where it takes MQTT, if it does.
    pub mqtt: Endpoint,
}

impl SpoolSite {
    /// An empty directory for an agent of `binary` that forwards to this server.
    ///
    /// # Errors
    /// When no temporary directory can be made.
    pub fn new(binary: &Path, to: &str, flags: &[&str]) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("fieldpost-spool-").tempdir()?;
        let first = ["--to", to, "--listen", "127.0.0.1:0", "--keep-free", "0B"];
        let flags = first.iter().chain(flags).map(|flag| (*flag).to_owned()).collect();
        let (http, mqtt) = (Endpoint::unknown(), Endpoint::unknown());
        Ok(Self { binary: binary.to_owned(), launcher: Vec::new(), flags, directory, http, mqtt })
    }

    /// Starts the agent through these words from the next start on; what they name has to become
    /// it.
    pub fn start_through(&mut self, launcher: Vec<String>) {
        self.launcher = launcher;
    }

    /// Gives a flag this value from the next start on.
    pub fn flag(&mut self, flag: &str, value: &str) {
        match self.flags.iter().position(|given| given == flag) {
            Some(at) => value.clone_into(&mut self.flags[at + 1]),
            None => self.flags.extend([flag.to_owned(), value.to_owned()]),
        }
    }

    /// Where it keeps everything.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.directory.path().join("spool")
    }

    /// A folder beside it, for what a test needs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.directory.path()
    }

    /// All that its agents have said.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_else(|error| error.to_string())
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("spool.log")
    }

    /// Starts the agent and waits until it listens; the endpoints then lead there.
    ///
    /// # Errors
    /// When it ends, or is not ready within `patience`.
    pub async fn start(&self, patience: Duration) -> io::Result<RunningSpool> {
        let ready_file = self.directory.path().join("ready.json");
        let words = self.launcher.iter().map(OsStr::new).chain([self.binary.as_os_str()]);
        let words: Vec<_> = words.collect();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .arg("spool")
            .args(&self.flags)
            .arg("--dir")
            .arg(self.dir())
            .arg("--ready-file")
            .arg(&ready_file)
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::options().create(true).append(true).open(self.log_path())?)
            .kill_on_drop(true)
            .spawn()?;
        // The agent removes what an earlier run left before it does anything else.
        let process_id = child.id();
        let started = Instant::now();
        loop {
            if let Some(ready) = self.ready(&ready_file)? {
                self.http.move_to(ready.http);
                if let Some(mqtt) = ready.mqtt {
                    self.mqtt.move_to(mqtt);
                }
                fs::remove_file(&ready_file)?;
                return Ok(RunningSpool { child, http: self.http.clone(), mqtt: self.mqtt.clone() });
            }
            if let Some(status) = child.try_wait()? {
                return Err(io::Error::other(format!("it ended with {status}:\n{}", self.log())));
            }
            if started.elapsed() > patience {
                return Err(io::Error::other(format!("{process_id:?} is not ready:\n{}", self.log())));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn ready(&self, file: &Path) -> io::Result<Option<ReadySpool>> {
        match fs::read(file) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for SpoolSite {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
            eprintln!("the spool's files and log are kept in {}", self.directory.path().display());
        }
    }
}

/// A running agent.
#[derive(Debug)]
pub struct RunningSpool {
    child: Child,
    http: Endpoint,
    mqtt: Endpoint,
}

impl RunningSpool {
    /// Its process id, while it has not been seen to end.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills it with SIGKILL and waits until it is dead.
    ///
    /// # Errors
    /// When it had ended by itself.
    pub async fn kill(mut self) -> io::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            return Err(io::Error::other(format!("the spool had ended by itself with {status}")));
        }
        self.child.kill().await?;
        self.http.lose();
        self.mqtt.lose();
        Ok(())
    }

    /// Asks it to end with SIGTERM and waits until it has.
    ///
    /// # Errors
    /// When it had ended by itself, or does not end within `patience`.
    pub async fn stop(mut self, patience: Duration) -> io::Result<ExitStatus> {
        let process_id = self.child.id().ok_or_else(|| io::Error::other("the spool had ended by itself"))?;
        let asked = Command::new("sh").arg("-c").arg(format!("kill -TERM {process_id}")).status().await?;
        if !asked.success() {
            return Err(io::Error::other("the spool cannot be signalled"));
        }
        self.http.lose();
        self.mqtt.lose();
        tokio::time::timeout(patience, self.child.wait()).await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}
