//! What people see on a terminal: lines that fit it, and how far an import has come.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::cli::rig::program;
use crate::cli::scripted::{Scripted, answer};
use crate::postgres;

/// A terminal so many columns wide: our end of it, and that of a program.
fn terminal(columns: u16) -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudoterminal");
    grantpt(&ours).expect("it is ours");
    unlockpt(&ours).expect("it can be opened");
    let path = ptsname(&ours, Vec::new()).expect("it has a name");
    let theirs = open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("its other end");
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).expect("it has a size");
    (ours, theirs)
}

/// What the program writes to a terminal, which is its stdout and stderr, without colours.
fn on_terminal(columns: u16, mut command: Command) -> String {
    let (ours, theirs) = terminal(columns);
    let end = || Stdio::from(theirs.as_fd().try_clone_to_owned().expect("another handle"));
    command.env("TERM", "xterm").env("NO_COLOR", "1").stdout(end()).stderr(end());
    let mut child = command.spawn().expect("it runs");
    // The program has the only handles from here on: when it ends, so does what can be read.
    drop(command);
    drop(theirs);
    let mut text = Vec::new();
    let mut ours = File::from(ours);
    let mut piece = [0; 4_096];
    // The end of a terminal is an error on this system.
    while let Ok(length @ 1..) = ours.read(&mut piece) {
        text.extend_from_slice(&piece[..length]);
    }
    child.wait().expect("it ends");
    String::from_utf8(text).expect("text").replace("\r\n", "\n")
}

const ID: &str = "evt_0123456789abcdefghijklmnopqrstuv";

fn events(next_cursor: Option<&str>) -> String {
    let event = json!({"id": ID, "device_id": "0123456789abcdef", "type": "device.changed",
        "ts": "2026-11-21T01:02:03.456Z", "sequence": 7, "value": "v".repeat(200), "previous": "門".repeat(60)});
    answer("200 OK", "", &json!({"items": [event], "next_cursor": next_cursor}).to_string())
}

#[test]
fn a_table_fits_the_terminal_and_keeps_its_ids() {
    for columns in [80, 100, 60] {
        let server = Scripted::new(vec![events(None)]);
        let mut command = program(&server.url);
        command.args(["device", "events"]);
        let shown = on_terminal(columns, command);
        assert!(shown.contains(ID) && shown.contains("0123456789abcdef"), "{shown}");
        for line in shown.lines() {
            assert!(line.width() <= usize::from(columns), "{} of {columns}: {line}", line.width());
        }
        assert_eq!(server.asked().len(), 1);
    }
}

#[test]
fn how_a_list_goes_on_fits_the_terminal() {
    const CURSOR: &str = "AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKK";
    for columns in [80, 60] {
        let server = Scripted::new(vec![events(Some(CURSOR))]);
        let mut command = program(&server.url);
        command.args(["device", "events", "--limit", "1"]);
        let shown = on_terminal(columns, command);
        assert!(shown.contains("there are more: --all shows them"), "{shown}");
        assert!(shown.contains(&format!("--cursor {CURSOR}")), "{shown}");
        for line in shown.lines() {
            assert!(line.width() <= usize::from(columns), "{} of {columns}: {line}", line.width());
        }
        assert_eq!(server.asked().len(), 1);
    }
}

/// Commands that ask once and show a table: what is said to them, what they are answered, and how
/// the table begins.
fn tables(long: &str) -> [(&'static str, Value, &'static str); 6] {
    let from = "2026-11-21T01:02:03.456Z";
    let by_status = json!({"published": 1_000_000, "acknowledged": 1_000_000, "failed": 1});
    [
        (
            "stats commands",
            json!({"items": [{"from": from, "count": 5_000_000, "by_status": by_status}]}),
            "FROM",
        ),
        ("stats reports", json!({"items": [{"from": from, "count": 5_000_000}]}), "FROM"),
        (
            "job consume ns mail",
            json!({"jobs": [{"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "queue": "mail", "payload": long,
                "attempt": 1, "tries": 5, "reservation": "01ARZ3NDEKTSV4RRFFQ69G5FAV.1"}]}),
            "ID",
        ),
        (
            "stream handlers shop orders",
            json!({"items": [{"handler": "move", "name": "cold", "state": "failing", "last_run_at": from,
                "blocks": 1, "bytes": 4_096, "error": long}]}),
            "HANDLER",
        ),
        (
            "client portals acme",
            json!({"items": [{"id": "0123456789abcdefghijklmnopqrstuv", "may": ["read", "retry", "url"],
                "expires_at": from, "by": "the-people-of-the-day-shift"}]}),
            "ID",
        ),
        (
            "delivery show msg_1",
            json!({"id": "msg_1", "client_id": "acme", "device_id": "lock7", "type": "device.changed",
                "status": "failed", "attempt_count": 1, "created_at": from, "attempts":
                [{"at": from, "status_code": null, "error": "connection_broken", "duration_ms": 10_000}]}),
            "ATTEMPT AT",
        ),
    ]
}

