//! A body of lines, such as NDJSON: cut as it comes, and handed on line by line.

use base::Problem;
use base::limits::NDJSON_LINE_BYTES_MAX;
use net::body::Pieces;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, LinesCodec, LinesCodecError};

/// A line, or why it is none.
pub(crate) type Line = Result<String, Problem>;

/// Who takes lines, and gathers some of them before it does anything with them.
pub(crate) trait TakesLines {
    /// Takes a line, which is not blank. Lines count from 1, blank ones too.
    async fn add(&mut self, number: u64, line: Line) -> Result<(), Problem>;

    /// Whether something is gathered.
    fn has_open(&self) -> bool;

    /// Does what is to be done with what is gathered.
    async fn hand_in(&mut self) -> Result<(), Problem>;
}

/// Hands over every line of a body. When its sender pauses, what has come so far does not wait.
///
/// # Errors
/// When the body breaks off, or what whoever takes the lines says.
pub(crate) async fn feed(body: &mut Pieces, takes: &mut impl TakesLines) -> Result<(), Problem> {
    let mut lines = Lines::default();
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
    Ok(())
}

/// Cuts a body into lines, which count from 1, blank ones too. Of a line that is too long nothing
/// is kept.
#[derive(Debug)]
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
