//! Messages of a stream, in the form of server-sent events (WHATWG HTML, "Server-sent events").

use axum::body::Bytes;

/// The line that says that the stream lives. A comment: no reader is told of it.
pub(super) const ALIVE: Bytes = Bytes::from_static(b": alive\n\n");

/// A message: its name, where a resumed stream goes on behind it, and its JSON.
pub(super) fn message(event: &str, id: Option<&str>, parts: &[&[u8]]) -> Bytes {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut text = Vec::with_capacity(length + event.len() + id.map_or(0, str::len) + 32);
    text.extend_from_slice(b"event: ");
    text.extend_from_slice(event.as_bytes());
    if let Some(id) = id {
        text.extend_from_slice(b"\nid: ");
        text.extend_from_slice(id.as_bytes());
    }
    text.extend_from_slice(b"\ndata: ");
    for part in parts {
        // Data ends with its line. JSON has line breaks only between its tokens, where a blank is
        // as good.
        text.extend(part.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    }
    text.extend_from_slice(b"\n\n");
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_block_whatever_its_json_looks_like() {
        let made = message("events", Some("abc"), &[b"{\"items\":[", b"{\n\"a\":1\r\n}", b"]}"]);
        assert_eq!(made, "event: events\nid: abc\ndata: {\"items\":[{ \"a\":1  }]}\n\n");
        assert_eq!(message("behind", None, &[b"{}"]), "event: behind\ndata: {}\n\n");
    }
}