#[test]
fn every_table_fits_the_terminal_and_loses_nothing_that_is_not_seen_again() {
    let long = "e".repeat(200) + "!";
    for (words, document, heading) in tables(&long) {
        for columns in [80, 60, 40] {
            let server = Scripted::new(vec![answer("200 OK", "", &document.to_string())]);
            let mut command = program(&server.url);
            command.args(words.split(' '));
            let shown = on_terminal(columns, command);
            let begin = shown.find(heading).unwrap_or_else(|| panic!("{words}: {shown}"));
            for line in shown[begin..].lines() {
                assert!(
                    line.width() <= usize::from(columns),
                    "{words}, {} of {columns}: {line}",
                    line.width()
                );
            }
            let joined: String = shown.split_whitespace().collect();
            assert_eq!(joined.contains(&long), document.to_string().contains(&long), "{words}: {shown}");
            assert_eq!(server.asked().len(), 1, "{words}");
        }
    }
}

#[test]
fn refused_rows_of_an_outbox_fit_the_terminal_with_the_whole_reason() {
    let database = postgres::database();
    let script = program("nowhere").args(["relay", "sql"]).output().expect("it runs").stdout;
    database.sql(&String::from_utf8(script).expect("text"));
    let reason = format!("422{}!", "e".repeat(200));
    database.sql(&format!(
        "INSERT INTO fieldpost_outbox_refused (id, uid, destination, key, payload, created_at, reason) \
         VALUES (1234567, gen_random_uuid(), 'queue:shop/mail', repeat('k', 300), '1', now(), '{reason}')"
    ));
    for columns in [80, 60, 40] {
        let mut command = program("nowhere");
        command.args(["relay", "refused", "ls", "--database", &database.url()]);
        let shown = on_terminal(columns, command);
        let headings = ["ID", "STATE", "DESTINATION", "KEY", "REASON"];
        assert!(shown.split_whitespace().take(5).eq(headings), "{shown}");
        for line in shown.lines() {
            assert!(line.width() <= usize::from(columns), "{} of {columns}: {line}", line.width());
        }
        let joined: String = shown.split_whitespace().collect();
        assert!(joined.contains("1234567refusedqueue:shop/mailkkk") && joined.contains(&reason), "{shown}");
    }
}

#[test]
fn a_table_that_goes_elsewhere_has_a_line_for_each_row() {
    let server = Scripted::new(vec![events(None)]);
    let output = program(&server.url).args(["device", "events"]).output().expect("it runs");
    let shown = String::from_utf8(output.stdout).expect("text");
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert!(shown.lines().all(|line| line.width() > 100), "{shown}");
}

#[test]
fn an_import_shows_how_far_it_has_come() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("devices.ndjson");
    // Two pieces and a little more.
    let lines: String =
        (0..24).map(|n| format!("{{\"id\":\"d{n}\",\"address\":\"{}\"}}\n", "x".repeat(100_000))).collect();
    std::fs::write(&file, &lines).expect("written");
    let sum = |created: u32| {
        let sum = json!({"created": created, "updated": 0, "rejected_count": 0, "rejected": []});
        answer("200 OK", "", &sum.to_string())
    };
    let server = Scripted::new(vec![sum(10), sum(10), sum(4)]);
    let mut command = program(&server.url);
    command.args(["device", "import"]).arg(&file);
    let shown = on_terminal(80, command);
    for part in ["[--------------------]   0%", "[########------------]  41%", "[####################] 100%"]
    {
        assert!(shown.contains(part), "{part} is not in {shown:?}");
    }
    assert!(
        shown.contains("20 lines: 20 created") && shown.ends_with("24 created, 0 updated, 0 rejected\n"),
        "{shown:?}"
    );
    let longest = shown.split(['\r', '\n']).map(|line| line.trim_start_matches("\u{1b}[K").width()).max();
    assert!(longest.is_some_and(|longest| longest < 80), "{shown:?}");
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn an_import_that_nobody_watches_shows_no_bar() {
    let server = Scripted::new(vec![answer(
        "200 OK",
        "",
        r#"{"created":1,"updated":0,"rejected_count":0,"rejected":[]}"#,
    )]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("devices.ndjson");
    std::fs::write(&file, "{\"id\":\"a\"}\n").expect("written");
    let output = program(&server.url).args(["device", "import"]).arg(&file).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 created, 0 updated, 0 rejected\n");
}
