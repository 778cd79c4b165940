//! The proxy that the environment names, where a server is not reached directly.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

/// The variables that name a proxy: the first one that is set counts, for `http` and `https` alike.
const NAMED_IN: [&str; 6] =
    ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
/// The variables that name hosts which are reached without one.
const EXCEPT_IN: [&str; 2] = ["NO_PROXY", "no_proxy"];

type Cause = Box<dyn StdError + Send + Sync>;

/// Opens TCP connections, straight or through a proxy's tunnel.
#[derive(Clone, Debug)]
pub(crate) enum Dialer {
    /// To the server itself.
    Direct(HttpConnector),
    /// To a proxy, which is asked to `CONNECT` to the server.
    Tunnelled(Tunnel<HttpConnector>),
    /// Nowhere: the proxy is of this scheme, which is not spoken here.
    Unsupported(String),
}

impl Dialer {
    /// The way to `server` that the variables of this process name.
    pub(crate) fn of_environment(tcp: HttpConnector, server: &Uri) -> Self {
        Self::named_by(tcp, server, |name| std::env::var(name).ok())
    }

    fn named_by(tcp: HttpConnector, server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Self {
        let first_of = |names: &[&str]| {
            names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty())).unwrap_or_default()
        };
        // `*.example.com` is another way to write `.example.com`.
        let except = first_of(&EXCEPT_IN).replace("*.", ".");
        let named = Matcher::builder().all(first_of(&NAMED_IN)).no(except).build();
        let is_loopback = server.host().is_some_and(is_this_machine);
        match named.intercept(server).filter(|_| !is_loopback) {
            Some(proxy) if proxy.uri().scheme_str() != Some("http") => {
                Self::Unsupported(proxy.uri().scheme_str().unwrap_or_default().to_owned())
            }
            Some(proxy) => {
                let tunnel = Tunnel::new(proxy.uri().clone(), tcp);
                Self::Tunnelled(match proxy.basic_auth() {
                    Some(login) => tunnel.with_auth(login.clone()),
                    None => tunnel,
                })
            }
            None => Self::Direct(tcp),
        }
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = Cause;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Cause>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        // Neither way holds anything back.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        match self {
            Self::Direct(tcp) => {
                let connecting = tcp.call(server);
                Box::pin(async { Ok(connecting.await?) })
            }
            Self::Tunnelled(tunnel) => {
                let connecting = tunnel.call(with_port(server));
                Box::pin(async { Ok(connecting.await?) })
            }
            Self::Unsupported(scheme) => {
                let problem = format!(
                    "the environment names a proxy that is reached over {scheme}; only http:// is supported"
                );
                Box::pin(async { Err(problem.into()) })
            }
        }
    }
}

/// No proxy leads back to the machine that asks.
fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// A tunnel takes a server without a port for one at 443, whatever its scheme.
fn with_port(server: Uri) -> Uri {
    let (None, Some("http"), Some(host)) = (server.port(), server.scheme_str(), server.host()) else {
        return server;
    };
    Uri::builder()
        .scheme("http")
        .authority(format!("{host}:80"))
        .path_and_query("/")
        .build()
        .unwrap_or(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_tunnelled(server: &str, variables: &[(&str, &str)]) -> bool {
        let value = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let server = server.parse().expect("a URL");
        matches!(Dialer::named_by(HttpConnector::new(), &server, value), Dialer::Tunnelled(_))
    }

    #[test]
    fn the_environment_names_a_proxy_and_its_exceptions() {
        const PROXY: &str = "http://me:secret@proxy.example:3128";
        for (server, variables, expect) in [
            ("http://a.example", &[][..], false),
            ("http://a.example", &[("HTTP_PROXY", PROXY)], true),
            ("https://a.example", &[("https_proxy", "proxy.example:3128")], true),
            ("https://a.example", &[("ALL_PROXY", "")], false),
            ("https://a.example", &[("ALL_PROXY", "socks5://proxy.example")], false),
            ("http://a.example", &[("HTTP_PROXY", PROXY), ("NO_PROXY", "b.example,a.example")], false),
            ("http://a.b.example", &[("HTTP_PROXY", PROXY), ("NO_PROXY", "*.b.example")], false),
            ("http://a.example", &[("HTTP_PROXY", PROXY), ("no_proxy", "*")], false),
        ] {
            assert_eq!(is_tunnelled(server, variables), expect, "{server} {variables:?}");
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_not_passed_by() {
        for proxy in ["https://proxy.example:3128", "socks5://proxy.example"] {
            let value = |name: &str| (name == "HTTPS_PROXY").then(|| proxy.to_owned());
            let server = "https://a.example".parse().expect("a URL");
            let dialer = Dialer::named_by(HttpConnector::new(), &server, value);
            assert!(matches!(dialer, Dialer::Unsupported(_)), "{proxy}: {dialer:?}");
        }
    }

    #[test]
    fn the_loopback_is_asked_without_a_proxy() {
        for (server, is) in [
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080", true),
            ("http://localhost", true),
            ("http://10.0.0.1", false),
            ("https://fieldpost.example", false),
        ] {
            assert_eq!(is_tunnelled(server, &[("ALL_PROXY", "http://proxy.example")]), !is, "{server}");
        }
    }

    #[test]
    fn a_tunnel_is_told_the_port() {
        for (server, expect) in [
            ("http://a.example/", "http://a.example:80/"),
            ("http://a.example:8080/", "http://a.example:8080/"),
            ("https://a.example/", "https://a.example/"),
        ] {
            assert_eq!(with_port(server.parse().expect("a URL")), expect);
        }
    }
}
