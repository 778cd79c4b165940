/** Subscriptions of streams: readers whose place the server keeps. */
import { ask, type Fieldpost } from "./client.js";
import type { components } from "./schema.js";

export type StreamMessage = components["schemas"]["Message"];

/** Which subscription is read, and as whom. */
export interface SubscriptionReader {
  namespace: string;
  stream: string;
  subscription: string;
  /** What the reader calls itself; another one is refused with `subscription_busy`. */
  reader: string;
  /** Most messages of a page, up to 1,000. */
  limit?: number;
  /** How long nobody else reads after a call, such as `30s`. */
  ttl?: string;
  /** Ends the reading. */
  signal?: AbortSignal;
}

/**
 * Every message behind the position, and every one as it comes, without an end. What was taken is
 * committed before more is read: whoever stops in between gets the latest messages again.
 *
 * @throws FieldpostError if the server refuses, Unreachable if it cannot be reached.
 */
export async function* subscription(client: Fieldpost, of: SubscriptionReader): AsyncGenerator<StreamMessage> {
  const params = { path: { ns: of.namespace, stream: of.stream, name: of.subscription } };
  const signal = of.signal === undefined ? {} : { signal: of.signal };
  const ttl = of.ttl === undefined ? {} : { ttl: of.ttl };
  for (;;) {
    const body = { reader: of.reader, limit: of.limit ?? 100, wait: "30s", ...ttl };
    const page = await ask(
      client.POST("/v1/streams/{ns}/{stream}/subscriptions/{name}/read", { params, body, ...signal }),
    );
    yield* page.items;
    const read = { reader: of.reader, id: page.next_after };
    await ask(
      client.POST("/v1/streams/{ns}/{stream}/subscriptions/{name}/commit", { params, body: read, ...signal }),
    );
  }
}
