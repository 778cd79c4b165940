//! The JSON of a page of messages, as the shape of the page describes it, written into one buffer.
//! A page has a thousand messages of few bytes each. A serializer that goes from field to field
//! spends more time on their names than on what they say.

use std::fmt::Display;
use std::io::Write as _;

use base::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::streams::{OwnedMessage, StreamPage};
use serde::Serialize;

use super::message::HeadersShape;

/// What a message takes besides its payload and headers, about.
const FRAME_BYTES: usize = 160;

/// The page as JSON.
pub(crate) fn page_json(page: &StreamPage) -> Vec<u8> {
    let bytes: usize = page.items.iter().map(|item| FRAME_BYTES + item.payload.len()).sum();
    let mut out = PageJson { bytes: Vec::with_capacity(FRAME_BYTES + bytes), time: None };
    out.raw(r#"{"items":["#);
    for (place, item) in page.items.iter().enumerate() {
        if place > 0 {
            out.raw(",");
        }
        out.message(item);
    }
    out.raw(r#"],"next_after":""#);
    out.shown(page.next_after);
    out.raw(r#"","skipped":"#);
    out.shown(page.skipped);
    out.raw("}");
    out.bytes
}

struct PageJson {
    bytes: Vec<u8>,
    /// The time of the message before, which most share, and where its text is.
    time: Option<(Timestamp, usize, usize)>,
}

impl PageJson {
    fn raw(&mut self, json: &str) {
        self.bytes.extend_from_slice(json.as_bytes());
    }

    /// A number or a time: nothing in it is escaped.
    fn shown(&mut self, value: impl Display) {
        write!(self.bytes, "{value}").expect("memory takes what is written");
    }

    fn escaped(&mut self, value: &impl Serialize) {
        serde_json::to_writer(&mut self.bytes, value).expect("texts with texts for keys");
    }

    /// A name, checked when it came: nothing in it is escaped.
    fn label(&mut self, label: Option<&str>) {
        match label {
            Some(label) => {
                self.raw("\"");
                self.raw(label);
                self.raw("\"");
            }
            None => self.raw("null"),
        }
    }

    fn time(&mut self, at: Timestamp) {
        match self.time {
            Some((same, start, end)) if same == at => self.bytes.extend_from_within(start..end),
            _ => {
                let start = self.bytes.len();
                self.shown(at);
                self.time = Some((at, start, self.bytes.len()));
            }
        }
    }

    fn message(&mut self, item: &OwnedMessage) {
        self.raw(r#"{"id":""#);
        self.shown(item.id);
        self.raw(r#"","ts":""#);
        self.time(item.ts);
        self.raw(r#"","source":"#);
        self.label(item.source.as_deref());
        self.raw(r#","external_id":"#);
        match &item.external_id {
            Some(id) => self.escaped(&id.to_string()),
            None => self.raw("null"),
        }
        self.raw(r#","segment":"#);
        self.label(item.segment.as_deref());
        if item.is_json {
            self.raw(r#","payload":"#);
            self.bytes.extend_from_slice(&item.payload);
        } else {
            self.raw(r#","payload_base64":""#);
            self.raw(&STANDARD.encode(&*item.payload));
            self.raw("\"");
        }
        if !item.headers.is_empty() {
            self.raw(r#","headers":"#);
            self.escaped(&HeadersShape(&item.headers));
        }
        self.raw("}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::streams::{OwnedExternalId, SharedBytes};
    use serde_json::{Value, json};

    use super::*;
    use crate::shape::MessageShape;

    #[test]
    fn a_page_says_of_each_message_what_the_message_alone_does() {
        let message = |id: u64, is_json: bool, payload: &str| {
            let all: Arc<[u8]> = payload.as_bytes().into();
            OwnedMessage {
                id,
                ts: Timestamp(1_795_003_200_000 + (id / 2) as i64),
                payload: SharedBytes::of(&all, 0, all.len()),
                is_json,
                headers: Vec::new(),
                segment: None,
                external_id: None,
                source: None,
                received_at: Timestamp(0),
            }
        };
        let all_of_it = OwnedMessage {
            source: Some("till-4".into()),
            external_id: Some(OwnedExternalId::Text("a \"b\" \u{1}ü".into())),
            segment: Some("north".into()),
            headers: vec![("k".into(), "\"v\"\n".into()), ("l".into(), "".into())],
            ..message(4, true, r#"{"é":[1.50]}"#)
        };
        let number = OwnedMessage {
            source: Some("s".into()),
            external_id: Some(OwnedExternalId::Number(i64::MAX.unsigned_abs())),
            ..message(9, true, "null")
        };
        let items = vec![
            message(1, true, "1"),
            message(2, false, "\u{0}\u{7f}"),
            message(3, false, ""),
            all_of_it,
            number,
        ];
        let alone: Vec<String> = items
            .iter()
            .map(|item| serde_json::to_string(&MessageShape::from(item)).expect("a shape"))
            .collect();
        let page = StreamPage { items, next_after: 9, skipped: 7, is_end: true };
        let json = String::from_utf8(page_json(&page)).expect("text");
        assert_eq!(json, format!(r#"{{"items":[{}],"next_after":"9","skipped":7}}"#, alone.join(",")));
        let read: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read["items"][3]["external_id"], "a \"b\" \u{1}ü");
        let none = StreamPage { items: Vec::new(), next_after: 0, skipped: 0, is_end: true };
        let none: Value = serde_json::from_slice(&page_json(&none)).expect("JSON");
        assert_eq!(none, json!({"items": [], "next_after": "0", "skipped": 0}));
    }
}
