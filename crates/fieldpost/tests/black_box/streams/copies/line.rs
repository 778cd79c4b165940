//! A line to a node, which stays where it is while the node moves, and can be cut and mended.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on to wherever the node is. While it is cut, nothing passes and every
/// connection is closed.
pub(super) struct NodeLine {
    pub(super) address: SocketAddr,
    target: watch::Sender<SocketAddr>,
    whole: watch::Sender<bool>,
}

impl NodeLine {
    pub(super) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let ((target, is_at), (whole, is_whole)) = (watch::channel(target), watch::channel(true));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, *is_at.borrow(), is_whole.clone()));
            }
        });
        Self { address, target, whole }
    }

    pub(super) fn lead_to(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }

    pub(super) fn cut(&self) {
        self.whole.send_replace(false);
    }

    pub(super) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

async fn pass(mut stream: TcpStream, target: SocketAddr, mut whole: watch::Receiver<bool>) {
    if !*whole.borrow() {
        return;
    }
    let Ok(mut node) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ended = copy_bidirectional(&mut stream, &mut node) => {}
        _cut = whole.wait_for(|whole| !*whole) => {}
    }
}
