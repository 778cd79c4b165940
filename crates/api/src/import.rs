//! An import as its body comes: lines are gathered into slices, slices are handed in, and a bounded
//! number of them is under way. When that many are, the body is not read on.
//!
//! Lines take effect in their order: slices are handed in one after the other, and the engine keeps
//! the order of a device.

use base::Problem;
use base::limits::{NDJSON_LINE_BYTES_MAX, SLICE_REPORTS_MAX};
use engine::intake::NotAccepting;
use engine::{Engine, ImportDevice, Imported};
use futures_util::future::{BoxFuture, poll_immediate};
use futures_util::stream::{FuturesOrdered, StreamExt};
use net::body::Pieces;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, LinesCodec, LinesCodecError};

use crate::shape::{ImportedShape, import_device};

/// Slices of one body that are handed in and not yet durable.
const SLICES_IN_FLIGHT_MAX: usize = 8;
/// A slice is handed in when its lines have this many bytes, even if it has few lines.
const SLICE_BYTES_MAX: usize = 256 * 1_024;

const _: () = assert!(NDJSON_LINE_BYTES_MAX <= SLICE_BYTES_MAX, "a slice holds the longest line");

/// Takes the whole body.
///
/// # Errors
/// When the body breaks off or the server is not accepting; lines that came before may have been
/// taken.
pub(crate) async fn take(engine: &Engine, mut body: Pieces) -> Result<ImportedShape, Problem> {
    let mut run = Run {
        engine,
        open: Slice::default(),
        in_flight: FuturesOrdered::new(),
        told: ImportedShape::default(),
    };
    let mut lines = Lines::default();
    loop {
        let piece = tokio::select! {
            biased;
            piece = body.next() => piece?,
            // The sender pauses: what has come so far does not wait for it.
            () = std::future::ready(()), if !run.open.is_empty() => {
                run.hand_in().await?;
                continue;
            }
        };
        let Some(piece) = piece else { break };
        lines.buffer.extend_from_slice(&piece);
        while let Some((number, line)) = lines.next() {
            run.add(number, line).await?;
        }
    }
    while let Some((number, line)) = lines.last() {
        run.add(number, line).await?;
    }
    run.finish().await
}

/// Cuts a body into lines, which count from 1, blank ones too. Of a line that is too long nothing
/// is kept.
struct Lines {
    codec: LinesCodec,
    buffer: BytesMut,
    number: u64,
}

impl Default for Lines {
    fn default() -> Self {
        let codec = LinesCodec::new_with_max_length(NDJSON_LINE_BYTES_MAX);
        Self { codec, buffer: BytesMut::new(), number: 0 }
    }
}

type Line = Result<String, Problem>;

impl Lines {
    /// The next line that is not blank; `None` when there is no whole one.
    fn next(&mut self) -> Option<(u64, Line)> {
        self.cut(LinesCodec::decode)
    }

    /// The rest of the body, when it did not end with a line end.
    fn last(&mut self) -> Option<(u64, Line)> {
        self.cut(LinesCodec::decode_eof)
    }

    fn cut(
        &mut self,
        cut: fn(&mut LinesCodec, &mut BytesMut) -> Result<Option<String>, LinesCodecError>,
    ) -> Option<(u64, Line)> {
        loop {
            let line = match cut(&mut self.codec, &mut self.buffer) {
                Ok(line) => Ok(line?),
                Err(error) => Err(unreadable(&error)),
            };
            self.number += 1;
            if line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty()) {
                continue;
            }
            return Some((self.number, line));
        }
    }
}

fn unreadable(error: &LinesCodecError) -> Problem {
    match error {
        LinesCodecError::MaxLineLengthExceeded => {
            let detail = format!("a line has at most {NDJSON_LINE_BYTES_MAX} bytes");
            Problem::not_allowed("line_too_long", detail)
        }
        LinesCodecError::Io(_) => Problem::unreadable("the line is not UTF-8; it must be JSON"),
    }
}

struct Run<'a> {
    engine: &'a Engine,
    open: Slice,
    in_flight: FuturesOrdered<BoxFuture<'a, Result<Outcomes, NotAccepting>>>,
    told: ImportedShape,
}

/// What became of the lines of a slice, with their numbers.
type Outcomes = Vec<(u64, Result<Imported, Problem>)>;

