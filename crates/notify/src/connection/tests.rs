//! Answers of every form, cut into pieces of every size.

use proptest::prelude::*;
use tokio::io::DuplexStream;

use super::*;

/// What becomes of a post that is answered with these bytes: the status, and whether the connection
/// is usable afterwards.
type Outcome = Option<(u16, bool)>;

/// Answers with `pieces`, and closes or waits.
async fn post(pieces: Vec<Vec<u8>>, closes: bool) -> Outcome {
    let (near, mut far): (DuplexStream, DuplexStream) = tokio::io::duplex(256 * 1_024);
    let (stay, gone) = tokio::sync::oneshot::channel::<()>();
    let receiver = tokio::spawn(async move {
        let mut request = [0; 8];
        far.read_exact(&mut request).await.expect("a request");
        assert_eq!(&request, b"HEADBODY");
        for piece in pieces {
            // Nobody reads what is too long to its end.
            let _unread = far.write_all(&piece).await;
            tokio::task::yield_now().await;
        }
        if !closes {
            let _over = gone.await;
        }
    });
    let mut connection = ReceiverConnection::new(Box::new(near));
    assert!(connection.is_usable().await);
    let outcome = match connection.post(b"HEAD", b"BODY").await {
        Ok(response) => {
            let status = response.status;
            let is_usable = connection.finish(&response, &mut AnswerStart::of(64, false)).await.is_ok()
                && connection.is_usable().await;
            Some((status, is_usable))
        }
        Err(_) => None,
    };
    drop((stay, connection));
    receiver.await.expect("it answers");
    outcome
}

/// However the answer is cut into pieces.
async fn check(answer: &str, closes: bool, expect: Outcome) {
    for size in [usize::MAX, 1, 7] {
        let pieces = answer.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
        assert_eq!(post(pieces, closes).await, expect, "{answer:?} in pieces of {size}");
    }
}

#[tokio::test]
async fn the_end_of_an_answer_is_found_and_its_connection_used_again() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\ncontent-length: 5\n\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    ] {
        check(answer, false, Some((200, true))).await;
    }
    check("HTTP/1.1 204 No Content\r\n\r\n", false, Some((204, true))).await;
    check("HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", false, Some((304, true))).await;
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_is_an_answer() {
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 65537\r\n\r\n{}", "x".repeat(65_537));
    for (answer, closes) in [
        ("HTTP/1.1 200 OK\r\n\r\nhello", true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nhello", true),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nConnection: upgrade, Close\r\ncontent-length: 0\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello", true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello00\r\n", true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", true),
        (&long, false),
    ] {
        check(answer, closes, Some((200, false))).await;
    }
    check("HTTP/1.1 101 Switching Protocols\r\n\r\n", false, Some((101, false))).await;
}

/// The receiver neither sends the rest nor closes: whoever waited for it would wait for good.
#[tokio::test]
async fn the_rest_of_an_answer_is_not_waited_for_where_its_connection_cannot_be_kept() {
    for head in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 65537\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ] {
        let (near, mut far) = tokio::io::duplex(1_024);
        far.write_all(head.as_bytes()).await.expect("there is room");
        let mut connection = ReceiverConnection::new(Box::new(near));
        let response = connection.post(b"HEAD", b"BODY").await.expect("an answer");
        let mut start = AnswerStart::of(64, false);
        tokio::select! {
            biased;
            finished = connection.finish(&response, &mut start) => assert!(finished.is_ok(), "{head}"),
            () = std::future::ready(()) => panic!("waits for the rest of {head}"),
        }
        assert!(!connection.is_usable().await, "{head}");
    }
}

#[tokio::test]
async fn lines_between_chunks_count_as_part_of_an_answer() {
    let chunked = |chunk: &str, times: usize| {
        let chunks = chunk.repeat(times);
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
    };
    let extended = format!("1;x={}\r\ny\r\n", "x".repeat(4_000));
    for (chunk, times, is_usable) in [
        (&*extended, 16, true),
        (&*extended, 17, false),
        ("1\r\ny\r\n", 10_922, true),
        ("1\r\ny\r\n", 10_923, false),
    ] {
        let answer = chunked(chunk, times).into_bytes();
        assert_eq!(post(vec![answer], false).await, Some((200, is_usable)), "{times} chunks");
    }
}

#[tokio::test]
async fn a_connection_with_more_on_it_than_an_answer_is_not_used_again() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n".to_vec();
    assert_eq!(post(vec![answer], false).await, Some((200, false)));
}

#[tokio::test]
async fn what_is_no_answer_breaks_the_connection() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(ANSWER_HEAD_BYTES_MAX));
    for (answer, closes) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", false),
        ("", true),
        ("HTTP/1.1 200 OK\r\nconte", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\nx", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx", false),
        ("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", false),
        (&long, false),
    ] {
        check(answer, closes, None).await;
    }
}

#[test]
fn what_a_receiver_asks_for_is_read() {
    let parse = |fields: &str, status| {
        let head = format!("HTTP/1.1 {status} x\r\n{fields}\r\n\r\n");
        let (response, bytes) = ResponseHead::parse(head.as_bytes()).expect("an answer").expect("whole");
        assert_eq!(bytes, head.len());
        (response.retry_after.map(String::from), response.keeps.map(|keeps| keeps.as_secs()))
    };
    let patience = Some("7".to_owned());
    assert_eq!(parse("Retry-After: 7\r\nkeep-alive: max=1, timeout=5", 503), (patience.clone(), Some(5)));
    assert_eq!(parse("retry-after: 7\r\nretry-after: 8", 429), (patience, None));
    assert_eq!(parse("retry-after: 7\r\nkeep-alive: timeout=soon", 200), (None, None));
}

proptest! {
    #[test]
    fn whatever_a_receiver_sends_a_post_ends(
        head in "(HTTP/1[.][01] [0-9]{3}( OK)?\r\n)?((content-length: [0-9]{1,3}|transfer-encoding: chunked|x: y)\r\n){0,3}(\r\n)?",
        rest in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), b'0'..b'g', any::<u8>()], 0..64),
        size in 1_usize..40,
    ) {
        let answer = [head.as_bytes(), &rest].concat();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let cut = |size| answer.chunks(size).map(<[u8]>::to_vec).collect();
        let whole = runtime.block_on(post(cut(answer.len().max(1)), true)).map(|(status, _)| status);
        let pieces = runtime.block_on(post(cut(size), true)).map(|(status, _)| status);
        prop_assert_eq!(whole, pieces);
    }
}
