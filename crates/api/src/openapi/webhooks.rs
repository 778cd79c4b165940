//! What receivers are posted, as the document's webhooks. Clients get the notifications of a
//! device, tests and notices. URLs that a call named get messages of streams, and how commands,
//! tasks and picks of campaigns ended.

use serde_json::{Value, json};

/// The section, in the form of the document.
pub(super) fn described() -> Value {
    let of_a_device = ["device.changed", "device.lost", "device.restored"];
    let about = "The present picture of a device, sent for a change, a loss or a restoration. Sent again, with the same webhook-id \
                 and body, until it gets through or is given up; a newer one replaces an older one that waits.";
    let tested = "Sent once by POST /v1/clients/{id}/test.";
    let pushed = "Messages of a subscription that is pushed, in their order. A 2xx commits them; anything else is \
                  tried again for ever.";
    let finished = "How a command ended, to the URL in its notify.";
    let late = "An answer of a device that came after its command had ended, to the URL in its notify.";
    let picked = "What came of a pick of a campaign, to the URL in its results.";
    let ended = "A task that has ended, to the URL in its notify. Sent once.";
    let noticed =
        "Something that an operator wants to be told of the system itself, to clients with notices.";
    json!({
        "device": {"post": to_client("device_notification", about, &envelope(&of_a_device, &device()))},
        "stream.messages": {"post": webhook("stream_messages", pushed, &messages())},
        "client.test": {"post": to_client("client_test", tested, &envelope(&["client.test"], &client()))},
        "command.finished": {"post": webhook("command_finished", finished, &command("command.finished", &[]))},
        "command.late": {"post": webhook("command_late", late, &command("command.late", &answered_late()))},
        "campaign.result": {"post": webhook("campaign_result", picked, &with_id("campaign.result", &pick()))},
        "task.done": {"post": webhook("task_done", ended, &with_id("task.done", &task()))},
        "notice": {"post": to_client("notice", noticed, &notice())},
    })
}

/// What is posted to a client, which the answer can disable.
fn to_client(id: &str, about: &str, body: &Value) -> Value {
    let mut post = webhook(id, about, body);
    let gone = "the receiver is gone for good: its client is disabled";
    post["responses"]["410"] = json!({ "description": gone });
    post
}

fn webhook(id: &str, about: &str, body: &Value) -> Value {
    json!({
        "operationId": id,
        "summary": about,
        "tags": ["webhooks"],
        // It is signed, and carries no token.
        "security": [],
        "parameters": [
            header("webhook-id", "the same for every attempt at one notification"),
            header("webhook-timestamp", "when this attempt was made, in seconds since 1970"),
            header(
                "webhook-signature",
                "Standard Webhooks: v1, and the HMAC-SHA256 of id, timestamp and body in base64; for 24 hours after a \
                 rotation a second one with the secret before, behind a space",
            ),
        ],
        "requestBody": {"required": true, "content": {"application/json": {"schema": body}}},
        "responses": {
            "2XX": {"description": "it got through"},
            "429": {"description": "tried again; Retry-After can make the delay longer"},
            "503": {"description": "tried again; Retry-After can make the delay longer"},
            "default": {"description": "tried again later, up to a number of attempts; a redirect is not followed"},
        },
    })
}

fn header(name: &str, about: &str) -> Value {
    json!({"name": name, "in": "header", "required": true, "description": about, "schema": {"type": "string"}})
}

fn envelope(types: &[&str], data: &Value) -> Value {
    object(&[
        ("type", json!({"type": "string", "enum": types})),
        ("timestamp", time("when the server noticed")),
        ("data", data.clone()),
    ])
}

fn messages() -> Value {
    object(&[
        ("type", json!({"type": "string", "enum": ["stream.messages"]})),
        ("stream", json!({"type": "string", "description": "namespace/stream"})),
        ("subscription", json!({"type": "string"})),
        ("items", json!({"type": "array", "items": {"$ref": "#/components/schemas/Message"}})),
    ])
}

