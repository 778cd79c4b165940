//! `ETag` and `If-Match`: a registry object is changed or removed only in the version its caller
//! read.
//!
//! The tag covers the registration only. Reports do not change it, so it says nothing of a device's
//! `state`, and it cannot serve `If-None-Match`.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use engine::{ObjectVersion, OnlyIf};

use crate::answer::ApiAnswer;

/// An answer that shows an object of that version.
#[derive(Debug)]
pub(crate) struct Tagged(pub ApiAnswer, pub ObjectVersion);

impl IntoResponse for Tagged {
    fn into_response(self) -> Response {
        let Self(answer, ObjectVersion(version)) = self;
        let mut response = answer.into_response();
        let tag = HeaderValue::try_from(format!("\"{version:016x}\"")).expect("digits and quotes");
        response.headers_mut().insert(ETAG, tag);
        response
    }
}

/// On which versions the request is to take effect: on any, unless `If-Match` names some. A PUT of
/// what is not there makes it only without `If-Match`.
#[derive(Debug)]
pub(crate) struct IfMatch(pub OnlyIf);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let given: Vec<_> = parts.headers.get_all(IF_MATCH).iter().collect();
        let tags =
            || given.iter().flat_map(|value| value.as_bytes().split(|b| *b == b',')).map(<[u8]>::trim_ascii);
        if given.is_empty() {
            return Ok(Self(OnlyIf::default()));
        }
        if tags().any(|tag| tag == b"*") {
            return Ok(Self(OnlyIf::present()));
        }
        // A tag that is none of ours, a weak one too, is of no version that there is.
        Ok(Self(OnlyIf::one_of(tags().filter_map(version).collect())))
    }
}

fn version(tag: &[u8]) -> Option<ObjectVersion> {
    let digits = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let plain = digits.len() == 16 && digits.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
    let digits = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    u64::from_str_radix(digits, 16).ok().map(ObjectVersion)
}
