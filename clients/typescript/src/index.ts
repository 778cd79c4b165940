/**
 * A typed client of Fieldpost's HTTP API. Paths, parameters, bodies and answers are those of the
 * server's OpenAPI document; `fieldpost()` makes the client, `ask()` turns refusals into errors,
 * `items()` walks lists, and `live()` reads the stream of what happens now.
 */
export { ask, fieldpost, type CallOptions, type Fieldpost, type FieldpostOptions, type QueryValue } from "./client.js";
export { items, type Page } from "./items.js";
export { live, type LiveHandle, type LiveMessage, type LiveOptions } from "./live.js";
export { FieldpostError, problemOf, Unreachable, type Problem } from "./problem.js";
export type { components, paths } from "./schema.js";
export { subscription, type StreamMessage, type SubscriptionReader } from "./subscription.js";
