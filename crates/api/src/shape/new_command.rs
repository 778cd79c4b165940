//! Commands and desired entries as bodies ask for them. Which ranges their fields have, the engine
//! decides.

use base::Problem;
use base::limits::{COMMAND_ATTEMPTS_MAX, COMMAND_PRIORITY_MAX};
use engine::commands::{receiver_queue, receiver_stream};
use engine::records::OutcomeReceiver;
use engine::{CommandCalls, NewCommand};
use net::canonical;
use utoipa::openapi::Schema;

use super::client::secret;
use super::payload::compact;
use crate::fields::{ObjectFields, count_naming_most, duration, number_between, string, time, within};
use crate::openapi::words;

/// The fields of a command.
pub(super) const COMMAND_FIELDS: [&str; 10] = [
    "payload",
    "ttl",
    "not_before",
    "ack_timeout",
    "run_timeout",
    "max_attempts",
    "origin",
    "key",
    "priority",
    "notify",
];

/// The schema of a command to be sent.
pub(crate) fn new_command_schema() -> Schema {
    words::body(&[
        ("payload", words::any()),
        ("ttl?", words::duration()),
        ("not_before?", words::time()),
        ("ack_timeout?", words::duration()),
        ("run_timeout?", words::duration()),
        ("max_attempts?", words::whole(1, COMMAND_ATTEMPTS_MAX.into())),
        ("origin?", words::command_name()),
        ("key?", words::command_name()),
        ("priority?", words::priority()),
        ("notify?", words::receiver()),
    ])
}

/// The command that a body asks for.
pub(crate) fn new_command(text: &str, commands: &CommandCalls) -> Result<NewCommand, Problem> {
    command_of(&ObjectFields::read(text, &COMMAND_FIELDS)?, commands)
}

/// The command that the fields of a body ask for.
pub(super) fn command_of(fields: &ObjectFields<'_>, commands: &CommandCalls) -> Result<NewCommand, Problem> {
    let payload = fields
        .json("payload")
        .ok_or_else(|| Problem::not_allowed("missing_field", "the field payload has to be there"))?;
    let mut command = NewCommand::new(compact(payload).as_bytes().into());
    command.ttl = fields.optional("ttl", duration)?;
    command.not_before = fields.optional("not_before", time)?;
    command.ack_timeout = fields.optional("ack_timeout", duration)?;
    command.run_timeout = fields.optional("run_timeout", duration)?;
    let attempts = |name: &str, json: &str| count_naming_most(name, json, COMMAND_ATTEMPTS_MAX);
    command.attempts_max = fields.optional("max_attempts", attempts)?;
    command.origin = fields.optional("origin", string)?;
    command.key = fields.optional("key", string)?;
    command.priority = fields.optional("priority", priority)?.unwrap_or_default();
    let notify = fields.json("notify").filter(|json| *json != "null");
    command.notify = notify.map(|json| receiver("notify", json, commands)).transpose()?;
    Ok(command)
}

fn priority(name: &str, json: &str) -> Result<i8, Problem> {
    number_between(name, json, -COMMAND_PRIORITY_MAX, COMMAND_PRIORITY_MAX)
}

/// Who is told what came of it: `{"url","secret"?}` or `{"queue"}`.
pub(super) fn receiver(name: &str, json: &str, commands: &CommandCalls) -> Result<OutcomeReceiver, Problem> {
    receiver_among(name, json, ("url or queue", &["url", "secret", "queue"]), commands)
}

/// Who is told what came of it: `{"url","secret"?}`, `{"queue"}` or `{"stream"}`.
pub(super) fn receiver_or_stream(
    name: &str,
    json: &str,
    commands: &CommandCalls,
) -> Result<OutcomeReceiver, Problem> {
    let known = ["url", "secret", "queue", "stream"];
    receiver_among(name, json, ("url, queue or stream", &known), commands)
}

/// Who is told; `known` are the fields that there may be, and `places` the same for people.
fn receiver_among(
    name: &str,
    json: &str,
    (places, known): (&str, &[&str]),
    commands: &CommandCalls,
) -> Result<OutcomeReceiver, Problem> {
    let right = format!("an object with {places}");
    within(name, json, (right.as_str(), known), |fields| {
        let given = fields.optional("secret", secret)?;
        let [url, queue, stream] = ["url", "queue", "stream"].map(|field| fields.optional(field, string));
        match (url?, queue?, stream?) {
            (Some(url), None, None) => commands.receiver_at(url, given),
            (None, Some(_), None) | (None, None, Some(_)) if given.is_some() => {
                let detail = "there is a secret without a url, to which it belongs; leave it out";
                Err(Problem::not_allowed("conflicting_fields", detail))
            }
            (None, Some(queue), None) => receiver_queue(&queue),
            (None, None, Some(stream)) => receiver_stream(&stream),
            (None, None, None) => {
                Err(Problem::not_allowed("missing_field", format!("{places} has to be there")))
            }
            _ => {
                let detail = format!("there is more than one place; give one of {places}");
                Err(Problem::not_allowed("conflicting_fields", detail))
            }
        }
    })
}

/// The schema of a desired value.
pub(crate) fn desired_value_schema() -> Schema {
    words::body(&[("value", words::any())])
}

/// The desired value that a body gives, as canonical JSON text; `None` for null, which is no entry.
pub(crate) fn desired_value(text: &str) -> Result<Option<Box<str>>, Problem> {
    let fields = ObjectFields::read(text, &["value"])?;
    let json = fields
        .json("value")
        .ok_or_else(|| Problem::not_allowed("missing_field", "the field value has to be there"))?;
    desired_value_in(text, json)
}

/// The same of the JSON text of a value in a body or a line.
pub(super) fn desired_value_in(text: &str, json: &str) -> Result<Option<Box<str>>, Problem> {
    Ok(match canonical::value_in(text, json)?.to_json() {
        null if null == "null" => None,
        value => Some(value.into()),
    })
}
