//! The Python package `clients/python`: its tests against the built program, and its workers
//! through a SIGKILL.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::server::Site;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::contract::rig::in_place;

const BINARY: &str = env!("CARGO_BIN_EXE_fieldpost");
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python");
/// Debian's, whichever comes first on PATH: the one that scripts/setup installs.
const PYTHON: &str = "/usr/bin/python3";
/// Jobs that each of the workers has at a time, as their programs say.
const CONCURRENCY: u32 = 8;
/// Nothing here takes longer, even on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);
/// The package's own tests wait for some leases to end.
const PATIENCE_WITH_ALL: Duration = Duration::from_secs(300);

/// Python with the package, which needs nothing else.
fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new(PYTHON);
    command
        .args(arguments)
        .current_dir(PACKAGE)
        .env("PYTHONPATH", "src")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn output_of(mut command: Command, patience: Duration) -> Output {
    timeout(patience, command.output()).await.expect("in time").expect("scripts/setup test installs python3")
}

#[tokio::test]
async fn the_tests_of_the_package_pass() {
    let site = Site::new(Path::new(BINARY), &[]).expect("a directory");
    let _server = site.start(PATIENCE).await.expect("a server");
    let mut tests = python(&["-W", "error::ResourceWarning", "-m", "unittest"]);
    tests.env("FIELDPOST_URL", format!("http://{}", site.http.address().await));
    let output = output_of(tests, PATIENCE_WITH_ALL).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let ran = said.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse::<u32>().ok());
    assert!(ran.is_some_and(|ran| ran >= 80), "all are found: {said}");
}

#[tokio::test]
async fn the_tests_say_when_they_have_no_server() {
    let mut tests = python(&["-m", "unittest", "tests.test_queues"]);
    tests.env_remove("FIELDPOST_URL");
    let output = output_of(tests, PATIENCE).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("FIELDPOST_URL has to say"), "{said}");
}

/// A program that works on a queue, and says what each job carried.
struct Worker {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(program: &str, url: &str, queue: &str) -> Self {
        let mut command = python(&[program, url, "shop", queue]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("scripts/setup test installs python3");
        let said = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, said }
    }

    /// Counts its lines, one a job, until there are so many different ones.
    async fn handles(&mut self, seen: &mut BTreeMap<String, u32>, jobs: usize) {
        let all = async {
            while seen.len() < jobs {
                let line = self.said.next_line().await.expect("it is readable").expect("it goes on");
                *seen.entry(line).or_default() += 1;
            }
        };
        timeout(PATIENCE, all).await.unwrap_or_else(|_| panic!("{} of {jobs} jobs came", seen.len()));
    }

    /// SIGTERM; it finishes what it has begun, and ends well.
    async fn stop(mut self) {
        let id = self.child.id().expect("it runs").to_string();
        let signalled = Command::new("kill").args(["-TERM", &id]).status().await.expect("kill is there");
        assert!(signalled.success());
        let ended = timeout(PATIENCE, self.child.wait()).await.expect("in time").expect("it can be awaited");
        assert!(ended.success(), "{ended}");
    }
}

async fn publish(api: &ApiClient, queue: &str, payloads: std::ops::Range<usize>) {
    let jobs: Vec<Value> = payloads.map(|n| json!({"payload": n, "tries": 100})).collect();
    let path = format!("/v1/queues/shop/{queue}/jobs");
    let _: Value = api.post(&path, &json!({"jobs": jobs})).await.expect("published");
}

#[tokio::test]
async fn the_examples_run() {
    let site = Site::new(Path::new(BINARY), &[]).expect("a directory");
    let _server = site.start(PATIENCE).await.expect("a server");
    let url = format!("http://{}", site.http.address().await);
    for worker in ["examples/worker.py", "examples/async_worker.py"] {
        let output = output_of(python(&["examples/publish.py", &url, "shop", "mails"]), PATIENCE).await;
        let (listed, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && listed.contains("cart-17"), "{listed}{said}");
        let mut worker = Worker::start(worker, &url, "mails");
        worker.handles(&mut BTreeMap::new(), 4).await;
        worker.stop().await;
    }
}

#[tokio::test]
async fn workers_carry_on_when_the_server_is_killed() {
    for program in ["tests/worker_of_threads.py", "tests/worker_of_tasks.py"] {
        let mut site = Site::new(Path::new(BINARY), &[]).expect("a directory");
        // The worker knows one address.
        let address = in_place(&mut site);
        let server = site.start(PATIENCE).await.expect("a server");
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        let mut worker = Worker::start(program, &format!("http://{address}"), "mails");
        let mut seen = BTreeMap::new();

        publish(&api, "mails", 0..500).await;
        worker.handles(&mut seen, 100).await;
        server.kill().await.expect("killed");
        let server = site.start(PATIENCE).await.expect("a server");
        publish(&api, "mails", 500..600).await;
        worker.handles(&mut seen, 600).await;

        let is_empty = |overview: &Value| overview["ready"] == 0 && overview["reserved"] == 0;
        let overview: Value =
            api.until("/v1/queues/shop/mails", PATIENCE, is_empty).await.expect("all are done");
        worker.stop().await;
        assert_eq!(overview["dead"], 0, "{program}");
        // What was done just before the end is said once the server is back, unless that took too
        // long.
        let done_again: u32 = seen.values().map(|times| times - 1).sum();
        assert!(done_again <= CONCURRENCY, "{program}: {seen:?}");
        assert!(server.stop(PATIENCE).await.expect("it stops").success());
    }
}
