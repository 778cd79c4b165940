//! Which caller may use which route: the check in front of every route of the REST API.
//!
//! Tokens, scopes and limits are those of the crate `access`. [`table`] says of each route which
//! scope it takes; what of a client's scope is the client's own is looked up in [`own`]. What a
//! route does with a request that was let through is not known here.

mod middleware;
mod ownership;
mod portal;
mod portal_sends;
mod rows;
mod standing;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod visibility;

use access::Caller;
use base::Problem;
use engine::records::OutcomeReceiver;

pub(crate) use middleware::{AuthorizationLayer, PortalGuard};
pub(crate) use portal::{PortalHolders, check_may_open};
pub(crate) use portal_sends::ResendOfPortal;
pub(crate) use rows::{check_row, clients_of, own_clients, still_knows};
pub(crate) use standing::StandingRights;
pub(crate) use visibility::{Visibility, VisibleStreams};

/// Whether who gives a command, or tries it anew, may have its outcome told so. A queue takes the
/// right to publish there, a stream that to append: a token for commands is none for these.
///
/// # Errors
/// 403 `forbidden`.
pub(crate) fn check_receiver(
    caller: Option<&Caller>,
    receiver: Option<&OutcomeReceiver>,
) -> Result<(), Problem> {
    match (caller, receiver) {
        (Some(caller), Some(OutcomeReceiver::Queue { namespace, .. })) => caller.may_publish(namespace),
        (Some(caller), Some(OutcomeReceiver::Stream { namespace, .. })) => caller.may_append(namespace),
        (Some(_), Some(OutcomeReceiver::Url { .. }) | None) | (None, _) => Ok(()),
    }
}
