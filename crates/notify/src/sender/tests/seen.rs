//! What an attempt sees of its receiver: the beginning of its answer, and how long each part took.

use super::*;

async fn answer_to(answer: &str, then: Then) -> (Option<String>, bool) {
    let fixture = Fixture::patient();
    let (port, _closed) = raw(answer, then).await;
    let end = fixture.attempt(&format!("http://127.0.0.1:{port}/")).await;
    let answer = end.detail.answer.map(|bytes| String::from_utf8(bytes.into()).expect("a text"));
    (answer, matches!(end.answer, AttemptOutcome::Status { .. }))
}

#[tokio::test]
async fn the_beginning_of_an_answer_is_kept() {
    let long = "x".repeat(5_000);
    let sized =
        |code: u16, body: &str| format!("HTTP/1.1 {code}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let closing = format!("HTTP/1.1 500\r\nconnection: close\r\n\r\n{long}");
    let chunked = "HTTP/1.1 500\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n";
    let too_long = format!("HTTP/1.1 500\r\ncontent-length: 99999999\r\n\r\n{long}");
    for (answer, then, expect) in [
        (sized(500, "no"), Then::Hang, Some("no")),
        (sized(500, ""), Then::Hang, None),
        (sized(500, &long), Then::Hang, Some(&long[..ANSWER_BYTES_MAX])),
        (closing, Then::Close, Some(&long[..ANSWER_BYTES_MAX])),
        (too_long, Then::Hang, Some(&long[..ANSWER_BYTES_MAX])),
        (chunked.to_owned(), Then::Hang, Some("onetwo")),
        ("HTTP/1.0 404 Not Found\r\n\r\ngone".to_owned(), Then::Close, Some("gone")),
        (sized(200, "thank you"), Then::Hang, Some("thank you")),
        (sized(200, &long), Then::Hang, Some(&long[..ANSWER_OF_DELIVERED_BYTES_MAX])),
        ("HTTP/1.1 204\r\n\r\n".to_owned(), Then::Hang, None),
    ] {
        let found = answer_to(&answer, then).await;
        assert_eq!((found.0.as_deref(), found.1), (expect, true), "{}", &answer[..answer.len().min(80)]);
    }
}

#[tokio::test]
async fn what_came_before_an_answer_broke_off_is_kept() {
    let cut = "HTTP/1.1 500\r\ncontent-length: 100\r\n\r\nhello";
    for then in [Then::Close, Then::Hang] {
        assert_eq!(answer_to(cut, then).await, (Some("hello".to_owned()), true), "{then:?}");
    }
}

/// Which parts of an attempt took a time.
fn parts(timings: AttemptTimings) -> [bool; 5] {
    let AttemptTimings { dns_ms, connect_ms, tls_ms, first_byte_ms, reused } = timings;
    [dns_ms.is_some(), connect_ms.is_some(), tls_ms.is_some(), first_byte_ms.is_some(), reused]
}

#[tokio::test]
async fn each_part_of_an_attempt_has_its_time_and_a_reused_connection_only_the_answers() {
    let (server, roots) = certificate();
    let fixture = Fixture::new(PATIENT, true, roots);
    let tls = TestReceiver::start_tls(server, answering(StatusCode::OK)).await;
    let plain = TestReceiver::start(answering(StatusCode::OK)).await;
    let again = [false, false, false, true, true];
    for (url, first) in [
        (format!("https://localhost:{}/", tls.port), [true, true, true, true, false]),
        (format!("http://localhost:{}/", plain.port), [true, true, false, true, false]),
        (plain.url(), [false, true, false, true, false]),
    ] {
        assert_eq!(parts(fixture.attempt(&url).await.detail.timings), first, "{url}");
        assert_eq!(parts(fixture.attempt(&url).await.detail.timings), again, "{url}");
    }
}

#[tokio::test]
async fn an_attempt_that_fails_tells_how_far_it_came() {
    let unresolved = Fixture::patient().attempt("http://nowhere.invalid/").await;
    assert_eq!(parts(unresolved.detail.timings), [true, false, false, false, false]);
    let fixture = Fixture::new(IMPATIENT, true, RootCertStore::empty());
    let (port, _closed) = raw("", Then::Hang).await;
    let silent = fixture.attempt(&format!("http://127.0.0.1:{port}/")).await;
    assert_eq!(parts(silent.detail.timings), [false, true, false, false, false]);
}

#[tokio::test]
async fn when_a_certificate_ended_is_told() {
    let (server, roots) = certificate_until(2_020);
    let receiver = TestReceiver::start_tls(server, answering(StatusCode::OK)).await;
    let end =
        Fixture::new(PATIENT, true, roots).attempt(&format!("https://localhost:{}/", receiver.port)).await;
    assert_eq!(end.answer, AttemptOutcome::Error(AttemptError::TlsExpired));
    // 2020-01-01T00:00:00Z
    assert_eq!(end.detail.certificate_bound, Some(Timestamp(1_577_836_800_000)));
}
