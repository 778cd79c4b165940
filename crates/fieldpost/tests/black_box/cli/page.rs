//! `docs/cli.md`: its examples run as they stand there, one after the other, against a new server.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::cli::rig::Rig;

/// The page starts about 125 programs, one after the other.
const PATIENCE: Duration = Duration::from_secs(480);
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");

/// All blocks of shell of the page, as one script.
fn script(page: &str) -> String {
    let blocks = page.split("```sh\n").skip(1);
    blocks.map(|rest| rest.split("```").next().expect("a block ends")).collect()
}

/// The script, which asks a list again where it may be a moment behind what was done before, for
/// half a minute at least.
fn patient(script: &str) -> String {
    let mut script = script.to_owned();
    for name in ["refused", "command"] {
        let begins = format!("{name}=$(fieldpost ");
        let line = script.lines().find(|line| line.starts_with(&begins)).expect("the page asks for it");
        let again = format!("for _ in {{1..300}}; do {line}; [ -z \"${name}\" ] || break; sleep 0.1; done");
        script = script.replace(line, &again);
    }
    script
}

#[tokio::test]
async fn the_examples_of_the_page_work_as_they_stand() {
    let rig = Rig::start(&[]).await;
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = Path::new(env!("CARGO_BIN_EXE_fieldpost")).parent().expect("it lies in a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("there is a PATH"));
    let mut bash = Command::new("bash");
    bash.args(["-e", "-o", "pipefail", "-c", &patient(&script(&page))])
        .env("PATH", path)
        .env("FIELDPOST_URL", rig.url())
        .current_dir(folder.path())
        .kill_on_drop(true);
    let output = timeout(PATIENCE, bash.output()).await.expect("it ends in time").expect("bash is there");
    let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{wrong}");
    for (what, part) in [
        ("the secret", "whsec_"),
        ("the link", "acme is told of lock7\n"),
        ("the import", "2 accepted, 0 rejected\n"),
        ("the replay", ": 1 accepted, 0 rejected\n"),
        ("an event for programs", "\"type\":\"device.changed\""),
        ("the jobs that were worked on", "sending to \"hello\"\nsending to {\"to\":\"bob\"}"),
        ("the acknowledgement", "1 acknowledged\n"),
        ("the error of a dead job", "exit status: 1: no address"),
        ("what is tried again", "1 to be tried again\n"),
        ("a duplicate", "a duplicate of 1, nothing appended\n"),
        ("lines", "2 appended, 0 duplicates, 0 rejected\n"),
        ("what came back", "0 created, 4 updated, 0 rejected\n"),
        ("what is new", "1 created, 0 updated, 0 rejected\n"),
    ] {
        assert!(told.contains(part), "{what} is not in what the page prints:\n{told}\n{wrong}");
    }
}
