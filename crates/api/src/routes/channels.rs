//! `/v1/channels`: messages to whoever listens now.

use std::convert::Infallible;
use std::time::Duration;

use access::Caller;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::response::Response;
use engine::coordination::{ChannelEvent, ChannelListener};
use futures_util::stream::unfold;
use net::problem::Refused;
use serde_json::value::RawValue;
use tokio::select;
use tokio::time::{Instant, Interval, interval_at};

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::still_knows;
use crate::body::Text;
use crate::fields::unreadable;
use crate::live::EVENT_STREAM;
use crate::openapi::refusals::OF_COORDINATION;
use crate::openapi::{Call, words};
use crate::path::{ChannelsInPath, NameInPath};
use crate::shape::ChannelReceiversShape;

const CHANNEL: &str = "/v1/channels/{ns}/{name}";
/// How often a listener is shown that the connection lives, and its token is looked at.
const SIGN_EVERY: Duration = Duration::from_secs(15);

pub(super) fn routes() -> Routes {
    let published = Call::new("Gives a message to whoever listens now; it is kept nowhere")
        .reads(words::any())
        .gives::<ChannelReceiversShape>(200, "to how many it went")
        .refuses(OF_COORDINATION)
        .refuses(&[(400, "unreadable"), (408, "body_too_slow"), (413, "body_too_large"), (503, "busy")]);
    let about = "server-sent events: message with a channel and a message, too_slow at the end of a listener \
                 that reads too slowly, and a comment every 15 s";
    let listened = Call::new("Listens to channels: names with commas between them, or beginnings with a *")
        .gives_text(EVENT_STREAM, about)
        .refuses(OF_COORDINATION)
        .refuses(&[(422, "too_many_channels"), (503, "too_many_listeners")]);
    Routes::default().post(CHANNEL, publish, published).get(CHANNEL, listen, listened)
}

async fn publish(
    State(api): State<ApiState>,
    NameInPath(channel): NameInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    serde_json::from_str::<&RawValue>(&body).map_err(|error| unreadable("the body", &error))?;
    // Line breaks stand only between the parts of a JSON text, and would end a line of an event.
    let message = body.trim().replace(['\n', '\r'], " ");
    let receivers = api.engine().coordination().publish(&channel, &Bytes::from(message)).await?;
    Ok(ApiAnswer::ok(&ChannelReceiversShape { receivers }))
}

/// A listener, and whose it is.
struct ChannelListening {
    api: ApiState,
    caller: Option<Caller>,
    listener: ChannelListener,
    signs: Interval,
    has_begun: bool,
    has_ended: bool,
}

async fn listen(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    ChannelsInPath(patterns): ChannelsInPath,
) -> Result<Response, Refused> {
    let listener = api.engine().coordination().listen(patterns)?;
    let caller = caller.map(|Extension(caller)| caller);
    let signs = interval_at(Instant::now() + SIGN_EVERY, SIGN_EVERY);
    let listening =
        Box::new(ChannelListening { api, caller, listener, signs, has_begun: false, has_ended: false });
    let events = unfold(listening, async |mut listening| {
        let event = listening.next().await?;
        Some((Ok::<_, Infallible>(event), listening))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    // Proxies that gather answers pass this one on as it comes.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

impl ChannelListening {
    /// The next event as it is written; `None` behind the last.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(Bytes::from_static(b": listening\n\n"));
        }
        select! {
            biased;
            _ = self.signs.tick() => {
                let is_known = self.caller.as_ref().is_none_or(|caller| still_knows(&self.api, caller));
                is_known.then(|| Bytes::from_static(b": still here\n\n"))
            }
            event = self.listener.next() => match event? {
                ChannelEvent::Message(channel, message) => Some(written(&channel, &message)),
                ChannelEvent::TooSlow => {
                    self.has_ended = true;
                    Some(Bytes::from_static(b"event: too_slow\ndata: {}\n\n"))
                }
            },
            () = self.api.stopped() => None,
        }
    }
}

/// A name of a channel needs no escapes in JSON.
fn written(channel: &str, message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(64 + channel.len() + message.len());
    event.extend_from_slice(b"event: message\ndata: {\"channel\":\"");
    event.extend_from_slice(channel.as_bytes());
    event.extend_from_slice(b"\",\"message\":");
    event.extend_from_slice(message);
    event.extend_from_slice(b"}\n\n");
    event.into()
}
