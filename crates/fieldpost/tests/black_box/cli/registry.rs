//! Clients, devices and links from the shell, and how lists of them are shown.

use serde_json::{Value, json};

use crate::cli::rig::{Rig, ended, program};

const MANY: usize = 1_100;

#[tokio::test]
async fn clients_are_added_changed_switched_and_removed() {
    let rig = Rig::start(&[("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true")]).await;
    let added = rig.out("client add acme --hook http://127.0.0.1:9/hook --name Acme");
    assert!(added.contains("whsec_") && added.contains("not shown again"), "{added}");
    let made = rig.json("client add --name Beta --hook http://127.0.0.1:9/beta");
    assert!(made[0]["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{made:?}");
    assert!(!rig.out("client show acme").contains("whsec_"));
    let rotated = rig.out("client rotate-secret acme");
    let secret = |text: &str| text.split("whsec_").nth(1).map(|rest| rest[..8].to_owned()).expect("a secret");
    assert_ne!(secret(&rotated), secret(&added));
    assert!(rig.run("client test acme").out.starts_with("not taken: "), "nobody listens there");
    rig.out("client set acme --hook http://127.0.0.1:9/other");
    assert_eq!(rig.out("client disable acme"), "acme disabled\n");
    let list = rig.json("client ls");
    assert_eq!(list.len(), 2);
    assert_eq!((&list[0]["url"], &list[0]["enabled"]), (&json!("http://127.0.0.1:9/other"), &json!(false)));
    assert_eq!(rig.out("client enable acme"), "acme enabled\n");
    let [a, b] = [&list[0]["id"], &list[1]["id"]].map(|id| id.as_str().expect("an id"));
    rig.out(&format!("client rm {a} {b}"));
    let empty = rig.run("client ls");
    assert_eq!((empty.out.as_str(), empty.err.as_str()), ("", "no clients\n"));
}

#[tokio::test]
async fn a_secret_of_ones_own_is_read_from_a_file() {
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let rig = Rig::start(&[("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true")]).await;
    let line = "client add acme --hook http://127.0.0.1:9/hook --secret-file - --json";
    let ended = rig.run_with(line, &format!("{SECRET}\n"));
    let client: Value = serde_json::from_str(&ended.out).expect("a client");
    assert_eq!(client["secret"], SECRET);
}

#[tokio::test]
async fn devices_are_added_changed_linked_and_removed() {
    let rig = Rig::start(&[("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true")]).await;
    rig.out("client add acme --hook http://127.0.0.1:9/hook");
    rig.out("device add lock7 --address Hall --label site=12 --label wing=b --report-interval 30m");
    rig.out("device add t1 --kind therm");
    assert_eq!(rig.out("device link lock7 acme"), "acme is told of lock7\n");
    assert!(rig.out("device show lock7").contains("told           acme\n"));
    assert_eq!(rig.json("device ls --client acme").len(), 1);
    assert_eq!(rig.json("client ls --device lock7")[0]["id"], "acme");
    let changed = rig.json("device set lock7 --no-label wing --label site=13 --no-address");
    assert_eq!((&changed[0]["labels"], &changed[0]["address"]), (&json!({"site": "13"}), &Value::Null));
    for (filter, ids) in [
        ("", &["lock7", "t1"][..]),
        ("--label site=13", &["lock7"]),
        ("--label site=12", &[]),
        ("--kind therm", &["t1"]),
        ("--connection never-seen", &["lock7", "t1"]),
        ("--connection lost", &[]),
    ] {
        let list = rig.json(&format!("device ls {filter}"));
        assert_eq!(list.iter().map(|device| &device["id"]).collect::<Vec<_>>(), ids, "{filter}");
    }
    rig.out("device unlink lock7 acme");
    assert_eq!(rig.json("device ls --client acme"), [Value::Null; 0]);
    rig.out("device rm lock7 t1");
    assert_eq!(rig.out("device ls"), "");
}

#[tokio::test]
async fn lists_are_followed_as_far_as_was_asked_and_say_when_there_is_more() {
    let rig = Rig::start(&[("FIELDPOST_DEVICES__UNKNOWN", "register")]).await;
    let reports: String = (0..MANY).map(|n| format!("{{\"device_id\":\"d{n:04}\",\"data\":0}}\n")).collect();
    let imported = rig.run_with("report import -", &reports);
    assert_eq!((imported.code, imported.out.as_str()), (Some(0), "1,100 accepted, 0 rejected\n"));
    rig.feed("device events --all", MANY);
    for (line, count, more) in [
        ("device ls", 100, true),
        ("device ls --limit 1050", 1_050, true),
        ("device ls --limit 1100", MANY, false),
        ("device ls --all", MANY, false),
        ("device events --all", MANY, false),
    ] {
        let ended = rig.run(&format!("{line} --json"));
        assert_eq!((ended.out.lines().count(), ended.err.contains("--all")), (count, more), "{line}");
        let table = rig.out(line);
        assert_eq!(table.lines().count(), count + 1, "{line}: one line of headings");
    }
    let first = rig.run("device ls --limit 1000 --json");
    let cursor = first.err.split("--cursor ").nth(1).and_then(|rest| rest.split(' ').next());
    let rest = rig.json(&format!("device ls --all --cursor {}", cursor.expect("it says how to go on")));
    assert_eq!((rest.len(), &rest[0]["id"]), (MANY - 1_000, &json!("d1000")));
}

#[tokio::test]
async fn colours_are_for_terminals_that_want_them() {
    let rig = Rig::start(&[]).await;
    rig.devices(&["lock7"]);
    for (settings, coloured) in [
        (&[][..], false),
        (&[("CLICOLOR_FORCE", "1")], true),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
    ] {
        let output = program(rig.url()).args(["device", "ls"]).envs(settings.iter().copied()).output();
        let shown = ended(&output.expect("it runs"));
        assert_eq!(shown.out.contains('\u{1b}'), coloured, "{settings:?}: {shown:?}");
    }
}

#[tokio::test]
async fn a_reader_that_has_enough_ends_the_list_quietly() {
    let rig = Rig::start(&[("FIELDPOST_DEVICES__UNKNOWN", "register")]).await;
    let reports: String = (0..5_000).map(|n| format!("{{\"device_id\":\"d{n}\",\"data\":0}}\n")).collect();
    assert_eq!(rig.run_with("report import -", &reports).code, Some(0));
    let mut child = program(rig.url()).args(["device", "ls", "--all"]).spawn().expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
