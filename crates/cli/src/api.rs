//! The server's API: requests of the client crate, made once and waited for, and every way in which
//! that can go wrong.

use std::io::Write;
use std::time::Duration;

use fieldpost_client::{Client, ConnectionFault, Error, Method, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

use super::failure::CommandFailure;
use super::server::ServerFlags;
use super::tls;

/// Until the answer begins, and as long again until it ends. A list that has to look at much takes
/// its time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A request is sent within the same time, however large it is: a line slower than this gets
/// longer.
const SENT_BYTES_PER_SECOND: u64 = 8 * 1_024;
/// The largest backup over the slowest line that anybody waits for.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);
/// The largest page is 1,000 devices with values of 4 KiB and all their labels.
const ANSWER_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// A server that asks to wait longer than this is not waited for.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// So often a request is made again that the server had no room for.
const WAITS_MAX: u32 = 5;
/// The status of a server that has no room for this token now.
const TOO_MANY_REQUESTS: u16 = 429;

/// A server, and how to speak to it.
#[derive(Debug)]
pub(super) struct ServerApi {
    client: Client,
    runtime: Runtime,
    server: String,
}

/// A path of the API with its parameters.
#[derive(Clone, Debug)]
pub(super) struct ApiPath {
    path: fieldpost_client::Path,
    /// A part of the path that names nothing.
    not_an_id: Option<String>,
}

impl ApiPath {
    /// The path below `/v1` with these parts, whatever characters they have.
    pub(super) fn of(parts: &[&str]) -> Self {
        Self { path: fieldpost_client::Path::of(&[]), not_an_id: None }.and(parts)
    }

    /// With these parts behind the others.
    pub(super) fn and(self, parts: &[&str]) -> Self {
        let path = self.path.and(parts);
        parts.iter().fold(Self { path, ..self }, |path, part| path.checked(part))
    }

    /// With one more part that names several things, with commas between them.
    pub(super) fn and_any_of(self, names: &str) -> Self {
        let path = self.path.and_any_of(&names.split(',').collect::<Vec<_>>());
        Self { path, ..self }.checked(names)
    }

    fn checked(mut self, part: &str) -> Self {
        // Dots would be taken for steps along the path.
        if matches!(part, "" | "." | "..") {
            self.not_an_id.get_or_insert_with(|| part.to_owned());
        }
        self
    }

    pub(super) fn with(mut self, name: &str, value: &(impl ToString + ?Sized)) -> Self {
        self.path = self.path.with(name, &value.to_string());
        self
    }

    pub(super) fn with_maybe(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, &value),
            None => self,
        }
    }

    fn request(&self, method: Method) -> Result<Request, CommandFailure> {
        if let Some(part) = &self.not_an_id {
            return Err(CommandFailure::Usage(format!("{part:?} is not an id")));
        }
        let request = Request::new(method, self.path.clone());
        Ok(request.timeout(ANSWER_TIMEOUT).answer_bytes_max(ANSWER_BYTES_MAX))
    }
}

