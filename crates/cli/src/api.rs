//! The server's API over HTTP: one request, one answer, and every way in which that can go wrong.
//!
//! Redirects are not followed, so that the token goes nowhere else.

use std::io::{self, Read, Write};
use std::time::Duration;

use fieldpost_client::TlsFault;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use ureq::http::{Method, Request, Response, Uri};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, TcpConnector};
use ureq::{Agent, Body};
use url::Url;

use super::failure::Failure;
use super::problem::Refusal;
use super::reach::Reach;
use super::tls::{self, TlsConnector};

/// A machine that is there answers sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Until the answer begins, and between its parts. A list that has to look at much takes its time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest backup over the slowest line that anybody waits for.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);
/// What is kept of a download in memory.
const DOWNLOAD_PIECE_BYTES: usize = 256 * 1_024;
/// The largest page is 1,000 devices with values of 4 KiB and all their labels.
const ANSWER_BYTES_MAX: u64 = 64 * 1_024 * 1_024;
/// A server that asks to wait longer than this is not waited for.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// So often a request is made again that the server had no room for.
const WAITS_MAX: u32 = 5;

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";
/// The header under which a request may be made again without being carried out twice.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What a request says beside its path.
#[derive(Clone, Copy, Debug)]
struct Content<'a> {
    kind: &'static str,
    bytes: &'a [u8],
    key: Option<&'a str>,
}

impl<'a> Content<'a> {
    const EMPTY: Content<'static> = Content::json(b"");

    const fn json(bytes: &'a [u8]) -> Self {
        Self { kind: JSON, bytes, key: None }
    }
}

/// A server, and how to speak to it.
#[derive(Debug)]
pub(super) struct Api {
    agent: Agent,
    root: Url,
    authorization: Option<String>,
}

/// A path of the API, with what is asked of it.
#[derive(Clone, Debug)]
pub(super) struct Path {
    segments: Vec<String>,
    parameters: Vec<(String, String)>,
}

impl Path {
    /// The path below `/v1` with these parts, whatever characters they have.
    pub(super) fn of(segments: &[&str]) -> Self {
        Self { segments: segments.iter().map(|&part| part.to_owned()).collect(), parameters: Vec::new() }
    }

    pub(super) fn with(mut self, name: &str, value: &(impl ToString + ?Sized)) -> Self {
        self.parameters.push((name.to_owned(), value.to_string()));
        self
    }

    pub(super) fn with_maybe(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, &value),
            None => self,
        }
    }

    fn below(&self, root: &Url) -> Result<Uri, Failure> {
        // Dots would be taken for steps along the path.
        if let Some(part) = self.segments.iter().find(|part| matches!(part.as_str(), "" | "." | "..")) {
            return Err(Failure::Usage(format!("{part:?} is not an id")));
        }
        let mut url = root.clone();
        url.path_segments_mut()
            .map_err(|()| Failure::Usage(format!("{root} is not the URL of a server")))?
            .pop_if_empty()
            .push("v1")
            .extend(&self.segments);
        if !self.parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.parameters);
        }
        Uri::try_from(url.as_str()).map_err(|error| Failure::Usage(format!("{url}: {error}")))
    }
}

