//! Which web pages may call: a browser sends a page's requests to any address, also to this
//! machine.
//!
//! Without tokens any page could act here. So the request's `Host` must be a name that only this
//! machine has, and an `Origin` must be the server's own. With tokens a foreign page has no token,
//! and CORS allows the configured origins. The admin API of lmstfy takes a password, which a
//! browser remembers and sends for any page, so it checks the `Origin` in both cases.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Request};
use axum::http::header::{
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, ETAG, HOST, LOCATION, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::response::Response;
use base::{LogLimit, Problem, address};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tower_http::cors::{AllowHeaders, CorsLayer};

use crate::problem;

/// Longest time for which a browser may remember that an origin is let in.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// Most of a name that a caller gives which is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 256;

/// Which pages may do what.
#[derive(Clone, Debug)]
pub struct WebAccess {
    /// Names of this machine beside its addresses, in lower case; `None` where the name does not
    /// matter.
    hosts: Option<Vec<String>>,
    /// Origins whose pages are let in, as browsers write them.
    origins: Vec<HeaderValue>,
    /// A foreign origin is refused, and not only left without CORS.
    own_pages_only: bool,
    /// The program has settings that list names and origins.
    has_settings: bool,
    /// How the addresses of its own pages begin.
    own_scheme: &'static [u8],
    cors: Option<CorsLayer>,
    refused: Counter,
    log: Arc<LogLimit<Option<IpAddr>>>,
}

impl WebAccess {
    /// For a listener where nobody has to show who they are. `hosts` are names of this machine,
    /// beside `localhost` and addresses.
    #[must_use]
    pub fn open(hosts: &[String]) -> Self {
        let hosts = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Self {
            hosts: Some(hosts),
            origins: Vec::new(),
            own_pages_only: true,
            has_settings: true,
            own_scheme: b"http://",
            cors: None,
            refused: Counter::default(),
            log: Arc::default(),
        }
    }

    /// For a listener where tokens are asked for. Pages of `origins` are let in, each written as a
    /// browser does: `https://console.example`.
    #[must_use]
    pub fn with_tokens(origins: Vec<HeaderValue>) -> Self {
        let cors = (!origins.is_empty()).then(|| {
            CorsLayer::new()
                .allow_origin(origins.clone())
                .allow_methods([
                    Method::GET,
                    Method::HEAD,
                    Method::POST,
                    Method::PUT,
                    Method::PATCH,
                    Method::DELETE,
                ])
                .allow_headers(AllowHeaders::mirror_request())
                .expose_headers([
                    ALLOW,
                    ETAG,
                    LOCATION,
                    RETRY_AFTER,
                    WWW_AUTHENTICATE,
                    HeaderName::from_static("x-request-id"),
                ])
                .max_age(REMEMBERED_FOR)
        });
        Self {
            hosts: None,
            origins,
            own_pages_only: false,
            has_settings: true,
            own_scheme: b"http://",
            cors,
            refused: Counter::default(),
            log: Arc::default(),
        }
    }

    /// For a program without settings that list names and origins: none is told of.
    #[must_use]
    pub fn without_settings(self) -> Self {
        Self { has_settings: false, ..self }
    }

    /// Where browsers send what shows who somebody is by themselves: any other page is refused.
    #[must_use]
    pub fn remembered_by_browsers(self) -> Self {
        Self { own_pages_only: true, ..self }
    }

    /// On a listener that speaks TLS: a page that came without is somebody else's.
    #[must_use]
    pub fn over_tls(self) -> Self {
        Self { own_scheme: b"https://", ..self }
    }

    /// Puts its metrics into the registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let help = "Requests that were refused because a foreign web page may have made them";
        registry.register("fieldpost_http_foreign_origins", help, self.refused.clone());
    }

    /// The refusal of a request that a foreign page may have made.
    pub(super) fn refusal(&self, request: &Request) -> Option<Response> {
        let why = self.foreign(request.uri().authority(), request.headers())?;
        self.refused.inc();
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
        if let Some(left_out) = self.log.take(peer.map(|peer| address::sender(peer.ip())), Instant::now()) {
            let (code, peer) = ("foreign_origin", peer.map(tracing::field::display));
            tracing::info!(way = "http", code, peer, detail = why, left_out, "refused a caller");
        }
        Some(problem::response(&Problem::new(403, "foreign_origin", why)))
    }

    /// The refusal of a call over HTTP/2 that a foreign page may have made: its `:authority` is its
    /// `Host`. Whoever asks tells the log.
    pub fn refusal_of_call(&self, target: &Uri, headers: &HeaderMap) -> Option<Problem> {
        let why = self.foreign(target.authority(), headers)?;
        self.refused.inc();
        Some(Problem::new(403, "foreign_origin", why))
    }

    /// What answers CORS, for a request that it is to be asked about.
    pub(super) fn cors(&self, request: &Request) -> Option<&CorsLayer> {
        let asks = *request.method() == Method::OPTIONS;
        let before_another = request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        self.cors.as_ref().filter(|_| !asks || before_another)
    }

    fn foreign(&self, in_target: Option<&Authority>, headers: &HeaderMap) -> Option<String> {
        let mut given = headers.get_all(HOST).iter();
        let (host, another) = (given.next(), given.next());
        if let Some(known) = &self.hosts {
            // Who sends no Host at all is no browser.
            let is_known = host.is_none_or(|host| host.to_str().is_ok_and(|host| is_own_name(host, known)))
                && in_target.is_none_or(|target| is_own_name(target.as_str(), known));
            if !is_known || another.is_some() {
                let named = host.map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
                let named = named.unwrap_or_else(|| in_target.map(ToString::to_string).unwrap_or_default());
                let (right, or) = ("call it by its address or localhost", ", or list the name in http.hosts");
                let or = if self.has_settings { or } else { "" };
                return Some(format!("Host {:?} is no name of this server; {right}{or}", shown(&named)));
            }
        }
        let named = host.map(HeaderValue::as_bytes);
        let named = named.or_else(|| in_target.map(|target| target.as_str().as_bytes()));
        let is_own = |origin: &HeaderValue| self.is_own_page(origin, named) || self.origins.contains(origin);
        let foreign = headers.get_all(ORIGIN).iter().find(|origin| !is_own(origin))?;
        let origin = String::from_utf8_lossy(foreign.as_bytes());
        let right = "; with [[auth.tokens]], list its origin in http.origins";
        let right = if self.has_settings { right } else { "" };
        let said = || format!("a web page of {:?} may not act here{right}", shown(&origin));
        self.own_pages_only.then(said)
    }

    /// Whether a page is at the very place that the request was sent to.
    fn is_own_page(&self, origin: &HeaderValue, host: Option<&[u8]>) -> bool {
        let place = origin.as_bytes().strip_prefix(self.own_scheme);
        place.zip(host).is_some_and(|(place, host)| place.eq_ignore_ascii_case(host))
    }
}

