//! Who makes a call, and from where, as the connection put it beside the request.

use std::net::SocketAddr;

use access::Admitted;
use base::Problem;
use net::shares::SenderKey;
use tonic::{Request, Status};

use crate::status::status;

/// Where a request comes from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Where this request comes from; a request that came over no connection has no such place.
pub(crate) fn peer<T>(request: &Request<T>) -> SocketAddr {
    let nowhere = SocketAddr::from(([0; 4], 0));
    request.extensions().get::<Peer>().map_or(nowhere, |Peer(peer)| *peer)
}

/// The caller of this request.
pub(crate) fn caller<T>(request: &Request<T>) -> Result<Admitted, Status> {
    let admitted = request.extensions().get::<Admitted>();
    admitted.cloned().ok_or_else(|| status(&Problem::new(401, "unauthorized", "nobody let this call in")))
}

/// Who asks, whose share its answer counts for, and what is asked.
pub(crate) fn caller_sender_and_message<T>(request: Request<T>) -> Result<(Admitted, SenderKey, T), Status> {
    let caller = caller(&request)?;
    let sender = SenderKey::of_caller(caller.name(), peer(&request).ip());
    Ok((caller, sender, request.into_inner()))
}

/// Who asks, and for what.
pub(crate) fn caller_and_message<T>(request: Request<T>) -> Result<(Admitted, T), Status> {
    Ok((caller(&request)?, request.into_inner()))
}
