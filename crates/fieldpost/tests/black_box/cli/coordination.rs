//! Locks, limits, the cache, channels and the word to workers, from the shell.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::cli::rig::{PATIENCE, Rig, program, run};
use crate::ports::free_ports;

#[tokio::test]
async fn a_lock_is_held_shown_and_let_go() {
    let rig = Rig::start(&[]).await;
    assert_eq!(rig.run("lock ls").err, "no locks are held\n");
    let grant = &rig.json("lock acquire shop report --owner me --ttl 1m")[0];
    let fence = grant["fence"].as_str().expect("a fence").to_owned();
    let refused = rig.run("lock acquire shop report --owner you");
    assert!(refused.code == Some(1) && refused.err.contains("lock_held"), "{refused:?}");
    let shown = rig.out("lock show shop report");
    assert!(shown.contains("me") && shown.contains(&fence), "{shown}");
    assert!(rig.out("lock ls --namespace shop").contains(&fence));
    assert_eq!(rig.json("lock extend shop report --owner me --ttl 2m")[0]["fence"], fence.as_str());
    assert_eq!(rig.out("lock release shop report --owner me"), "shop/report let go\n");
    assert_eq!(rig.run("lock release shop report --owner me").code, Some(1));
}

#[tokio::test]
async fn a_command_runs_under_a_lock_and_its_exit_code_is_told() {
    let rig = Rig::start(&[]).await;
    let script = "lock show shop report | grep -q yes; echo fence $FIELDPOST_FENCE; exit 7";
    let script = script.replace("lock", &format!("{} lock", env!("CARGO_BIN_EXE_fieldpost")));
    let words = ["lock", "run", "shop", "report", "--", "sh", "-ec", &script];
    let ended = run(rig.url(), &words, "");
    assert_eq!((ended.code, ended.err.as_str()), (Some(7), ""), "{ended:?}");
    let fence: u64 =
        ended.out.trim().strip_prefix("fence ").and_then(|fence| fence.parse().ok()).expect("one");
    assert_eq!(rig.json("lock show shop report")[0]["held"], false, "{fence}");
    rig.out("lock acquire shop report --owner me --ttl 1m");
    let refused = rig.run("lock run shop report -- true");
    assert!(refused.code == Some(1) && refused.err.contains("held by another owner"), "{refused:?}");
    let unknown = rig.run("lock run shop other -- no-such-program-at-all");
    assert!(unknown.code == Some(2) && unknown.err.contains("cannot be run"), "{unknown:?}");
    let by_signal = run(rig.url(), &["lock", "run", "shop", "other", "--", "sh", "-c", "kill -9 $$"], "");
    assert_eq!(by_signal.code, Some(137), "{by_signal:?}");
}

#[tokio::test]
async fn a_command_is_stopped_when_its_lock_is_lost() {
    let mut rig = Rig::start(&[]).await;
    let mut command = Command::from(program(rig.url()));
    command.args(["lock", "run", "shop", "report", "--ttl", "9s", "--", "sh", "-c", "echo begun; sleep 600"]);
    let mut child = command.kill_on_drop(true).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let begun = timeout(PATIENCE, lines.next_line()).await.expect("in time").expect("read");
    assert_eq!(begun.as_deref(), Some("begun"));
    rig.kill().await;
    let ended = timeout(PATIENCE, child.wait()).await.expect("in time").expect("awaited");
    assert_eq!(ended.code(), Some(1));
}

#[tokio::test]
async fn limits_the_cache_and_the_word_to_workers_have_commands() {
    let rig = Rig::start(&[]).await;
    let ask = "limit ask shop sms --limit 3 --per 1h --cost 2";
    assert!(rig.out(ask).contains("yes"));
    let refused = rig.run(ask);
    assert!(refused.code == Some(1) && refused.out.contains("no"), "{refused:?}");
    let listed = &rig.json("limit ls --namespace shop")[0];
    let expect = json!({
        "namespace": "shop", "name": "sms", "kind": "smooth", "limit": 3, "per": "1h", "remaining": 1,
    });
    assert_eq!(listed, &expect);

    assert_eq!(rig.run_with("cache put shop logo --ttl 1h", "a\nb").code, Some(0));
    assert_eq!(rig.out("cache get shop logo"), "a\nb");
    let there = rig.run_with("cache put shop logo --if-absent", "c");
    assert!(there.code == Some(1) && there.err.contains("exists"), "{there:?}");
    assert_eq!(rig.out("cache delete shop logo other"), "1 deleted\n");
    assert_eq!(rig.run("cache get shop logo").code, Some(1));

    assert_eq!(rig.run("queue control shop mail").code, Some(1));
    rig.out("queue control shop mail drain --max-in-flight 4 --data [1]");
    let control = &rig.json("queue control shop mail")[0];
    assert_eq!(control, &json!({"state": "drain", "max_in_flight": 4, "data": [1]}));
    rig.out("queue control shop mail --clear");
    assert_eq!(rig.run("queue control shop mail").code, Some(1));
}

#[tokio::test]
async fn a_listener_shows_messages_as_they_come() {
    let rig = Rig::start(&[]).await;
    let mut command = Command::from(program(rig.url()));
    command.args(["channel", "listen", "shop", "orders", "alarm-*", "--count", "2", "--json"]);
    let mut child = command.kill_on_drop(true).spawn().expect("it runs");
    let mut notes = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let note = timeout(PATIENCE, notes.next_line()).await.expect("in time").expect("read");
    assert_eq!(note.as_deref(), Some("listening"));
    for (channel, message) in [("alarm-north", "1"), ("bills", "2"), ("orders", r#"{"id":3}"#)] {
        rig.out(&format!("channel publish shop {channel} {message}"));
    }
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("in time").expect("awaited");
    assert!(output.status.success(), "{output:?}");
    let expect = r#"{"channel":"alarm-north","message":1}
{"channel":"orders","message":{"id":3}}
"#;
    assert_eq!(String::from_utf8_lossy(&output.stdout), expect);
}

#[tokio::test]
async fn a_listener_tells_once_that_its_server_is_away_and_when_it_is_back() {
    let [port] = free_ports();
    let mut rig = Rig::start(&[("FIELDPOST_HTTP__LISTEN", &format!("127.0.0.1:{port}"))]).await;
    let mut command = Command::from(program(rig.url()));
    command.args(["channel", "listen", "shop", "orders", "--count", "1"]);
    let mut child = command.kill_on_drop(true).spawn().expect("it runs");
    let mut notes = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut note = async || {
        let note = timeout(PATIENCE, notes.next_line()).await.expect("in time").expect("read");
        note.expect("it goes on")
    };
    assert_eq!(note().await, "listening");
    rig.kill().await;
    let away = note().await;
    assert!(away.contains(rig.url()) && away.ends_with("; waiting for it"), "{away}");
    rig.start_again().await;
    assert_eq!(note().await, "connected again: messages may have been missed");
    rig.out("channel publish shop orders 1");
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("in time").expect("awaited");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "orders  1\n");
}
