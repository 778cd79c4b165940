//! Rollouts as bodies ask for them.

use std::collections::{BTreeMap, HashMap};

use base::Problem;
use engine::Engine;
use engine::records::{RolloutEntry, RolloutStage, RolloutStop, RolloutWindow, RolloutWork};
use engine::rollouts::{NewRollout, named_devices, request_hash, share_ppm};
use serde_json::value::RawValue;
use utoipa::openapi::Schema;

use super::new_command::{COMMAND_FIELDS, command_of, desired_value_in};
use crate::fields::{
    ObjectFields, boolean, count, duration, some_duration, string, strings, within, wrong_type,
};
use crate::openapi::words;

const FIELDS: [&str; 9] =
    ["selector", "place", "devices", "rate", "in_flight", "stages", "window", "stop", "include_later"];
/// Entries of a bulk assignment.
const ENTRIES_MAX: usize = 1_000;

/// The schema of a rollout to be begun.
pub(crate) fn new_rollout_schema() -> Schema {
    words::body(&[
        ("payload", words::any()),
        ("selector?", words::any_text()),
        ("place?", words::any_text()),
        ("devices?", words::array_of(words::device_id())),
        ("rate?", words::whole(1, u32::MAX.into())),
        ("in_flight?", words::whole(1, u32::MAX.into())),
        ("stages?", words::array_of(stage_schema())),
        ("window?", window_schema()),
        ("stop?", stop_schema()),
        ("include_later?", words::flag()),
        ("ttl?", words::duration()),
        ("not_before?", words::time()),
        ("ack_timeout?", words::duration()),
        ("run_timeout?", words::duration()),
        ("max_attempts?", words::whole(1, base::limits::COMMAND_ATTEMPTS_MAX.into())),
        ("origin?", words::command_name()),
        ("key?", words::command_name()),
        ("priority?", words::priority()),
        ("notify?", words::receiver()),
    ])
}

fn stage_schema() -> Schema {
    words::body(&[("share", words::positive()), ("soak?", words::duration()), ("approve?", words::flag())])
}

fn window_schema() -> Schema {
    words::body(&[("cron", words::any_text()), ("for", words::duration()), ("tz?", words::any_text())])
}

fn stop_schema() -> Schema {
    words::body(&[("failed_share", words::positive()), ("after?", words::whole(1, u32::MAX.into()))])
}

/// The rollout that a body asks for.
pub(crate) fn new_rollout(text: &str, engine: &Engine) -> Result<NewRollout, Problem> {
    let known: Vec<&str> = COMMAND_FIELDS.into_iter().chain(FIELDS).collect();
    let fields = ObjectFields::read(text, &known)?;
    let command = command_of(&fields, &engine.commands())?;
    command.check(engine.clock().wall())?;
    let work = RolloutWork::Command(Box::new(command.into()));
    let mut new = NewRollout::of(work, request_hash(text.as_bytes()));
    new.selection = engine.selection(
        fields.optional("selector", string)?.as_deref(),
        fields.optional("place", string)?.as_deref(),
    )?;
    new.devices = fields.optional("devices", strings)?.map(|ids| named_devices(&ids)).transpose()?;
    new.include_later = fields.optional("include_later", boolean)?.unwrap_or_default();
    new.rate = fields.optional("rate", count)?;
    new.in_flight = fields.optional("in_flight", count)?;
    new.stages = fields.optional("stages", stages)?.unwrap_or_default();
    new.window = fields.optional("window", window)?;
    new.stop = fields.optional("stop", stop)?;
    new.check()?;
    Ok(new)
}

fn stages(name: &str, json: &str) -> Result<Vec<RolloutStage>, Problem> {
    let items: Vec<&RawValue> =
        serde_json::from_str(json).map_err(|_| wrong_type(name, json, "an array of stages"))?;
    (1..).zip(items).map(|(item, one)| stage(&format!("{name}, item {item}"), one.get())).collect()
}

