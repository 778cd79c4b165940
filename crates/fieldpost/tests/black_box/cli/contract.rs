//! What each command asks, to the letter, and what it makes of the answer. This includes answers of
//! states that a server is hard to bring into.

use serde_json::Value;

use crate::cli::rig::run;
use crate::cli::scripted::{Scripted, answer};

const DELIVERED: &str =
    r#"{"at":"2026-11-21T01:02:03.456Z","status_code":204,"error":null,"duration_ms":12}"#;
const REFUSED: &str =
    r#"{"at":"2026-11-21T01:02:03.456Z","status_code":null,"error":"timeout","duration_ms":10000}"#;
const REJECTED: &str = r#"{"id":"q_1","at":"2026-11-21T01:02:03.456Z","source":"mqtt","code":"unknown_device","detail":"no","payload":"{\"data\":1}"}"#;
const SUM_OF_ONE: &str = r#"{"accepted":1,"rejected_count":0,"rejected":[]}"#;
const SUM_OF_NONE: &str =
    r#"{"accepted":0,"rejected_count":1,"rejected":[{"line":1,"code":"unknown_device","detail":"no"}]}"#;

/// Runs a line against one answer: the request line and body it makes, how it ends, and what it
/// prints.
fn check(line: &str, answers: &str, asks: (&str, &str), ends: (i32, &str)) {
    let status = if answers.is_empty() { "204 No Content" } else { "200 OK" };
    let scripted = Scripted::new(vec![answer(status, "", answers)]);
    let arguments: Vec<_> = line.split_whitespace().collect();
    let ended = run(&scripted.url, &arguments, "{\"id\":\"a\"}\n");
    let asked = scripted.asked().pop().expect("one request");
    assert_eq!(asked.head.lines().next(), Some(format!("{} HTTP/1.1", asks.0).as_str()), "{line}");
    assert_eq!(asked.body, asks.1, "{line}");
    assert_eq!((ended.code, ended.out.as_str()), (Some(ends.0), ends.1), "{line}: {}", ended.err);
}

#[test]
fn a_client_is_tested_told_again_and_given_a_new_secret() {
    let ok = "taken: answered 204 after 12 ms\n";
    check("client test acme", DELIVERED, ("POST /v1/clients/acme/test", ""), (0, ok));
    let failed = "not taken: timeout after 10000 ms\n";
    check("client test acme", REFUSED, ("POST /v1/clients/acme/test", ""), (1, failed));
    let json = format!("{REFUSED}\n");
    check("client test acme --json", REFUSED, ("POST /v1/clients/acme/test", ""), (1, &json));
    let resent = "acme will be told the state of its devices\n";
    check("client resend acme", "", ("POST /v1/clients/acme/resend", ""), (0, resent));
    let secret = "secret  whsec_x\nKeep the secret where the client can read it: it is not shown again.\n";
    let rotated = r#"{"secret":"whsec_x"}"#;
    check("client rotate-secret acme", rotated, ("POST /v1/clients/acme/rotate-secret", ""), (0, secret));
}

#[test]
fn devices_are_imported_as_lines() {
    let answers = r#"{"created":1,"updated":0,"rejected_count":0,"rejected":[]}"#;
    let asks = ("POST /v1/devices/import", "{\"id\":\"a\"}\n");
    check("device import -", answers, asks, (0, "1 created, 0 updated, 0 rejected\n"));
    check("device import --json -", answers, asks, (0, &format!("{answers}\n")));
}

