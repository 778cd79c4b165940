//! What clients receive, as the document's webhooks: the notifications of a device, and the test.

use serde_json::{Value, json};

/// The section, in the form of the document.
pub(super) fn described() -> Value {
    let of_a_device = ["device.changed", "device.lost", "device.restored"];
    let about = "The present picture of a device, sent for a change, a loss or a restoration. Sent again, with the same webhook-id \
                 and body, until it gets through or is given up; a newer one replaces an older one that waits.";
    let tested = "Sent once by POST /v1/clients/{id}/test.";
    let pushed = "Messages of a subscription that is pushed, in their order. A 2xx commits them; anything else is \
                  tried again for ever.";
    json!({
        "device": {"post": webhook("device_notification", about, &envelope(&of_a_device, &device()))},
        "stream.messages": {"post": webhook("stream_messages", pushed, &messages())},
        "client.test": {"post": webhook("client_test", tested, &envelope(&["client.test"], &client()))},
    })
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
            "410": {"description": "the receiver is gone for good: its client is disabled"},
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

fn device() -> Value {
    let or_null = |mut time: Value| {
        time["type"] = json!(["string", "null"]);
        time
    };
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