impl ServerApi {
    /// Nothing is sent yet.
    pub(super) fn new(server: &ServerFlags) -> Result<Self, CommandFailure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime
            .map_err(|error| CommandFailure::Incomplete(format!("no thread can be started: {error}")))?;
        Ok(Self { client: server.client()?, runtime, server: server.name() })
    }

    /// The client that speaks to the server, for a command that uses more of it than single
    /// requests.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn get(&self, path: &ApiPath) -> Result<Box<RawValue>, CommandFailure> {
        self.document(&path.request(Method::GET)?)
    }

    pub(super) fn post(
        &self,
        path: &ApiPath,
        body: &impl Serialize,
    ) -> Result<Box<RawValue>, CommandFailure> {
        self.document(&with_body(path.request(Method::POST)?, body))
    }

    /// A `POST` that the server carries out once, however often it is made with the same key.
    pub(super) fn post_once(
        &self,
        path: &ApiPath,
        body: &impl Serialize,
        key: Option<&str>,
    ) -> Result<Box<RawValue>, CommandFailure> {
        self.post_and_wait(path, body, key, Duration::ZERO)
    }

    /// The same where the server may `wait` before it answers.
    pub(super) fn post_and_wait(
        &self,
        path: &ApiPath,
        body: &impl Serialize,
        key: Option<&str>,
        wait: Duration,
    ) -> Result<Box<RawValue>, CommandFailure> {
        let request = with_body(path.request(Method::POST)?, body).timeout(ANSWER_TIMEOUT + wait);
        let request = match key {
            Some(key) => request
                .idempotency_key(key)
                .map_err(|error| CommandFailure::Usage(format!("this cannot be asked: {error}")))?,
            None => request,
        };
        self.document(&request)
    }

    /// A `POST` that is answered with nothing.
    pub(super) fn tell(&self, path: &ApiPath, body: &impl Serialize) -> Result<(), CommandFailure> {
        self.ask(&with_body(path.request(Method::POST)?, body)).map(drop)
    }

    /// A `PUT` of a document.
    pub(super) fn set(&self, path: &ApiPath, body: &impl Serialize) -> Result<(), CommandFailure> {
        self.ask(&with_body(path.request(Method::PUT)?, body)).map(drop)
    }

    /// A `PUT` of a document, with a document for an answer.
    pub(super) fn replace(
        &self,
        path: &ApiPath,
        body: &impl Serialize,
    ) -> Result<Box<RawValue>, CommandFailure> {
        self.document(&with_body(path.request(Method::PUT)?, body))
    }

    pub(super) fn patch(
        &self,
        path: &ApiPath,
        body: &impl Serialize,
    ) -> Result<Box<RawValue>, CommandFailure> {
        self.document(&with_body(path.request(Method::PATCH)?, body))
    }

    /// A `POST` whose body is lines of JSON.
    pub(super) fn post_lines(&self, path: &ApiPath, lines: Vec<u8>) -> Result<Box<RawValue>, CommandFailure> {
        let sending = Duration::from_secs(lines.len() as u64 / SENT_BYTES_PER_SECOND);
        self.document(&path.request(Method::POST)?.json_lines(lines).timeout(ANSWER_TIMEOUT + sending))
    }

    /// A `POST` that says everything in its path, with a document for an answer.
    pub(super) fn call(&self, path: &ApiPath) -> Result<Box<RawValue>, CommandFailure> {
        self.document(&path.request(Method::POST)?.json(""))
    }

    /// A `POST` that says everything in its path and starts something.
    pub(super) fn start(&self, path: &ApiPath) -> Result<(), CommandFailure> {
        self.ask(&path.request(Method::POST)?.json("")).map(drop)
    }

    pub(super) fn put(&self, path: &ApiPath) -> Result<(), CommandFailure> {
        self.ask(&path.request(Method::PUT)?.json("")).map(drop)
    }

    pub(super) fn delete(&self, path: &ApiPath) -> Result<(), CommandFailure> {
        self.ask(&path.request(Method::DELETE)?).map(drop)
    }

    /// Writes the answer to a GET to `out`, as it comes. An error of `out` is told from one of the
    /// connection.
    pub(super) fn download(&self, path: &ApiPath, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let request = path.request(Method::GET)?;
        let download = self.runtime.block_on(self.client.download(&request, DOWNLOAD_TIMEOUT));
        let mut download = download.map_err(|error| self.failure(error))?;
        while let Some(bytes) = self.runtime.block_on(download.next()).map_err(|error| self.failure(error))? {
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Reads a document of the API into a shape.
    pub(super) fn read<T: DeserializeOwned>(&self, document: &RawValue) -> Result<T, CommandFailure> {
        serde_json::from_str(document.get())
            .map_err(|error| self.foreign(format!("its answer is not what was asked for: {error}")))
    }

    /// A `PUT` of bytes.
    pub(super) fn put_bytes(&self, path: &ApiPath, bytes: Vec<u8>) -> Result<(), CommandFailure> {
        self.ask(&path.request(Method::PUT)?.bytes(bytes)).map(drop)
    }

    /// What a call of the client crate gives, waited for.
    pub(super) fn wait_for<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, CommandFailure> {
        self.runtime.block_on(call).map_err(|error| self.failure(error))
    }

    fn document(&self, request: &Request) -> Result<Box<RawValue>, CommandFailure> {
        let body = self.ask(request)?;
        serde_json::from_slice(&body).map_err(|_| self.foreign("its answer is not JSON".to_owned()))
    }

    /// Whether there is an answer to a GET, whatever it says.
    pub(super) fn reach(&self, path: &ApiPath) -> Result<(), CommandFailure> {
        match self.ask(&path.request(Method::GET)?) {
            Ok(_) | Err(CommandFailure::Refused(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Asks, and again when the server has no room for this token now; the body of a good answer.
    fn ask(&self, request: &Request) -> Result<Vec<u8>, CommandFailure> {
        let mut waits = 0;
        loop {
            let answer = self.runtime.block_on(self.client.send(request));
            let answer = answer.map_err(|error| self.failure(error))?;
            let wait = answer.retry_after.filter(|wait| *wait <= WAIT_MAX && waits < WAITS_MAX);
            match (answer.status, wait) {
                (TOO_MANY_REQUESTS, Some(wait)) => {
                    waits += 1;
                    std::thread::sleep(wait);
                }
                _ => return answer.success().map(Into::into).map_err(|error| self.failure(error)),
            }
        }
    }

    /// An answer that no Fieldpost server gives.
    pub(super) fn foreign(&self, what: String) -> CommandFailure {
        CommandFailure::Foreign { server: self.server.clone(), what }
    }

    fn failure(&self, error: Error) -> CommandFailure {
        match error {
            Error::Refused(refusal) => CommandFailure::refused(self.server.clone(), refusal),
            Error::Foreign { what, .. } => self.foreign(what),
            other => CommandFailure::NotReached { server: self.server.clone(), why: reason(&other) },
        }
    }
}

fn with_body(request: Request, body: &impl Serialize) -> Request {
    request.json(serde_json::to_vec(body).expect("what is sent has only names for keys"))
}

/// What went wrong on the way, without the names of layers.
fn reason(error: &Error) -> String {
    let cause = error.root_cause();
    match error.connection_fault() {
        Some(ConnectionFault::Refused) => "connection refused".to_owned(),
        Some(ConnectionFault::TooSlow) => "it took too long (connect)".to_owned(),
        Some(ConnectionFault::ClosedBeforeTls) => {
            "TLS failed: it closed the connection where TLS was to begin: does it speak TLS?".to_owned()
        }
        Some(ConnectionFault::Tls(fault)) => tls::describe(fault, cause),
        Some(ConnectionFault::NotHttp) => {
            // A listener with TLS answers a request with an alert.
            let hint = match error {
                Error::Broken { server, .. } if server.starts_with("http://") => {
                    "; if it speaks TLS, its URL begins with https://"
                }
                _ => "",
            };
            format!("it does not speak HTTP as expected ({cause}){hint}")
        }
        Some(_) if matches!(error, Error::Broken { .. }) => format!("the connection broke ({cause})"),
        None if matches!(error, Error::TimedOut { .. }) => "it took too long (receive response)".to_owned(),
        Some(_) | None => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_a_step_along_the_path_is_no_id() {
        for (part, right) in [("", false), (".", false), ("..", false), ("a.b", true)] {
            assert_eq!(ApiPath::of(&["devices", part]).request(Method::GET).is_ok(), right, "{part:?}");
            assert_eq!(
                ApiPath::of(&["queues"]).and_any_of(part).request(Method::GET).is_ok(),
                right,
                "{part:?}"
            );
        }
    }
}
