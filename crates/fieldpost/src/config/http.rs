//! `[http]`: the listener of the REST API, and which web pages may call it.

use std::net::SocketAddr;

use axum::http::HeaderValue;
use engine::followers::live::LIVE_MAX;

use super::listeners::{connections_max, http_listen};
use super::mistake::Mistake;
use super::names::{FrameOrigin, Host, NameList, WebOrigin};
use super::reader::{ReadValue, SettingsReader};
use super::shape::Whole;

/// `[http]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpSettings {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Connections at a time.
    pub connections_max: usize,
    /// Live streams at a time.
    pub live_max: usize,
    /// Names of this machine, beside `localhost` and its addresses.
    pub hosts: Vec<String>,
    /// Origins whose web pages may call with a token.
    pub origins: Vec<HeaderValue>,
    /// Origins whose web pages may embed the console, and so a portal.
    pub frame_ancestors: Vec<String>,
}

/// Reads it, and what of it has no effect where nobody has a token.
pub(super) fn read(from: &mut SettingsReader, has_tokens: bool) -> (HttpSettings, Vec<String>) {
    let origins = from.read("http.origins", &NameList(WebOrigin));
    let warnings = if has_tokens { Vec::new() } else { without_effect(&origins) };
    let http = HttpSettings {
        listen: http_listen(from),
        connections_max: connections_max(from, "http.connections_max"),
        live_max: from.read("http.live_max", &Whole { least: 1, most: LIVE_MAX as u64 }).value as usize,
        hosts: from.read("http.hosts", &NameList(Host)).value,
        origins: origins.value,
        frame_ancestors: from.read("http.frame_ancestors", &NameList(FrameOrigin)).value,
    };
    (http, warnings)
}

/// Without tokens pages of other origins are refused, listed or not.
fn without_effect(origins: &ReadValue<Vec<HeaderValue>>) -> Vec<String> {
    if origins.value.is_empty() {
        return Vec::new();
    }
    let warning = Mistake {
        origin: origins.origin.clone(),
        key: "http.origins".to_owned(),
        wrong: "has no effect without [[auth.tokens]]".to_owned(),
        right: "list tokens, or leave it out: only the server's own pages may call it".to_owned(),
    };
    vec![warning.to_string()]
}
