//! Where a client's notifications go: its URL, taken apart once.
//!
//! The URL is read by the same rules as when the client was saved (WHATWG). So an odd spelling of
//! an address is that address here too. No name is looked up here.

use std::fmt;
use std::sync::Arc;

use http::{HeaderValue, Uri};
use url::{Host, Url};

/// What connections are kept by: two clients of one origin share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
}

/// A client's URL in the parts that a request needs.
#[derive(Clone, Debug)]
pub(crate) struct WebhookTarget {
    pub(crate) origin: Arc<Origin>,
    /// Path and query, without anything that may not be in a request's head.
    pub(crate) path: Uri,
    /// Likewise.
    pub(crate) host: String,
}

/// A URL that nothing can be posted to. The registry lets none in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotATarget;

impl WebhookTarget {
    pub(crate) fn parse(text: &str) -> Result<Self, NotATarget> {
        let url = Url::parse(text).map_err(|_| NotATarget)?;
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(NotATarget),
        };
        let host = url.host().ok_or(NotATarget)?.to_owned();
        let port = url.port_or_known_default().ok_or(NotATarget)?;
        let header = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        Ok(Self {
            origin: Arc::new(Origin { tls, host, port }),
            path: path.parse().map_err(|_| NotATarget)?,
            host: HeaderValue::try_from(&header).map(|_| header).map_err(|_| NotATarget)?,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", if self.tls { "https" } else { "http" }, self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (text, origin, path, host) in [
            ("http://example.com", "http://example.com:80", "/", "example.com"),
            ("https://Example.com/a?b=c#d", "https://example.com:443", "/a?b=c", "example.com"),
            ("https://example.com:443/a", "https://example.com:443", "/a", "example.com"),
            ("http://example.com:8080?x", "http://example.com:8080", "/?x", "example.com:8080"),
            ("http://127.1:81/", "http://127.0.0.1:81", "/", "127.0.0.1:81"),
            ("http://0x7f000001/", "http://127.0.0.1:80", "/", "127.0.0.1"),
            ("http://[::ffff:7f00:1]/", "http://[::ffff:7f00:1]:80", "/", "[::ffff:7f00:1]"),
            (
                "https://b\u{fc}cher.example/\u{e4} x",
                "https://xn--bcher-kva.example:443",
                "/%C3%A4%20x",
                "xn--bcher-kva.example",
            ),
            (
                "http://example.com/a|b^c{d}?\"e\"'",
                "http://example.com:80",
                "/a|b^c%7Bd%7D?%22e%22%27",
                "example.com",
            ),
        ] {
            let target = WebhookTarget::parse(text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(target.origin.to_string(), origin, "{text}");
            assert_eq!(target.path.to_string(), path, "{text}");
            assert_eq!(target.host, host, "{text}");
        }
    }

    #[test]
    fn what_is_not_http_is_no_target() {
        for text in ["", "ftp://example.com/", "mailto:a@example.com", "http://", "//example.com/"] {
            assert!(WebhookTarget::parse(text).is_err(), "{text}");
        }
    }
}
