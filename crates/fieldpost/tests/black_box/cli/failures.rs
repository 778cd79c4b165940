//! Every way in which a command fails: what it says, and with which code it ends.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::Value;
use tokio::net::TcpSocket;

use crate::cli::rig::{Rig, program, run};
use crate::cli::scripted::{Asked, Scripted, answer};

const PROBLEM: &str =
    r#"{"type":"about:blank","status":503,"code":"store_failed","detail":"the disk is full"}"#;

/// The URL of a port at which nobody listens, as long as the socket is there.
fn nobody() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    let url = format!("http://{}", socket.local_addr().expect("it is bound"));
    (socket, url)
}

fn check(url: &str, line: &str, code: i32, says: &[&str]) {
    let ended = run(url, &line.split_whitespace().collect::<Vec<_>>(), "");
    assert_eq!(ended.code, Some(code), "{line}: {ended:?}");
    for part in says {
        assert!(ended.err.contains(part), "{line}: {part} is not in {ended:?}");
    }
}

#[tokio::test]
async fn a_refusal_tells_its_reason_and_what_to_do() {
    let rig = Rig::start(&[]).await;
    rig.devices(&["lock7"]);
    for (line, code, says) in [
        ("device show nope", 1, &["nope", "404 unknown_device", "fieldpost device ls"][..]),
        ("device readings nope", 1, &["unknown_device"]),
        ("device watch nope", 1, &["unknown_device"]),
        ("client show nope", 1, &["404 unknown_client", "fieldpost client ls"]),
        ("device link lock7 nope", 1, &["unknown_client"]),
        ("device add lock7", 1, &["409"]),
        ("device add x --report-interval soon", 1, &["422", "report_interval"]),
        ("device ls --cursor foreign", 1, &["400"]),
        ("client add a --hook mqtt://x", 1, &["422", "url"]),
        ("report send lock7 5", 1, &["422 value_not_allowed"]),
        ("report send nope 1", 1, &["404 unknown_device"]),
        ("delivery show nope", 1, &["404"]),
        ("device show ..", 2, &["not an id"]),
    ] {
        check(rig.url(), line, code, says);
    }
    let ended = rig.run("device show nope --json");
    let problem: Value = serde_json::from_str(&ended.err).expect("one JSON object");
    assert_eq!((ended.code, &problem["code"]), (Some(1), &Value::from("unknown_device")));
}

