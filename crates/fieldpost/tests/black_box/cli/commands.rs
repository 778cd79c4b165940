//! Commands to devices from the shell: what is asked, what is shown, and how scripts are told the
//! end, with simulated devices that answer.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Arc;

use simulator::commands::{CommandLedger, CommandedDevices, ResponseProfile};
use simulator::random::Probability;
use simulator::traffic::DeviceIds;

use crate::cli::rig::{PATIENCE, Rig, ended, program, run};
use crate::cli::scripted::{Scripted, answer};

const SENT: &str = r#"{"id":"cmd_1","device_id":"gate0","status":"STATUS","payload":1,"priority":0,"tries":1,"max_attempts":5,"created_at":"2026-11-21T01:02:03.456Z","result":{"took":250}}"#;

fn seen(status: &str) -> String {
    SENT.replace("STATUS", status)
}

/// Gates that are connected and answer so.
async fn gates(rig: &Rig, count: u32, profile: ResponseProfile) -> CommandedDevices {
    let (devices, ledger) =
        (DeviceIds::new("gate", count).of_kind("gate"), Arc::new(CommandLedger::default()));
    let connected = CommandedDevices::connect(rig.mqtt(), &devices, 1, profile, &ledger);
    assert!(connected.subscribed(count.into(), PATIENCE).await, "{:?}", ledger.troubles());
    connected
}

