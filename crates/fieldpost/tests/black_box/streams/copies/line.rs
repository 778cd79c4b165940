//! A line to a node, which stays where it is while the node moves, and can be cut and mended.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on to wherever the node is.
pub(super) struct NodeLine {
    pub(super) address: SocketAddr,
    target: watch::Sender<SocketAddr>,
    state: watch::Sender<LineState>,
}

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    Whole,
    /// They are closed, and so are new ones.
    Cut,
    /// They stay open and nothing passes, for ever: also once the line is whole again, only new
    /// ones lead anywhere.
    Silent,
}

impl NodeLine {
    pub(super) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let ((target, is_at), (state, is_so)) = (watch::channel(target), watch::channel(LineState::Whole));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, *is_at.borrow(), is_so.clone()));
            }
        });
        Self { address, target, state }
    }

    pub(super) fn lead_to(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }

    pub(super) fn cut(&self) {
        self.state.send_replace(LineState::Cut);
    }

    /// Cuts it so that nobody is told.
    pub(super) fn fall_silent(&self) {
        self.state.send_replace(LineState::Silent);
    }

    pub(super) fn mend(&self) {
        self.state.send_replace(LineState::Whole);
    }
}

async fn pass(mut stream: TcpStream, target: SocketAddr, mut state: watch::Receiver<LineState>) {
    let began = *state.borrow_and_update();
    if began == LineState::Whole {
        let Ok(mut node) = TcpStream::connect(target).await else { return };
        tokio::select! {
            _ended = copy_bidirectional(&mut stream, &mut node) => return,
            _changed = state.wait_for(|state| *state != LineState::Whole) => {}
        }
    }
    if *state.borrow() == LineState::Silent {
        // Whoever sends is neither answered nor told, until it gives up.
        swallow(stream).await;
    }
}

async fn swallow(stream: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while stream.readable().await.is_ok() {
        if matches!(stream.try_read(&mut buffer), Ok(0)) {
            return;
        }
    }
}
