//! What a path names: one that cannot be read is refused with a problem, as everything else is.

#![expect(clippy::disallowed_types, reason = "its refusal is made a problem here")]

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use base::Problem;
use serde::de::DeserializeOwned;

use crate::problem::Refused;

/// The parameters of a path, as an extractor.
#[derive(Debug)]
pub struct PathParameters<T>(pub T);

impl<T, S> FromRequestParts<S> for PathParameters<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        let unreadable =
            |rejection: PathRejection| Refused(Problem::unreadable(format!("the path: {rejection}")));
        path.map(|Path(parameters)| Self(parameters)).map_err(unreadable)
    }
}
