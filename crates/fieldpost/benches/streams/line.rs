//! The line between two nodes: cut at first, and mended once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::Failure;

/// A place to connect to that leads nowhere until the line is mended.
pub(super) struct Line {
    address: SocketAddr,
    is_mended: Arc<AtomicBool>,
    accepting: JoinHandle<()>,
}

impl Line {
    pub(super) async fn open(to: SocketAddr) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, is_mended) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let leads = Arc::clone(&is_mended);
        let accepting = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                if leads.load(Ordering::Acquire) {
                    tokio::spawn(async move {
                        let mut far = TcpStream::connect(to).await?;
                        copy_bidirectional(&mut near, &mut far).await
                    });
                }
            }
        });
        Ok(Self { address, is_mended, accepting })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn mend(&self) {
        self.is_mended.store(true, Ordering::Release);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
