//! The console's files at `/console/`, and the way there from `/`.
//!
//! They are what `make console` builds, embedded when this crate is compiled with the feature
//! `embedded`, and compressed ahead. Names below `assets/` hold a hash of what is in them, so
//! browsers keep them for ever. `index.html` is asked for each time and answered by its tag. A path
//! that is no file is a page of the console, which knows its own paths.
//!
//! The files tell nothing of devices: no token is asked for. What they show they ask of the API.

mod accept;
mod assets;
mod policy;

use axum::Router;
use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use base::Problem;
use net::path::PathParameters;
use net::problem::{Refused, quoted};

use accept::{AssetEncoding, accepted};
use assets::{Asset, Assets};

pub use policy::FrameAncestors;

/// Where the console is.
const CONSOLE: &str = "/console/";
/// Below it, the files that are named by what is in them.
const HASHED: &str = "assets/";
const PAGE: &str = "index.html";
/// The page of a portal, which shows one client and nothing else of the console.
const PORTAL: &str = "/console/portal";
/// A year, which is as long as a cache may be told to keep something.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const ASK_EACH_TIME: &str = "no-cache";

/// The routes `/`, `/console` and everything below, with pages of `frame_ancestors` let to embed
/// the page of a portal. Nobody may embed any other.
///
/// `/console/…` answers 200 or 304. It answers 404 `unknown_route` for a file below `assets/` that
/// is not there, and 404 `no_console` where the program was built without it.
pub fn routes(frame_ancestors: &FrameAncestors) -> Router {
    let (portals, others) = (frame_ancestors.policy(), FrameAncestors::default().policy());
    let page = others.clone();
    let root = move |headers: HeaderMap| answer(PAGE.to_owned(), headers, page.clone());
    let file = move |PathParameters(path): PathParameters<String>, uri: Uri, headers: HeaderMap| {
        // As the page itself compares it: in any other spelling it is no portal.
        let policy = if uri.path() == PORTAL { &portals } else { &others };
        answer(path, headers, policy.clone())
    };
    Router::new()
        .route("/", get(async || Redirect::temporary(CONSOLE)))
        .route("/console", get(async || Redirect::temporary(CONSOLE)))
        .route(CONSOLE, get(root))
        .route("/console/{*path}", get(file))
}

async fn answer(path: String, headers: HeaderMap, policy: HeaderValue) -> Response {
    let mut response = match found(&path) {
        Ok((name, cached)) => file(name, cached, &headers).unwrap_or_else(|| not_built_in().into_response()),
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert("content-security-policy", policy);
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    response
}

/// The file that a path below the console shows, and for how long it may be kept.
fn found(path: &str) -> Result<(&str, &'static str), Refused> {
    if path.starts_with(HASHED) {
        return match Assets::find(path, AssetEncoding::Identity) {
            Some(_) => Ok((path, FOR_EVER)),
            None => {
                let detail = format!("the console has no file {}", quoted(path));
                Err(Refused(Problem::unknown("unknown_route", detail)))
            }
        };
    }
    Ok((PAGE, ASK_EACH_TIME))
}

fn file(name: &str, cached: &'static str, headers: &HeaderMap) -> Option<Response> {
    let wanted = accepted(headers.get_all(ACCEPT_ENCODING).iter());
    let (asset, encoding) = wanted
        .into_iter()
        .find_map(|encoding| Assets::find(name, encoding).map(|asset| (asset, encoding)))?;
    let tag = tag(&asset, encoding);
    let known = headers.get_all(IF_NONE_MATCH).iter().any(|given| names(given, &tag));
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(Body::from(asset.bytes));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
        if let Some(token) = encoding.token() {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(token));
        }
        response
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cached));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(ETAG, HeaderValue::try_from(tag).expect("digits, letters and quotes"));
    Some(response)
}

/// A tag for each form: a brotli text is not the gzip one.
fn tag(asset: &Asset, encoding: AssetEncoding) -> String {
    let digest = u64::from_be_bytes(asset.sha256[..8].try_into().expect("a digest has 32 bytes"));
    format!("\"{digest:016x}-{}\"", encoding.token().unwrap_or("plain"))
}

/// Whether `If-None-Match` names the tag. A proxy may have made it a weak one.
fn names(given: &HeaderValue, tag: &str) -> bool {
    let given = given.to_str().unwrap_or_default();
    given.split(',').map(str::trim).any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

fn not_built_in() -> Refused {
    let detail = "this program was built without the console; build it with `make build`, which embeds it";
    Refused(Problem::unknown("no_console", detail))
}

#[cfg(test)]
mod tests;
