//! Reading without a buffer of one's own. Bytes land in a buffer that belongs to the thread, and
//! only what is left of a packet is copied from there. So a connection that waits holds no memory
//! for reading.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::limits::READ_BYTES_MAX;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES_MAX].into_boxed_slice());
}

/// Reads what is there and hands it to `take`; an empty slice is the end. `take` must not read
/// itself.
pub(super) fn poll_read<T, S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    take: impl FnOnce(&[u8]) -> T,
) -> Poll<io::Result<T>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(take(buffer.filled())))
    })
}
