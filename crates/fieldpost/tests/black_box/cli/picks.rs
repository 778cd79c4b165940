//! Tasks, campaigns and the fleet from the shell: what is asked, what is shown while devices
//! answer, and how scripts are told the end.

use std::sync::Arc;

use serde_json::{Value, json};
use simulator::commands::{CommandLedger, CommandedDevices, ResponseProfile};
use simulator::traffic::DeviceIds;

use crate::cli::rig::{Ended, PATIENCE, Rig, run};
use crate::cli::scripted::{Scripted, answer};

const NO_ITEMS: &str = r#"{"items":[],"next_cursor":null}"#;

fn task(status: &str, answered: u32) -> Value {
    json!({"id": "tsk_1", "status": status, "wanted": 2, "picked": 3, "answered": answered, "failed": 0,
        "expired": 1, "replaced": 1})
}

fn result(device: &str) -> Value {
    json!({"device_id": device, "picked_at": "2026-11-21T01:02:03.000Z",
        "answered_at": "2026-11-21T01:02:03.250Z", "outcome": "answered", "result": {"ms": 12}})
}

fn page(items: &[Value], tail: &str) -> String {
    ok(&json!({"items": items, "next_cursor": null, "tail_cursor": tail}).to_string())
}

fn ok(body: &str) -> String {
    answer("200 OK", "", body)
}

/// A task of two devices that ends with so many answers: the second result comes after a wait.
fn answers(answered: u32) -> Vec<String> {
    vec![
        answer("201 Created", "", &task("running", 0).to_string()),
        page(&[result("probe1")], "tail-1"),
        ok(&task("running", 1).to_string()),
        page(&[result("probe22")], "tail-2"),
        ok(&task("done", answered).to_string()),
        page(&[], "tail-2"),
    ]
}

/// Runs a line; what it asked, as `METHOD path` and body, and how it ended.
fn ask(line: &str, answers: Vec<String>) -> (Vec<(String, String)>, Ended) {
    let scripted = Scripted::new(answers);
    let ended = run(&scripted.url, &line.split_whitespace().collect::<Vec<_>>(), "");
    let asked = scripted.asked().into_iter().map(|asked| {
        let line = asked.head.lines().next().expect("a request line");
        (line.trim_end_matches(" HTTP/1.1").to_owned(), asked.body)
    });
    (asked.collect(), ended)
}

#[test]
fn the_results_of_a_task_are_shown_as_they_come() {
    let (asked, ended) = ask("task run 1 --count 2 --place CN_52", answers(2));
    let results = "GET /v1/tasks/tsk_1/results?order=asc&limit=1000";
    let paths: Vec<_> = asked.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "POST /v1/tasks",
            &format!("{results}&wait=1s"),
            "GET /v1/tasks/tsk_1",
            &format!("{results}&wait=1s&cursor=tail-1"),
            "GET /v1/tasks/tsk_1",
            // The task has ended: what came meanwhile is there, and nothing is waited for.
            &format!("{results}&cursor=tail-2"),
        ]
    );
    assert_eq!(asked[0].1, r#"{"payload":1,"count":2,"place":"CN_52"}"#);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (
            Some(0),
            "tsk_1  running  0 of 2 answered  picked 3, expired 1, replaced 1\n\
             DEVICE  PICKED                    OUTCOME   TOOK   SAID\n\
             probe1  2026-11-21 01:02:03.000Z  answered  250ms  {\"ms\":12}\n\
             probe22  2026-11-21 01:02:03.000Z  answered  250ms  {\"ms\":12}\n\
             tsk_1  done  2 of 2 answered  picked 3, expired 1, replaced 1\n"
        ),
        "{}",
        ended.err
    );
}

