//! Reports from the shell, what they did, and a device watched live.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

use crate::cli::rig::{PATIENCE, Rig, program};
use crate::ports::free_ports;

/// `device watch` while it runs.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    notes: Lines<BufReader<ChildStderr>>,
}

impl Watch {
    fn start(rig: &Rig, arguments: &[&str]) -> Self {
        let mut command = program(rig.url());
        command.args(["device", "watch", "--every", "50ms"]).args(arguments);
        let mut child = Command::from(command).kill_on_drop(true).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("its output is a pipe")).lines();
        let notes = BufReader::new(child.stderr.take().expect("its notes are a pipe")).lines();
        Self { child, lines, notes }
    }

    async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("it tells in time");
        line.expect("it can be read").expect("it goes on")
    }

    /// What it says beside its lines.
    async fn note(&mut self) -> String {
        let note = timeout(PATIENCE, self.notes.next_line()).await.expect("it tells in time");
        note.expect("it can be read").expect("it goes on")
    }

    async fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().await).expect("a line is JSON")
    }

    /// What Ctrl-C does; by SIGTERM, because whoever runs the tests in the background may ignore
    /// SIGINT and hand that down.
    async fn interrupt(mut self) {
        let id = self.child.id().expect("it runs");
        let killed = Command::new("kill").args(["-TERM", &id.to_string()]).status().await;
        assert!(killed.expect("kill is there").success());
        timeout(PATIENCE, self.child.wait()).await.expect("it ends in time").expect("it ends");
    }
}

#[tokio::test]
async fn a_report_from_the_shell_is_read_back_as_it_was() {
    let rig = Rig::start(&[]).await;
    rig.out("device add t1 --kind therm");
    let mut count = 0;
    for value in ["1", "-2.5", "true", "null", "\"open\"", "{\"t\":21.5}", "[1,2]"] {
        assert_eq!(rig.out(&format!("report send t1 {value}")), "accepted\n");
        count += 1;
        let newest = rig.feed("device readings t1", count);
        assert_eq!(newest[0]["data"].to_string(), value);
    }
    rig.out("report send t1 9 --ts 2h --id r-1");
    let old = rig.feed("device readings t1 --to 1h", 1);
    assert_eq!((&old[0]["data"], &old[0]["changed"]), (&json!(9), &json!(true)));
    assert_eq!(rig.json("device readings t1 --from 1h").len(), count);
}

#[tokio::test]
async fn events_and_deliveries_are_listed_shown_and_retried() {
    let rig = Rig::start(&[("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true")]).await;
    rig.out("client add acme --hook http://127.0.0.1:9/hook");
    rig.devices(&["lock7", "lock8"]);
    rig.out("device link lock7 acme");
    for report in ["lock7 1", "lock7 1", "lock8 0"] {
        rig.out(&format!("report send {report}"));
    }
    rig.feed("device events", 2);
    assert_eq!(rig.json("device events lock8 --type changed --order asc")[0]["device_id"], "lock8");
    assert_eq!(rig.json("device events --type lost"), [Value::Null; 0]);
    let deliveries = rig.feed("delivery ls --client acme --device lock7 --status pending", 1);
    let id = deliveries[0]["id"].as_str().expect("an id");
    assert!(rig.out("delivery ls").contains(id));
    assert!(rig.out(&format!("delivery show {id}")).starts_with(&format!("id            {id}\n")));
    assert_eq!(rig.out(&format!("delivery retry {id}")), format!("{id} is sent again\n"));
}

