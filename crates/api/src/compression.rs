//! JSON and exports as gzip, for callers that accept it. A page is compressed whole, on the thread
//! that read it, so what is counted of it is what is sent. An export is compressed piece by piece,
//! each ending where its rows do. Any other small answer in one piece is compressed on its way out.
//! Jobs that are handed over are not: that they were taken is seen by their own body.

use std::convert::Infallible;
use std::io::Write;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt, Full};

/// What is smaller is sent as it is: there is nothing to gain.
pub(crate) const BYTES_MIN: usize = 1_024;
/// A larger answer that is no page is not compressed: it would take over a millisecond of its
/// connection's task.
const ON_ITS_WAY_BYTES_MAX: usize = 64 * 1_024;
/// How much work is put into it, of 9: more takes the time of whoever waits for a turn to read.
const LEVEL: u32 = 3;

/// Whether `Accept-Encoding` takes gzip.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut weights = [None, None];
    for coding in texts.flat_map(|text| text.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let place = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => 0,
            "*" => 1,
            _ => continue,
        };
        let weight =
            parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse::<f32>().ok());
        weights[place] = weight;
    }
    weights[0].or(weights[1]).is_some_and(|weight| weight > 0.0)
}

/// The page compressed, where that is worth it.
pub(crate) fn page(plain: &Bytes) -> Option<Bytes> {
    if plain.len() < BYTES_MIN {
        return None;
    }
    let mut encoder = CompressedRows::new();
    encoder.add(plain);
    Some(encoder.finish())
}

/// The body of an answer that is JSON in one piece, as an extension of it. Whoever gives the answer
/// another body removes it.
#[derive(Clone, Debug)]
pub(crate) struct InOnePiece(pub Bytes);

/// What can be compressed of an answer, which says so from now on. What has a tag cannot: the tag
/// would stand for two forms.
pub(crate) fn plain(response: &mut Response) -> Option<Bytes> {
    let InOnePiece(plain) = response.extensions_mut().remove::<InOnePiece>()?;
    let headers = response.headers_mut();
    if headers.contains_key(CONTENT_ENCODING) || headers.contains_key(ETAG) {
        return None;
    }
    if !headers.contains_key(VARY) {
        set_headers(headers, false);
    }
    Some(plain)
}

/// The answer with its body compressed.
pub(crate) fn smaller(mut response: Response, plain: &Bytes) -> Response {
    if plain.len() <= ON_ITS_WAY_BYTES_MAX
        && let Some(compressed) = page(plain)
    {
        // What it holds beside its bytes, such as a place, goes when the answer has left.
        let before = std::mem::take(response.body_mut());
        let body = Full::new(compressed).map_err(move |never: Infallible| {
            let _held = &before;
            never
        });
        *response.body_mut() = Body::new(body);
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// What the answer to a request that could be compressed says of that.
pub(crate) fn set_headers(headers: &mut HeaderMap, is_compressed: bool) {
    headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
}

/// Rows that are compressed one after the other.
#[derive(Debug)]
pub(crate) struct CompressedRows(GzEncoder<Vec<u8>>);

impl CompressedRows {
    pub(crate) fn new() -> Self {
        Self(GzEncoder::new(Vec::new(), Compression::new(LEVEL)))
    }

    /// Goes on with these rows.
    pub(crate) fn add(&mut self, rows: &[u8]) {
        self.0.write_all(rows).expect("a Vec takes every write");
    }

    /// All that was added since the last time, such that a receiver can read it.
    pub(crate) fn piece(&mut self) -> Bytes {
        self.0.flush().expect("a Vec takes every write");
        std::mem::take(self.0.get_mut()).into()
    }

    /// The rest and the end.
    pub(crate) fn finish(self) -> Bytes {
        self.0.finish().expect("a Vec takes every write").into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_large_and_no_page_is_sent_as_it_is() {
        let plain = Bytes::from(vec![b' '; ON_ITS_WAY_BYTES_MAX + 1]);
        let response = smaller(Response::new(Body::from(plain.clone())), &plain);
        assert!(!response.headers().contains_key(CONTENT_ENCODING));
    }

    #[tokio::test]
    async fn what_a_body_holds_is_held_until_its_compressed_form_has_left() {
        let (held, plain) = (Arc::new(()), Bytes::from(vec![b' '; ON_ITS_WAY_BYTES_MAX]));
        let own = Arc::clone(&held);
        let body = Body::from(plain.clone()).map_err(move |error| {
            let _held = &own;
            error
        });
        let response = smaller(Response::new(Body::new(body)), &plain);
        assert_eq!(response.headers()[CONTENT_ENCODING], "gzip");
        assert_eq!(Arc::strong_count(&held), 2);
        let sent = response.into_body().collect().await.expect("never fails").to_bytes();
        assert!(!sent.is_empty() && sent.len() < 1_024, "{}", sent.len());
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn only_who_accepts_gzip_gets_it() {
        for (accept, expect) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate, *", true),
            ("*;q=0", false),
            ("gzip;q=0, *", false),
            ("gzip;q=none", false),
            ("br", false),
            ("identity", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, accept.parse().expect("a header"))]);
            assert_eq!(is_accepted(&headers), expect, "{accept}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }
}
