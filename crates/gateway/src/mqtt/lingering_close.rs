//! What is said to a client before its connection is closed, so that it arrives.
//!
//! Closing on bytes that were received and not read resets the connection, and a reset can overtake
//! what was said before.

use std::future::poll_fn;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::limits::LINGER;
use super::scratch;

/// Says it and ends our side; if `linger`, reads what still comes until the client ends its side
/// too, for a while.
pub(super) async fn say<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, words: &[u8], linger: bool) {
    let said = async {
        stream.write_all(words).await?;
        stream.shutdown().await?;
        while linger && poll_fn(|cx| scratch::poll_read(stream, cx, |bytes| !bytes.is_empty())).await? {}
        io::Result::Ok(())
    };
    // Whoever does not take them has gone, or goes on without them.
    match timeout(LINGER, said).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a client did not take its last words"),
        Err(_) => tracing::debug!("a client did not close"),
    }
}
