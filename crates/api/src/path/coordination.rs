//! Locks, limits, cached values and channels in paths. A name that cannot be one is refused.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use base::Problem;
use engine::coordination::{ChannelPatterns, CoordinationName};
use net::problem::Refused;

use super::from_path;

/// `/v1/locks/{ns}/{name}` and others of that form
#[derive(Debug)]
pub(crate) struct NameInPath(pub CoordinationName);

/// `/v1/cache/{ns}/{key}`, where the key may be the last word of another route.
#[derive(Debug)]
pub(crate) struct CachedInPath(pub CoordinationName);

/// `/v1/cache/{ns}/..`
#[derive(Debug)]
pub(crate) struct NamespaceInPath(pub String);

/// `/v1/channels/{ns}/{name}`, where the name may be several, and beginnings.
#[derive(Debug)]
pub(crate) struct ChannelsInPath(pub ChannelPatterns);

from_path! {
    NameInPath: |(namespace, name): (String, String)| {
        CoordinationName::new(&namespace, &name).map(Self)
    };
    NamespaceInPath: |namespace: String| {
        CoordinationName::check_namespace(&namespace)?;
        Ok(Self(namespace))
    };
    ChannelsInPath: |(namespace, channels): (String, String)| {
        ChannelPatterns::parse(&namespace, &channels).map(Self)
    };
}

impl<S: Send + Sync> FromRequestParts<S> for CachedInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let named = RawPathParams::from_request_parts(parts, state).await;
        let named = named.map_err(|rejection| Problem::unreadable(format!("the path: {rejection}")))?;
        let of =
            |wanted: &str| named.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned());
        let key = of("key").or_else(|| parts.uri.path().rsplit('/').next().map(str::to_owned));
        let (namespace, key) = (of("ns").unwrap_or_default(), key.unwrap_or_default());
        Ok(Self(CoordinationName::new(&namespace, &key)?))
    }
}
