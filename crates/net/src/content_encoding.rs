//! Compressed request bodies: gzip is decoded while the body is read, any other coding is 415.
//!
//! Readers see decoded bytes only, so every limit on a body counts decoded bytes. A body is decoded
//! in pieces, on demand: however far it expands, it takes the memory of one decoder. The number of
//! decoders is bounded, and each address has a share of them. A body without one waits for it, and
//! is read more slowly. A body whose wait for a decoder is our fault tells its reader so, once a
//! second, with a frame that carries nothing. While others wait, a body with a decoder keeps a
//! pace.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use base::Problem;
use base::answers::TakenFrom;
use flate2::write::MultiGzDecoder;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body::Frame;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::bytes::Buf;

use crate::pace::{PaceWatch, RECEIVING};
use crate::problem::{Refused, quoted};
use crate::shares::{SenderKey, SharedPool};

/// Bodies that are decoded at the same time. A decoder takes about 80 KB.
const DECODERS_MAX: usize = 512;
/// Of these, for the bodies of one address.
const DECODERS_SHARE: usize = DECODERS_MAX / 4;
/// How often a body that waits for a decoder says so.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Decoded bytes that are handed on at a time. A decoder gives at most 32 KiB more than that.
const PIECE_BYTES: usize = 16 * 1_024;

/// The decoders.
#[derive(Debug)]
pub struct Decoders {
    pool: Arc<SharedPool>,
    in_use: Gauge,
}

impl Default for Decoders {
    fn default() -> Self {
        Self { pool: Arc::new(SharedPool::new(DECODERS_MAX, DECODERS_SHARE)), in_use: Gauge::default() }
    }
}

impl Decoders {
    /// Puts its metrics into the registry.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Compressed bodies of requests that are being decoded";
        registry.register("fieldpost_http_decoders_in_use", help, self.in_use.clone());
    }

    /// The request with a body that is not compressed.
    ///
    /// # Errors
    /// 415 for a coding that is not known here.
    pub fn decoded(&self, request: Request) -> Result<Request, Box<Response>> {
        if request.body().is_end_stream() {
            return Ok(request);
        }
        match coding(request.headers()) {
            Ok(Coding::Identity) => Ok(request),
            Ok(Coding::Gzip) => {
                let (mut parts, body) = request.into_parts();
                for name in [CONTENT_ENCODING, CONTENT_LENGTH] {
                    parts.headers.remove(name);
                }
                let sender = SenderKey::of(&parts.extensions);
                Ok(Request::from_parts(parts, Body::new(Decoded::of(body, sender, self))))
            }
            Err(problem) => {
                let mut response = Refused(problem).into_response();
                response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
                Err(Box::new(response))
            }
        }
    }
}

/// Whether the body is anything but plain bytes.
#[must_use]
pub fn is_encoded(headers: &HeaderMap) -> bool {
    !matches!(coding(headers), Ok(Coding::Identity))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Identity,
    Gzip,
}

fn coding(headers: &HeaderMap) -> Result<Coding, Problem> {
    let mut given = headers.get_all(CONTENT_ENCODING).iter();
    let (first, second) = (given.next(), given.next());
    let Some(name) = first.map(|first| first.as_bytes().trim_ascii()) else { return Ok(Coding::Identity) };
    let is = |known: &str| second.is_none() && name.eq_ignore_ascii_case(known.as_bytes());
    if is("gzip") || is("x-gzip") {
        return Ok(Coding::Gzip);
    }
    if is("identity") || is("") {
        return Ok(Coding::Identity);
    }
    let name = quoted(&String::from_utf8_lossy(name));
    let detail = format!("Content-Encoding is {name}; a body is sent as it is, or once with gzip");
    Err(Problem::new(415, "unsupported_encoding", detail))
}

/// A body of gzip, as what is in it.
struct Decoded {
    raw: Body,
    /// Read, and not decoded yet.
    input: Bytes,
    pool: Arc<SharedPool>,
    sender: SenderKey,
    in_use: Gauge,
    decoder: Option<Decoder>,
    waits: Option<DecoderWait>,
    ended: bool,
}

/// The place of a decoder, and what it is taken from.
type Place = ([OwnedSemaphorePermit; 2], TakenFrom);

/// A body that waits for a decoder.
struct DecoderWait {
    place: BoxFuture<'static, Place>,
    tells: Pin<Box<Sleep>>,
}

/// What is done next with a body.
enum DecodeStep {
    Piece(Option<Bytes>),
    /// It still waits for a decoder.
    Waits,
}

impl Decoded {
    fn of(raw: Body, sender: SenderKey, decoders: &Decoders) -> Self {
        Self {
            raw,
            input: Bytes::new(),
            pool: Arc::clone(&decoders.pool),
            sender,
            in_use: decoders.in_use.clone(),
            decoder: None,
            waits: None,
            ended: false,
        }
    }

