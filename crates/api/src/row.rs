//! Items as rows of a CSV table (RFC 4180): which columns they have, and how a cell is written.
//!
//! A cell is the text that JSON has between quotes; values of devices, which may be any JSON, and
//! labels are JSON text. What is null in JSON is an empty cell.

use std::fmt::Display;

use csv::{Terminator, Writer, WriterBuilder};
use serde_json::value::RawValue;

/// An item that can be a row.
pub(crate) trait CsvRow {
    /// The names in the first line.
    const COLUMNS: &'static [&'static str];

    /// Writes a cell for each column.
    fn write(&self, cells: &mut Cells);
}

/// Rows in memory.
#[derive(Debug)]
pub(crate) struct CsvTable(Writer<Vec<u8>>);

impl CsvTable {
    /// No rows.
    pub(crate) fn new() -> Self {
        Self(WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new()))
    }

    /// The line of names.
    pub(crate) fn names<R: CsvRow>(&mut self) {
        self.0.write_record(R::COLUMNS).expect(IN_MEMORY);
    }

    /// One more row.
    pub(crate) fn add(&mut self, row: &impl CsvRow) {
        row.write(&mut Cells(&mut self.0));
        self.0.write_record(None::<&[u8]>).expect(IN_MEMORY);
    }

    /// What was written.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0.into_inner().expect(IN_MEMORY)
    }
}

const IN_MEMORY: &str = "a Vec takes every write, and every row has all columns";

/// The cells of one row, from left to right.
#[derive(Debug)]
pub(crate) struct Cells<'a>(&'a mut Writer<Vec<u8>>);

impl Cells<'_> {
    /// Text.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.0.write_field(text).expect(IN_MEMORY);
        self
    }

    /// Anything that has a text form.
    pub(crate) fn shown(&mut self, shown: impl Display) -> &mut Self {
        self.text(&shown.to_string())
    }

    /// Anything that has a text form, or nothing.
    pub(crate) fn shown_or_empty(&mut self, shown: Option<impl Display>) -> &mut Self {
        match shown {
            Some(shown) => self.shown(shown),
            None => self.text(""),
        }
    }

    /// JSON text, or nothing.
    pub(crate) fn json(&mut self, json: Option<&RawValue>) -> &mut Self {
        self.text(json.map_or("", RawValue::get))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NamedNumber(&'static str, Option<u8>);

    impl CsvRow for NamedNumber {
        const COLUMNS: &'static [&'static str] = &["name", "number"];

        fn write(&self, cells: &mut Cells) {
            cells.text(self.0).shown_or_empty(self.1);
        }
    }

    #[test]
    fn cells_are_quoted_where_they_have_to_be() {
        let mut table = CsvTable::new();
        table.names::<NamedNumber>();
        for row in [NamedNumber("plain", Some(1)), NamedNumber("a, \"b\"\nc", None), NamedNumber("", Some(2))]
        {
            table.add(&row);
        }
        let text = String::from_utf8(table.into_bytes()).expect("UTF-8");
        assert_eq!(text, "name,number\r\nplain,1\r\n\"a, \"\"b\"\"\nc\",\r\n,2\r\n");
    }
}