fn stage(name: &str, json: &str) -> Result<RolloutStage, Problem> {
    let right = "an object with share, and soak and approve if wanted";
    within(name, json, (right, &["share", "soak", "approve"]), |fields| {
        let soak = fields.optional("soak", duration)?.unwrap_or_default();
        Ok(RolloutStage {
            share_ppm: fields.required("share", share)?,
            soak_ms: u64::try_from(soak.as_millis()).unwrap_or(u64::MAX),
            approve: fields.optional("approve", boolean)?.unwrap_or_default(),
        })
    })
}

/// A share of all, in millionths: above 0, at most 1.
fn share(name: &str, json: &str) -> Result<u32, Problem> {
    share_from(name, json, f64::MIN_POSITIVE)
}

fn share_or_none(name: &str, json: &str) -> Result<u32, Problem> {
    share_from(name, json, 0.0)
}

fn share_from(name: &str, json: &str, least: f64) -> Result<u32, Problem> {
    if !json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(wrong_type(name, json, "a number from 0 to 1"));
    }
    share_ppm(name, json.parse().unwrap_or(f64::NAN), least)
}

fn window(name: &str, json: &str) -> Result<RolloutWindow, Problem> {
    within(name, json, ("an object with cron, for, and tz if wanted", &["cron", "for", "tz"]), |fields| {
        let open_for = fields.required("for", some_duration)?;
        Ok(RolloutWindow {
            cron: fields.required("cron", string)?.into(),
            for_ms: u64::try_from(open_for.as_millis()).unwrap_or(u64::MAX),
            tz: fields.optional("tz", string)?.map(String::into_boxed_str),
        })
    })
}

fn stop(name: &str, json: &str) -> Result<RolloutStop, Problem> {
    let right = "an object with failed_share, and after if wanted";
    within(name, json, (right, &["failed_share", "after"]), |fields| {
        Ok(RolloutStop {
            failed_ppm: fields.required("failed_share", share_or_none)?,
            after: fields.optional("after", count)?.unwrap_or(1),
        })
    })
}

/// The schema of a line of a bulk assignment.
pub(crate) fn bulk_entry_schema() -> Schema {
    words::body(&[("key", words::command_name()), ("value", words::any())])
}

/// The bulk assignment that lines ask for. A later line with a key replaces an earlier one.
pub(crate) fn bulk_entries(text: &str) -> Result<Vec<RolloutEntry>, Problem> {
    let mut entries: BTreeMap<u64, RolloutEntry> = BTreeMap::new();
    let mut lines: HashMap<Box<str>, u64> = HashMap::new();
    for (line, number) in text.lines().zip(1_u64..) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let entry = bulk_entry(line)
            .map_err(|problem| Problem { detail: format!("line {number}: {}", problem.detail), ..problem })?;
        if let Some(earlier) = lines.insert(entry.key.clone(), number) {
            entries.remove(&earlier);
        }
        entries.insert(number, entry);
        if entries.len() > ENTRIES_MAX {
            let detail = format!("there are more than {ENTRIES_MAX} entries; a device has no more");
            return Err(Problem::not_allowed("too_many_lines", detail));
        }
    }
    if entries.is_empty() {
        let detail = "the body has no entry; each line is one, such as {\"key\":\"pin\",\"value\":1}";
        return Err(Problem::not_allowed("missing_field", detail));
    }
    Ok(entries.into_values().collect())
}

fn bulk_entry(line: &str) -> Result<RolloutEntry, Problem> {
    if line.len() > base::limits::NDJSON_LINE_BYTES_MAX {
        let detail = format!("a line has at most {} bytes", base::limits::NDJSON_LINE_BYTES_MAX);
        return Err(Problem::not_allowed("line_too_long", detail));
    }
    let fields = ObjectFields::read_line(line, &["key", "value"])?;
    let key = fields.required("key", string)?;
    engine::commands::check_entry_key(&key)?;
    let json = fields.json("value");
    let json = json.ok_or_else(|| {
        Problem::not_allowed("missing_field", "the field value has to be there; null deletes the entry")
    })?;
    Ok(RolloutEntry { key: key.into(), value: desired_value_in(line, json)? })
}
