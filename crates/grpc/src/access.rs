//! Who may call what. Who knows the tokens is behind a port, so that a token has one meaning and one set of limits over all protocols.

use std::net::SocketAddr;
use std::sync::Arc;

use base::{CallerName, Problem};
use futures_util::future::BoxFuture;
use http::HeaderMap;
use tonic::{Request, Status};

use crate::status::status;

/// Knows callers by what they show.
pub trait Access: Send + Sync + 'static {
    /// Recognises who calls by the metadata of a call, and takes the call in. The call is under way until the caller is dropped.
    ///
    /// # Errors
    /// 401 for nobody that is known, 429 for one who calls too often.
    fn admit<'a>(&'a self, metadata: &'a HeaderMap) -> BoxFuture<'a, Result<Arc<dyn Caller>, NotAdmitted>>;
}

/// A call that was not taken in.
#[derive(Debug)]
pub struct NotAdmitted {
    /// Why.
    pub problem: Problem,
    /// The name of the caller's token, if it is known. The log tells it, the caller is not told.
    pub login: Option<CallerName>,
}

/// Somebody whose call was taken in.
pub trait Caller: Send + Sync {
    /// Whether the caller may do this.
    ///
    /// # Errors
    /// 403.
    fn may(&self, asked: Asked<'_>) -> Result<(), Problem>;

    /// The name of the caller's token; empty where none is asked for.
    fn name(&self) -> &str;
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// To send reports.
    Reports,
    /// To look at jobs of a namespace.
    Look {
        /// The namespace.
        namespace: &'a str,
    },
    /// To publish, consume or change jobs of a namespace.
    Work {
        /// The namespace.
        namespace: &'a str,
    },
}

/// The caller of a request that was let in.
#[derive(Clone)]
pub(crate) struct Admitted(pub(crate) Arc<dyn Caller>);

/// Where a request comes from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Where this request comes from; a request that came over no connection has no such place.
pub(crate) fn peer<T>(request: &Request<T>) -> SocketAddr {
    let nowhere = SocketAddr::from(([0; 4], 0));
    request.extensions().get::<Peer>().map_or(nowhere, |Peer(peer)| *peer)
}

/// The caller of this request, if that caller may do this.
pub(crate) fn caller<T>(request: &Request<T>) -> Result<Arc<dyn Caller>, Status> {
    let admitted = request.extensions().get::<Admitted>();
    let admitted =
        admitted.ok_or_else(|| status(&Problem::new(401, "unauthorized", "nobody let this call in")))?;
    Ok(Arc::clone(&admitted.0))
}
