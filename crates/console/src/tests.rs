//! The routes as a browser asks for them.

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::Response;
use tower_service::Service;

use crate::{FrameAncestors, routes};

async fn asked(path: &str, headers: &[(&str, &str)]) -> Response {
    asked_of(&FrameAncestors::default(), path, headers).await
}

async fn asked_of(ancestors: &FrameAncestors, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut routes = routes(ancestors);
    routes.call(request.body(Body::empty()).expect("a request")).await.expect("an answer")
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().expect("text"))
}

#[tokio::test]
async fn the_root_leads_to_the_console() {
    for path in ["/", "/console"] {
        let response = asked(path, &[]).await;
        assert_eq!(
            (response.status(), header(&response, LOCATION.as_str())),
            (StatusCode::TEMPORARY_REDIRECT, "/console/")
        );
    }
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_with_a_problem() {
    let response = asked("/console/%ff", &[]).await;
    let told = (response.status(), header(&response, "content-type"));
    assert_eq!(told, (StatusCode::BAD_REQUEST, "application/problem+json"));
}

#[tokio::test]
async fn every_answer_has_the_policy() {
    for path in ["/console/", "/console/devices/lock7", "/console/assets/none.js"] {
        let response = asked(path, &[]).await;
        let policy = header(&response, "content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{path}: {policy}");
        assert!(policy.ends_with("frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!(header(&response, "x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header(&response, "referrer-policy"), "no-referrer", "{path}");
    }
}

#[tokio::test]
async fn other_pages_embed_a_portal_and_nothing_else_of_the_console() {
    let ancestors = FrameAncestors::new(["https://portal.example".to_owned()]);
    for (path, expect) in [
        ("/console/portal", "https://portal.example"),
        ("/console/portal?delivery=x", "https://portal.example"),
        ("/console/", "'none'"),
        ("/console/clients/acme", "'none'"),
        ("/console/portal/", "'none'"),
        ("/console/portal/../clients", "'none'"),
        ("/console/%70ortal", "'none'"),
        ("/console/portal%2Fx", "'none'"),
        ("/console/assets/none.js", "'none'"),
    ] {
        let response = asked_of(&ancestors, path, &[]).await;
        let policy = header(&response, "content-security-policy");
        assert!(policy.ends_with(&format!("; frame-ancestors {expect}")), "{path}: {policy}");
    }
}

#[test]
fn pages_that_may_embed_a_portal_are_named() {
    let ancestors = ["https://portal.example", "https://a.example; script-src *"].map(str::to_owned);
    let policy = FrameAncestors::new(ancestors).policy();
    let policy = policy.to_str().expect("text");
    assert!(policy.ends_with("form-action 'none'; frame-ancestors https://portal.example"), "{policy}");
}

#[cfg(feature = "embedded")]
mod embedded {
    use super::*;
    use http_body_util::BodyExt;

    async fn text(response: Response) -> String {
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    #[tokio::test]
    async fn a_path_that_is_no_file_is_a_page_of_the_console() {
        let page = text(asked("/console/", &[]).await).await;
        assert!(page.contains("<div id=\"app\">"), "{page}");
        assert!(!page.contains("<style") && !page.contains(" style="), "no inline style: {page}");
        for path in ["/console/devices/a%2Fb", "/console/index.html", "/console/queues/shop/mails?x=1"] {
            assert_eq!(text(asked(path, &[]).await).await, page, "{path}");
        }
    }

    #[tokio::test]
    async fn the_page_is_asked_for_each_time_and_answered_by_its_tag() {
        let first = asked("/console/", &[("accept-encoding", "br")]).await;
        assert_eq!(header(&first, "cache-control"), "no-cache");
        assert_eq!(header(&first, "content-encoding"), "br");
        assert_eq!(header(&first, "vary"), "accept-encoding");
        let tag = header(&first, "etag").to_owned();
        let again = asked("/console/", &[("accept-encoding", "br"), ("if-none-match", &tag)]).await;
        assert_eq!((again.status(), header(&again, "etag")), (StatusCode::NOT_MODIFIED, &*tag));
        let other = asked("/console/", &[("accept-encoding", "gzip"), ("if-none-match", &tag)]).await;
        assert_eq!((other.status(), header(&other, "content-encoding")), (StatusCode::OK, "gzip"));
    }

    #[tokio::test]
    async fn hashed_files_are_kept_for_ever_and_missing_ones_are_no_page() {
        let page = text(asked("/console/", &[]).await).await;
        let script = page.split('"').find(|part| part.ends_with(".js")).expect("a script").to_owned();
        let response = asked(&script, &[("accept-encoding", "gzip, br")]).await;
        assert_eq!(response.status(), StatusCode::OK, "{script}");
        assert_eq!(header(&response, "cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(header(&response, "content-type"), "text/javascript; charset=utf-8");
        assert_eq!(header(&response, "content-encoding"), "br");
        let missing = asked("/console/assets/index-00000000.js", &[]).await;
        assert_eq!(missing.status(), StatusCode::NOT_FOUND);
        assert_eq!(header(&missing, "cache-control"), "");
    }
}

#[cfg(not(feature = "embedded"))]
#[tokio::test]
async fn a_program_without_the_console_says_so() {
    let response = asked("/console/", &[]).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}
