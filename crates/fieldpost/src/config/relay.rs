//! `[relay]`: the outbox relay inside the server.

use relay::{DatabaseUrl, OnRefused, TableName};

use super::layers::WrittenValue;
use super::reader::SettingsReader;
use super::shape::{Exposure, Shape, Word, text};

/// The relay inside the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RelaySettings {
    /// The database; `None` when the relay is off.
    pub database: Option<DatabaseUrl>,
    /// The outbox.
    pub table: TableName,
    /// What becomes of rows that are refused for good.
    pub on_refused: OnRefused,
}

pub(super) fn read(from: &mut SettingsReader) -> RelaySettings {
    RelaySettings {
        database: from.read("relay.database", &DatabaseUrlOrOff).value,
        table: from.read("relay.table", &OutboxName).value,
        on_refused: from
            .read("relay.on_refused", &Word(&[("skip", OnRefused::Skip), ("hold", OnRefused::Hold)]))
            .value,
    }
}

/// The URL of a PostgreSQL database, or "" for off. What is wrong with it is told without repeating
/// it: it may hold a password.
struct DatabaseUrlOrOff;

impl Shape for DatabaseUrlOrOff {
    const EXPOSURE: Exposure = Exposure::Hidden;
    type Value = Option<DatabaseUrl>;

    fn parse(&self, written: &WrittenValue) -> Result<Self::Value, String> {
        let text = text(written)?;
        if text.is_empty() {
            return Ok(None);
        }
        DatabaseUrl::parse(text).map(Some).map_err(|wrong| format!("is no URL of a database: {wrong}"))
    }

    fn right(&self) -> String {
        "a URL such as \"postgres://user:password@host:5432/database\", or \"\" for off".to_owned()
    }
}

/// The name of an outbox.
struct OutboxName;

impl Shape for OutboxName {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = TableName;

    fn parse(&self, written: &WrittenValue) -> Result<TableName, String> {
        let text = text(written)?;
        TableName::outbox(text).map_err(|wrong| format!("\"{text}\" is no name of an outbox: {wrong}"))
    }

    fn right(&self) -> String {
        "a table or schema.table, of at most 48 bytes".to_owned()
    }
}
