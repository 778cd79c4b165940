//! What a stream is set to, in requests and answers. Which values are in range, the engine knows.

use base::{Problem, size};
use engine::Patch;
use engine::records::{BlockBounds, KeepBounds, SaveMode, StreamMove, StreamSettings, WhenFull};
use net::problem::quoted;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::new_job::one_of;
use super::text::of_millis;
use crate::fields::{ObjectFields, boolean, count, duration, string, within, wrong_type};
use crate::openapi::words;
use crate::row::Cells;

/// What a stream is set to.
#[derive(Serialize, ToSchema)]
#[schema(as = StreamSettings)]
pub(crate) struct StreamSettingsShape {
    #[schema(schema_with = words::save_mode)]
    save: &'static str,
    #[schema(schema_with = words::duration)]
    save_interval: String,
    block: BlockBoundsShape,
    keep: KeepBoundsShape,
    #[schema(schema_with = words::when_full)]
    when_full: &'static str,
    #[schema(schema_with = words::duration)]
    unload_after: String,
    /// Where blocks of some age go.
    #[serde(rename = "move")]
    #[schema(schema_with = words::moves)]
    moves: Vec<StreamMoveShape>,
}

/// Where blocks of some age go.
#[derive(Serialize, ToSchema)]
#[schema(as = StreamMove)]
pub(crate) struct StreamMoveShape {
    #[schema(schema_with = words::duration)]
    after: String,
    #[schema(schema_with = words::stream_label)]
    to: String,
}

/// When a block is closed: by whichever bound it reaches first.
#[derive(Serialize, ToSchema)]
#[schema(as = StreamBlockBounds)]
pub(crate) struct BlockBoundsShape {
    #[schema(schema_with = words::size)]
    bytes: String,
    #[schema(schema_with = words::duration)]
    age: String,
    messages: u32,
}

/// How long messages are kept.
#[derive(Serialize, ToSchema)]
#[schema(as = StreamKeepBounds)]
pub(crate) struct KeepBoundsShape {
    /// Null for ever.
    #[schema(schema_with = words::duration_or_null, required)]
    age: Option<String>,
    /// Null without a bound.
    #[schema(schema_with = size_or_null, required)]
    bytes: Option<String>,
    /// What a copy has not taken yet outlives its age.
    until_copied: bool,
}

fn size_or_null() -> Schema {
    words::or_null(words::size())
}

impl From<&StreamSettings> for StreamSettingsShape {
    fn from(settings: &StreamSettings) -> Self {
        let StreamSettings { save, save_interval_ms, block, keep, when_full, unload_after_ms, ref moves } =
            *settings;
        let shown =
            |one: &StreamMove| StreamMoveShape { after: of_millis(one.after_ms), to: one.to.to_string() };
        Self {
            save: save.as_str(),
            save_interval: of_millis(save_interval_ms),
            block: BlockBoundsShape {
                bytes: size::format(block.bytes),
                age: of_millis(block.age_ms),
                messages: block.messages,
            },
            keep: KeepBoundsShape {
                age: keep.age_ms.map(of_millis),
                bytes: keep.bytes.map(size::format),
                until_copied: keep.until_copied,
            },
            when_full: when_full.as_str(),
            unload_after: of_millis(unload_after_ms),
            moves: moves.iter().map(shown).collect(),
        }
    }
}

impl StreamSettingsShape {
    /// Three cells: how it is saved, how long and how much is kept.
    pub(super) fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.save).shown_or_empty(self.keep.age.as_deref());
        cells.shown_or_empty(self.keep.bytes.as_deref());
    }
}

/// The schema of settings in a request.
pub(crate) fn stream_settings_schema() -> Schema {
    let block = words::body(&[
        ("bytes?", words::size()),
        ("age?", words::duration()),
        ("messages?", words::whole(1, u64::from(u32::MAX))),
    ]);
    let keep = words::body(&[
        ("age?", words::duration()),
        ("bytes?", words::size()),
        ("until_copied?", words::flag()),
    ]);
    words::body(&[
        ("save?", words::save_mode()),
        ("save_interval?", words::duration()),
        ("block?", block),
        ("keep?", keep),
        ("when_full?", words::when_full()),
        ("unload_after?", words::duration()),
        ("move?", words::moves()),
    ])
}

/// The settings that a body asks for; what it leaves out has its default.
pub(crate) fn stream_settings(body: &str) -> Result<StreamSettings, Problem> {
    let known = ["save", "save_interval", "block", "keep", "when_full", "unload_after", "move"];
    let fields = ObjectFields::read(body, &known)?;
    let usual = StreamSettings::default();
    Ok(StreamSettings {
        save: fields.optional("save", save)?.unwrap_or_default(),
        save_interval_ms: fields.optional("save_interval", millis)?.unwrap_or(usual.save_interval_ms),
        block: fields.optional("block", block)?.unwrap_or(usual.block),
        keep: fields.optional("keep", keep)?.unwrap_or(usual.keep),
        when_full: fields.optional("when_full", when_full)?.unwrap_or_default(),
        unload_after_ms: fields.optional("unload_after", millis)?.unwrap_or(usual.unload_after_ms),
        moves: moves(&fields)?,
    })
}

fn block(name: &str, json: &str) -> Result<BlockBounds, Problem> {
    let usual = StreamSettings::default().block;
    within(name, json, ("an object", &["bytes", "age", "messages"]), |fields| {
        Ok(BlockBounds {
            bytes: fields.optional("bytes", bytes)?.unwrap_or(usual.bytes),
            age_ms: fields.optional("age", millis)?.unwrap_or(usual.age_ms),
            messages: fields.optional("messages", count)?.unwrap_or(usual.messages),
        })
    })
}

