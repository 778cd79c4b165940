//! A server on loopback that speaks S3, over a directory, for tests.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder as Connection;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// The id of the key that it knows.
pub(crate) const ACCESS_KEY: &str = "AKIDFORTESTS";
/// The secret of that key.
pub(crate) const SECRET_KEY: &str = "a-secret-for-tests";
/// The bucket that it has.
pub(crate) const BUCKET: &str = "blocks";

/// A server that runs until it is dropped or stopped.
pub(crate) struct S3Server {
    runtime: Option<Runtime>,
    directory: PathBuf,
    /// Bound, and never listens: nobody else is given the port while the server is stopped.
    _reservation: TcpSocket,
    pub(crate) address: SocketAddr,
}

impl S3Server {
    /// One over a directory, which has the bucket afterwards.
    pub(crate) fn start(directory: &Path) -> Self {
        std::fs::create_dir_all(directory.join(BUCKET)).expect("is made");
        let reservation = bind(([127, 0, 0, 1], 0).into());
        let address = reservation.local_addr().expect("an address");
        let mut server =
            Self { runtime: None, directory: directory.to_owned(), _reservation: reservation, address };
        server.start_again();
        server
    }

    /// Ends it, with every connection.
    pub(crate) fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(std::time::Duration::from_secs(10));
        }
    }

    /// Starts it on the same address.
    pub(crate) fn start_again(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let mut builder = S3ServiceBuilder::new(FileSystem::new(&self.directory).expect("a directory"));
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = builder.build();
        let listener = runtime.block_on(async { bind(self.address).listen(64).expect("listens") });
        runtime.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                connections.spawn(async move {
                    let connection = Connection::new(TokioExecutor::new());
                    // A client that goes ends it.
                    let _ended = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        self.runtime = Some(runtime);
    }

    /// How it is reached.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Also where connections of an earlier server have only just ended.
fn bind(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("is set");
    socket.set_reuseport(true).expect("is set");
    socket.bind(address).expect("is free");
    socket
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
