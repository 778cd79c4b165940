//! Who is told what came of something: a queue, a stream, or a URL.

use serde::{Deserialize, Serialize};

use super::table::plain;

/// A receiver as it is sent.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GivenReceiver<'a> {
    Queue(&'a str),
    Stream(&'a str),
    Url(&'a str),
}

impl<'a> GivenReceiver<'a> {
    /// The one that was given; the command line takes only one of both.
    pub(super) fn of(queue: Option<&'a str>, url: Option<&'a str>) -> Option<Self> {
        queue.map(Self::Queue).or(url.map(Self::Url))
    }
}

/// A receiver as the server shows it.
#[derive(Deserialize)]
pub(super) struct ReceiverView {
    queue: Option<String>,
    stream: Option<String>,
    url: Option<String>,
    /// Only in the answer that made it.
    secret: Option<String>,
}

impl ReceiverView {
    /// Where it is.
    pub(super) fn place(&self) -> &str {
        let places = [&self.queue, &self.stream, &self.url];
        places.into_iter().flatten().next().map_or("", String::as_str)
    }

    /// The secret, with the advice to keep it; nothing where none is shown.
    pub(super) fn secret_once(&self) -> String {
        let Some(secret) = &self.secret else { return String::new() };
        let advice = "Keep the secret where the receiver can read it: it is not shown again.";
        format!("secret  {}\n{advice}\n", plain(secret))
    }
}