    /// Makes a decoder once there is a place for it. Whether that is so.
    fn poll_decoder(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.decoder.is_some() {
            return Poll::Ready(true);
        }
        let waits = self.waits.get_or_insert_with(|| {
            let (pool, sender) = (Arc::clone(&self.pool), self.sender.clone());
            let place = async move { pool.take(&sender, 1).await }.boxed();
            DecoderWait { place, tells: Box::pin(sleep(TELL_EVERY)) }
        });
        if let Poll::Ready(place) = waits.place.poll_unpin(cx) {
            self.waits = None;
            self.decoder = Some(Decoder::new(place, self.in_use.clone()));
            return Poll::Ready(true);
        }
        ready!(waits.tells.poll_unpin(cx));
        waits.tells.as_mut().reset(Instant::now() + TELL_EVERY);
        Poll::Ready(false)
    }

    /// Fails where too little has come while others wait for a decoder.
    fn poll_pace(&mut self, cx: &mut Context<'_>) -> Result<(), axum::Error> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let (_, from) = &decoder.place;
        if decoder.pace.poll_too_slow(cx, || from.is_wanted()).is_ready() {
            let detail = "little of a compressed body came while others waited for a decoder";
            return Err(axum::Error::new(Problem::new(408, "body_too_slow", detail)));
        }
        Ok(())
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<DecodeStep, axum::Error>> {
        loop {
            if !self.input.is_empty() {
                if !ready!(self.poll_decoder(cx)) {
                    return Poll::Ready(Ok(DecodeStep::Waits));
                }
                if let Some(piece) = self.decoder.as_mut().expect("made above").decode(&mut self.input)? {
                    return Poll::Ready(Ok(DecodeStep::Piece(Some(piece))));
                }
            }
            match Pin::new(&mut self.raw).poll_frame(cx)? {
                Poll::Ready(Some(frame)) => self.input = frame.into_data().unwrap_or_default(),
                Poll::Ready(None) => {
                    self.ended = true;
                    let last = self.decoder.take().map(Decoder::finish).transpose()?;
                    return Poll::Ready(Ok(DecodeStep::Piece(last.filter(|last| !last.is_empty()))));
                }
                // What has come so far does not wait for what comes later.
                Poll::Pending => {
                    let piece = self.decoder.as_mut().map(Decoder::flush).transpose()?;
                    if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
                        return Poll::Ready(Ok(DecodeStep::Piece(Some(piece))));
                    }
                    self.poll_pace(cx)?;
                    return Poll::Pending;
                }
            }
        }
    }
}