/// The beginning of what a caller made up, for answers and the log.
fn shown(given: &str) -> &str {
    &given[..given.floor_char_boundary(SHOWN_BYTES_MAX)]
}

/// Whether a name, with or without a port, is one that nobody else can give to this machine.
/// Browsers are led to any address by names that belong to somebody else.
fn is_own_name(name: &str, known: &[String]) -> bool {
    let (host, port, is_address) = match name.strip_prefix('[') {
        Some(rest) => {
            let Some((host, port)) = rest.split_once(']') else { return false };
            (host, port, host.parse::<Ipv6Addr>().is_ok())
        }
        None => {
            let (host, port) = name.split_at(name.find(':').unwrap_or(name.len()));
            (host, port, host.parse::<Ipv4Addr>().is_ok())
        }
    };
    let port_is_one = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|digit| digit.is_ascii_digit()));
    let is_known = || known.iter().any(|own| own.eq_ignore_ascii_case(host));
    port_is_one && (is_address || host.eq_ignore_ascii_case("localhost") || is_known())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn refused(access: &WebAccess, host: &str, origin: &str) -> Option<u16> {
        let mut request = Request::post("/v1/clients");
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if !value.is_empty() {
                request = request.header(name, value);
            }
        }
        let request = request.body(Body::empty()).expect("a request");
        access.refusal(&request).map(|response| response.status().as_u16())
    }

    #[test]
    fn without_tokens_only_own_names_and_own_pages_are_let_in() {
        let access = WebAccess::open(&["Depot.example".to_owned()]);
        for (host, origin, expect) in [
            ("127.0.0.1:8080", "", None),
            ("[::1]:8080", "", None),
            ("LocalHost:8080", "", None),
            ("localhost", "", None),
            ("10.1.2.3", "", None),
            ("depot.EXAMPLE:8080", "", None),
            ("", "", None),
            ("evil.example:8080", "", Some(403)),
            ("localhost.evil.example", "", Some(403)),
            ("127.0.0.1.evil.example", "", Some(403)),
            ("evil.example@127.0.0.1", "", Some(403)),
            ("127.0.0.1:80@evil.example", "", Some(403)),
            ("[::1].evil.example", "", Some(403)),
            ("", "", None),
            ("127.0.0.1:8080", "http://127.0.0.1:8080", None),
            ("depot.example", "http://depot.example", None),
            ("depot.example", "https://depot.example", Some(403)),
            ("127.0.0.1:8080", "http://127.0.0.1:8081", Some(403)),
            ("127.0.0.1:8080", "http://localhost:8080", Some(403)),
            ("127.0.0.1:8080", "http://evil.example", Some(403)),
            ("127.0.0.1:8080", "null", Some(403)),
            ("", "http://evil.example", Some(403)),
        ] {
            assert_eq!(refused(&access, host, origin), expect, "Host {host}, Origin {origin}");
        }
        assert_eq!(access.refused.get(), 12);
        let access = access.over_tls();
        assert_eq!(refused(&access, "depot.example", "https://depot.example"), None);
        assert_eq!(refused(&access, "depot.example", "http://depot.example"), Some(403));
    }

    #[test]
    fn over_http_2_the_authority_is_the_host() {
        let access = WebAccess::open(&[]);
        for (target, origin, expect) in [
            ("http://127.0.0.1:8081/x", "", None),
            ("http://evil.example:8081/x", "", Some(403)),
            ("http://localhost:8081/x", "http://localhost:8081", None),
            ("http://localhost:8081/x", "http://evil.example", Some(403)),
        ] {
            let mut headers = HeaderMap::new();
            if !origin.is_empty() {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            let refused = access.refusal_of_call(&Uri::from_static(target), &headers);
            assert_eq!(refused.map(|problem| problem.status), expect, "{target}, Origin {origin}");
        }
        assert_eq!(access.refused.get(), 2);
    }

    #[test]
    fn with_tokens_names_do_not_matter_and_remembered_passwords_are_for_own_pages() {
        let origins = || vec![HeaderValue::from_static("https://console.example")];
        let (access, remembered) =
            (WebAccess::with_tokens(origins()), WebAccess::with_tokens(origins()).remembered_by_browsers());
        for (origin, expect) in [
            ("", None),
            ("http://depot.example", None),
            ("https://depot.example", Some(403)),
            ("https://console.example", None),
            ("http://console.example", Some(403)),
            ("https://evil.example", Some(403)),
        ] {
            assert_eq!(refused(&access, "depot.example", origin), None, "{origin}");
            assert_eq!(refused(&remembered, "depot.example", origin), expect, "{origin}");
        }
    }

    #[test]
    fn a_program_without_settings_tells_of_none() {
        let headers = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        for (name, value) in [(HOST, "depot.example"), (ORIGIN, "https://depot.example")] {
            let access = WebAccess::open(&[]);
            let told = access.foreign(None, &headers(name.clone(), value)).expect("it is foreign");
            assert!(told.contains(" in http."), "{told}");
            let access = access.without_settings();
            let told = access.foreign(None, &headers(name, value)).expect("it is foreign");
            assert!(!told.contains("http.") && !told.contains("auth."), "{told}");
        }
    }

    #[test]
    fn little_of_what_a_caller_made_up_is_shown() {
        let access = WebAccess::open(&[]);
        let long = "\u{20ac}".repeat(10_000);
        for name in [HOST, ORIGIN] {
            let value = HeaderValue::from_bytes(long.as_bytes()).expect("bytes that may be there");
            let headers = HeaderMap::from_iter([(name.clone(), value)]);
            let told = access.foreign(None, &headers).expect("it is foreign");
            assert_eq!(told.matches('\u{20ac}').count(), SHOWN_BYTES_MAX / 3, "{name}");
            assert!(told.len() < 2 * SHOWN_BYTES_MAX, "{name}: {} bytes", told.len());
        }
    }
}
