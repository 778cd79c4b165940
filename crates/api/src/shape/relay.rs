//! Outbox relays in requests and answers.

use base::{Problem, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::text::Time;
use crate::fields::{ObjectFields, string, time, whole, wrong_type};
use crate::openapi::words;
use crate::relays::{KnownRelay, RelayAnnouncement, STOPPED, WAITING, WORKING};
use crate::row::{Cells, CsvRow};

/// Longest text of a relay, in characters; a longer one is cut.
const TEXT_CHARS_MAX: usize = 500;
/// What a relay may be doing.
pub(crate) const RELAY_STATES: [&str; 3] = ["connecting", WAITING, WORKING];
/// What a relay may say that it is doing.
pub(crate) const ANNOUNCED_STATES: [&str; 4] = ["connecting", WAITING, WORKING, STOPPED];
/// What becomes of rows that are refused for good.
pub(crate) const ON_REFUSED: [&str; 2] = ["hold", "skip"];

/// An outbox relay, inside the server or of its own process. Figures are null until it has counted.
#[derive(Serialize, ToSchema)]
#[schema(as = Relay)]
pub(crate) struct RelayShape<'a> {
    #[schema(schema_with = words::stream_label)]
    name: &'a str,
    /// Host, port and name of the database.
    database: &'a str,
    /// The outbox.
    table: &'a str,
    /// `working`; `waiting` while another works on the table; `connecting` to the database.
    #[schema(schema_with = words::relay_state)]
    state: &'a str,
    /// What becomes of rows that are refused for good.
    #[schema(required)]
    on_refused: Option<&'a str>,
    /// Rows that wait.
    #[schema(required)]
    waiting: Option<u64>,
    /// Bytes of their payloads and attributes, as they are stored.
    #[schema(required)]
    bytes: Option<u64>,
    /// When the oldest of them was written.
    #[schema(required)]
    oldest_at: Option<Time>,
    /// How long ago that is.
    #[schema(required)]
    oldest_age_ms: Option<u64>,
    /// Refused rows in the outbox, whose keys wait.
    #[schema(required)]
    held: Option<u64>,
    /// Refused rows beside the outbox.
    #[schema(required)]
    refused: Option<u64>,
    /// Rows that it has moved since it began.
    moved: u64,
    /// Rows that it moves a second.
    rate: f64,
    /// Why it does not move.
    #[schema(required)]
    error: Option<&'a str>,
    last_seen_at: Time,
}

impl<'a> RelayShape<'a> {
    /// A relay, as it is at this time.
    pub(crate) fn of(relay: &'a KnownRelay, now: Timestamp) -> Self {
        let word = &relay.word;
        Self {
            name: &relay.name,
            database: &word.database,
            table: &word.table,
            state: &word.state,
            on_refused: word.on_refused.as_deref(),
            waiting: word.waiting,
            bytes: word.bytes,
            oldest_at: word.oldest_at.map(Time),
            oldest_age_ms: word.oldest_at.map(|at| now.since(at).as_millis() as u64),
            held: word.held,
            refused: word.refused,
            moved: word.moved,
            rate: (relay.rate * 10.0).round() / 10.0,
            error: word.error.as_deref(),
            last_seen_at: Time(relay.last_seen_at),
        }
    }
}

impl CsvRow for RelayShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "database",
        "table",
        "state",
        "on_refused",
        "waiting",
        "bytes",
        "oldest_at",
        "oldest_age_ms",
        "held",
        "refused",
        "moved",
        "rate",
        "error",
        "last_seen_at",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.name).text(self.database).text(self.table).text(self.state);
        cells.shown_or_empty(self.on_refused).shown_or_empty(self.waiting).shown_or_empty(self.bytes);
        cells.shown_or_empty(self.oldest_at).shown_or_empty(self.oldest_age_ms).shown_or_empty(self.held);
        cells.shown_or_empty(self.refused).shown(self.moved).shown(self.rate).shown_or_empty(self.error);
        cells.shown(self.last_seen_at);
    }
}

/// The schema of what a relay says of itself.
pub(crate) fn relay_word_schema() -> Schema {
    words::body(&[
        ("database", words::any_text()),
        ("table", words::any_text()),
        ("state", words::relay_word()),
        ("on_refused?", words::relay_on_refused()),
        ("waiting?", words::relay_count()),
        ("bytes?", words::relay_count()),
        ("held?", words::relay_count()),
        ("refused?", words::relay_count()),
        ("oldest_at?", words::time()),
        ("moved?", words::relay_count()),
        ("error?", words::any_text()),
    ])
}

/// What a relay says of itself.
///
/// # Errors
/// 400 or 422.
pub(crate) fn relay_word(text: &str) -> Result<RelayAnnouncement, Problem> {
    let fields = ObjectFields::read(
        text,
        &[
            "database",
            "table",
            "state",
            "on_refused",
            "waiting",
            "bytes",
            "held",
            "refused",
            "oldest_at",
            "moved",
            "error",
        ],
    )?;
    Ok(RelayAnnouncement {
        database: cut(fields.required("database", string)?),
        table: cut(fields.required("table", string)?),
        state: fields.required("state", |name, json| one_of(&ANNOUNCED_STATES, name, json))?,
        on_refused: fields.optional("on_refused", |name, json| one_of(&ON_REFUSED, name, json))?,
        waiting: fields.optional("waiting", whole)?,
        bytes: fields.optional("bytes", whole)?,
        held: fields.optional("held", whole)?,
        refused: fields.optional("refused", whole)?,
        oldest_at: fields.optional("oldest_at", time)?,
        moved: fields.optional("moved", whole)?.unwrap_or_default(),
        error: fields.optional("error", string)?.map(cut),
    })
}

fn one_of(words: &[&str], name: &str, json: &str) -> Result<String, Problem> {
    let text = string(name, json)?;
    if words.contains(&text.as_str()) {
        return Ok(text);
    }
    Err(wrong_type(name, json, &format!("one of {}", words.join(", "))))
}

fn cut(text: String) -> String {
    if text.len() <= TEXT_CHARS_MAX { text } else { text.chars().take(TEXT_CHARS_MAX).collect() }
}
