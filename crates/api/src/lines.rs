//! A body of lines, such as NDJSON: cut as it comes, and handed on line by line. Who takes lines
//! gathers them into slices, and has a bounded number of these in flight.

use base::Problem;
use base::limits::NDJSON_LINE_BYTES_MAX;
use futures_util::future::{BoxFuture, poll_immediate};
use futures_util::stream::{FuturesOrdered, StreamExt};
use net::body::BodyPieces;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, LinesCodec, LinesCodecError};

/// Slices of one body that are handed in and not yet answered.
const SLICES_IN_FLIGHT_MAX: usize = 8;
/// A slice is handed in when its lines have this many bytes, even if it has few lines.
pub(crate) const SLICE_BYTES: usize = 256 * 1_024;

const _: () = assert!(NDJSON_LINE_BYTES_MAX <= SLICE_BYTES, "a slice holds the longest line");

/// A line, or why it is none.
pub(crate) type Line = Result<String, Problem>;

/// What became of the lines of a slice, with their numbers.
pub(crate) type LineOutcomes<O> = Vec<(u64, Result<O, Problem>)>;

/// A slice that is handed in.
type SliceOnItsWay<'a, O> = BoxFuture<'a, Result<LineOutcomes<O>, Problem>>;

/// Who takes lines, and gathers some of them before it does anything with them.
pub(crate) trait TakesLines {
    /// Takes a line, which is not blank. Lines count from 1, blank ones too.
    async fn add(&mut self, number: u64, line: Line) -> Result<(), Problem>;

    /// Whether something is gathered.
    fn has_open(&self) -> bool;

    /// Does what is to be done with what is gathered.
    async fn hand_in(&mut self) -> Result<(), Problem>;
}

/// Hands over every line of a body, and has all of them handed in. When its sender pauses, what has
/// come so far does not wait.
///
/// # Errors
/// When the body breaks off, or what whoever takes the lines says.
pub(crate) async fn feed(body: &mut BodyPieces, takes: &mut impl TakesLines) -> Result<(), Problem> {
    let mut lines = LineSplitter::default();
    loop {
        let piece = tokio::select! {
            biased;
            piece = body.next() => piece?,
            () = std::future::ready(()), if takes.has_open() => {
                takes.hand_in().await?;
                continue;
            }
        };
        let Some(piece) = piece else { break };
        lines.buffer.extend_from_slice(&piece);
        while let Some((number, line)) = lines.next() {
            takes.add(number, line).await?;
        }
    }
    while let Some((number, line)) = lines.last() {
        takes.add(number, line).await?;
    }
    if takes.has_open() { takes.hand_in().await } else { Ok(()) }
}

/// Lines that will be handed in together, each read as an item.
#[derive(Debug)]
pub(crate) struct SliceOfLines<T> {
    pub(crate) items: Vec<T>,
    /// The number of each line, and why it is not handed in, where it is not.
    lines: Vec<(u64, Option<Problem>)>,
    bytes: usize,
}

impl<T> Default for SliceOfLines<T> {
    fn default() -> Self {
        Self { items: Vec::new(), lines: Vec::new(), bytes: 0 }
    }
}

