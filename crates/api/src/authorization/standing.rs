//! Rights that may end while a request is under way: those to what is a client's own, and those of
//! a portal. Who answers late asks for them again.

use std::sync::Arc;
use std::time::Duration;

use access::{Caller, NotRecognised};
use axum::http::Method;
use base::{Problem, Timestamp};
use engine::records::TokenDigest;

use super::middleware::may;
use super::ownership::About;
use super::portal;
use super::table::Needs;
use crate::ApiState;

/// By what a caller was let in to look at something; an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct StandingRights(Arc<AdmittedCall>);

#[derive(Debug)]
struct AdmittedCall {
    caller: Caller,
    about: About,
    by: AdmittedBy,
}

#[derive(Debug)]
enum AdmittedBy {
    /// What the route takes.
    Token(Needs),
    /// The portal's token, and the route.
    Portal(TokenDigest, Box<str>),
}

impl StandingRights {
    /// Of a token, for a route that takes this.
    pub(super) fn of_token(caller: &Caller, needs: Needs, about: About) -> Self {
        Self(Arc::new(AdmittedCall { caller: caller.clone(), about, by: AdmittedBy::Token(needs) }))
    }

    /// Of a portal, to look at a route.
    pub(super) fn of_portal(caller: &Caller, digest: TokenDigest, route: &str, about: About) -> Self {
        Self(Arc::new(AdmittedCall {
            caller: caller.clone(),
            about,
            by: AdmittedBy::Portal(digest, route.into()),
        }))
    }

    /// How long they may last from now on, if there is an end to it.
    pub(crate) fn left(&self, now: Timestamp) -> Option<Duration> {
        let portal = self.0.caller.portal()?;
        Some(Duration::from_millis(u64::try_from(portal.expires_at.0 - now.0).unwrap_or_default()))
    }

    /// Whether the caller may still look at what it was let in for.
    ///
    /// # Errors
    /// What it would be told if it asked now, or why that cannot be looked up.
    pub(crate) async fn check(&self, api: &ApiState) -> Result<(), Problem> {
        let AdmittedCall { caller, about, by } = &*self.0;
        let (is_known, is_allowed, takes) = match by {
            AdmittedBy::Token(needs) => {
                let is_known = api.shared.access.still_knows(caller);
                (is_known, may(api, caller, *needs, true, about).await?, needs.description(true))
            }
            AdmittedBy::Portal(digest, route) => {
                let is_known = portal::open(api, digest).is_some();
                let is_allowed = match caller.portal() {
                    Some(portal) => portal::may(api, portal, (&Method::GET, route), about).await?,
                    None => false,
                };
                (is_known, is_allowed, "")
            }
        };
        match (is_known, is_allowed) {
            (false, _) => Err(NotRecognised::Unknown.problem()),
            (true, false) => Err(caller.may_not(takes)),
            (true, true) => Ok(()),
        }
    }
}
