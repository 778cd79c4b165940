//! Requests as they go over the wire: made once, and answered whatever the status.

use std::time::Duration;

use fieldpost_client::{Client, ConnectionFault, Error, Method, Path, Request};

use crate::stage::{PATIENCE, Reply, Stage, nobody, refused};

fn get(path: &str) -> Request {
    Request::new(Method::GET, Path::encoded(path))
}

#[tokio::test]
async fn a_request_is_made_once_and_every_status_is_an_answer() {
    let problem = r#"{"status":503,"code":"store_failed","detail":"no"}"#;
    let stage = Stage::new(|_| Reply::With("retry-after: 7\r\n", 503, problem.to_owned())).await;
    let answer = stage.client().send(&get("/readyz?verbose=1")).await.expect("an answer");
    assert_eq!((answer.status, answer.retry_after), (503, Some(Duration::from_secs(7))));
    let Err(Error::Refused(refusal)) = answer.success() else { panic!("it is a refusal") };
    assert_eq!(refusal.code.as_deref(), Some("store_failed"));
    assert_eq!(refusal.document.as_deref(), Some(problem));
    let asked = stage.asked();
    assert_eq!(asked.len(), 1, "it is not asked again");
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("GET", "/readyz?verbose=1"));
}

#[tokio::test]
async fn a_request_has_its_own_body_key_and_agent() {
    let stage = Stage::new(|_| Reply::Answer(204, String::new())).await;
    let client = Client::builder(stage.url()).user_agent("test/1").build().expect("a client");
    let lines = Request::new(Method::POST, Path::of(&["reports"])).json_lines("{}\n{}\n");
    let once = Request::new(Method::PATCH, Path::of(&["devices", "a/b"])).json("{}");
    let once = once.idempotency_key("k1").expect("a header carries it");
    for request in [&lines, &once] {
        client.send(request).await.expect("an answer").success().expect("a good one");
    }
    let asked = stage.asked();
    assert_eq!(
        (asked[0].header("content-type"), asked[0].body.as_str()),
        (Some("application/x-ndjson"), "{}\n{}\n")
    );
    assert_eq!(
        (asked[1].path.as_str(), asked[1].header("idempotency-key")),
        ("/v1/devices/a%2Fb", Some("k1"))
    );
    assert_eq!(asked[1].header("user-agent"), Some("test/1"));
    assert!(lines.idempotency_key("line\nend").is_err());
}

#[tokio::test]
async fn a_redirection_is_not_followed() {
    let stage = Stage::new(|_| Reply::With("location: http://a.example/\r\n", 302, String::new())).await;
    let answer = stage.client().send(&get("/")).await.expect("an answer");
    assert_eq!(answer.status, 302);
    let error = answer.success().expect_err("it leads elsewhere");
    assert!(matches!(&error, Error::Foreign { what, .. } if what.contains("http://a.example/")), "{error}");
}

#[tokio::test]
async fn a_download_is_read_as_it_comes() {
    let text = "line\n".repeat(100_000);
    let whole = text.clone();
    let stage = Stage::new(move |asked| match asked.verb() {
        "good" => Reply::Answer(200, text.clone()),
        _ => refused(403, "forbidden"),
    })
    .await;
    let client = stage.client();
    let mut download = client.download(&get("/good"), PATIENCE).await.expect("it begins");
    let mut read = Vec::new();
    while let Some(bytes) = download.next().await.expect("it goes on") {
        read.extend_from_slice(&bytes);
    }
    assert!(read == whole.as_bytes(), "{} bytes of {}", read.len(), whole.len());
    let error = client.download(&get("/bad"), PATIENCE).await.expect_err("it is refused");
    assert_eq!(error.code(), Some("forbidden"));
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_too_late_is_an_error() {
    let stage = Stage::new(|asked| match asked.verb() {
        "long" => Reply::Answer(200, "x".repeat(1_000)),
        _ => Reply::Wait,
    })
    .await;
    let error = stage.client().send(&get("/long").answer_bytes_max(999)).await.expect_err("too long");
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    let late = get("/late").timeout(Duration::from_millis(20));
    let error = stage.client().send(&late).await.expect_err("too late");
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn an_error_says_what_was_wrong_with_the_connection() {
    let broken = Stage::new(|_| Reply::Break).await;
    let (_port, nobody) = nobody();
    for (url, fault) in [
        (broken.url().to_owned(), ConnectionFault::Broken),
        (nobody, ConnectionFault::Refused),
        ("http://nobody.invalid".to_owned(), ConnectionFault::NoSuchHost),
    ] {
        let client = Client::builder(&url).build().expect("a client");
        let error = client.send(&get("/")).await.expect_err("no answer");
        assert_eq!(error.connection_fault(), Some(fault), "{url}: {error:?}");
    }
}
