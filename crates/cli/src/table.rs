//! What people see: aligned columns and aligned facts, with a little colour.
//!
//! Text comes from devices and from strangers, so nothing in it may steer a terminal. Colours are
//! always in the result; whoever writes it out takes them away where nobody would see them.

mod layout;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use layout::{INDENT, Layout};

/// As it should be.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Somebody has to look.
pub(super) const BAD: Style = AnsiColor::Red.on_default();
/// Not decided yet.
pub(super) const OPEN: Style = AnsiColor::Yellow.on_default();
/// Beside the point.
pub(super) const FAINT: Style = Style::new().dimmed();
const HEADING: Style = Style::new().bold();
const PLAIN: Style = Style::new();

/// Between two columns.
const GAP: &str = "  ";
const _: () = assert!(GAP.len() == layout::GAP);
/// A value may have 4 KiB; in a table its beginning will do.
const SHORT_CHARS_MAX: usize = 48;
/// What stands where there is nothing.
const NOTHING: &str = "-";

/// A text in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    text: String,
    style: Style,
    to_the_right: bool,
    /// Less of it will do where there is no room.
    shortens: bool,
    /// It goes on in further lines where there is no room.
    wraps: bool,
}

impl Cell {
    /// A text as it is.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: plain(text), style: PLAIN, to_the_right: false, shortens: false, wraps: false }
    }

    /// The beginning of a text that may be long.
    #[must_use]
    pub fn short(text: &str) -> Self {
        let mut shown: String = text.chars().take(SHORT_CHARS_MAX).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        Self { shortens: true, ..Self::text(&shown) }
    }

    /// A text that is shortened only where there is no room.
    pub(super) fn elastic(text: &str) -> Self {
        Self { shortens: true, ..Self::text(text) }
    }

    /// A text of which nothing may be missing, however narrow the terminal.
    #[must_use]
    pub fn whole(text: &str) -> Self {
        Self { wraps: true, ..Self::text(text) }
    }

    /// A number, which stands below the others digit by digit.
    pub(super) fn number(number: u64) -> Self {
        Self::text(&grouped(number)).aligned_right()
    }

    /// What may be missing.
    #[must_use]
    pub fn maybe(text: Option<&str>) -> Self {
        text.map_or_else(|| Self::text(NOTHING).styled(FAINT), Self::text)
    }

    /// A word for how something stands, in the style that it is listed for.
    pub(super) fn standing(word: &str, styles: &[(Style, &[&str])]) -> Self {
        let listed = styles.iter().find(|(_, words)| words.contains(&word));
        Self::text(word).styled(listed.map_or(FAINT, |(style, _)| *style))
    }

    /// Among others below which it ends.
    #[must_use]
    pub fn aligned_right(self) -> Self {
        Self { to_the_right: true, ..self }
    }

    pub(super) fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }

    fn width(&self) -> usize {
        self.text.width()
    }

    /// The same in a column of this width.
    fn cut_to(&self, width: usize) -> Self {
        let mut cell = self.clone();
        if cell.width() > width {
            cell.text = beginning(&cell.text, width);
        }
        cell
    }

    /// The same in as many lines of this width as it takes.
    fn pieces(&self, width: usize) -> Vec<Self> {
        let (mut pieces, mut piece, mut used) = (Vec::new(), String::new(), 0);
        for c in self.text.chars() {
            let taken = c.width().unwrap_or(0);
            if used > 0 && used + taken > width {
                pieces.push(std::mem::take(&mut piece));
                used = 0;
            }
            used += taken;
            piece.push(c);
        }
        pieces.push(piece);
        let Self { style, to_the_right, shortens, wraps, .. } = *self;
        let of_text = |text| Self { text, style, to_the_right, shortens, wraps };
        pieces.into_iter().map(of_text).collect()
    }

    /// The text with its colour, filled up to a width.
    fn painted(&self, width: usize) -> String {
        let Self { text, style, to_the_right, .. } = self;
        let fill = " ".repeat(width.saturating_sub(self.width()));
        let is_bare = *style == PLAIN || text.is_empty();
        let text = if is_bare { text.clone() } else { format!("{style}{text}{style:#}") };
        if *to_the_right { format!("{fill}{text}") } else { format!("{text}{fill}") }
    }
}

/// Rows below headings. They may come in parts: the columns never get narrower. The headings come
/// once, or again where a narrow terminal has the columns in other lines from then on.
#[derive(Debug)]
pub struct TextTable {
    headings: &'static [&'static str],
    widths: Vec<usize>,
    shortens: Vec<bool>,
    room: Option<usize>,
    layout: Layout,
}

