//! What to do when the operating system has no connection for us: wait, longer each time, and say
//! so now and then. An accept loop that went on at once would spin for as long as there are no open
//! files left. One that ended would be the end of the listener.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use base::LogLimit;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The patience of one accept loop.
#[derive(Debug)]
pub struct AcceptBackoff {
    /// What is listened for, for the log.
    whose: &'static str,
    wait: Duration,
    log: LogLimit<()>,
}

impl AcceptBackoff {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);

    /// Of a loop that accepts connections of `whose`, as the log says it.
    #[must_use]
    pub fn new(whose: &'static str) -> Self {
        Self { whose, wait: Self::FIRST, log: LogLimit::default() }
    }

    /// The next connection, or `None` after waiting for as long as what went wrong asks for.
    pub async fn accept(&mut self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
        match listener.accept().await {
            Ok(accepted) => {
                self.wait = Self::FIRST;
                Some(accepted)
            }
            Err(error) => {
                sleep(self.lose(&error)).await;
                None
            }
        }
    }

    /// How long to wait after this error; not at all if it only concerns one connection.
    fn lose(&mut self, error: &io::Error) -> Duration {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
            return Duration::ZERO;
        }
        if let Some(left_out) = self.log.take((), Instant::now()) {
            let whose = self.whose;
            tracing::warn!(%error, left_out, "cannot accept {whose} connections; is the limit of open files too low?");
        }
        let wait = self.wait;
        self.wait = (wait * 2).min(Self::LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_open_files_grows_longer_up_to_a_second() {
        let too_many_files = || io::Error::from_raw_os_error(24);
        let mut backoff = AcceptBackoff::new("test");
        let waits: Vec<_> = (0..9).map(|_| backoff.lose(&too_many_files()).as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        assert_eq!(backoff.lose(&io::ErrorKind::ConnectionAborted.into()), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_connection_that_comes_restores_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut backoff = AcceptBackoff::new("test");
        backoff.lose(&io::Error::from_raw_os_error(24));
        let _client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connected");
        assert!(backoff.accept(&listener).await.is_some());
        assert_eq!(backoff.wait, AcceptBackoff::FIRST);
    }
}
