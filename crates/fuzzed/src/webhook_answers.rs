//! What a receiver sends where the answer to a webhook should come.
//!
//! A post ends whatever comes, and with the same result when that comes in other pieces. An answer
//! that leaves its connection usable was read to its end. So the next post gets the answer that was
//! sent for it.

use std::cell::RefCell;

use notify::connection::{AnswerStart, ReceiverConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::runtime::{Builder, Runtime};

use crate::pieces;

const PIECES_MAX: u64 = 64;
const BUFFER_BYTES: usize = 64 * 1_024;
const REQUEST: [&[u8]; 2] = [b"HEAD", b"BODY"];
/// Another status than any that is likely to be made up.
const NEXT: u16 = 299;
const NEXT_ANSWER: &[u8] = b"HTTP/1.1 299 Next\r\ncontent-length: 0\r\n\r\n";

thread_local! {
    static RUNTIME: RefCell<Runtime> = RefCell::new(Builder::new_current_thread().build().expect("a runtime"));
}

/// Answers a post with the bytes, whole and in pieces.
pub fn run(data: &[u8]) {
    RUNTIME.with_borrow(|runtime| {
        let whole = runtime.block_on(post(&[data]));
        let in_pieces = runtime.block_on(post(&pieces::cut(data, PIECES_MAX)));
        assert_eq!(whole, in_pieces, "pieces do not matter");
        runtime.block_on(post_twice(data));
    });
}

/// The status of the answer that is made of these pieces, if they make one before the connection
/// ends.
async fn post(pieces: &[&[u8]]) -> Option<u16> {
    let (near, far) = tokio::io::duplex(BUFFER_BYTES);
    let receiving = async {
        let mut far = far;
        read_request(&mut far).await;
        for piece in pieces {
            // Nobody reads what is too long to its end.
            let _unread = far.write_all(piece).await;
            tokio::task::yield_now().await;
        }
    };
    let posting = async {
        let mut connection = ReceiverConnection::new(Box::new(near));
        let response = connection.post(REQUEST[0], REQUEST[1]).await.ok()?;
        // It ends, in whatever way.
        let _finished = connection.finish(&response, &mut AnswerStart::of(64, false)).await;
        Some(response.status)
    };
    tokio::join!(posting, receiving).0
}

/// Posts again on a connection that is usable after an answer that came at once.
async fn post_twice(answer: &[u8]) {
    let (near, far) = tokio::io::duplex(BUFFER_BYTES);
    let receiving = async {
        let mut far = far;
        read_request(&mut far).await;
        let _unread = far.write_all(answer).await;
        tokio::select! {
            biased;
            () = read_request(&mut far) => drop(far.write_all(NEXT_ANSWER).await),
            // An answer that is not whole is waited for until the connection ends.
            () = idle() => {}
        }
    };
    let posting = async {
        let mut connection = ReceiverConnection::new(Box::new(near));
        let Ok(response) = connection.post(REQUEST[0], REQUEST[1]).await else { return };
        if connection.finish(&response, &mut AnswerStart::of(64, false)).await.is_ok()
            && connection.is_usable().await
            && let Ok(next) = connection.post(REQUEST[0], REQUEST[1]).await
        {
            assert_eq!(next.status, NEXT, "the answer before was read to its end");
        }
    };
    tokio::join!(posting, receiving);
}

async fn read_request(far: &mut DuplexStream) {
    let mut request = [0; 8];
    // Whoever has no use for the connection any more closes it.
    let _closed = far.read_exact(&mut request).await;
}

/// Long enough for whoever does not wait for something else.
async fn idle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