impl HttpBody for Decoded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        // A few bytes may become many pieces: now and then they leave the thread to others.
        let turn = ready!(coop::poll_proceed(cx));
        let piece = ready!(this.poll_piece(cx));
        turn.made_progress();
        if piece.is_err() {
            this.ended = true;
            this.decoder = None;
        }
        Poll::Ready(match piece {
            Ok(DecodeStep::Piece(piece)) => piece.map(|piece| Ok(Frame::data(piece))),
            Ok(DecodeStep::Waits) => Some(Ok(Frame::trailers(HeaderMap::new()))),
            Err(error) => Some(Err(error)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

/// One decoder, and the place that it takes.
struct Decoder {
    gzip: Box<MultiGzDecoder<Vec<u8>>>,
    in_use: Gauge,
    pace: PaceWatch,
    place: Place,
}

impl Decoder {
    fn new(place: Place, in_use: Gauge) -> Self {
        in_use.inc();
        let gzip = Box::new(MultiGzDecoder::new(Vec::new()));
        Self { gzip, in_use, pace: PaceWatch::new(RECEIVING), place }
    }

    /// A piece, once there is enough for one.
    fn decode(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, axum::Error> {
        while !input.is_empty() {
            let taken = self.gzip.write(input).map_err(|error| damaged(&error))?;
            if taken == 0 {
                return Err(damaged(&io::ErrorKind::InvalidData.into()));
            }
            input.advance(taken);
            self.pace.moved(taken);
            if self.gzip.get_ref().len() >= PIECE_BYTES {
                return Ok(Some(self.take()));
            }
        }
        Ok(None)
    }

    fn flush(&mut self) -> Result<Bytes, axum::Error> {
        self.gzip.flush().map_err(|error| damaged(&error))?;
        Ok(self.take())
    }

    fn finish(mut self) -> Result<Bytes, axum::Error> {
        self.gzip.try_finish().map_err(|error| damaged(&error))?;
        Ok(self.take())
    }

    fn take(&mut self) -> Bytes {
        std::mem::take(self.gzip.get_mut()).into()
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        self.in_use.dec();
    }
}

fn damaged(error: &io::Error) -> axum::Error {
    axum::Error::new(io::Error::new(error.kind(), format!("its gzip is damaged or ends too soon: {error}")))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;

    use axum::extract::ConnectInfo;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures_util::stream::{self, StreamExt};
    use http_body_util::BodyExt;
    use tokio::time::{advance, pause};

    use super::*;

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).expect("a Vec takes every write");
        encoder.finish().expect("a Vec takes every write")
    }

    fn body(decoders: &Decoders, raw: &[u8], piece_bytes: usize) -> Body {
        let pieces: Vec<_> =
            raw.chunks(piece_bytes).map(|piece| Ok::<_, Infallible>(piece.to_vec())).collect();
        let request = Request::post("/").header(CONTENT_ENCODING, "gzip");
        let request = request.body(Body::from_stream(stream::iter(pieces))).expect("a request");
        decoders.decoded(request).expect("gzip is known").into_body()
    }

    #[tokio::test]
    async fn a_body_is_decoded_wherever_it_is_cut() {
        let (decoders, plain) = (Decoders::default(), "0123456789abcdef\n".repeat(50_000));
        let members = [gzip(&plain.as_bytes()[..7]), gzip(&plain.as_bytes()[7..])].concat();
        for raw in [gzip(plain.as_bytes()), members] {
            for piece_bytes in [1, 7, 1_000, raw.len()] {
                let read = body(&decoders, &raw, piece_bytes).collect().await.expect("whole").to_bytes();
                assert!(read == plain, "in pieces of {piece_bytes}");
            }
            for cut in [0, 1, 12, raw.len() / 2, raw.len() - 1] {
                let read = body(&decoders, &raw[..cut], 1_000).collect().await;
                assert_eq!(read.is_ok(), cut == 0, "cut at {cut}");
            }
        }
        assert!(body(&decoders, b"{\"device_id\":1}", 100).collect().await.is_err(), "no gzip at all");
        assert_eq!(decoders.in_use.get(), 0);
    }

    #[tokio::test]
    async fn a_body_that_expands_is_handed_on_in_pieces() {
        let decoders = Decoders::default();
        let raw = gzip(&vec![b'\n'; 64 * 1_024 * 1_024]);
        assert!(raw.len() < 100_000);
        let (mut body, mut read, mut largest) = (body(&decoders, &raw, raw.len()), 0, 0);
        while let Some(frame) = body.frame().await {
            let bytes = frame.expect("whole").into_data().expect("data").len();
            (read, largest) = (read + bytes, largest.max(bytes));
            assert_eq!(decoders.in_use.get(), i64::from(!body.is_end_stream()));
        }
        assert_eq!(read, 64 * 1_024 * 1_024);
        assert!(largest <= PIECE_BYTES + 32 * 1_024, "{largest}");
    }

    /// A body of a caller, of which the beginning came, and nothing more.
    fn silent(decoders: &Decoders, caller: u8) -> Body {
        let begun = stream::iter([Ok::<_, Infallible>(gzip(b"{}")[..10].to_vec())]).chain(stream::pending());
        let peer = ConnectInfo(SocketAddr::from(([10, 0, 0, caller], 1)));
        let request = Request::post("/").header(CONTENT_ENCODING, "gzip").extension(peer);
        let request = request.body(Body::from_stream(begun)).expect("a request");
        decoders.decoded(request).expect("gzip is known").into_body()
    }

    #[tokio::test]
    async fn who_waits_for_a_decoder_is_told_and_whoever_has_one_keeps_a_pace() {
        pause();
        let decoders = Decoders::default();
        let mut bodies: Vec<_> = (0..DECODERS_SHARE).map(|_| silent(&decoders, 1)).collect();
        for body in &mut bodies {
            assert!(body.frame().now_or_never().is_none());
        }
        assert_eq!(decoders.in_use.get(), DECODERS_SHARE as i64);
        assert!(silent(&decoders, 2).frame().now_or_never().is_none());
        for _ in 0..10 {
            advance(RECEIVING.every + Duration::from_millis(1)).await;
            assert!(bodies[0].frame().now_or_never().is_none(), "nobody waits for its decoder");
        }
        let mut waiting = silent(&decoders, 1);
        let frame = waiting.frame().await.expect("a frame").expect("no error");
        assert!(frame.is_trailers(), "it is told that it waits");
        advance(RECEIVING.every - TELL_EVERY + Duration::from_millis(1)).await;
        let ended = bodies[0].frame().now_or_never().flatten().expect("it is over").expect_err("too slow");
        let problem = Problem::behind(&ended);
        assert_eq!(problem.map(|problem| problem.code), Some("body_too_slow"));
        drop(bodies);
        assert!(waiting.frame().now_or_never().is_none());
        assert_eq!(decoders.in_use.get(), 1);
    }

    #[test]
    fn only_gzip_and_no_coding_are_known() {
        let known = |given: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for name in given {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(name));
            }
            coding(&headers).map_err(|problem| (problem.status, problem.code))
        };
        for given in [&["gzip"], &["GZIP"], &["x-gzip"]] {
            assert_eq!(known(given), Ok(Coding::Gzip), "{given:?}");
        }
        for given in [&[][..], &["identity"], &[""]] {
            assert_eq!(known(given), Ok(Coding::Identity), "{given:?}");
        }
        for given in [&["br"][..], &["deflate"], &["gzip, gzip"], &["gzip", "identity"]] {
            assert_eq!(known(given), Err((415, "unsupported_encoding")), "{given:?}");
        }
    }
}
