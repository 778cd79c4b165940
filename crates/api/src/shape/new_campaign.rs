//! Campaigns as bodies ask for them and change them. Which ranges their fields have, the engine
//! decides.

use std::time::Duration;

use base::Problem;
use engine::campaigns::{CampaignPatch, NewCampaign, NewPickTerms};
use engine::records::{CampaignPace, MissedSlots, OutcomeReceiver, PickClass};
use engine::rollouts::request_hash;
use engine::{CommandCalls, Engine, OnlyIf, Patch};
use net::problem::quoted;
use utoipa::openapi::Schema;

use super::new_command::receiver_or_stream;
use super::new_task::{
    PICK_FIELDS, class, devices, exclude, pick_terms, pick_words, picked, relation, selection, set,
};
use super::payload::compact;
use crate::fields::{ObjectFields, boolean, duration, string, time};
use crate::openapi::words;

/// The fields of a campaign that a task does not have, but for the id.
const FIELDS: [&str; 9] = ["name", "every", "over", "phase", "from", "until", "missed", "panel", "results"];

/// The schema of a campaign to be begun.
pub(crate) fn new_campaign_schema() -> Schema {
    let id = [("id?", words::campaign_id())];
    words::body(&pick_words().into_iter().chain(own_words()).chain(id).collect::<Vec<_>>())
}

/// The schema of a campaign that is put under an id.
pub(crate) fn put_campaign_schema() -> Schema {
    words::body(&pick_words().into_iter().chain(own_words()).collect::<Vec<_>>())
}

/// The schema of what changes a campaign.
pub(crate) fn campaign_changes_schema() -> Schema {
    let fields = pick_words().into_iter().chain(own_words());
    let changes = fields.map(|(name, schema)| match name {
        "payload" | "count" => (name, schema),
        name => (name.trim_end_matches('?'), words::or_null(schema)),
    });
    words::changes(&changes.collect::<Vec<_>>())
}

fn own_words() -> [(&'static str, Schema); FIELDS.len()] {
    [
        ("name?", words::name()),
        ("every?", words::duration()),
        ("over?", words::duration()),
        ("phase?", words::duration()),
        ("from?", words::time()),
        ("until?", words::time()),
        ("missed?", words::missed_slots()),
        ("panel?", words::flag()),
        ("results?", words::result_receiver()),
    ]
}

/// The campaign that a body asks for; its id stands in the path if it is put there. The body may
/// name that id too.
pub(crate) fn new_campaign(
    text: &str,
    engine: &Engine,
    in_path: Option<&str>,
) -> Result<NewCampaign, Problem> {
    let fields = ObjectFields::read(text, &known_fields())?;
    if let Some(id) = in_path {
        check_stays(&fields, id)?;
    }
    let mut terms = pick_terms(&fields, engine)?;
    terms.receiver = set(results(&fields, &engine.commands())?);
    let pace = pace(&fields)?.ok_or_else(|| {
        let detail = "every or over has to be there, such as \"every\":\"5m\"";
        Problem::not_allowed("missing_field", detail)
    })?;
    let given = fields.optional("id", string)?;
    Ok(NewCampaign {
        request: request_hash(text.as_bytes()),
        id: in_path.map(str::to_owned).or(given).map(String::into_boxed_str),
        name: fields.optional("name", string)?.map(String::into_boxed_str),
        terms,
        pace,
        phase: fields.optional("phase", duration)?,
        from: fields.optional("from", time)?,
        until: fields.optional("until", time)?,
        missed: fields.optional("missed", missed)?.unwrap_or_default(),
        is_panel: fields.optional("panel", boolean)?.unwrap_or_default(),
    })
}

/// What a body changes of a campaign. `selector` and `place` change together: who names one of them
/// says what both mean from then on.
pub(crate) fn change_of_campaign(text: &str, engine: &Engine, id: &str) -> Result<CampaignPatch, Problem> {
    let fields = ObjectFields::read(text, &known_fields())?;
    check_stays(&fields, id)?;
    let is_named = |name: &str| fields.json(name).is_some();
    let selection = match is_named("selector") || is_named("place") {
        true => selection(&fields, engine)?.map_or(Patch::Clear, Patch::Set),
        false => Patch::Keep,
    };
    Ok(CampaignPatch {
        name: boxed(fields.patch("name", string)?),
        payload: fields.json("payload").map(|json| compact(json).as_bytes().into()),
        selection,
        exclude: exclude(&fields, engine)?,
        devices: fields.patch("devices", devices)?,
        relation: relation(&fields)?,
        spread_by: boxed(fields.patch("spread_by", string)?),
        count: never_null("count", fields.patch("count", picked)?)?,
        answer_timeout: or(fields.patch("answer_timeout", duration)?, NewPickTerms::ANSWER_TIMEOUT),
        class: or(fields.patch("class", class)?, PickClass::default()),
        receiver: results(&fields, &engine.commands())?,
        pace: pace(&fields)?,
        phase: fields.patch("phase", duration)?,
        from: fields.patch("from", time)?,
        until: fields.patch("until", time)?,
        missed: or(fields.patch("missed", missed)?, MissedSlots::default()),
        is_panel: or(fields.patch("panel", boolean)?, false),
        token: None,
        checked: None,
        only_if: OnlyIf::default(),
    })
}

fn known_fields() -> Vec<&'static str> {
    ["id"].into_iter().chain(PICK_FIELDS).chain(FIELDS).collect()
}