impl Run<'_> {
    async fn add(&mut self, number: u64, line: Line) -> Result<(), NotAccepting> {
        self.open.add(number, line);
        if self.open.is_full() { self.hand_in().await } else { Ok(()) }
    }

    async fn hand_in(&mut self) -> Result<(), NotAccepting> {
        while self.in_flight.len() >= SLICES_IN_FLIGHT_MAX {
            self.settle_oldest().await?;
        }
        let (engine, slice) = (self.engine, std::mem::take(&mut self.open));
        self.in_flight.push_back(Box::pin(slice.import(engine)));
        // What is polled once is on its way, ahead of all that is handed in later.
        if let Some(Some(outcomes)) = poll_immediate(self.in_flight.next()).await {
            self.tell(outcomes?);
        }
        Ok(())
    }

    /// Waits for the oldest slice; so rejections come in order of their lines.
    async fn settle_oldest(&mut self) -> Result<(), NotAccepting> {
        if let Some(outcomes) = self.in_flight.next().await {
            self.tell(outcomes?);
        }
        Ok(())
    }

    fn tell(&mut self, outcomes: Outcomes) {
        for (line, outcome) in outcomes {
            self.told.add(line, outcome);
        }
    }

    async fn finish(mut self) -> Result<ImportedShape, Problem> {
        if !self.open.is_empty() {
            self.hand_in().await?;
        }
        while !self.in_flight.is_empty() {
            self.settle_oldest().await?;
        }
        Ok(self.told)
    }
}

/// Lines that will be handed in together.
#[derive(Debug, Default)]
struct Slice {
    devices: Vec<ImportDevice>,
    /// The number of each line, and why it is not handed in, where it is not.
    lines: Vec<(u64, Option<Problem>)>,
    bytes: usize,
}

impl Slice {
    fn add(&mut self, number: u64, line: Line) {
        self.bytes += line.as_ref().map_or(0, String::len);
        match line.and_then(|line| import_device(&line)) {
            Ok(device) => {
                self.devices.push(device);
                self.lines.push((number, None));
            }
            Err(problem) => self.lines.push((number, Some(problem))),
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= SLICE_REPORTS_MAX || self.bytes >= SLICE_BYTES_MAX
    }

    async fn import(self, engine: &Engine) -> Result<Outcomes, NotAccepting> {
        let mut imported = engine.import(self.devices).await?.into_iter();
        let outcome = |(number, refused): (u64, Option<Problem>)| match refused {
            Some(problem) => Some((number, Err(problem))),
            None => Some((number, imported.next()?)),
        };
        Ok(self.lines.into_iter().filter_map(outcome).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<(u64, Result<String, &'static str>)> {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        let told = |(number, line): (u64, Line)| (number, line.map_err(|problem| problem.code));
        for chunk in chunks {
            lines.buffer.extend_from_slice(chunk);
            all.extend(std::iter::from_fn(|| lines.next()).map(told));
        }
        all.extend(std::iter::from_fn(|| lines.last()).map(told));
        all
    }

    #[test]
    fn lines_are_cut_where_they_end() {
        let long = [b'x'; NDJSON_LINE_BYTES_MAX + 1];
        let check = |chunks: &[&[u8]], expect: &[(u64, Result<&str, &'static str>)]| {
            let expect: Vec<_> =
                expect.iter().map(|(number, line)| (*number, line.map(str::to_owned))).collect();
            assert_eq!(cut(chunks), expect);
        };
        check(&[], &[]);
        check(&[b"a\nb\n"], &[(1, Ok("a")), (2, Ok("b"))]);
        check(&[b"\n \r\na\r\n\nb"], &[(3, Ok("a")), (5, Ok("b"))]);
        check(&[b"a", b"b", b"\n", b"c"], &[(1, Ok("ab")), (2, Ok("c"))]);
        check(&[b"\xff\nb\n"], &[(1, Err("unreadable")), (2, Ok("b"))]);
        check(&[&long, b"more", b"\nb"], &[(1, Err("line_too_long")), (2, Ok("b"))]);
        check(&[b"a\n", &long], &[(1, Ok("a")), (2, Err("line_too_long"))]);
        assert_eq!(cut(&[&long[1..], b"\n"])[0].1.as_ref().map(String::len), Ok(NDJSON_LINE_BYTES_MAX));
    }
}
