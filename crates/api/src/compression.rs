//! Lists and exports as gzip, for callers that accept it. A page is compressed whole, on the thread
//! that read it, so that what is counted of it is what is sent; an export piece by piece, each
//! ending where its rows do.

use std::io::Write;

use axum::body::Bytes;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use axum::http::{HeaderMap, HeaderValue};
use flate2::Compression;
use flate2::write::GzEncoder;

/// A smaller page is sent as it is: there is nothing to gain.
const PAGE_BYTES_MIN: usize = 1_024;
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
    if plain.len() < PAGE_BYTES_MIN {
        return None;
    }
    let mut encoder = Rows::new();
    encoder.add(plain);
    Some(encoder.finish())
}

/// What the answer to a request that could be compressed says of that.
pub(crate) fn told(headers: &mut HeaderMap, is_compressed: bool) {
    headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
}

/// Rows that are compressed one after the other.
#[derive(Debug)]
pub(crate) struct Rows(GzEncoder<Vec<u8>>);

impl Rows {
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
    use super::*;

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