#[tokio::test]
async fn a_rejected_report_is_replayed_once_what_was_in_its_way_is_put_right() {
    let rig = Rig::start(&[]).await;
    for device in ["lock7", "lock8"] {
        assert_eq!(rig.run(&format!("report send {device} 1")).code, Some(1));
    }
    let rejected = rig.feed("report rejected ls --order asc", 2);
    let ids = [0, 1].map(|place: usize| rejected[place]["id"].as_str().expect("an id"));
    assert!(rig.out(&format!("report rejected show {}", ids[0])).contains("unknown_device"));
    rig.devices(&["lock7"]);
    let replayed = rig.run(&format!("report rejected replay {} {}", ids[1], ids[0]));
    assert_eq!(replayed.code, Some(1), "lock8 is still not registered: {replayed:?}");
    assert_eq!(replayed.out, format!("{}: 1 accepted, 0 rejected\n", ids[0]));
    assert_eq!(rig.feed("device readings lock7", 1)[0]["data"], 1);
    let left = rig.feed("report rejected ls", 1);
    rig.out(&format!("report rejected rm {}", left[0]["id"].as_str().expect("an id")));
    rig.feed("report rejected ls", 0);
}

#[tokio::test]
async fn reports_are_counted_by_the_hour() {
    let rig = Rig::start(&[]).await;
    rig.devices(&["lock7", "lock8"]);
    for report in ["lock7 1", "lock7 1", "lock8 0"] {
        rig.out(&format!("report send {report}"));
    }
    for (line, count) in
        [("stats reports", 3), ("stats changes", 2), ("stats reports --device lock7 --by day", 2)]
    {
        let counts = rig.json(&format!("{line} --from 2h"));
        let sum: u64 = counts.iter().filter_map(|count| count["count"].as_u64()).sum();
        assert_eq!(sum, count, "{line}: {counts:?}");
    }
}

#[tokio::test]
async fn a_device_is_watched_live_by_a_program() {
    let rig = Rig::start(&[]).await;
    rig.devices(&["lock7"]);
    rig.out("report send lock7 0");
    let mut watch = Watch::start(&rig, &["lock7", "--json"]);
    let state = watch.json().await;
    assert_eq!((&state["state"]["id"], &state["state"]["state"]["value"]), (&json!("lock7"), &json!(0)));
    rig.out("report send lock7 1");
    let mut lines = [watch.json().await, watch.json().await];
    lines.sort_by_key(|line| line["reading"].is_object());
    assert_eq!((&lines[0]["event"]["previous"], &lines[0]["event"]["sequence"]), (&json!(0), &json!(2)));
    assert_eq!(lines[1]["reading"]["data"], 1);
    rig.out("report send lock7 1");
    assert_eq!(watch.json().await["reading"]["changed"], false, "what was told before is not told again");
    watch.interrupt().await;
}

#[tokio::test]
async fn a_device_is_watched_live_by_a_person() {
    let rig = Rig::start(&[]).await;
    rig.devices(&["lock7"]);
    let mut watch = Watch::start(&rig, &["lock7"]);
    assert_eq!(watch.line().await, "lock7  never_seen  value -  last seen never");
    rig.out("report send lock7 1");
    let mut lines = [watch.line().await, watch.line().await];
    lines.sort();
    let lines = lines.map(|line| line.split("Z  ").nth(1).map(str::to_owned).expect("a time before it"));
    assert!(lines.contains(&"changed  - -> 1  #1".to_owned()), "{lines:?}");
    assert!(lines.contains(&"reading  1".to_owned()), "{lines:?}");
    rig.out("device rm lock7");
    let ended = timeout(PATIENCE, watch.child.wait()).await.expect("it ends in time").expect("it ends");
    assert_eq!(ended.code(), Some(1), "a device that is removed cannot be watched");
}

#[tokio::test]
async fn a_watch_waits_for_a_server_that_is_restarted() {
    let [port] = free_ports();
    let mut rig = Rig::start(&[("FIELDPOST_HTTP__LISTEN", &format!("127.0.0.1:{port}"))]).await;
    rig.devices(&["lock7"]);
    let mut watch = Watch::start(&rig, &["lock7", "--json"]);
    assert!(watch.json().await["state"].is_object());
    rig.kill().await;
    assert!(watch.note().await.contains("waiting for it"));
    rig.start_again().await;
    assert!(watch.note().await.contains("is back"));
    rig.out("report send lock7 1");
    let lines = [watch.json().await, watch.json().await];
    assert!(lines.iter().any(|line| line["event"]["sequence"] == 1), "{lines:?}");
    watch.interrupt().await;
}