/// To name the id is fine as long as it is the one in the path.
fn check_stays(fields: &ObjectFields<'_>, id: &str) -> Result<(), Problem> {
    match fields.patch("id", string)? {
        Patch::Keep => Ok(()),
        Patch::Set(given) if given == id => Ok(()),
        Patch::Set(_) | Patch::Clear => {
            let detail = format!("id is {} and cannot change; leave it out", quoted(id));
            Err(Problem::not_allowed("cannot_change", detail))
        }
    }
}

/// How slots lie: `every` or `over`; `None` if neither is named.
fn pace(fields: &ObjectFields<'_>) -> Result<Option<CampaignPace>, Problem> {
    let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    match (fields.patch("every", duration)?, fields.patch("over", duration)?) {
        (Patch::Set(_), Patch::Set(_)) => {
            let detail = "every and over are both there; a campaign has one of the two";
            Err(Problem::not_allowed("conflicting_fields", detail))
        }
        (Patch::Set(every), _) => Ok(Some(CampaignPace::Every(ms(every)))),
        (_, Patch::Set(over)) => Ok(Some(CampaignPace::Over(ms(over)))),
        (Patch::Clear, _) | (_, Patch::Clear) => {
            let detail = "a campaign has every or over; name the other to clear one";
            Err(Problem::not_allowed("cannot_clear", detail))
        }
        (Patch::Keep, Patch::Keep) => Ok(None),
    }
}

fn missed(name: &str, json: &str) -> Result<MissedSlots, Problem> {
    let text = string(name, json)?;
    MissedSlots::ALL.into_iter().find(|missed| missed.as_str() == text).ok_or_else(|| {
        let words = MissedSlots::ALL.map(MissedSlots::as_str).join(" or ");
        Problem::not_allowed("unknown_word", format!("{name} is {}; it must be {words}", quoted(&text)))
    })
}

/// Who is told each result: `{"url","secret"?}`, `{"queue"}` or `{"stream"}`.
fn results(fields: &ObjectFields<'_>, commands: &CommandCalls) -> Result<Patch<OutcomeReceiver>, Problem> {
    match fields.json("results") {
        None => Ok(Patch::Keep),
        Some("null") => Ok(Patch::Clear),
        Some(json) => receiver_or_stream("results", json, commands).map(Patch::Set),
    }
}

/// A field that is never without a value: null gives it the one that it has by itself.
fn or<T>(field: Patch<T>, default: T) -> Option<T> {
    match field {
        Patch::Set(value) => Some(value),
        Patch::Clear => Some(default),
        Patch::Keep => None,
    }
}

fn never_null<T>(name: &str, field: Patch<T>) -> Result<Option<T>, Problem> {
    match field {
        Patch::Set(value) => Ok(Some(value)),
        Patch::Keep => Ok(None),
        Patch::Clear => {
            let detail = format!("{name} is null; a campaign always has it");
            Err(Problem::not_allowed("cannot_clear", detail))
        }
    }
}

fn boxed(field: Patch<String>) -> Patch<Box<str>> {
    match field {
        Patch::Set(text) => Patch::Set(text.into()),
        Patch::Clear => Patch::Clear,
        Patch::Keep => Patch::Keep,
    }
}
