//! Where the columns of a table stand when a terminal is narrow. Long values are shortened first.
//! Where that is not enough, each row takes several lines, so that no id is lost.

use std::ops::Range;

/// Between two columns.
pub(super) const GAP: usize = 2;
/// Before what goes on from the line above.
pub(super) const INDENT: usize = 2;
/// A value is shortened to no less than this.
const SHORT_CHARS_MIN: usize = 12;

/// How wide each column is, and which of them share a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) widths: Vec<usize>,
    pub(super) lines: Vec<Range<usize>>,
}

impl Layout {
    /// For columns as wide as what is in them; `room` is the width of the terminal, if it has one.
    pub(super) fn of(widths: &[usize], shortens: &[bool], room: Option<usize>) -> Self {
        let room = room.unwrap_or(usize::MAX);
        let one_line = |widths| Self { widths, lines: std::iter::once(0..shortens.len()).collect() };
        let shortened = shortened(widths, shortens, room);
        if total(&shortened) <= room {
            return one_line(shortened);
        }
        let widest = room.saturating_sub(INDENT).max(1);
        let widths: Vec<_> = widths.iter().map(|width| (*width).min(widest)).collect();
        let lines = folded(&widths, room);
        Self { widths, lines }
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// The widths with long values made shorter, the widest first, until all fits or none can give
/// more.
fn shortened(widths: &[usize], shortens: &[bool], room: usize) -> Vec<usize> {
    let mut widths = widths.to_vec();
    while total(&widths) > room {
        let can_give = |place: &usize| shortens[*place] && widths[*place] > SHORT_CHARS_MIN;
        let Some(widest) = (0..widths.len()).filter(can_give).max_by_key(|place| widths[*place]) else {
            break;
        };
        widths[widest] -= 1;
    }
    widths
}

/// As many columns on each line as fit; one that fits on none has its own.
fn folded(widths: &[usize], room: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let (mut begin, mut used) = (0, 0);
    for (place, width) in widths.iter().enumerate() {
        let with_it = if place == begin { used + width } else { used + GAP + width };
        if with_it > room && place > begin {
            lines.push(begin..place);
            (begin, used) = (place, INDENT + width);
        } else {
            used = with_it;
        }
    }
    lines.push(begin..widths.len());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ends` are the ends of the lines.
    fn check(widths: &[usize], shortens: &[bool], room: usize, expect: (&[usize], &[usize])) {
        let layout = Layout::of(widths, shortens, Some(room));
        let ends: Vec<usize> = layout.lines.iter().map(|line| line.end).collect();
        assert_eq!((&layout.widths[..], &ends[..]), expect, "{widths:?} in {room}");
        for line in &layout.lines {
            let indent = if line.start == 0 { 0 } else { INDENT };
            assert!(indent + total(&layout.widths[line.clone()]) <= room, "{layout:?} in {room}");
        }
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        check(&[10, 20], &[false, true], 32, (&[10, 20], &[2]));
        let layout = Layout::of(&[1_000, 2_000], &[false, true], None);
        assert_eq!((&layout.widths[..], layout.lines.len()), (&[1_000, 2_000][..], 1));
    }

    #[test]
    fn long_values_are_shortened_before_a_row_is_folded() {
        check(&[10, 49, 49], &[false, true, true], 80, (&[10, 33, 33], &[3]));
        check(&[24, 49, 7], &[false, true, false], 80, (&[24, 45, 7], &[3]));
    }

    #[test]
    fn what_does_not_fit_goes_on_in_the_next_line() {
        check(&[24, 36, 16, 8], &[false; 4], 80, (&[24, 36, 16, 8], &[3, 4]));
        check(&[24, 36, 30, 49], &[false, false, false, true], 80, (&[24, 36, 30, 49], &[2, 3, 4]));
        check(&[4, 300], &[false; 2], 80, (&[4, 78], &[1, 2]));
    }
}
