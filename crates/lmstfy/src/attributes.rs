//! Attributes of a job: `Job-Attr-*` headers, kept only for callers that know of them.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use engine::queues::Attributes;

use crate::answer::LmstfyAnswer;

/// Callers that know of attributes say so in this header.
const ENABLED: &str = "enable-job-version";
const PREFIX: &str = "job-attr-";
const ATTRIBUTES_MAX: usize = 16;
const KEY_BYTES_MAX: usize = 32;
const VALUE_BYTES_MAX: usize = 128;

/// The attributes that the headers have, in order of their keys; names of headers are in lower
/// case.
///
/// # Errors
/// 400 when there are too many.
pub(crate) fn of(headers: &HeaderMap) -> Result<Attributes, LmstfyAnswer> {
    if !headers.get(ENABLED).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"yes")) {
        return Ok(Attributes::new());
    }
    let mut attributes = BTreeMap::new();
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix(PREFIX) else { continue };
        let value = headers.get(name).map_or(&[][..], |value| value.as_bytes());
        if !value.is_empty() {
            attributes.insert(cut(key.as_bytes(), KEY_BYTES_MAX), cut(value, VALUE_BYTES_MAX));
        }
    }
    if attributes.len() > ATTRIBUTES_MAX {
        return Err(LmstfyAnswer::bad("too many attributes, cannot exceed 16"));
    }
    Ok(attributes.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
}

/// The first bytes, as text; a character that is cut through shows as a replacement.
fn cut(bytes: &[u8], most: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&str, &str)| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            (name, HeaderValue::from_str(value).expect("a value"))
        };
        pairs.iter().map(header).collect()
    }

    fn check(pairs: &[(&str, &str)], expect: &[(&str, &str)]) {
        let got = of(&headers(pairs)).expect("not too many");
        let got: Vec<_> = got.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(got, expect);
    }

    #[test]
    fn they_are_kept_for_those_who_know_of_them() {
        check(&[("Job-Attr-A", "1")], &[]);
        check(&[("Enable-Job-Version", "no"), ("Job-Attr-A", "1")], &[]);
        let (key, value) = ("k".repeat(40), "v".repeat(200));
        let long = format!("Job-Attr-{key}");
        check(
            &[
                ("Enable-Job-Version", "yes"),
                ("Job-Attr-B", "2"),
                ("JOB-ATTR-FLAG", "1"),
                ("Job-Attr-C", ""),
                (&long, &value),
            ],
            &[("b", "2"), ("flag", "1"), (&key[..32], &value[..128])],
        );
    }

    #[test]
    fn there_are_not_more_than_sixteen() {
        for (count, fits) in [(16, true), (17, false)] {
            let names: Vec<_> = (0..count).map(|n| format!("Job-Attr-{n}")).collect();
            let mut pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
            pairs.push(("Enable-Job-Version", "YES"));
            assert_eq!(of(&headers(&pairs)).is_ok(), fits, "{count}");
        }
    }
}
