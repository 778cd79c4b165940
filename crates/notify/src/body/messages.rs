//! The body of a post with messages of a stream: each as a read shows it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use engine::streams::{OwnedMessage, PushKey};
use serde_json::value::RawValue;

use super::{put, text_or_null};

/// What a message takes besides its payload, about.
const MESSAGE_BYTES: usize = 160;

/// The body of a post to the receiver of a subscription.
pub(crate) fn messages(key: &PushKey, items: &[OwnedMessage]) -> String {
    let bytes: usize = items.iter().map(|item| MESSAGE_BYTES + item.bytes() * 4 / 3).sum();
    let mut out = String::with_capacity(MESSAGE_BYTES + bytes);
    let PushKey { stream, subscription } = key;
    put(
        &mut out,
        format_args!(r#"{{"type":"stream.messages","stream":"{stream}","subscription":"{subscription}","#),
    );
    out.push_str(r#""items":["#);
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        message(&mut out, item);
    }
    out.push_str("]}");
    out
}

fn message(out: &mut String, item: &OwnedMessage) {
    put(out, format_args!(r#"{{"id":"{}","ts":"{}","source":"#, item.id, item.ts));
    text_or_null(out, item.source.as_deref());
    let external_id = item.external_id.as_ref().map(ToString::to_string);
    out.push_str(r#","external_id":"#);
    text_or_null(out, external_id.as_deref());
    out.push_str(r#","segment":"#);
    text_or_null(out, item.segment.as_deref());
    // What an edge took for JSON and is none is shown as bytes.
    let json = item.is_json.then(|| serde_json::from_slice::<&RawValue>(&item.payload).ok()).flatten();
    match json {
        Some(json) => put(out, format_args!(r#","payload":{}"#, json.get())),
        None => {
            out.push_str(r#","payload_base64":""#);
            BASE64_STANDARD.encode_string(&*item.payload, out);
            out.push('"');
        }
    }
    if !item.headers.is_empty() {
        out.push_str(r#","headers":{"#);
        for (place, (name, value)) in item.headers.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            text_or_null(out, Some(name));
            out.push(':');
            text_or_null(out, Some(value));
        }
        out.push('}');
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::Timestamp;
    use engine::streams::{OwnedExternalId, SharedBytes, StreamName};

    use super::*;

    fn item(id: u64, is_json: bool, payload: &[u8]) -> OwnedMessage {
        let all: Arc<[u8]> = payload.into();
        OwnedMessage {
            id,
            ts: Timestamp(1_795_222_923_456),
            received_at: Timestamp(0),
            source: None,
            external_id: None,
            segment: None,
            headers: Vec::new(),
            is_json,
            payload: SharedBytes::of(&all, 0, payload.len()),
        }
    }

    #[test]
    fn messages_are_shown_as_a_read_shows_them() {
        let key = PushKey {
            stream: StreamName::new("shop", "orders").expect("a name"),
            subscription: "bill".into(),
        };
        let first = OwnedMessage {
            source: Some("till-4".into()),
            external_id: Some(OwnedExternalId::Number(17)),
            segment: Some("east".into()),
            headers: vec![("trace".into(), "a\"b".into()), ("x".into(), "1".into())],
            ..item(4, true, br#"{"n":1}"#)
        };
        let body = messages(&key, &[first, item(5, false, b"\xff"), item(6, true, b"none")]);
        let time = "2026-11-21T01:02:03.456Z";
        let bare = r#""source":null,"external_id":null,"segment":null,"payload_base64":"#;
        assert_eq!(
            body,
            [
                r#"{"type":"stream.messages","stream":"shop/orders","subscription":"bill","items":["#,
                &format!(
                    r#"{{"id":"4","ts":"{time}","source":"till-4","external_id":"17","segment":"east","#
                ),
                r#""payload":{"n":1},"headers":{"trace":"a\"b","x":"1"}},"#,
                &format!(r#"{{"id":"5","ts":"{time}",{bare}"/w=="}},"#),
                &format!(r#"{{"id":"6","ts":"{time}",{bare}"bm9uZQ=="}}]}}"#),
            ]
            .concat()
        );
        serde_json::from_str::<serde_json::Value>(&body).expect("JSON");
    }
}