#[test]
fn rejected_reports_are_listed_shown_replayed_and_removed() {
    let list = format!(r#"{{"items":[{REJECTED}],"next_cursor":null}}"#);
    check(
        "report rejected ls --from 2026-11-21 --order asc --limit 5",
        &list,
        ("GET /v1/quarantine?from=2026-11-21T00%3A00%3A00.000Z&order=asc&limit=5", ""),
        (
            0,
            "AT                        ID   SOURCE  CODE            PAYLOAD\n\
             2026-11-21 01:02:03.456Z  q_1  mqtt    unknown_device  {\"data\":1}\n",
        ),
    );
    check(
        "report rejected show q_1 --json",
        REJECTED,
        ("GET /v1/quarantine/q_1", ""),
        (0, &format!("{REJECTED}\n")),
    );
    let replay = ("POST /v1/quarantine/q_1/replay", "");
    check("report rejected replay q_1", SUM_OF_ONE, replay, (0, "q_1: 1 accepted, 0 rejected\n"));
    check("report rejected replay q_1", SUM_OF_NONE, replay, (1, "q_1: 0 accepted, 1 rejected\n"));
    check("report rejected rm q_1", "", ("DELETE /v1/quarantine/q_1", ""), (0, "q_1 removed\n"));
}

#[test]
fn a_report_that_is_refused_again_does_not_stop_the_others() {
    let problem = r#"{"status":422,"code":"value_not_allowed","detail":"the value of a lock is 0 or 1"}"#;
    let answers = || vec![answer("422 Unprocessable Content", "", problem), answer("200 OK", "", SUM_OF_ONE)];
    let replay = ["report", "rejected", "replay", "q_1", "q_2"];
    let scripted = Scripted::new(answers());
    let people = run(&scripted.url, &replay, "");
    assert_eq!((people.code, people.out.as_str()), (Some(1), "q_2: 1 accepted, 0 rejected\n"));
    let says = "q_1: the value of a lock is 0 or 1 (422 value_not_allowed)\nerror: 1 of 2 not accepted\n";
    assert_eq!(people.err, says);
    let scripted = Scripted::new(answers());
    let programs = run(&scripted.url, &[&replay[..], &["--json"]].concat(), "");
    assert_eq!(programs.out, format!("{SUM_OF_ONE}\n"));
    let told: Value = serde_json::from_str(programs.err.lines().next().expect("a line")).expect("JSON");
    assert_eq!(told, of_one("q_1", problem));
}

/// What is told to programs of one of several that was refused.
fn of_one(id: &str, problem: &str) -> Value {
    let mut told: Value = serde_json::from_str(problem).expect("JSON");
    told["id"] = id.into();
    told
}

#[test]
fn one_of_several_that_is_refused_does_not_stop_the_others() {
    let problem = r#"{"status":409,"code":"not_failed","detail":"it is pending"}"#;
    let answers = || {
        let refused = || answer("409 Conflict", "", problem);
        vec![refused(), answer("204 No Content", "", ""), refused()]
    };
    for (words, done) in
        [(&["delivery", "retry"][..], "is sent again"), (&["report", "rejected", "rm"], "removed")]
    {
        let words = [words, &["a", "b", "c"]].concat();
        let people = run(&Scripted::new(answers()).url, &words, "");
        assert_eq!((people.code, people.out), (Some(1), format!("b {done}\n")));
        let [first, last] = ["a", "c"].map(|id| format!("{id}: it is pending (409 not_failed)\n"));
        assert_eq!(people.err, format!("{first}{last}error: 2 of 3 refused\n"));
        let programs = run(&Scripted::new(answers()).url, &[&words[..], &["--json"]].concat(), "");
        let told: Vec<Value> =
            programs.err.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(told[..2], [of_one("a", problem), of_one("c", problem)]);
        assert_eq!((told.len(), &told[2]["code"]), (3, &Value::from("incomplete")));
    }
}

#[test]
fn counts_are_shown_with_bars() {
    let counts = r#"{"items":[{"from":"2026-11-21T00:00:00.000Z","count":1},{"from":"2026-11-21T01:00:00.000Z","count":4}]}"#;
    let (short, long) = ("█".repeat(10), "█".repeat(40));
    let table = format!(
        "FROM                  COUNT\n2026-11-21 00:00:00Z      1  {short}\n2026-11-21 01:00:00Z      4  {long}\n"
    );
    for (line, path) in [
        ("stats reports", "/v1/stats?metric=reports&by=hour"),
        ("stats losses --by day --label site=12", "/v1/stats?metric=losses&by=day&label.site=12"),
        ("stats changes --device lock7", "/v1/stats?metric=changes&by=hour&device=lock7"),
        ("stats deliveries --client acme", "/v1/stats?metric=deliveries&by=hour&client=acme"),
    ] {
        check(line, counts, (&format!("GET {path}"), ""), (0, &table));
    }
}

#[test]
fn commands_are_counted_by_status() {
    let counts = r#"{"items":[{"from":"2026-11-21T00:00:00.000Z","count":5,
        "by_status":{"scheduled":5,"published":4,"running":1,"acknowledged":3,"failed":1}}]}"#;
    let table = "FROM                  SENT  PUBLISHED  ACKNOWLEDGED  FAILED  EXPIRED  SUPERSEDED  CANCELLED\n\
                 2026-11-21 00:00:00Z     5          4             3       1        0           0          0\n";
    check("stats commands", counts, ("GET /v1/stats?metric=commands&by=hour", ""), (0, table));
}

#[test]
fn a_report_is_sent_with_its_value_time_and_id() {
    let body = r#"{"device_id":"t1","data":{"t":-2.50},"ts":"2026-11-21T01:02:03.000Z","id":"r1"}"#;
    check(
        "report send t1 {\"t\":-2.50} --ts 2026-11-21T04:02:03+03:00 --id r1",
        SUM_OF_ONE,
        ("POST /v1/reports", body),
        (0, "accepted\n"),
    );
}