impl<T> SliceOfLines<T> {
    pub(crate) fn add(&mut self, number: u64, line: Line, read: fn(&str) -> Result<T, Problem>) {
        self.bytes += line.as_ref().map_or(0, String::len);
        match line.and_then(|line| read(&line)) {
            Ok(item) => {
                self.items.push(item);
                self.lines.push((number, None));
            }
            Err(problem) => self.lines.push((number, Some(problem))),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn is_full(&self, lines_max: usize) -> bool {
        self.lines.len() >= lines_max || self.bytes >= SLICE_BYTES
    }

    /// What it takes in memory, in bytes, where an item takes so much beside its line.
    pub(crate) fn held_bytes(&self, item_bytes: usize) -> usize {
        self.bytes + self.lines.len() * item_bytes
    }

    /// What became of all its lines, given what became of its items.
    pub(crate) fn outcomes<O>(
        self,
        of_items: impl IntoIterator<Item = Result<O, Problem>>,
    ) -> LineOutcomes<O> {
        let mut of_items = of_items.into_iter();
        let outcome = |(number, refused): (u64, Option<Problem>)| match refused {
            Some(problem) => Some((number, Err(problem))),
            None => Some((number, of_items.next()?)),
        };
        self.lines.into_iter().filter_map(outcome).collect()
    }
}

/// The slices of a body that are handed in and not yet answered, and what became of all before.
pub(crate) struct SlicesInFlight<'a, O, S> {
    slices: FuturesOrdered<SliceOnItsWay<'a, O>>,
    told: S,
    tell: fn(&mut S, u64, Result<O, Problem>),
    /// Whether a slice was refused: nothing is told of the lines behind it.
    is_cut: bool,
}

impl<'a, O, S: Default> SlicesInFlight<'a, O, S> {
    /// None yet; `tell` notes what became of a line.
    pub(crate) fn new(tell: fn(&mut S, u64, Result<O, Problem>)) -> Self {
        Self { slices: FuturesOrdered::new(), told: S::default(), tell, is_cut: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Hands a slice in, once there may be one more.
    pub(crate) async fn push(&mut self, slice: SliceOnItsWay<'a, O>) -> Result<(), Problem> {
        while self.slices.len() >= SLICES_IN_FLIGHT_MAX {
            self.settle_oldest().await?;
        }
        self.slices.push_back(slice);
        // What is polled once is on its way, ahead of all that is handed in later.
        match poll_immediate(self.slices.next()).await {
            Some(Some(outcomes)) => self.settle(outcomes),
            Some(None) | None => Ok(()),
        }
    }

    /// Waits for the oldest slice; so rejections come in order of their lines.
    pub(crate) async fn settle_oldest(&mut self) -> Result<(), Problem> {
        match self.slices.next().await {
            Some(outcomes) => self.settle(outcomes),
            None => Ok(()),
        }
    }

    fn settle(&mut self, outcomes: Result<LineOutcomes<O>, Problem>) -> Result<(), Problem> {
        self.is_cut |= outcomes.is_err();
        let outcomes = outcomes?;
        if !self.is_cut {
            for (number, outcome) in outcomes {
                (self.tell)(&mut self.told, number, outcome);
            }
        }
        Ok(())
    }

    /// What became of all lines, or of those before the first slice that was refused, and why it
    /// was.
    pub(crate) async fn finish(mut self) -> (S, Result<(), Problem>) {
        // Those behind one that is refused have their memory until they are settled too.
        let mut all = Ok(());
        while !self.slices.is_empty() {
            let settled = self.settle_oldest().await;
            all = all.and(settled);
        }
        (self.told, all)
    }
}

/// Cuts a body into lines, which count from 1, blank ones too. Of a line that is too long nothing
/// is kept.
#[derive(Debug)]
struct LineSplitter {
    codec: LinesCodec,
    buffer: BytesMut,
    number: u64,
}

impl Default for LineSplitter {
    fn default() -> Self {
        // A line end is LF or CRLF, and is no part of the line.
        let codec = LinesCodec::new_with_max_length(NDJSON_LINE_BYTES_MAX + 1);
        Self { codec, buffer: BytesMut::new(), number: 0 }
    }
}

impl LineSplitter {
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
                Ok(Some(line)) if line.len() > NDJSON_LINE_BYTES_MAX => Err(too_long()),
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
        LinesCodecError::MaxLineLengthExceeded => too_long(),
        LinesCodecError::Io(_) => Problem::unreadable("the line is not UTF-8; it must be JSON"),
    }
}

fn too_long() -> Problem {
    Problem::not_allowed("line_too_long", format!("a line has at most {NDJSON_LINE_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<(u64, Result<String, &'static str>)> {
        let mut lines = LineSplitter::default();
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
        check(&[&long, b"\nb"], &[(1, Err("line_too_long")), (2, Ok("b"))]);
        check(&[&long, b"\r\nb"], &[(1, Err("line_too_long")), (2, Ok("b"))]);
        for end in [&b"\n"[..], b"\r\n", b"\r", b""] {
            let cut = cut(&[&long[1..], end]);
            assert_eq!(cut[0].1.as_ref().map(String::len), Ok(NDJSON_LINE_BYTES_MAX), "{end:?}");
            assert_eq!(cut.len(), 1, "{end:?}");
        }
    }
}
