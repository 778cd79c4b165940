//! How a call reaches the server: over HTTP, or inside it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::locks::locked;
use fieldpost_client::{Client, Method, Path, Request};
use futures_util::future::BoxFuture;

/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Most bytes of an answer: the ids of a thousand jobs are some tens of kilobytes.
const ANSWER_BYTES_MAX: usize = 1_024 * 1_024;

/// A call of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingCall {
    /// Whether it is a PUT; else a POST.
    pub is_put: bool,
    /// The names of its path behind `/v1`, as they are.
    pub path: Vec<String>,
    /// A parameter, and its value.
    pub parameter: Option<(&'static str, &'static str)>,
    /// The JSON document.
    pub body: Vec<u8>,
}

/// What the server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallAnswer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
    /// How long it asks to wait.
    pub retry_after: Option<Duration>,
}

/// Makes calls; an error is that no answer came, and says why.
pub type CallMaker =
    Arc<dyn Fn(OutgoingCall) -> BoxFuture<'static, Result<CallAnswer, String>> + Send + Sync>;

/// Gives a client anew where a credential may have changed; `None` where nothing else is known.
pub type ClientRenewal = Arc<dyn Fn() -> Option<Client> + Send + Sync>;

/// The server asks for a credential, or for another one.
const UNAUTHORIZED: u16 = 401;

/// Makes calls over HTTP. After a 401 the next call is made with a client that `renewal` gives.
#[must_use]
pub fn over_http(client: Client, renewal: ClientRenewal) -> CallMaker {
    let current = Arc::new(Mutex::new(client));
    Arc::new(move |call| {
        let (current, renewal) = (Arc::clone(&current), Arc::clone(&renewal));
        let client = locked(&current).clone();
        Box::pin(async move {
            let names: Vec<&str> = call.path.iter().map(String::as_str).collect();
            let method = if call.is_put { Method::PUT } else { Method::POST };
            let path = Path::of(&names);
            let path = match call.parameter {
                Some((name, value)) => path.with(name, value),
                None => path,
            };
            let request = Request::new(method, path).json(call.body);
            let request = request.timeout(ANSWER_MAX).answer_bytes_max(ANSWER_BYTES_MAX);
            let answer = client.send(&request).await.map_err(|error| error.explained())?;
            if answer.status == UNAUTHORIZED
                && let Some(client) = renewal()
            {
                *locked(&current) = client;
            }
            let retry_after = answer.retry_after;
            Ok(CallAnswer { status: answer.status, body: answer.body.to_vec(), retry_after })
        })
    })
}
