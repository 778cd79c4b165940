//! A wire to the broker that can be cut and mended.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on while it is whole. While it is cut, nothing passes and every connection is closed.
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    whole: watch::Sender<bool>,
}

impl Proxy {
    /// A wire to `target`.
    pub(crate) async fn start(target: SocketAddr, whole: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (whole, state) = watch::channel(whole);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, target, state.clone()));
            }
        });
        Self { address, whole }
    }

    /// Closes every connection, and every new one.
    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Lets connections pass.
    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

async fn pass(mut stream: TcpStream, target: SocketAddr, mut whole: watch::Receiver<bool>) {
    if !*whole.borrow() {
        return;
    }
    let Ok(mut broker) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ended = copy_bidirectional(&mut stream, &mut broker) => {}
        _cut = whole.wait_for(|whole| !*whole) => {}
    }
}
