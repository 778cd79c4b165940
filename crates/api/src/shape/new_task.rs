//! Tasks as bodies ask for them, and what campaigns have in common with them. Which ranges their
//! fields have, the engine decides.

use base::{DeviceId, EntityId, Problem};
use engine::campaigns::{COUNT_MAX, NAMED_MAX, NewPickTerms, NewTask, TASK_ID_PREFIX};
use engine::fleet::Selection;
use engine::records::{PickClass, TaskRelation};
use engine::rollouts::request_hash;
use engine::{Engine, Patch};
use net::problem::quoted;
use utoipa::openapi::Schema;

use super::new_command::receiver;
use super::payload::compact;
use crate::fields::{ObjectFields, count_naming_most, duration, string, strings};
use crate::openapi::words;

/// The fields of a task that a campaign has too.
pub(super) const PICK_FIELDS: [&str; 11] = [
    "payload",
    "selector",
    "place",
    "devices",
    "exclude",
    "same_as",
    "not_as",
    "spread_by",
    "count",
    "answer_timeout",
    "class",
];

/// The schema of a task to be begun.
pub(crate) fn new_task_schema() -> Schema {
    let own = [("deadline?", words::duration()), ("notify?", words::receiver())];
    words::body(&pick_words().into_iter().chain(own).collect::<Vec<_>>())
}

/// The schemas of [`PICK_FIELDS`].
pub(super) fn pick_words() -> [(&'static str, Schema); PICK_FIELDS.len()] {
    [
        ("payload", words::any()),
        ("selector?", words::any_text()),
        ("place?", words::any_text()),
        ("devices?", words::array_of(words::device_id())),
        ("exclude?", words::any_text()),
        ("same_as?", words::task_id()),
        ("not_as?", words::task_id()),
        ("spread_by?", words::any_text()),
        ("count", words::whole(1, COUNT_MAX.into())),
        ("answer_timeout?", words::duration()),
        ("class?", words::pick_class()),
    ]
}

/// The task that a body asks for.
pub(crate) fn new_task(text: &str, engine: &Engine) -> Result<NewTask, Problem> {
    let known: Vec<&str> = PICK_FIELDS.into_iter().chain(["deadline", "notify"]).collect();
    let fields = ObjectFields::read(text, &known)?;
    let mut terms = pick_terms(&fields, engine)?;
    let notify = fields.json("notify").filter(|json| *json != "null");
    terms.receiver = notify.map(|json| receiver("notify", json, &engine.commands())).transpose()?;
    let deadline = fields.optional("deadline", duration)?.unwrap_or(NewTask::DEADLINE);
    Ok(NewTask { request: request_hash(text.as_bytes()), terms, deadline })
}

/// How many devices are picked.
pub(super) fn picked(name: &str, json: &str) -> Result<u32, Problem> {
    count_naming_most(name, json, COUNT_MAX)
}

/// What the fields that tasks and campaigns share ask for; who is told, and whose token it is, are
/// not among them.
pub(super) fn pick_terms(fields: &ObjectFields<'_>, engine: &Engine) -> Result<NewPickTerms, Problem> {
    let payload = fields
        .json("payload")
        .ok_or_else(|| Problem::not_allowed("missing_field", "the field payload has to be there"))?;
    let mut terms = NewPickTerms::new(compact(payload).as_bytes().into(), fields.required("count", picked)?);
    terms.selection = selection(fields, engine)?;
    terms.devices = fields.optional("devices", devices)?;
    terms.exclude = set(exclude(fields, engine)?);
    terms.relation = set(relation(fields)?);
    terms.spread_by = fields.optional("spread_by", string)?.map(Into::into);
    if let Some(timeout) = fields.optional("answer_timeout", duration)? {
        terms.answer_timeout = timeout;
    }
    terms.class = fields.optional("class", class)?.unwrap_or_default();
    Ok(terms)
}

/// What `selector` and `place` mean together.
pub(super) fn selection(fields: &ObjectFields<'_>, engine: &Engine) -> Result<Option<Selection>, Problem> {
    let (selector, place) = (fields.optional("selector", string)?, fields.optional("place", string)?);
    engine.selection(selector.as_deref(), place.as_deref())
}

/// Which devices are not meant.
pub(super) fn exclude(fields: &ObjectFields<'_>, engine: &Engine) -> Result<Patch<Selection>, Problem> {
    let text = match fields.patch("exclude", string)? {
        Patch::Set(text) => text,
        Patch::Clear => return Ok(Patch::Clear),
        Patch::Keep => return Ok(Patch::Keep),
    };
    let read = engine
        .selection(Some(&text), None)
        .map_err(|problem| Problem { detail: format!("exclude: {}", problem.detail), ..problem })?;
    Ok(read.map_or(Patch::Clear, Patch::Set))
}

/// How the devices relate to those of another task: `same_as` or `not_as`.
pub(super) fn relation(fields: &ObjectFields<'_>) -> Result<Patch<TaskRelation>, Problem> {
    let [same, other] = [fields.patch("same_as", task_id)?, fields.patch("not_as", task_id)?];
    Ok(match (same, other) {
        (Patch::Set(_), Patch::Set(_)) => {
            let detail = "same_as and not_as are both there; write one of the two";
            return Err(Problem::not_allowed("conflicting_fields", detail));
        }
        (Patch::Set(task), _) => Patch::Set(TaskRelation::SameAs(task)),
        (_, Patch::Set(task)) => Patch::Set(TaskRelation::NotAs(task)),
        (Patch::Clear, _) | (_, Patch::Clear) => Patch::Clear,
        (Patch::Keep, Patch::Keep) => Patch::Keep,
    })
}

/// The value of a field that was just read; null is as good as nothing.
pub(super) fn set<T>(field: Patch<T>) -> Option<T> {
    match field {
        Patch::Set(value) => Some(value),
        Patch::Keep | Patch::Clear => None,
    }
}

fn task_id(name: &str, json: &str) -> Result<EntityId, Problem> {
    let text = string(name, json)?;
    EntityId::from_text(TASK_ID_PREFIX, &text).ok_or_else(|| {
        let detail = format!("{name} is {}; it must be the id of a task", quoted(&text));
        Problem::not_allowed("invalid_id", detail)
    })
}

/// Devices by their ids.
pub(super) fn devices(name: &str, json: &str) -> Result<Vec<DeviceId>, Problem> {
    let ids = strings(name, json)?;
    if ids.len() > NAMED_MAX {
        let detail = format!("{name} has {} items; it may have {NAMED_MAX}", ids.len());
        return Err(Problem::not_allowed("too_many_devices", detail));
    }
    let id = |text: &String| {
        DeviceId::new(text).ok_or_else(|| {
            let detail = format!("{name} has {}, which cannot be a device's id", quoted(text));
            Problem::not_allowed("invalid_id", detail)
        })
    };
    ids.iter().map(id).collect()
}

pub(super) fn class(name: &str, json: &str) -> Result<PickClass, Problem> {
    let text = string(name, json)?;
    PickClass::from_name(&text).ok_or_else(|| {
        let words = PickClass::ALL.map(PickClass::as_str).join(", ");
        let detail = format!("{name} is {}; it must be one of {words}", quoted(&text));
        Problem::not_allowed("unknown_word", detail)
    })
}