#[test]
fn a_command_asks_what_the_api_reads() {
    let scripted = Scripted::new(vec![answer("201 Created", "", &seen("scheduled"))]);
    let line =
        ["command", "send", "gate0", r#"{"n": 1.50}"#, "--ttl", "1h", "--key", "door", "--priority", "-5"];
    let people = run(&scripted.url, &line, "");
    assert_eq!((people.code, people.out.as_str()), (Some(0), "cmd_1 scheduled\n"), "{}", people.err);
    let asked = scripted.asked().pop().expect("one request");
    assert!(asked.head.starts_with("POST /v1/devices/gate0/commands HTTP/1.1\r\n"), "{}", asked.head);
    assert_eq!(asked.body, r#"{"payload":{"n": 1.50},"ttl":"1h","key":"door","priority":-5}"#);
}

#[test]
fn a_secret_is_shown_this_once() {
    let sent = seen("scheduled").replace("}}", r#"},"notify":{"url":"https://a","secret":"whsec_x"}}"#);
    let scripted = Scripted::new(vec![answer("201 Created", "", &sent)]);
    let people = run(&scripted.url, &["command", "send", "gate0", "1", "--notify-url", "https://a"], "");
    assert!(people.out.contains("whsec_x\nKeep the secret"), "{people:?}");
    assert_eq!(scripted.asked()[0].body, r#"{"payload":1,"notify":{"url":"https://a"}}"#);
}

#[test]
fn the_end_of_a_command_is_an_exit_code() {
    for (status, code) in [("acknowledged", 0), ("failed", 1), ("cancelled", 1)] {
        let scripted = Scripted::new(vec![answer("200 OK", "", &seen(status))]);
        let watched = run(&scripted.url, &["command", "watch", "cmd_1"], "");
        assert_eq!(watched.code, Some(code), "{watched:?}");
        let row = format!("cmd_1  {status}  try 1  {{\"took\":250}}\n");
        assert!(watched.out.ends_with(&row), "{watched:?}");
    }
    let scripted = Scripted::new(vec![answer("201 Created", "", &seen("published"))]);
    let waited = run(&scripted.url, &["command", "send", "gate0", "1", "--wait", "10ms", "--json"], "");
    assert_eq!((waited.code, waited.out), (Some(1), format!("{}\n", seen("published"))));
    assert!(waited.err.contains(r#""code":"incomplete""#), "{}", waited.err);
    assert!(scripted.asked()[0].head.starts_with("POST /v1/devices/gate0/commands?wait=10ms "));
}

#[test]
fn a_refusal_says_what_to_do() {
    for (line, status, code, advice) in [
        ("command show cmd_9", 404, "unknown_command", "command ls"),
        ("command cancel cmd_9", 409, "finished", "command retry"),
        ("command retry cmd_9", 409, "not_finished", "command cancel"),
    ] {
        let problem = format!(r#"{{"status":{status},"code":"{code}","detail":"no"}}"#);
        let scripted = Scripted::new(vec![answer(&format!("{status} No"), "", &problem)]);
        let refused = run(&scripted.url, &line.split_whitespace().collect::<Vec<_>>(), "");
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains(advice), "{}", refused.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_comes_back_does_what_waits_for_it() {
    // No command goes out again because a busy machine answers late: all that happens is counted.
    let rig = Rig::start(&[("FIELDPOST_COMMANDS__ACK_TIMEOUT", "1m")]).await;
    rig.out("device add gate0 --kind gate");
    let sent = rig.json("command send gate0 {\"open\":1} --origin test");
    let id = sent[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(rig.json("device ls --waiting")[0]["id"], "gate0");
    assert!(rig.json("device ls --connected").is_empty());
    let mut watching =
        program(rig.url()).args(["command", "watch", "--device", "gate0"]).spawn().expect("it runs");
    // It watches what has not ended when it looks first: the gate has to come later.
    let mut out = BufReader::new(watching.stdout.take().expect("it is piped"));
    let mut seen = String::new();
    out.read_line(&mut seen).expect("text");
    let connected = gates(&rig, 1, ResponseProfile::default()).await;
    out.read_to_string(&mut seen).expect("text");
    let watched = ended(&watching.wait_with_output().expect("it ends"));
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert!(seen.contains(&format!("{id}  acknowledged")), "{seen}");
    assert_eq!(rig.json("device ls --connected")[0]["id"], "gate0");
    let listed = rig.out("command ls --status acknowledged --origin test");
    assert!(listed.lines().all(|line| line.chars().count() <= 80) && listed.contains(&id), "{listed}");
    let shown = rig.out(&format!("command show {id}"));
    assert!(shown.contains("status     acknowledged\n") && shown.contains("origin     test\n"), "{shown}");

    rig.out("device desired gate0 set volume 5");
    rig.feed("command ls --device gate0 --status acknowledged", 2);
    assert_eq!(
        rig.out("device desired gate0"),
        "KEY     DESIRED  CONFIRMED\nvolume  5        5          confirmed\n"
    );
    connected.disconnect().await;
    let timeline = rig.feed("device timeline gate0 --order asc", 8);
    let types: Vec<_> = timeline.iter().filter_map(|item| item["type"].as_str()).collect();
    assert_eq!(types[0], "command.scheduled", "{types:?}");
    assert_eq!(types.iter().filter(|what| **what == "command.acknowledged").count(), 2, "{types:?}");
    assert_eq!(types.last(), Some(&"disconnected"), "{types:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_refuses_is_told_from_one_that_does_it() {
    let rig = Rig::start(&[]).await;
    rig.out("device add gate0 --kind gate");
    let connected =
        gates(&rig, 1, ResponseProfile { refuse: Probability::ALWAYS, ..ResponseProfile::default() }).await;
    let refused = rig.run("command send gate0 1 --wait 60s");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("ended as failed"), "{}", refused.err);
    connected.disconnect().await;
    let connected = gates(&rig, 1, ResponseProfile::default()).await;
    let did_it = rig.run("command send gate0 1 --wait 60s");
    assert_eq!(did_it.code, Some(0), "{did_it:?}");
    connected.disconnect().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_command_is_called_off_and_tried_anew() {
    let rig = Rig::start(&[]).await;
    rig.out("device add gate0 --kind gate");
    let first = rig.json("command send gate0 1 --key door")[0]["id"].as_str().expect("an id").to_owned();
    let second = rig.json("command send gate0 2 --key door")[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(rig.json(&format!("command show {first}"))[0]["status"], "superseded");
    assert_eq!(rig.out(&format!("command cancel {second}")), format!("{second} cancelled\n"));
    assert_eq!(rig.run(&format!("command cancel {second}")).code, Some(1));
    assert_eq!(rig.out(&format!("command retry {second}")), format!("{second} is tried anew\n"));
    assert_eq!(rig.json(&format!("command show {second}"))[0]["status"], "scheduled");
    let mut follower = program(rig.url());
    follower.args(["command", "ls", "--follow", "--json"]).stdout(Stdio::piped());
    let mut child = follower.spawn().expect("it runs");
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    let lines: Vec<_> = out.lines().take(2).collect::<Result<_, _>>().expect("two lines");
    child.kill().and_then(|()| child.wait()).expect("it can be ended");
    assert!(lines[0].contains(&first) && lines[1].contains(&second), "{lines:?}");
}
