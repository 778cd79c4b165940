//! A wire to the broker that can be cut and mended, and on which what goes to the broker can be
//! held up.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on while it is whole. While it is cut, nothing passes and every connection is
/// closed.
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    whole: watch::Sender<bool>,
    held: watch::Sender<bool>,
}

impl Proxy {
    /// A wire to `target`.
    pub(crate) async fn start(target: SocketAddr, whole: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (whole, is_whole) = watch::channel(whole);
        let (held, is_held) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, target, is_whole.clone(), is_held.clone()));
            }
        });
        Self { address, whole, held }
    }

    /// Closes every connection, and every new one.
    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Lets connections pass.
    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }

    /// From now on nothing reaches the broker, and all that it says still passes.
    pub(crate) fn hold(&self) {
        self.held.send_replace(true);
    }

    /// What was held up passes, in order.
    pub(crate) fn release(&self) {
        self.held.send_replace(false);
    }
}

async fn pass(
    mut stream: TcpStream,
    target: SocketAddr,
    mut whole: watch::Receiver<bool>,
    held: watch::Receiver<bool>,
) {
    if !*whole.borrow() {
        return;
    }
    let Ok(mut broker) = TcpStream::connect(target).await else { return };
    let ((from_us, mut to_us), (mut from_broker, to_broker)) = (stream.split(), broker.split());
    tokio::select! {
        _ended = to_the_broker(from_us, to_broker, held) => {}
        _ended = copy(&mut from_broker, &mut to_us) => {}
        _cut = whole.wait_for(|whole| !*whole) => {}
    }
}

async fn to_the_broker(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut held: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut buffer = [0; 8_192];
    loop {
        let count = from.read(&mut buffer).await?;
        // an error is the test's end
        drop(held.wait_for(|held| !*held).await);
        if count == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..count]).await?;
    }
}
