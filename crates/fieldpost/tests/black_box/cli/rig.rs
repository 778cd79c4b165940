//! A server of its own for each test, and the program run against it.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use simulator::endpoint::Endpoint;
use simulator::server::{RunningServer, Site};

/// Nothing here takes longer, even on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const BINARY: &str = env!("CARGO_BIN_EXE_fieldpost");

/// A running server.
pub(crate) struct Rig {
    url: String,
    site: Site,
    server: Option<RunningServer>,
}

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Rig {
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let site = Site::new(Path::new(BINARY), settings).expect("a directory");
        let server = site.start(PATIENCE).await.expect("a server");
        let url = format!("http://{}", site.http.address().await);
        Self { url, site, server: Some(server) }
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self) {
        self.server.take().expect("it runs").kill().await.expect("killed");
    }

    /// A new process on the same data.
    pub(crate) async fn start_again(&mut self) {
        self.server = Some(self.site.start(PATIENCE).await.expect("a server"));
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where its devices connect.
    pub(crate) fn mqtt(&self) -> &Endpoint {
        &self.site.mqtt
    }

    /// Runs a line of words to its end.
    pub(crate) fn run(&self, line: &str) -> Ended {
        run(&self.url, &line.split_whitespace().collect::<Vec<_>>(), "")
    }

    pub(crate) fn run_with(&self, line: &str, input: &str) -> Ended {
        run(&self.url, &line.split_whitespace().collect::<Vec<_>>(), input)
    }

    /// Runs what has to succeed; what it printed.
    pub(crate) fn out(&self, line: &str) -> String {
        let ended = self.run(line);
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
        ended.out
    }

    /// The lines of what has to succeed, each a JSON document.
    pub(crate) fn json(&self, line: &str) -> Vec<Value> {
        let out = self.out(&format!("{line} --json"));
        out.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    /// The same once there are `count` lines: a feed may be a moment behind what was answered.
    pub(crate) fn feed(&self, line: &str, count: usize) -> Vec<Value> {
        let since = Instant::now();
        loop {
            let items = self.json(line);
            if items.len() == count {
                return items;
            }
            assert!(since.elapsed() < PATIENCE, "{line}: not {count} lines but {items:?}");
        }
    }

    /// Registers devices of the kind lock.
    pub(crate) fn devices(&self, ids: &[&str]) {
        for id in ids {
            self.out(&format!("device add {id}"));
        }
    }
}

/// The program without any setting of whoever runs the tests.
pub(crate) fn program(url: &str) -> Command {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("FIELDPOST_") || text.starts_with("CLICOLOR") || text == "NO_COLOR" {
            command.env_remove(&name);
        }
    }
    command.env("FIELDPOST_URL", url).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program to its end.
pub(crate) fn run(url: &str, arguments: &[&str], input: &str) -> Ended {
    let mut command = program(url);
    command.args(arguments).stdin(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    feed(&mut child, input);
    ended(&child.wait_with_output().expect("it ends"))
}

pub(crate) fn ended(output: &Output) -> Ended {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Gives a program its whole input. It may end before it has read it.
fn feed(child: &mut Child, input: &str) {
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    if let Err(error) = stdin.write_all(input.as_bytes()) {
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{error}");
    }
}
