//! Pages that a newcomer follows, run as they stand: the quick start of `README.md`, the tutorial
//! and that of tasks. Only the ports are others, because tests share a machine.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::ports::free_ports;

/// What a newcomer would wait for, and then some for a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// The fenced blocks below a mark, in order, as one script.
pub(crate) fn blocks(page: &str, mark: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(path).expect("the page is there");
    let mut script = String::new();
    for after in text.split(&format!("<!-- {mark} -->\n```sh\n")).skip(1) {
        let (block, _) = after.split_once("\n```").expect("the block ends");
        script.push_str(block);
        script.push('\n');
    }
    assert!(!script.is_empty(), "{page} has blocks below the mark {mark}");
    script
}

/// Puts other ports in place of those that the page names.
fn at_ports(block: &str, [http, mqtt, hook]: [u16; 3]) -> String {
    let mut script = block.to_owned();
    for (named, used) in [
        ("127.0.0.1:8080", format!("127.0.0.1:{http}")),
        ("-p 1883", format!("-p {mqtt}")),
        ("127.0.0.1:9000", format!("127.0.0.1:{hook}")),
        ("listen(9000,", format!("listen({hook},")),
    ] {
        assert!(script.contains(named), "the quick start names {named}");
        script = script.replace(named, &used);
    }
    script
}

/// Runs a script with the program on its path, and ends whatever it leaves behind.
pub(crate) fn run(script: &str, ports: [u16; 3]) -> Output {
    run_for(PATIENCE, script, ports)
}

/// The same for one that takes its time.
pub(crate) fn run_for(patience: Duration, script: &str, [http, mqtt, _]: [u16; 3]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = Path::new(env!("CARGO_BIN_EXE_fieldpost")).parent().expect("the program lies in a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("there is a PATH"));
    let child = Command::new("bash")
        .args(["-e", "-c", script])
        .env("PATH", path)
        .env("TMPDIR", folder.path())
        .env("FIELDPOST_HTTP__LISTEN", format!("127.0.0.1:{http}"))
        .env("FIELDPOST_MQTT__LISTEN", format!("127.0.0.1:{mqtt}"))
        .env("FIELDPOST_GRPC__LISTEN", "127.0.0.1:0")
        .env("FIELDPOST_URL", format!("http://127.0.0.1:{http}"))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("bash is there");
    let group = child.id();
    let (ended, output) = mpsc::channel();
    let waiter = std::thread::spawn(move || ended.send(child.wait_with_output()));
    let in_time = output.recv_timeout(patience);
    // Also after a good end: a script that failed half-way has left its server running, and the
    // pipes open.
    let killed =
        Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
    killed.expect("kill is there");
    let output =
        in_time.or_else(|_| output.recv()).expect("the thread sends once").expect("bash can be awaited");
    waiter.join().expect("the thread does not panic").expect("the output is received");
    output
}

/// Runs a page, which must end well in time and print these parts.
fn check(page: &str, mark: &str, patience: Duration, parts: &[(&str, &str)]) {
    let ports = free_ports();
    check_script(page, patience, &at_ports(&blocks(page, mark), ports), ports, parts);
}

fn check_script(page: &str, patience: Duration, script: &str, ports: [u16; 3], parts: &[(&str, &str)]) {
    let output = run_for(patience, script, ports);
    let (told, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{told}\n{log}", output.status);
    for (what, part) in parts {
        assert!(told.contains(part), "{what} is not in what {page} prints:\n{told}\n{log}");
    }
}

#[test]
fn the_quick_start_of_the_readme_works_as_it_stands() {
    let parts = [
        ("the webhook", "\"type\":\"device.changed\""),
        ("its value", "\"value\":1"),
        ("the reading", "\"changed\":true"),
        ("the delivery", "\"status\":\"delivered\""),
    ];
    check("README.md", "quickstart", PATIENCE, &parts);
}

/// Each port of the quick start in turn is held by another program, which takes connections and
/// says nothing.
#[test]
fn the_quick_start_stops_at_once_where_a_port_is_taken() {
    /// On a machine that is busy with other tests. A script that hangs takes all of `PATIENCE`.
    const AT_ONCE: Duration = Duration::from_secs(50);
    const SERVER_SAYS: &str = "another program listens there";
    for (place, says) in [SERVER_SAYS, SERVER_SAYS, "EADDRINUSE", SERVER_SAYS].into_iter().enumerate() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let mut ports = free_ports();
        ports[place] = taken.local_addr().expect("it is bound").port();
        let [http, mqtt, hook, grpc] = ports;
        // The page calls nothing over gRPC, so only the server knows that port.
        let at_grpc = format!("export FIELDPOST_GRPC__LISTEN=127.0.0.1:{grpc}\n");
        let script = at_grpc + &at_ports(&blocks("README.md", "quickstart"), [http, mqtt, hook]);
        let began = Instant::now();
        let output = run(&script, [http, mqtt, hook]);
        let (told, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success(), "{says}\n{told}\n{log}");
        assert!(began.elapsed() < AT_ONCE, "{says}: {:?}\n{log}", began.elapsed());
        let port = ports[place].to_string();
        assert!(log.lines().any(|line| line.contains(says) && line.contains(&port)), "{says}\n{log}");
        assert!(!told.contains("\"status\":\"delivered\""), "{told}");
    }
}

#[test]
fn the_tutorial_works_as_it_stands() {
    let parts = [
        ("the first change", "device.changed lock1 1 skipped 0"),
        ("the folded change", "device.changed lock1 0 skipped"),
        ("the loss", "device.lost cellar"),
        ("the refused report", "unknown_device"),
        ("the events as CSV", "device.restored"),
    ];
    check("docs/tutorial.md", "run", 3 * PATIENCE, &parts);
}

#[test]
fn the_tutorial_of_tasks_works_as_it_stands() {
    let ports = free_ports();
    let mut script = blocks("docs/tasks.md", "run");
    for (named, used) in [("127.0.0.1:8080", ports[0]), ("127.0.0.1:1883", ports[1])] {
        assert!(script.contains(named), "the tutorial names {named}");
        script = script.replace(named, &format!("127.0.0.1:{used}"));
    }
    let parts = [
        ("the fleet", "connected   400\n"),
        ("a country", "CN "),
        ("the end of a task", "100 of 100 answered"),
        ("the task over HTTP", "\"wanted\":5,\"picked\":5,\"answered\":5"),
        ("the weights", "WEIGHT"),
        ("the fairness", "punishment"),
    ];
    // Its task alone may take the minute of its deadline.
    check_script("docs/tasks.md", 3 * PATIENCE, &script, ports, &parts);
}