#[test]
fn a_wrong_command_line_ends_with_2_before_anything_is_sent() {
    for (line, says) in [
        ("device", "Usage"),
        ("device nothing", "nothing"),
        ("device ls --limit 0", "--limit"),
        ("device ls --limit 5 --all", "--all"),
        ("device set lock7", "--address"),
        ("client set acme", "--hook"),
        ("client add --hook http://a.example", "<CLIENT>"),
        ("report send lock7 open", "'\"open\"'"),
        ("device events --from yesterday", "how long ago"),
        ("device watch lock7 --every 1ms", "50ms"),
        ("stats nothing", "deliveries"),
        ("stats reports --device a --client b", "--client"),
        ("job work shop --drain -- true", "<QUEUE[,QUEUE...]>"),
        ("job publish shop mail --bytes --payload 1", "--bytes"),
        ("stream append shop orders --bytes --payload 1", "--bytes"),
        ("limit ask shop sms --per 1h --limit 9007199254740993", "9007199254740992"),
        ("device import no-such-file", "no-such-file"),
        ("device ls --url 127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("device ls --json --limit 0", r#"{"code":"usage","detail":"invalid value '0' for '--limit"#),
        ("check-config no-such-file.toml", ""),
    ] {
        check("http://127.0.0.1:9", line, 2, &[says]);
    }
}

#[test]
fn a_server_that_is_not_there_ends_with_3() {
    let (_holds_the_port, nobody) = nobody();
    check(&nobody, "device ls", 3, &[&nobody, "connection refused", "is it running?", "--url"]);
    check(&nobody, "device ls --json", 3, &[r#""code":"not_reached""#]);
    let broken = Scripted::new(vec![String::new()]);
    check(&broken.url, "device ls", 3, &["the connection broke"]);
    let alert_of_tls = "\u{15}\u{3}\u{3}\u{0}\u{2}\u{2}\u{32}";
    let speaks_tls = Scripted::new(vec![alert_of_tls.to_owned()]);
    check(&speaks_tls.url, "device ls", 3, &["it does not speak HTTP", "its URL begins with https://"]);
}

#[test]
fn a_lock_is_waited_for_where_a_server_is_away_and_that_is_told() {
    let granted = answer("200 OK", "", r#"{"owner":"o","fence":"7"}"#);
    let scripted = Scripted::new(vec![String::new(), granted, answer("204 No Content", "", "")]);
    check(&scripted.url, "lock run shop report -- true", 0, &["the connection broke", "waiting for it"]);
    let asked = scripted.asked();
    assert!(asked[1].head.starts_with("POST /v1/locks/shop/report HTTP"), "{asked:?}");
}

#[test]
fn somebody_else_who_answers_ends_with_3() {
    for (answer, says) in [
        (answer("200 OK", "", "<html>hello</html>"), "not a Fieldpost server"),
        (answer("200 OK", "", r#"{"hello":"you"}"#), "not a Fieldpost server"),
        (answer("301 Moved", "location: https://elsewhere.example/\r\n", ""), "https://elsewhere.example/"),
    ] {
        let scripted = Scripted::new(vec![answer]);
        check(&scripted.url, "device ls", 3, &[says]);
    }
    let page = |status: &str| Scripted::new(vec![answer(&format!("{status} No"), "", "<html>no</html>")]);
    for status in [400, 401, 403, 404, 405, 422] {
        let status = status.to_string();
        let says =
            ["not a Fieldpost server", &status, "<html>no</html>", "does --url or FIELDPOST_URL lead to it?"];
        check(&page(&status).url, "device ls", 3, &says);
        check(&page(&status).url, "device ls --json", 3, &[r#""code":"not_fieldpost""#]);
    }
    // So says a proxy of a server that is there.
    for status in ["429", "502", "503", "504"] {
        check(&page(status).url, "device ls", 4, &[status]);
        check(&page(status).url, "device ls --json", 4, &[r#""code":"refused""#]);
    }
}

#[test]
fn a_server_that_cannot_now_ends_with_4() {
    let scripted = Scripted::new(vec![answer("503 Service Unavailable", "retry-after: 1\r\n", PROBLEM)]);
    check(&scripted.url, "device ls", 4, &["the disk is full (503 store_failed)", "/readyz"]);
}

#[test]
fn a_token_that_has_to_wait_is_waited_for() {
    let busy = || answer("429 Too Many Requests", "retry-after: 0\r\n", PROBLEM);
    let scripted = Scripted::new(vec![busy(), busy(), answer("204 No Content", "", "")]);
    check(&scripted.url, "device rm lock7", 0, &[]);
    assert_eq!(scripted.asked().len(), 3);
    let hopeless = Scripted::new(vec![answer("429 Too Many Requests", "retry-after: 3600\r\n", PROBLEM)]);
    check(&hopeless.url, "device rm lock7", 4, &["429"]);
}

#[test]
fn a_token_is_sent_and_never_shown() {
    const TOKEN: &str = "tok-3f9a";
    let unauthorized =
        || answer("401 Unauthorized", "", r#"{"status":401,"code":"unauthorized","detail":"no such token"}"#);
    let scripted = Scripted::new(vec![unauthorized(), unauthorized()]);
    let from_environment =
        program(&scripted.url).args(["device", "ls"]).env("FIELDPOST_TOKEN", TOKEN).output();
    let from_flag = program(&scripted.url).args(["device", "ls", "--token", TOKEN]).output();
    let help = program(&scripted.url).args(["device", "ls", "--help"]).env("FIELDPOST_TOKEN", TOKEN).output();
    let wrong = program("nowhere").args(["device", "ls"]).env("FIELDPOST_TOKEN", TOKEN).output();
    for output in [from_environment, from_flag, help, wrong] {
        let ended = crate::cli::rig::ended(&output.expect("it runs"));
        assert!(!format!("{ended:?}").contains(TOKEN), "{ended:?}");
        assert!(ended.code != Some(1) || ended.err.contains("FIELDPOST_TOKEN"), "{ended:?}");
    }
    for Asked { head, .. } in scripted.asked() {
        assert!(head.contains(&format!("authorization: Bearer {TOKEN}\r\n")), "{head}");
    }
}

#[test]
fn a_password_in_the_url_is_refused_and_not_repeated() {
    let ended = run("http://me:hunter2@127.0.0.1:9", &["device", "ls"], "");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(!format!("{ended:?}").contains("hunter2"), "{ended:?}");
}