impl Api {
    /// Nothing is sent yet.
    pub(super) fn new(reach: &Reach) -> Result<Self, Failure> {
        let header = |token: &super::token::Token| {
            let unsendable =
                || Failure::Usage("the token has characters that no header can carry".to_owned());
            token.header().ok_or_else(unsendable)
        };
        // A variable that is empty is as good as none.
        let token = reach.token.as_ref().filter(|token| !token.is_empty());
        let authorization = token.map(header).transpose()?;
        // Not where the command line is read: what is refused there is repeated on the screen.
        if !reach.url.username().is_empty() || reach.url.password().is_some() {
            return Err(Failure::Usage(
                "the URL has a password in it; the server asks for a token".to_owned(),
            ));
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("fieldpost/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .timeout_recv_body(Some(ANSWER_TIMEOUT));
        if is_this_machine(&reach.url) {
            config = config.proxy(None);
        }
        let agent = match reach.trust()? {
            Some(trust) => {
                let connections =
                    ().chain(ConnectProxyConnector::default())
                        .chain(TcpConnector::default())
                        .chain(TlsConnector::new(trust)?);
                Agent::with_parts(config.build(), connections, DefaultResolver::default())
            }
            None => config.build().into(),
        };
        Ok(Self { agent, root: reach.url.clone(), authorization })
    }

    pub(super) fn get(&self, path: &Path) -> Result<Box<RawValue>, Failure> {
        self.document(&self.ask(&Method::GET, path, None)?)
    }

    pub(super) fn post(&self, path: &Path, body: &impl serde::Serialize) -> Result<Box<RawValue>, Failure> {
        self.document(&self.ask(&Method::POST, path, Some(Content::json(json(body).as_bytes())))?)
    }

    /// A `POST` that the server carries out once, however often it is made with the same key.
    pub(super) fn post_once(
        &self,
        path: &Path,
        body: &impl serde::Serialize,
        key: Option<&str>,
    ) -> Result<Box<RawValue>, Failure> {
        let body = json(body);
        let content = Content { key, ..Content::json(body.as_bytes()) };
        self.document(&self.ask(&Method::POST, path, Some(content))?)
    }

    /// A `POST` that is answered with nothing.
    pub(super) fn tell(&self, path: &Path, body: &impl serde::Serialize) -> Result<(), Failure> {
        self.ask(&Method::POST, path, Some(Content::json(json(body).as_bytes()))).map(drop)
    }

    /// A `PUT` of a document.
    pub(super) fn set(&self, path: &Path, body: &impl serde::Serialize) -> Result<(), Failure> {
        self.ask(&Method::PUT, path, Some(Content::json(json(body).as_bytes()))).map(drop)
    }

    pub(super) fn patch(&self, path: &Path, body: &impl serde::Serialize) -> Result<Box<RawValue>, Failure> {
        self.document(&self.ask(&Method::PATCH, path, Some(Content::json(json(body).as_bytes())))?)
    }

    /// A `POST` whose body is lines of JSON.
    pub(super) fn post_lines(&self, path: &Path, lines: &[u8]) -> Result<Box<RawValue>, Failure> {
        self.document(&self.ask(
            &Method::POST,
            path,
            Some(Content { kind: NDJSON, ..Content::json(lines) }),
        )?)
    }

    /// A `POST` that says everything in its path, with a document for an answer.
    pub(super) fn call(&self, path: &Path) -> Result<Box<RawValue>, Failure> {
        self.document(&self.ask(&Method::POST, path, Some(Content::EMPTY))?)
    }

    /// A `POST` that says everything in its path and starts something.
    pub(super) fn start(&self, path: &Path) -> Result<(), Failure> {
        self.ask(&Method::POST, path, Some(Content::EMPTY)).map(drop)
    }

    pub(super) fn put(&self, path: &Path) -> Result<(), Failure> {
        self.ask(&Method::PUT, path, Some(Content::EMPTY)).map(drop)
    }

    pub(super) fn delete(&self, path: &Path) -> Result<(), Failure> {
        self.ask(&Method::DELETE, path, None).map(drop)
    }

    /// Writes the answer to a GET to `out`, as it comes.
    pub(super) fn download(&self, path: &Path, out: &mut dyn Write) -> Result<(), Failure> {
        let mut request = Request::builder().method(Method::GET).uri(path.below(&self.root)?);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let request =
            request.body(()).map_err(|error| Failure::Usage(format!("this cannot be asked: {error}")))?;
        let request = self.agent.configure_request(request).timeout_recv_body(Some(DOWNLOAD_TIMEOUT)).build();
        let mut response = self.agent.run(request).map_err(|error| self.not_reached(&error))?;
        if response.status() != 200 {
            return self
                .outcome(&mut response)
                .and_then(|_| Err(self.foreign("it has no such answer".to_owned())));
        }
        self.copy(response.body_mut().as_reader(), out)
    }

    /// Copies a body; what fails on the way here is told from what fails there.
    fn copy(&self, mut body: impl Read, out: &mut dyn Write) -> Result<(), Failure> {
        let mut piece = vec![0; DOWNLOAD_PIECE_BYTES];
        loop {
            match body.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(length) => out.write_all(&piece[..length])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.not_reached(&ureq::Error::Io(error))),
            }
        }
    }

    /// Reads a document of the API into a shape.
    pub(super) fn read<T: DeserializeOwned>(&self, document: &RawValue) -> Result<T, Failure> {
        serde_json::from_str(document.get())
            .map_err(|error| self.foreign(format!("its answer is not what was asked for: {error}")))
    }

    /// Asks, and again when the server has no room for this token now; the body of a good answer.
    fn ask(&self, method: &Method, path: &Path, content: Option<Content<'_>>) -> Result<String, Failure> {
        let uri = path.below(&self.root)?;
        let mut waits = 0;
        loop {
            let mut response = self.send(method, &uri, content)?;
            let wait = retry_after(&response).filter(|wait| *wait <= WAIT_MAX && waits < WAITS_MAX);
            match (response.status().as_u16(), wait) {
                (429, Some(wait)) => {
                    waits += 1;
                    std::thread::sleep(wait);
                }
                _ => return self.outcome(&mut response),
            }
        }
    }

