//! Cuts a body that comes in chunks into lines, holding no more than one line of it.
//!
//! Lines count from 1, blank ones too. Of a line that is too long the beginning is kept, which is
//! told once it ends; the rest is thrown away as it comes.

use base::limits::NDJSON_LINE_BYTES_MAX;

/// Where in the body we are.
#[derive(Debug, Default)]
pub(super) struct BodyLines {
    number: u64,
    /// The beginning of the line that the next chunk goes on with.
    begun: Vec<u8>,
    /// `begun` was the last line given out, or too much was thrown away.
    state: LineState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LineState {
    #[default]
    InLine,
    GivenOut,
    TooLong,
}

/// A line that is not blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLine<'a> {
    Whole(&'a [u8]),
    /// The beginning of a line: one byte more than a line may have.
    TooLong(&'a [u8]),
}

/// What a step through a chunk came to.
#[derive(Clone, Copy)]
enum LineStep<'a> {
    /// A blank line.
    Blank,
    /// A line within the chunk.
    InChunk(&'a [u8]),
    /// A line that an earlier chunk began.
    Begun,
    TooLong,
}

impl BodyLines {
    /// The next line and its number; `None` when the chunk is used up.
    pub(super) fn next<'a, 'chunk: 'a>(
        &'a mut self,
        chunk: &mut &'chunk [u8],
    ) -> Option<(u64, BodyLine<'a>)> {
        let step = loop {
            match self.step(chunk)? {
                LineStep::Blank => {}
                step => break step,
            }
        };
        self.given(step)
    }

    /// The last line, if the body did not end with a line end.
    pub(super) fn last(&mut self) -> Option<(u64, BodyLine<'_>)> {
        let ended = match self.state {
            LineState::GivenOut => true,
            LineState::InLine => self.begun.is_empty(),
            LineState::TooLong => false,
        };
        if ended {
            return None;
        }
        self.number += 1;
        let step = self.end();
        self.given(step)
    }

    fn given<'a>(&'a self, step: LineStep<'a>) -> Option<(u64, BodyLine<'a>)> {
        let line = match step {
            LineStep::Blank => return None,
            LineStep::InChunk(line) => BodyLine::Whole(line),
            LineStep::Begun => BodyLine::Whole(&self.begun),
            LineStep::TooLong => BodyLine::TooLong(&self.begun),
        };
        Some((self.number, line))
    }

    fn step<'chunk>(&mut self, chunk: &mut &'chunk [u8]) -> Option<LineStep<'chunk>> {
        if self.state == LineState::GivenOut {
            self.begun.clear();
            self.state = LineState::InLine;
        }
        let Some(end) = chunk.iter().position(|byte| *byte == b'\n') else {
            self.begin(std::mem::take(chunk));
            return None;
        };
        let piece = &chunk[..end];
        *chunk = &chunk[end + 1..];
        self.number += 1;
        let in_chunk = self.state == LineState::InLine && self.begun.is_empty();
        if in_chunk && piece.len() <= NDJSON_LINE_BYTES_MAX {
            return Some(if is_blank(piece) { LineStep::Blank } else { LineStep::InChunk(piece) });
        }
        self.begin(piece);
        Some(self.end())
    }

    fn begin(&mut self, piece: &[u8]) {
        if self.state == LineState::TooLong {
            return;
        }
        let kept = piece.len().min(NDJSON_LINE_BYTES_MAX + 1 - self.begun.len());
        self.begun.extend_from_slice(&piece[..kept]);
        if self.begun.len() > NDJSON_LINE_BYTES_MAX {
            self.state = LineState::TooLong;
        }
    }

    /// Ends the line that was begun.
    fn end(&mut self) -> LineStep<'static> {
        let too_long = self.state == LineState::TooLong;
        self.state = LineState::GivenOut;
        match too_long {
            true => LineStep::TooLong,
            false if is_blank(&self.begun) => LineStep::Blank,
            false => LineStep::Begun,
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(line: BodyLine<'_>) -> String {
        match line {
            BodyLine::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            BodyLine::TooLong(beginning) => {
                assert_eq!(beginning.len(), NDJSON_LINE_BYTES_MAX + 1);
                "TOO LONG".into()
            }
        }
    }

    fn cut(chunks: &[&[u8]]) -> Vec<(u64, String)> {
        let mut lines = BodyLines::default();
        let mut all = Vec::new();
        for chunk in chunks {
            let mut chunk = *chunk;
            while let Some((number, line)) = lines.next(&mut chunk) {
                all.push((number, told(line)));
            }
        }
        all.extend(lines.last().map(|(number, line)| (number, told(line))));
        all
    }

    #[test]
    fn lines_are_cut_where_they_end() {
        let long = [b'x'; NDJSON_LINE_BYTES_MAX + 1];
        let check = |chunks: &[&[u8]], expect: &[(u64, &str)]| {
            let expect: Vec<_> = expect.iter().map(|(number, line)| (*number, (*line).to_owned())).collect();
            assert_eq!(cut(chunks), expect);
        };
        check(&[], &[]);
        check(&[b"a\nb\n"], &[(1, "a"), (2, "b")]);
        check(&[b"a\nb"], &[(1, "a"), (2, "b")]);
        check(&[b"\n \r\na\r\n\nb\n\n"], &[(3, "a\r"), (5, "b")]);
        check(&[b"a", b"b", b"\n", b"c"], &[(1, "ab"), (2, "c")]);
        check(&[b"ab\n", b"", b"\n", b"c\n"], &[(1, "ab"), (3, "c")]);
        check(&[b" ", b"\n", b"a\n", b" "], &[(2, "a")]);
        check(&[&long, b"\na\n"], &[(1, "TOO LONG"), (2, "a")]);
        check(&[b"a\n", &long, b"more", b"\nb"], &[(1, "a"), (2, "TOO LONG"), (3, "b")]);
        check(&[&long], &[(1, "TOO LONG")]);
        let mut within = long[1..].to_vec();
        assert_eq!(cut(&[&within])[0].1.len(), NDJSON_LINE_BYTES_MAX);
        within.extend_from_slice(b"\n");
        assert_eq!(cut(&[&within])[0].1.len(), NDJSON_LINE_BYTES_MAX);
        let (head, tail) = long.split_at(NDJSON_LINE_BYTES_MAX / 2);
        check(&[head, tail, b"\n"], &[(1, "TOO LONG")]);
    }

    #[test]
    fn only_the_beginning_of_a_long_line_is_kept() {
        let mut lines = BodyLines::default();
        for _ in 0..100 {
            assert_eq!(lines.next(&mut [b'x'; 10_000].as_slice()), None);
            assert!(lines.begun.capacity() <= 2 * NDJSON_LINE_BYTES_MAX);
        }
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(body in "[ab \n]{0,40}", cuts in prop::collection::vec(0_usize..40, 0..6)) {
            let bytes = body.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let expect: Vec<(u64, String)> = body
                .split('\n')
                .zip(1..)
                .filter(|(line, _)| !line.trim().is_empty())
                .map(|(line, number)| (number, line.to_owned()))
                .collect();
            prop_assert_eq!(cut(&chunks), expect);
        }
    }
}
