//! Cuts what was read into complete lines, each as the JSON of a message. Pure.

/// Longest line that is one message, in bytes; a longer one is cut into several.
pub(super) const LINE_BYTES_MAX: usize = 512 * 1_024;

/// The messages of the complete lines in `bytes`, and how many bytes they are. Blank lines are left
/// out. Where `is_full`, more was not read: a line that fills everything is cut.
pub(super) fn complete_lines(bytes: &[u8], is_full: bool) -> (Vec<Vec<u8>>, usize) {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
        let is_cut = is_full && bytes.len() >= LINE_BYTES_MAX;
        return if is_cut { (vec![message(bytes)], bytes.len()) } else { (Vec::new(), 0) };
    };
    let lines = bytes[..end].split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    (lines.filter(|line| !line.is_empty()).map(message).collect(), end + 1)
}

/// What is not UTF-8 is replaced.
fn message(line: &[u8]) -> Vec<u8> {
    let text = serde_json::Value::from(String::from_utf8_lossy(line));
    format!("{{\"payload\":{text}}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8], is_full: bool) -> (Vec<String>, usize) {
        let (lines, used) = complete_lines(bytes, is_full);
        (lines.into_iter().map(|line| String::from_utf8(line).expect("text")).collect(), used)
    }

    #[test]
    fn only_complete_lines_are_taken() {
        for (bytes, lines, used) in [
            (&b""[..], &[][..], 0),
            (b"half", &[], 0),
            (b"one\ntwo\nha", &[r#"{"payload":"one"}"#, r#"{"payload":"two"}"#], 8),
            (b"\n\r\n", &[], 3),
            (b"a \"b\"\\ \r\n", &[r#"{"payload":"a \"b\"\\ "}"#], 9),
            (b"\xff\n", &["{\"payload\":\"\u{fffd}\"}"], 2),
        ] {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(told(bytes, false), (lines, used), "{bytes:?}");
        }
        let long = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(told(&long, false).1, 0);
        assert_eq!(told(&long, true).1, LINE_BYTES_MAX);
    }
}
