//! How nodes speak of streams with each other: names of headers, and a content type.

/// The content type of messages as copies send them.
pub const TRANSFER_TYPE: &str = "application/vnd.fieldpost.messages";
/// What a node calls itself: a header of answers. With reports the sender says it too, and then it
/// is answered.
pub const NODE_HEADER: &str = "fieldpost-node";
/// What a stream calls itself: a header of answers. Another one after it was made anew.
pub const STREAM_HEADER: &str = "fieldpost-stream";
/// Where to read on: a header of pages.
pub const NEXT_AFTER_HEADER: &str = "fieldpost-next-after";
/// The newest durable message: a header of pages.
pub const NEWEST_HEADER: &str = "fieldpost-newest";
/// The place of an append among those of one sender, `RUN-PLACE`: a header of appends. One behind
/// another that was not taken is refused.
pub const RUN_HEADER: &str = "fieldpost-run";
/// Which stream an append is meant for, as [`STREAM_HEADER`] called it before: a header of appends.
/// Where another one has that name by now, or none, the append is refused.
pub const EXPECTED_HEADER: &str = "fieldpost-expected-stream";

/// Whether bytes are a JSON text that fits into a line.
#[must_use]
pub fn is_json_line(text: &[u8]) -> bool {
    // Of a string that it passes over, `from_slice` does not look whether it is UTF-8.
    let is_json = |text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    !text.contains(&b'\n') && str::from_utf8(text).is_ok_and(is_json)
}

#[cfg(test)]
mod tests {
    use super::is_json_line;

    #[test]
    fn a_json_text_has_one_line_and_one_value() {
        for (text, is_one) in [
            (&b"{\"a\":[1,2.50]}"[..], true),
            (b"null", true),
            (b"1 2", false),
            (b"{\"a\":\n1}", false),
            (b"\"\xff\"", false),
            (b"", false),
        ] {
            assert_eq!(is_json_line(text), is_one, "{text:?}");
        }
    }
}
