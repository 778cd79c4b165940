//! Cuts what was read into complete lines, each as the JSON of a message. Pure.

use base::limits::MESSAGE_PAYLOAD_BYTES_MAX;

/// Lines that are stored together: each costs a record in memory, however short it is.
const LINES_MAX: usize = 1_000;

/// What a message takes in the spool beside its text, at most about, in bytes.
const MESSAGE_REST_BYTES: usize = 200;

/// What is taken at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineLimits {
    /// Longest line that is a message, in bytes of its JSON string.
    pub(super) line_bytes: usize,
    /// Bytes of the messages that are stored together; a longer one is stored alone.
    pub(super) batch_bytes: usize,
}

impl LineLimits {
    /// For a spool that holds so many bytes. What does not fit into it can never be stored.
    pub(super) fn of(spool_bytes_max: u64) -> Self {
        let half = usize::try_from(spool_bytes_max / 2).unwrap_or(usize::MAX);
        Self { line_bytes: MESSAGE_PAYLOAD_BYTES_MAX.min(half), batch_bytes: half.min(256 * 1_024) }
    }
}

/// What bytes begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinesFound {
    /// Messages, and how many bytes of the file they are.
    Messages(Vec<Vec<u8>>, usize),
    /// A complete line that is too long for a message.
    TooLong,
    /// No complete line.
    Nothing,
}

/// The messages of the complete lines that `bytes` begin with, as many as are stored together. A
/// blank line is a message too, an empty one.
pub(super) fn complete_lines(bytes: &[u8], limits: LineLimits) -> LinesFound {
    let (mut messages, mut used, mut batch_bytes) = (Vec::new(), 0, 0);
    while messages.len() < LINES_MAX
        && batch_bytes < limits.batch_bytes
        && let Some(length) = memchr::memchr(b'\n', &bytes[used..])
    {
        let Some(message) = message(&bytes[used..used + length], limits.line_bytes) else {
            if messages.is_empty() {
                return LinesFound::TooLong;
            }
            break;
        };
        let bytes = message.len() + MESSAGE_REST_BYTES;
        if !messages.is_empty() && batch_bytes + bytes > limits.batch_bytes {
            break;
        }
        batch_bytes += bytes;
        used += length + 1;
        messages.push(message);
    }
    if messages.is_empty() { LinesFound::Nothing } else { LinesFound::Messages(messages, used) }
}

/// A line without its end as a message; `None` where it is too long. What is not UTF-8 is replaced.
pub(super) fn message(line: &[u8], line_bytes_max: usize) -> Option<Vec<u8>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // Its JSON is never shorter, so that the longest lines are not even written as such.
    let fits = line.len() <= line_bytes_max;
    let text = fits.then(|| serde_json::Value::from(String::from_utf8_lossy(line)).to_string())?;
    (text.len() <= line_bytes_max).then(|| format!("{{\"payload\":{text}}}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LineLimits = LineLimits { line_bytes: 20, batch_bytes: 2 * (MESSAGE_REST_BYTES + 20) };

    fn check(bytes: &[u8], expect: Option<(&[&str], usize)>) {
        let expect = expect.map_or(LinesFound::Nothing, |(lines, used)| {
            LinesFound::Messages(lines.iter().map(|line| line.as_bytes().to_vec()).collect(), used)
        });
        assert_eq!(complete_lines(bytes, LIMITS), expect, "{}", bytes.escape_ascii());
    }

    #[test]
    fn each_complete_line_is_a_message_a_blank_one_too() {
        check(b"", None);
        check(b"half", None);
        check(b"one\ntwo\nha", Some((&[r#"{"payload":"one"}"#, r#"{"payload":"two"}"#], 8)));
        check(b"\n\r\n", Some((&[r#"{"payload":""}"#, r#"{"payload":""}"#], 3)));
        check(b"a \"b\"\\ \r\n", Some((&[r#"{"payload":"a \"b\"\\ "}"#], 9)));
        check(b"\xff\n", Some((&["{\"payload\":\"\u{fffd}\"}"], 2)));
    }

    #[test]
    fn a_line_is_measured_by_its_json_and_none_is_split() {
        check(b"123456789012345678\n1", Some((&[r#"{"payload":"123456789012345678"}"#], 19)));
        for long in [&b"1234567890123456789\n"[..], b"\x01\x02\x03\x04\n", &[&[b'x'; 99][..], b"\n"].concat()]
        {
            assert_eq!(complete_lines(long, LIMITS), LinesFound::TooLong);
            check(&[b"a\n", long].concat(), Some((&[r#"{"payload":"a"}"#], 2)));
        }
        check(&[b'x'; 99], None);
    }

    #[test]
    fn only_so_much_is_stored_together() {
        check(b"a\nb\nc\nd\n", Some((&[r#"{"payload":"a"}"#, r#"{"payload":"b"}"#], 4)));
        let many = vec![b'\n'; 3 * LINES_MAX];
        let limits = LineLimits::of(u64::MAX);
        let LinesFound::Messages(messages, used) = complete_lines(&many, limits) else { panic!("lines") };
        assert_eq!((messages.len(), used), (LINES_MAX, LINES_MAX));
        assert_eq!(limits.line_bytes, MESSAGE_PAYLOAD_BYTES_MAX);
        let small = LineLimits::of(64_000);
        assert!(small.line_bytes <= 32_000 && small.batch_bytes <= 32_000, "{small:?}");
    }
}
