//! Which tokens reach which calls, for the groups of calls that belong together.

const EVERY_TOKEN: &[&str] = &[
    "admin", "read", "report", "commands", "operate", "tasks", "jobs", "streams", "reader", "producer",
    "acme", "both", "nobody",
];
/// What a console asks besides the lists.
pub(super) const OF_A_CONSOLE: [(&str, &[&str]); 5] = [
    ("GET /v1/caller", EVERY_TOKEN),
    ("GET /v1/live?topics=x", EVERY_TOKEN),
    ("GET /v1/overview", &["admin", "read", "commands", "operate"]),
    ("GET /v1/system", &["admin", "read", "operate"]),
    ("GET /v1/devices/d1/readings/summary", &["admin", "read", "operate"]),
];

const LOOK_AT_PICKS: &[&str] = &["admin", "read", "operate", "tasks"];
const OF_FLEET: &[&str] = &["admin", "read", "commands", "operate", "tasks"];
/// What has devices picked, and tells of it.
pub(super) const OF_PICKS: [(&str, &[&str]); 18] = [
    ("POST /v1/tasks", &["admin", "tasks"]),
    ("GET /v1/tasks/none", LOOK_AT_PICKS),
    ("DELETE /v1/tasks/none", &["admin", "tasks"]),
    ("GET /v1/tasks/none/results", LOOK_AT_PICKS),
    ("POST /v1/campaigns", &["admin", "tasks"]),
    ("GET /v1/campaigns?x=1", LOOK_AT_PICKS),
    ("GET /v1/campaigns/none", LOOK_AT_PICKS),
    ("PUT /v1/campaigns/none", &["admin", "tasks"]),
    ("PATCH /v1/campaigns/none", &["admin", "tasks"]),
    ("DELETE /v1/campaigns/none", &["admin", "tasks"]),
    ("POST /v1/campaigns/none/pause", &["admin", "tasks", "operate"]),
    ("POST /v1/campaigns/none/resume", &["admin", "tasks", "operate"]),
    ("GET /v1/campaigns/none/slots", LOOK_AT_PICKS),
    ("GET /v1/campaigns/none/results", LOOK_AT_PICKS),
    ("GET /v1/campaigns/none/coverage", LOOK_AT_PICKS),
    ("GET /v1/fleet/count?x=1", OF_FLEET),
    ("GET /v1/fleet/weights?x=1", OF_FLEET),
    ("GET /v1/fleet/fairness", OF_FLEET),
];

const READ_STREAMS: &[&str] = &["admin", "read", "operate", "streams", "reader"];
/// What reads with a place that the server keeps.
const SUBSCRIBE: &[&str] = &["admin", "streams", "reader"];
/// What appends to streams and reads them.
pub(super) const OF_STREAMS: [(&str, &[&str]); 31] = [
    ("GET /v1/streams?x=1", READ_STREAMS),
    ("GET /v1/streams/shop/orders", READ_STREAMS),
    ("GET /v1/streams/other/orders", &["admin", "read", "operate"]),
    ("GET /v1/streams/shop/orders/blocks", READ_STREAMS),
    ("GET /v1/streams/shop/orders/handlers", READ_STREAMS),
    ("GET /v1/streams/shop/orders/messages", READ_STREAMS),
    ("GET /v1/streams/shop/orders/messages/1", READ_STREAMS),
    ("POST /v1/streams/shop/orders/messages", &["admin", "streams", "producer"]),
    ("POST /v1/streams/other/orders/messages", &["admin"]),
    ("PUT /v1/streams/shop/orders/settings", &["admin", "streams"]),
    ("GET /v1/streams/shop/orders/subscriptions", READ_STREAMS),
    ("GET /v1/streams/shop/orders/subscriptions/a", READ_STREAMS),
    ("PUT /v1/streams/shop/orders/subscriptions/a", SUBSCRIBE),
    ("PUT /v1/streams/other/orders/subscriptions/a", &["admin"]),
    ("POST /v1/streams/shop/orders/subscriptions/a/read", SUBSCRIBE),
    ("POST /v1/streams/shop/orders/subscriptions/a/commit", SUBSCRIBE),
    ("DELETE /v1/streams/shop/orders/subscriptions/a", SUBSCRIBE),
    ("DELETE /v1/streams/sh%6Fp/orders", &["admin", "streams"]),
    ("GET /v1/streams/shop/orders/copies", &["admin"]),
    ("GET /v1/streams/shop/orders/copies/a", &["admin"]),
    ("PUT /v1/streams/shop/orders/copies/a", &["admin"]),
    ("POST /v1/streams/shop/orders/copies/a/pause", &["admin"]),
    ("POST /v1/streams/shop/orders/copies/a/resume", &["admin"]),
    ("DELETE /v1/streams/shop/orders/copies/a", &["admin"]),
    ("GET /v1/streams/shop/orders/receipts?id=1", READ_STREAMS),
    ("GET /v1/nodes", &["admin"]),
    ("GET /v1/nodes/a", &["admin"]),
    ("PUT /v1/nodes/a", &["admin"]),
    ("DELETE /v1/nodes/a", &["admin"]),
    ("GET /v1/relays", &["admin", "read", "operate"]),
    ("PUT /v1/relays/r", &["admin", "operate", "jobs", "streams", "producer"]),
];
