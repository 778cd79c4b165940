//! Many lines from a file or from another program.

use std::io::Write;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use crate::cli::rig::{PATIENCE, Rig, ended, program, run};
use crate::cli::scripted::{Scripted, answer};

#[tokio::test]
async fn rejected_lines_are_told_by_number_and_the_rest_is_taken() {
    let rig = Rig::start(&[]).await;
    rig.devices(&["lock7"]);
    let lines = "{\"device_id\":\"lock7\",\"data\":1}\n\n{\"device_id\":\"nope\",\"data\":1}\nnonsense\n";
    let people = rig.run_with("report import -", lines);
    assert_eq!((people.code, people.out.as_str()), (Some(1), "1 accepted, 2 rejected\n"));
    for part in ["line 3: ", "(unknown_device)", "line 4: ", "2 were rejected"] {
        assert!(people.err.contains(part), "{part} is not in {people:?}");
    }
    let programs = rig.run_with("report import --json -", lines);
    let sum: Value = serde_json::from_str(&programs.out).expect("one document");
    assert_eq!((programs.code, &sum["rejected_count"]), (Some(1), &Value::from(2)));
    assert_eq!(sum["rejected"][1]["line"], 4);
}

#[tokio::test]
async fn a_file_of_many_pieces_is_counted_as_one() {
    const LINES: usize = 60_000;
    let rig = Rig::start(&[]).await;
    rig.devices(&["lock7"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("reports.ndjson");
    let mut text = "{\"device_id\":\"lock7\",\"data\":1}\n".repeat(LINES - 1);
    text.push_str("the last one is bad and does not end");
    std::fs::write(&file, text).expect("written");
    let ended = rig.run(&format!("report import {} --json", file.display()));
    let sum: Value = serde_json::from_str(&ended.out).expect("one document");
    assert_eq!((&sum["accepted"], &sum["rejected_count"]), (&Value::from(LINES - 1), &Value::from(1)));
    assert_eq!(sum["rejected"][0]["line"], LINES);
}

#[tokio::test]
async fn a_line_longer_than_any_buffer_is_rejected_alone() {
    let rig = Rig::start(&[]).await;
    rig.devices(&["lock7"]);
    let good = "{\"device_id\":\"lock7\",\"data\":1}\n";
    let lines = format!("{good}{}\n{good}", "x".repeat(3 * 1_024 * 1_024));
    let ended = rig.run_with("report import -", &lines);
    assert_eq!(ended.out, "2 accepted, 1 rejected\n");
    assert!(ended.err.contains("line 2: ") && ended.err.contains("line_too_long"), "{ended:?}");
}

#[tokio::test]
async fn lines_are_sent_as_they_come() {
    let rig = Rig::start(&[]).await;
    rig.devices(&["lock7"]);
    let mut importing =
        program(rig.url()).args(["report", "import", "-"]).stdin(Stdio::piped()).spawn().expect("it runs");
    let mut input = importing.stdin.take().expect("its input is a pipe");
    for count in 1..=3 {
        writeln!(input, "{{\"device_id\":\"lock7\",\"data\":1}}").expect("it reads");
        let since = Instant::now();
        while rig.json("device readings lock7").len() < count {
            assert!(since.elapsed() < PATIENCE, "line {count} is not sent while the input is open");
        }
    }
    drop(input);
    let ended = ended(&importing.wait_with_output().expect("it ends"));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "3 accepted, 0 rejected\n"));
}

#[test]
fn an_import_that_is_broken_off_says_what_is_settled() {
    const LINES: usize = 30_000;
    let accepted = answer("200 OK", "", r#"{"accepted":9,"rejected_count":0,"rejected":[]}"#);
    let scripted = Scripted::new(vec![accepted, String::new()]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("reports.ndjson");
    let line = "{\"device_id\":\"lock7\",\"data\":1,\"id\":\"0123456789012345\"}\n";
    std::fs::write(&file, line.repeat(LINES)).expect("written");
    let settled = 1_024 * 1_024 / line.len();
    let ended = run(&scripted.url, &["report", "import", file.to_str().expect("text")], "");
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let says = format!("lines 1 to {settled} have been handled");
    assert!(ended.err.contains(&says), "{says} is not in {ended:?}");
}

#[tokio::test]
async fn what_is_exported_is_what_an_import_takes() {
    let rig = Rig::start(&[("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true")]).await;
    rig.out("client add acme --hook http://127.0.0.1:9/hook");
    rig.out("device add lock7 --address Hall --label site=12 --report-interval 30m --command-gap 2s");
    rig.out("device add t1 --kind therm");
    rig.out("device link lock7 acme");
    rig.out("report send lock7 1");
    assert_eq!(
        rig.out("device export --clients"),
        "{\"id\":\"lock7\",\"kind\":\"lock\",\"address\":\"Hall\",\"labels\":{\"site\":\"12\"},\
         \"report_interval\":\"30m\",\"commands\":{\"window\":null,\"gap\":\"2s\"},\"clients\":[\"acme\"]}\n\
         {\"id\":\"t1\",\"kind\":\"therm\",\"clients\":[]}\n"
    );
    assert_eq!(rig.out("device export --kind therm"), "{\"id\":\"t1\",\"kind\":\"therm\"}\n");
    let exported = rig.out("device export --clients");
    rig.out("device rm lock7");
    let imported = rig.run_with("device import -", &exported);
    assert_eq!((imported.code, imported.out.as_str()), (Some(0), "1 created, 1 updated, 0 rejected\n"));
    assert_eq!(rig.out("device export --clients"), exported);
}