#[test]
fn programs_are_told_what_each_line_of_a_task_is() {
    let (_, ended) = ask("task run 1 --count 2 --json", answers(2));
    let sorts = ended.out.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line.as_object().and_then(|line| line.keys().next().cloned()).expect("a sort")
    });
    assert_eq!(sorts.collect::<Vec<_>>(), ["task", "result", "result", "task"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_task_that_is_short_of_answers_is_an_exit_code() {
    let (_, short) = ask("task run 1 --count 2", answers(1));
    assert_eq!(short.code, Some(1), "{short:?}");
    assert!(short.err.contains("tsk_1 is done, with 1 good answers of 2 wanted"), "{}", short.err);
    let (_, near_enough) = ask("task run 1 --count 2 --max-failed 50%", answers(1));
    assert_eq!(near_enough.code, Some(0), "{near_enough:?}");
    let (_, cancelled) = ask(
        "task watch tsk_1",
        vec![page(&[], "tail"), ok(&task("cancelled", 0).to_string()), page(&[], "tail")],
    );
    assert_eq!(cancelled.code, Some(1), "{cancelled:?}");
    let (asked, begun) = ask("task run 1 --count 2 --no-wait", answers(0).drain(..1).collect());
    assert_eq!((asked.len(), begun.code), (1, Some(0)), "{begun:?}");
    assert!(begun.out.starts_with("id        tsk_1\nstatus    running\n"), "{}", begun.out);
}

#[test]
fn tasks_campaigns_and_the_fleet_ask_what_the_api_reads() {
    for (line, asks) in [
        ("task results tsk_1 --order asc", "GET /v1/tasks/tsk_1/results?order=asc&limit=100"),
        ("campaign ls", "GET /v1/campaigns?limit=100"),
        ("campaign slots dns --limit 5", "GET /v1/campaigns/dns/slots?limit=5"),
        (
            "campaign results dns --device probe1 --order asc",
            "GET /v1/campaigns/dns/results?device=probe1&order=asc&limit=100",
        ),
        ("fleet weights --place CN_52", "GET /v1/fleet/weights?place=CN_52&limit=100"),
        ("device ls --selector a=b --place CN", "GET /v1/devices?selector=a%3Db&place=CN&limit=100"),
    ] {
        let (asked, ended) = ask(line, vec![ok(NO_ITEMS)]);
        assert_eq!((asked[0].0.as_str(), ended.code), (asks, Some(0)), "{line}: {ended:?}");
    }
    for (line, asks, tells) in [
        ("task cancel tsk_1", "DELETE /v1/tasks/tsk_1", "tsk_1 cancelled\n"),
        ("campaign pause dns", "POST /v1/campaigns/dns/pause", "dns is paused\n"),
        ("campaign resume dns", "POST /v1/campaigns/dns/resume", "dns goes on\n"),
        ("campaign rm dns", "DELETE /v1/campaigns/dns", "dns removed\n"),
    ] {
        let (asked, ended) = ask(line, vec![answer("204 No Content", "", "")]);
        assert_eq!((asked[0].0.as_str(), ended.out.as_str()), (asks, tells), "{line}: {ended:?}");
    }
}

#[test]
fn a_campaign_is_made_put_and_its_secret_shown_once() {
    let made =
        r#"{"id":"dns","name":null,"status":"running","created_at":"2026-11-21T01:02:03.456Z","payload":1,
        "count":20,"every":"5m","phase":"17s","class":"ordinary","answer_timeout":"10s","missed":"skip",
        "panel":false,"results":{"url":"https://a.example","secret":"whsec_x"}}"#
            .replace('\n', "");
    let flags = "1 --count 20 --every 5m --results-url https://a.example";
    let terms = r#""payload":1,"count":20,"every":"5m","results":{"url":"https://a.example"}"#;
    for (line, path, id) in [
        (format!("campaign create --id dns {flags}"), "POST /v1/campaigns", r#""id":"dns","#),
        (format!("campaign put dns {flags}"), "PUT /v1/campaigns/dns", ""),
    ] {
        let (asked, ended) = ask(&line, vec![answer("201 Created", "", &made)]);
        assert_eq!(asked[0], (path.to_owned(), format!("{{{id}{terms}}}")), "{line}");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.contains("whsec_x\nKeep the secret"), "{}", ended.out);
        assert!(ended.out.contains("picks           20 every 5m\n"), "{}", ended.out);
    }
    let (asked, ended) = ask("campaign set dns --count 20 --no-until", vec![ok(&made)]);
    assert_eq!(asked[0], ("PATCH /v1/campaigns/dns".to_owned(), r#"{"count":20,"until":null}"#.to_owned()));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (asked, ended) = ask("campaign set dns", Vec::new());
    assert_eq!((asked.len(), ended.code), (0, Some(2)), "a change of nothing: {ended:?}");
}

#[test]
fn counts_and_coverage_have_a_row_for_each_value() {
    let counts = r#"{"total":3,"connected":2,"online":2,"lost":1,"never_seen":0,
        "items":[{"value":"7","total":2,"connected":2},{"value":null,"total":1,"connected":0}]}"#;
    let (asked, ended) = ask("fleet count --selector kind=probe --by operator", vec![ok(counts)]);
    assert_eq!(asked[0].0, "GET /v1/fleet/count?selector=kind%3Dprobe&by=operator");
    assert!(
        ended
            .out
            .ends_with("VALUE  DEVICES  CONNECTED\n7            2          2\n-            1          0\n")
    );
    let coverage = r#"{"eligible":10,"picked":15,"never_picked":0,"min":1,"max":2,"mean":1.5,"gini":0.1}"#;
    let (asked, ended) = ask("campaign coverage dns --period 2h --by operator", vec![ok(coverage)]);
    assert_eq!(asked[0].0, "GET /v1/campaigns/dns/coverage?period=2h&by=operator");
    assert!(
        ended.out.ends_with("least         1\nmost          2\nmean          1.50\ngini          0.100\n")
    );
}

#[test]
fn a_campaign_that_is_watched_shows_each_slot_that_is_new() {
    let slot = |number: u32, answered: u32| {
        json!({"slot": number, "due_at": "2026-11-21T01:05:00.000Z", "started_at": null, "wanted": 20,
            "picked": 20, "answered": answered, "failed": 0, "expired": 0, "replaced": 0})
    };
    let slots = |items: &[Value]| ok(&json!({"items": items, "next_cursor": null}).to_string());
    let gone = answer("404 Not Found", "", r#"{"status":404,"code":"unknown_campaign","detail":"no"}"#);
    let (asked, ended) = ask(
        "campaign watch dns --every 50ms",
        vec![slots(&[slot(8, 3), slot(7, 20)]), slots(&[slot(9, 0), slot(8, 20), slot(7, 20)]), gone],
    );
    assert!(asked.iter().all(|(path, _)| path == "GET /v1/campaigns/dns/slots?limit=100"), "{asked:?}");
    let slots: Vec<_> = ended.out.lines().filter_map(|line| line.split("slot ").nth(1)).collect();
    let shown = ["7  20 of", "8  3 of", "8  20 of", "9  0 of"];
    assert!(
        slots.len() == 4 && slots.iter().zip(shown).all(|(line, shown)| line.starts_with(shown)),
        "{slots:?}"
    );
    assert!(ended.code == Some(1) && ended.err.contains("campaign ls"), "{}", ended.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_of_a_selection_are_asked_by_turns() {
    let rig = Rig::start(&[]).await;
    for number in 0..3 {
        rig.out(&format!("device add gate{number} --kind gate --label wing=a"));
    }
    rig.out("device add gate9 --kind gate --label wing=a");
    let (devices, ledger) = (DeviceIds::new("gate", 3).of_kind("gate"), Arc::new(CommandLedger::default()));
    let connected = CommandedDevices::connect(rig.mqtt(), &devices, 3, ResponseProfile::default(), &ledger);
    assert!(connected.subscribed(3, PATIENCE).await, "{:?}", ledger.troubles());
    let counts = rig.out("fleet count --selector wing=a --by wing");
    assert!(counts.starts_with("devices     4\nconnected   3\n"), "{counts}");
    assert!(counts.ends_with("VALUE  DEVICES  CONNECTED\na            4          3\n"), "{counts}");
    let first = rig.out("task run 1 --count 2 --selector wing=a");
    assert!(first.ends_with("done  2 of 2 answered  picked 2\n"), "{first}");
    let second = rig.json("task run 1 --count 1 --selector wing=a");
    let asked_last = second[1]["result"]["device_id"].as_str().expect("a device");
    assert!(!first.contains(asked_last), "{asked_last} was asked again: {first}");
    let short = rig.run("task run 1 --count 4 --selector wing=a");
    assert_eq!(short.code, Some(1), "{short:?}");
    assert!(short.err.contains("with 3 good answers of 4 wanted"), "{}", short.err);
    let picks: Vec<_> = rig.json("fleet weights").iter().map(|weight| weight["picks"].as_u64()).collect();
    assert_eq!(picks, [Some(2), Some(2), Some(2), Some(0)]);

    rig.out("campaign put turns 1 --count 1 --every 1s --selector wing=a");
    let results = rig.feed("campaign results turns --limit 3", 3);
    assert!(results.iter().all(|result| result["outcome"] == "answered"), "{results:?}");
    rig.out("campaign pause turns");
    rig.out("campaign set turns 2 --count 2 --name all --until 2100-01-01T00:00:00Z --selector wing=b");
    let all = rig.json("campaign set turns --no-until --no-selector --over 2m").remove(0);
    assert_eq!((&all["payload"], &all["count"], &all["name"]), (&json!(2), &json!(2), &json!("all")));
    assert_eq!((&all["over"], &all["every"], &all["until"]), (&json!("2m"), &Value::Null, &Value::Null));
    assert_eq!((&all["selector"], &all["status"]), (&Value::Null, &json!("paused")));
    assert_eq!(rig.json("campaign show turns"), [all]);
    let slots = rig.out("campaign slots turns --limit 3");
    assert!(slots.starts_with("SLOT ") && slots.lines().count() == 4, "{slots}");
    assert_eq!(rig.json("campaign show turns")[0]["status"], "paused");
    rig.out("campaign rm turns");
    connected.disconnect().await;
}