impl TextTable {
    /// A table without rows yet.
    #[must_use]
    pub fn new(headings: &'static [&'static str]) -> Self {
        let widths = headings.iter().map(|heading| heading.width()).collect();
        let shortens = vec![false; headings.len()];
        Self { headings, widths, shortens, room: None, layout: Layout::default() }
    }

    /// In a terminal so many columns wide; without one, there is no limit.
    #[must_use]
    pub fn within(self, room: Option<usize>) -> Self {
        Self { room, ..self }
    }

    /// The lines of some rows, with the headings above the first ones; nothing for no rows.
    pub fn lines(&mut self, rows: &[Vec<Cell>]) -> String {
        let Some(first) = rows.first() else { return String::new() };
        for row in rows {
            for (place, cell) in row.iter().enumerate().take(self.headings.len()) {
                self.widths[place] = cell.width().max(self.widths[place]);
                self.shortens[place] |= cell.shortens;
            }
        }
        let layout = Layout::of(&self.widths, &self.shortens, self.room);
        let before = std::mem::replace(&mut self.layout, layout);
        let headings = (before.lines != self.layout.lines).then(|| self.heading_cells(first));
        headings.iter().chain(rows).map(|row| self.row(row)).collect()
    }

    fn heading_cells(&self, below: &[Cell]) -> Vec<Cell> {
        let heading = |(text, cell): (&&str, &Cell)| Cell {
            text: (*text).to_owned(),
            style: HEADING,
            to_the_right: cell.to_the_right,
            shortens: false,
            wraps: false,
        };
        self.headings.iter().zip(below).map(heading).collect()
    }

    /// A row, on as many lines as it takes.
    fn row(&self, row: &[Cell]) -> String {
        let lines = self.layout.lines.iter().map(|columns| {
            let indent = if columns.start == 0 { 0 } else { INDENT };
            if columns.len() == 1
                && let Some(cell) = row.get(columns.start).filter(|cell| cell.wraps)
            {
                let pieces = cell.pieces(self.layout.widths[columns.start]).into_iter();
                let lines = pieces.map(|piece| format!("{}{}\n", " ".repeat(indent), piece.painted(0)));
                return lines.collect::<String>();
            }
            let cells = row.iter().zip(&self.layout.widths).take(columns.end).skip(columns.start);
            let last = columns.len().saturating_sub(1);
            let paint = |(place, (cell, width)): (usize, (&Cell, &usize))| {
                // Nothing follows that would have to be aligned.
                let fill = if place == last && !cell.to_the_right { 0 } else { *width };
                cell.cut_to(*width).painted(fill)
            };
            let cells: Vec<_> = cells.enumerate().map(paint).collect();
            format!("{}{}", " ".repeat(indent), cells.join(GAP)).trim_end().to_owned() + "\n"
        });
        lines.collect()
    }
}

/// As much of a text as stands in a width, with a mark that it goes on.
pub(super) fn beginning(text: &str, width: usize) -> String {
    let mut shown = String::new();
    let mut left = width.saturating_sub(1);
    for c in text.chars() {
        let taken = c.width().unwrap_or(0);
        if taken > left {
            break;
        }
        left -= taken;
        shown.push(c);
    }
    shown.push('…');
    shown
}

/// One line without columns.
pub(super) fn line(cells: &[Cell]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| cell.painted(0)).collect();
    format!("{}\n", cells.join(GAP))
}

/// Names and what is known under them, one a line.
pub(super) fn facts(facts: &[(&str, Cell)]) -> String {
    let width = facts.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let line = |(name, cell): &(&str, Cell)| {
        let fill = " ".repeat(width - name.width());
        format!("{FAINT}{name}{FAINT:#}{fill}{GAP}{}\n", cell.painted(0))
    };
    facts.iter().map(line).collect()
}