    fn send(
        &self,
        method: &Method,
        uri: &Uri,
        content: Option<Content<'_>>,
    ) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder().method(method).uri(uri).header("accept", JSON);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let sent = match content {
            None => request.body(()).map(|request| self.agent.run(request)),
            Some(Content { kind, bytes, key }) => {
                if let Some(key) = key {
                    request = request.header(IDEMPOTENCY_KEY, key);
                }
                request.header("content-type", kind).body(bytes).map(|request| self.agent.run(request))
            }
        };
        match sent {
            Ok(answer) => answer.map_err(|error| self.not_reached(&error)),
            Err(error) => Err(Failure::Usage(format!("this cannot be asked: {error}"))),
        }
    }

    fn outcome(&self, response: &mut Response<Body>) -> Result<String, Failure> {
        let status = response.status();
        if status.is_redirection() {
            let to =
                response.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or("elsewhere");
            return Err(self.foreign(format!("it answered {status} and points to {to}")));
        }
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.map_err(|error| self.not_reached(&error))?;
        if status.is_success() {
            Ok(body)
        } else {
            Err(Failure::Refused(Box::new(Refusal::read(status.as_u16(), &body))))
        }
    }

    fn document(&self, body: &str) -> Result<Box<RawValue>, Failure> {
        serde_json::from_str(body).map_err(|_| self.foreign("its answer is not JSON".to_owned()))
    }

    /// An answer that no Fieldpost server gives.
    pub(super) fn foreign(&self, what: String) -> Failure {
        Failure::Foreign { server: self.server(), what }
    }

    fn not_reached(&self, error: &ureq::Error) -> Failure {
        Failure::NotReached { server: self.server(), why: reason(error) }
    }

    fn server(&self) -> String {
        self.root.as_str().trim_end_matches('/').to_owned()
    }
}

fn json(body: &impl serde::Serialize) -> String {
    serde_json::to_string(body).expect("what is sent has only names for keys")
}

/// No proxy leads back to the machine that asks.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// What went wrong on the way, without the names of layers.
fn reason(error: &ureq::Error) -> String {
    // What TLS refuses comes wrapped into an error of the stream.
    if let ureq::Error::Io(error) = error
        && let Some(fault) = TlsFault::behind(error)
    {
        return tls::told(fault, error);
    }
    match error {
        ureq::Error::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                format!("the connection broke ({error})")
            }
            _ => error.to_string(),
        },
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        ureq::Error::Timeout(when) => format!("it took too long ({when})"),
        ureq::Error::Protocol(error) => format!("it does not speak HTTP as expected ({error})"),
        ureq::Error::Tls(what) => format!("TLS failed: {what}"),
        ureq::Error::Rustls(error) => tls::told(TlsFault::behind(error).unwrap_or(TlsFault::Other), error),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(root: &str, path: &Path) -> Option<String> {
        path.below(&root.parse().expect("a URL")).ok().map(|uri| uri.to_string())
    }

    #[test]
    fn a_path_is_below_the_root_whatever_its_parts_are() {
        let path = Path::of(&["devices", "a/b ?#%", "clients"]);
        for root in ["http://a", "http://a/"] {
            assert_eq!(uri(root, &path).as_deref(), Some("http://a/v1/devices/a%2Fb%20%3F%23%25/clients"));
        }
        assert_eq!(uri("http://a/b/", &Path::of(&["c"])).as_deref(), Some("http://a/b/v1/c"));
        let path = Path::of(&["devices"]).with("label.a", "x&y=z").with_maybe("kind", None::<&str>);
        assert_eq!(uri("http://a", &path).as_deref(), Some("http://a/v1/devices?label.a=x%26y%3Dz"));
    }

    #[test]
    fn what_would_be_a_step_along_the_path_is_no_id() {
        for part in ["", ".", ".."] {
            assert_eq!(uri("http://a", &Path::of(&["devices", part])), None, "{part:?}");
        }
    }

    #[test]
    fn the_loopback_is_asked_without_a_proxy() {
        for (url, is) in [
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080", true),
            ("http://localhost", true),
            ("http://10.0.0.1", false),
            ("https://fieldpost.example", false),
        ] {
            assert_eq!(is_this_machine(&url.parse().expect("a URL")), is, "{url}");
        }
    }
}