/// With the id of what it is about outside of its data.
fn with_id(kind: &str, data: &Value) -> Value {
    object(&[
        ("type", json!({"type": "string", "enum": [kind]})),
        ("id", json!({"type": "string"})),
        ("data", data.clone()),
    ])
}

fn command(kind: &str, more: &[(&str, Value)]) -> Value {
    let statuses = ["acknowledged", "failed", "expired", "superseded", "cancelled"];
    let mut members = vec![
        ("type", json!({"type": "string", "enum": [kind]})),
        ("id", json!({"type": "string", "description": "the command's"})),
        ("device_id", json!({"type": "string"})),
        ("origin", json!({"type": ["string", "null"]})),
        ("status", json!({"type": "string", "enum": statuses})),
        ("tries", number("how often it went out")),
        ("result", json!({"description": "what the device answered; null for nothing"})),
    ];
    members.extend_from_slice(more);
    object(&members)
}

fn answered_late() -> [(&'static str, Value); 1] {
    [("ok", json!({"type": "boolean", "description": "whether the device did it"}))]
}

fn pick() -> Value {
    let reasons = ["refused", "not_sent", "no_answer", "went_away"];
    let mut pick = object(&[
        ("campaign_id", json!({"type": "string"})),
        ("slot", number("of the campaign")),
        ("device_id", json!({"type": "string"})),
        ("picked_at", time("when the device was picked")),
        ("answered_at", or_null(time("when it answered"))),
        ("ended_at", or_null(time("when the pick ended"))),
        ("outcome", json!({"type": "string", "enum": ["answered", "failed", "expired"]})),
        ("result", json!({"description": "what the device answered; null for nothing"})),
    ]);
    let about = "why it did not succeed; left out where it did";
    pick["properties"]["reason"] = json!({"type": "string", "enum": reasons, "description": about});
    pick
}

fn task() -> Value {
    object(&[
        ("id", json!({"type": "string"})),
        ("status", json!({"type": "string", "enum": ["done", "cancelled"]})),
        ("wanted", number("devices that were wanted")),
        ("picked", number("devices that were picked")),
        ("answered", number("picks whose device did it")),
        ("failed", number("picks whose device could not")),
        ("expired", number("picks without an answer")),
        ("replaced", number("picks for which another device was picked")),
    ])
}

fn notice() -> Value {
    object(&[
        ("type", json!({"type": "string", "enum": ["notice"]})),
        ("notice", json!({"$ref": "#/components/schemas/Notice"})),
    ])
}

fn device() -> Value {
    let types = ["device.changed", "device.lost", "device.restored"];
    object(&[
        ("device_id", json!({"type": "string"})),
        ("kind", json!({"type": "string"})),
        ("address", json!({"type": ["string", "null"]})),
        ("value", json!({"description": "as reported last; null if nothing ever was"})),
        ("previous", json!({"description": "the value before the oldest event that is told here"})),
        ("connection", json!({"type": "string", "enum": ["online", "lost", "never_seen"]})),
        ("changed_at", or_null(time("the ts of the reading that changed the value"))),
        ("last_seen_at", or_null(time("when anything authentic last came from the device"))),
        ("sequence", json!({"type": "integer", "minimum": 1, "description": "counts the device's events"})),
        (
            "types",
            json!({
                "type": "array",
                "maxItems": 8,
                "items": {"type": "string", "enum": types},
                "description": "of the events since the last one that got through, oldest first",
            }),
        ),
        (
            "skipped",
            json!({
                "type": "integer",
                "minimum": 0,
                "description": "notifications that were superseded or failed since the last one that got through",
            }),
        ),
    ])
}

fn client() -> Value {
    object(&[("client_id", json!({"type": "string"}))])
}

fn number(about: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": about})
}

fn or_null(mut time: Value) -> Value {
    time["type"] = json!(["string", "null"]);
    time
}

fn time(about: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": about})
}

/// With all of these members.
fn object(members: &[(&str, Value)]) -> Value {
    let names: Vec<_> = members.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<_, _> =
        members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "properties": properties, "required": names})
}