/// Text that cannot steer a terminal: control characters, and those that end a line or turn the
/// direction of writing, are spelled out.
#[must_use]
pub fn plain(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}')
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// A number with its digits in groups of three: `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen where there are no colours.
    fn unstyled(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let mut table = TextTable::new(&["ID", "COUNT", "NOTE"]);
        let rows = [
            vec![Cell::text("a"), Cell::number(7), Cell::maybe(None)],
            vec![Cell::text("lock77"), Cell::number(1_234_567), Cell::text("")],
        ];
        assert_eq!(
            unstyled(&table.lines(&rows)),
            "ID          COUNT  NOTE\n\
             a               7  -\n\
             lock77  1,234,567\n"
        );
    }

    #[test]
    fn a_table_that_comes_in_parts_has_its_headings_once() {
        let mut table = TextTable::new(&["ID"]);
        assert_eq!(table.lines(&[]), "");
        assert_eq!(unstyled(&table.lines(&[vec![Cell::text("a")]])), "ID\na\n");
        assert_eq!(unstyled(&table.lines(&[vec![Cell::text("b")]])), "b\n");
    }

    #[test]
    fn a_narrow_terminal_gets_lines_that_fit() {
        let row = |id: &str, value: &str| vec![Cell::text(id), Cell::text("lock"), Cell::short(value)];
        let rows = [row("evt_1", &"v".repeat(100)), row("evt_2", "1")];
        let table = || TextTable::new(&["ID", "KIND", "VALUE"]);
        let lines = unstyled(&table().within(Some(40)).lines(&rows));
        let value = format!("{}…", "v".repeat(26));
        assert_eq!(lines, format!("ID     KIND  VALUE\nevt_1  lock  {value}\nevt_2  lock  1\n"));
        let lines = unstyled(&table().within(Some(20)).lines(&rows));
        let value = format!("{}…", "v".repeat(17));
        let folded = format!("ID     KIND\n  VALUE\nevt_1  lock\n  {value}\nevt_2  lock\n  1\n");
        assert_eq!(lines, folded);
        assert_eq!(unstyled(&table().within(None).lines(&rows)), unstyled(&table().lines(&rows)));
    }

    #[test]
    fn a_table_has_its_headings_again_where_its_columns_move_to_other_lines() {
        let mut table = TextTable::new(&["ID", "KIND"]).within(Some(12));
        let row = |id: &str| vec![vec![Cell::text(id), Cell::text("lock")]];
        assert_eq!(unstyled(&table.lines(&row("a"))), "ID  KIND\na   lock\n");
        assert_eq!(unstyled(&table.lines(&row("b"))), "b   lock\n");
        assert_eq!(unstyled(&table.lines(&row("abcdefgh"))), "ID\n  KIND\nabcdefgh\n  lock\n");
    }

    #[test]
    fn what_may_not_be_missing_goes_on_in_further_lines() {
        let rows = [vec![Cell::text("job_1"), Cell::whole("0123456789門abcdefg")]];
        let table = || TextTable::new(&["ID", "PAYLOAD"]);
        let lines = unstyled(&table().within(Some(13)).lines(&rows));
        assert_eq!(lines, "ID\n  PAYLOAD\njob_1\n  0123456789\n  門abcdefg\n");
        let lines = unstyled(&table().within(Some(26)).lines(&rows));
        assert_eq!(lines, "ID     PAYLOAD\njob_1  0123456789門abcdefg\n");
    }

    #[test]
    fn wide_characters_take_their_place() {
        let mut table = TextTable::new(&["NAME", "X"]);
        let rows = [["門", "1"], ["door", "2"], ["Ключ", "3"]];
        let rows = rows.map(|row| row.map(Cell::text).to_vec());
        assert_eq!(unstyled(&table.lines(&rows)), "NAME  X\n門    1\ndoor  2\nКлюч  3\n");
    }

    #[test]
    fn colour_does_not_move_a_column() {
        let mut table = TextTable::new(&["STATE", "ID"]);
        let rows = [
            vec![Cell::text("lost").styled(BAD), Cell::text("a")],
            vec![Cell::text("online").styled(GOOD), Cell::text("b")],
        ];
        let lines = table.lines(&rows);
        assert!(lines.contains("\u{1b}[31mlost\u{1b}[0m    a"), "{lines:?}");
        assert_eq!(unstyled(&lines), "STATE   ID\nlost    a\nonline  b\n");
    }

    #[test]
    fn nothing_that_a_device_says_steers_the_terminal() {
        assert_eq!(plain("\u{1b}[2Jgone\n\u{202e}"), "\\u{1b}[2Jgone\\n\\u{202e}");
        assert_eq!(plain("a\u{61c}b\u{2028}"), "a\\u{61c}b\\u{2028}");
        assert_eq!(plain("Straße 門 \"x\""), "Straße 門 \"x\"");
    }

    #[test]
    fn a_long_value_is_shown_by_its_beginning() {
        let shown = unstyled(&Cell::short(&"é".repeat(100)).painted(0));
        assert_eq!(shown, format!("{}…", "é".repeat(SHORT_CHARS_MAX)));
        assert_eq!(unstyled(&Cell::short("1").painted(0)), "1");
    }

    #[test]
    fn facts_stand_below_each_other() {
        let facts = facts(&[("id", Cell::text("a")), ("address", Cell::maybe(None))]);
        assert_eq!(unstyled(&facts), "id       a\naddress  -\n");
    }

    #[test]
    fn digits_come_in_groups() {
        for (number, shown) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), shown);
        }
    }
}
