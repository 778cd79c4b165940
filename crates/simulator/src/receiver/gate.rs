//! The receiver's port: open or closed, always its own.
//!
//! The port is held by a socket that is bound and never listens; beside it (`SO_REUSEPORT`) a
//! listener comes and goes. So a closed receiver refuses connections and nobody else can be given
//! its port in the meantime.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Behaviour, ReceiverState, request};

const BACKLOG: u32 = 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Gate {
    address: SocketAddr,
    _reservation: TcpSocket,
    listener: Option<TcpListener>,
    wanted: watch::Receiver<Behaviour>,
    obeyed: watch::Sender<Behaviour>,
    connections: JoinSet<()>,
    shared: Arc<ReceiverState>,
}

impl Gate {
    /// Takes a free port and listens; the second part tells which behaviour is in force.
    pub(super) fn open(
        wanted: watch::Receiver<Behaviour>,
        shared: Arc<ReceiverState>,
    ) -> io::Result<(Self, watch::Receiver<Behaviour>)> {
        let reservation = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = reservation.local_addr()?;
        let listener = Some(bind(address)?.listen(BACKLOG)?);
        let (obeyed, in_force) = watch::channel(wanted.borrow().clone());
        let connections = JoinSet::new();
        Ok((
            Self { address, _reservation: reservation, listener, wanted, obeyed, connections, shared },
            in_force,
        ))
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts and obeys until the receiver is dropped.
    pub(super) async fn keep(mut self) {
        loop {
            tokio::select! {
                biased;
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if let Err(error) = self.obey().await {
                        tracing::error!(%error, address = %self.address, "the receiver cannot listen again");
                        return;
                    }
                }
                stream = accept(self.listener.as_ref()) => self.serve(stream),
                Some(_ended) = self.connections.join_next() => {}
            }
        }
    }

    async fn obey(&mut self) -> io::Result<()> {
        let behaviour = self.wanted.borrow_and_update().clone();
        if behaviour == Behaviour::Down {
            self.listener = None;
            self.connections.shutdown().await;
        } else if self.listener.is_none() {
            self.listener = Some(bind(self.address)?.listen(BACKLOG)?);
        }
        self.obeyed.send_replace(behaviour);
        Ok(())
    }

    fn serve(&mut self, stream: TcpStream) {
        let (behaviour, shared) = (self.obeyed.subscribe(), Arc::clone(&self.shared));
        self.connections.spawn(async move {
            let answer = |request| request::answer(request, behaviour.clone(), Arc::clone(&shared));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
            if let Err(error) = connection.await {
                tracing::trace!(%error, "a sender's connection ended");
            }
        });
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// The next connection; never, while closed.
async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::trace!(%error, "a sender went away at once");
                }
                return stream;
            }
            Err(error) => tracing::warn!(%error, "cannot accept"),
        }
    }
}
