//! Percent-encoding in paths, queries and forms. Most requests have none, and then nothing is
//! copied.

use std::borrow::Cow;

/// A path, decoded. What is then no UTF-8 has a replacement character, which is in no name.
pub(crate) fn path(text: &str) -> Cow<'_, str> {
    decoded(text, false)
}

/// A key or a value of a query or a form, decoded.
pub(crate) fn form(text: &str) -> Cow<'_, str> {
    decoded(text, true)
}

fn decoded(text: &str, plus_is_blank: bool) -> Cow<'_, str> {
    let is_coded = |byte: u8| byte == b'%' || (plus_is_blank && byte == b'+');
    if !text.bytes().any(is_coded) {
        return Cow::Borrowed(text);
    }
    let (bytes, mut plain, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let coded = (byte == b'%').then(|| bytes.get(at + 1..at + 3).and_then(byte_of)).flatten();
        match coded {
            Some(byte) => {
                plain.push(byte);
                at += 3;
                continue;
            }
            None if byte == b'+' && plus_is_blank => plain.push(b' '),
            None => plain.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

fn byte_of(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let &[high, low] = digits else { return None };
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_coded_is_decoded_and_the_rest_is_left() {
        for (text, in_path, in_form) in [
            ("q1,q2", "q1,q2", "q1,q2"),
            ("q1%2Cq2%2c", "q1,q2,", "q1,q2,"),
            ("a+b", "a+b", "a b"),
            ("%E2%82%AC", "\u{20ac}", "\u{20ac}"),
            ("%FF", "\u{fffd}", "\u{fffd}"),
            ("100%", "100%", "100%"),
            ("%zz%4", "%zz%4", "%zz%4"),
        ] {
            assert_eq!((path(text).as_ref(), form(text).as_ref()), (in_path, in_form), "{text}");
        }
    }
}
