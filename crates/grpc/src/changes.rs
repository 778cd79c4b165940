//! The log lines about what calls change: who called, from where, and what was changed. Calls about
//! jobs, messages, coordination and reports are work, as over HTTP: metrics count them.

use std::net::SocketAddr;

use base::Problem;
use tonic::{Response, Status};
use tracing::info;

use crate::status::into_response;

/// What a call changed. Beside an answer, where everything can be cloned.
#[derive(Clone, Debug)]
pub(crate) struct ChangedObject(Box<str>);

/// The answer to a call that changed this, unless it is refused.
pub(crate) fn into_change<T>(
    answer: Result<T, Problem>,
    object: impl Into<Box<str>>,
) -> Result<Response<T>, Status> {
    let mut response = into_response(answer)?;
    response.extensions_mut().insert(ChangedObject(object.into()));
    Ok(response)
}

/// Writes the line; `caller` is the name of the token, empty where none is asked for.
pub(crate) fn log(method: &'static str, object: Option<&ChangedObject>, caller: &str, peer: SocketAddr) {
    let caller = Some(caller).filter(|caller| !caller.is_empty());
    let object = object.map(|ChangedObject(object)| &**object);
    info!(way = "grpc", caller, %peer, method, object, "changed through the API");
}