fn keep(name: &str, json: &str) -> Result<KeepBounds, Problem> {
    let usual = StreamSettings::default().keep;
    within(name, json, ("an object", &["age", "bytes", "until_copied"]), |fields| {
        Ok(KeepBounds {
            age_ms: or_unset(&fields.patch("age", millis)?, usual.age_ms),
            bytes: or_unset(&fields.patch("bytes", bytes)?, usual.bytes),
            until_copied: fields.optional("until_copied", boolean)?.unwrap_or(usual.until_copied),
        })
    })
}

/// Null is no bound; what is left out has its default.
fn or_unset(given: &Patch<u64>, usual: Option<u64>) -> Option<u64> {
    match given {
        Patch::Keep => usual,
        Patch::Clear => None,
        Patch::Set(bound) => Some(*bound),
    }
}

/// Where blocks of some age go. Which storages there are, the engine knows.
fn moves(fields: &ObjectFields<'_>) -> Result<Vec<StreamMove>, Problem> {
    let moves: Vec<&RawValue> = match fields.json("move") {
        None | Some("null") => return Ok(Vec::new()),
        Some(json) => {
            serde_json::from_str(json).map_err(|_| wrong_type("move", json, "an array of moves"))?
        }
    };
    let each = (1..).zip(&moves).map(|(item, one)| {
        within(&format!("move, item {item}"), one.get(), ("an object", &["after", "to"]), |one| {
            let (after_ms, to) = (one.required("after", millis)?, one.required("to", string)?);
            Ok(StreamMove { after_ms, to: (*to).into() })
        })
    });
    each.collect()
}

fn save(name: &str, json: &str) -> Result<SaveMode, Problem> {
    one_of(name, json, &SaveMode::ALL.map(|mode| (mode.as_str(), mode)))
}

fn when_full(name: &str, json: &str) -> Result<WhenFull, Problem> {
    one_of(name, json, &WhenFull::ALL.map(|choice| (choice.as_str(), choice)))
}

fn millis(name: &str, json: &str) -> Result<u64, Problem> {
    let span = duration(name, json)?;
    Ok(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

fn bytes(name: &str, json: &str) -> Result<u64, Problem> {
    const RIGHT: &str = "a size such as \"1MB\" or \"64KiB\"";
    if !json.starts_with('"') {
        return Err(wrong_type(name, json, RIGHT));
    }
    let text = string(name, json)?;
    size::parse(&text).ok_or_else(|| {
        let detail = format!("{name} is {}; it must be {RIGHT}", quoted(&text));
        Problem::not_allowed("invalid_size", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(body: &str) -> serde_json::Value {
        let settings = stream_settings(body).unwrap_or_else(|problem| panic!("{body}: {problem}"));
        serde_json::to_value(StreamSettingsShape::from(&settings)).expect("a shape")
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let usual = serde_json::json!({
            "save": "sync",
            "save_interval": "1s",
            "block": {"bytes": "1MB", "age": "1m", "messages": 10_000},
            "keep": {"age": "7d", "bytes": null, "until_copied": true},
            "when_full": "drop_oldest",
            "unload_after": "1m",
            "move": [],
        });
        for body in ["{}", r#"{"block":{},"keep":{},"move":[]}"#, r#"{"save":null,"block":null,"move":null}"#]
        {
            assert_eq!(shown(body), usual, "{body}");
        }
        assert_eq!(shown(&usual.to_string()), usual);
    }

    #[test]
    fn what_is_given_is_shown() {
        let given = serde_json::json!({
            "save": "periodic",
            "save_interval": "250ms",
            "block": {"bytes": "64KiB", "age": "10s", "messages": 7},
            "keep": {"age": null, "bytes": "1GB", "until_copied": false},
            "when_full": "reject",
            "unload_after": "2m",
            "move": [{"after": "1d", "to": "cold"}, {"after": "30d", "to": "bucket"}],
        });
        assert_eq!(shown(&given.to_string()), given);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (body, code, part) in [
            (r#"{"save":"never"}"#, "unknown_word", "sync, wait, periodic, memory"),
            (r#"{"save_interval":1}"#, "wrong_type", "save_interval"),
            (r#"{"block":7}"#, "wrong_type", "block is a number"),
            (r#"{"block":{"bytes":1000}}"#, "wrong_type", "block: bytes is a number"),
            (r#"{"block":{"bytes":"1 MB"}}"#, "invalid_size", "1 MB"),
            (r#"{"block":{"messages":0}}"#, "invalid_number", "messages"),
            (r#"{"block":{"size":"1MB"}}"#, "unknown_field", "block: there is no field \"size\""),
            (r#"{"keep":{"age":"soon"}}"#, "invalid_duration", "soon"),
            (r#"{"when_full":"wait"}"#, "unknown_word", "drop_oldest, reject"),
            (r#"{"move":[{"after":"1d","to":"cold","from":"a"}]}"#, "unknown_field", "move, item 1"),
            (r#"{"move":[{"after":"1d"}]}"#, "missing_field", "to"),
            (r#"{"move":{}}"#, "wrong_type", "move is an object"),
            (r#"{"pace":1}"#, "unknown_field", "pace"),
        ] {
            let problem = stream_settings(body).expect_err(body);
            assert_eq!(problem.code, code, "{body}: {problem}");
            assert!(problem.detail.contains(part), "{body}: {problem}");
        }
    }
}
