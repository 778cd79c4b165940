/** Streams, their messages and blocks. */
import { api, ask, FieldpostError, type Page, type Shape } from "./api";
import { filled } from "./filled";
import type { Feed } from "./follow.svelte";
import { to } from "./paths";

export type Stream = Shape<"Stream">;
export type StreamSettings = Shape<"StreamSettings">;
export type StreamMessage = Shape<"Message">;

/** A stream's place in paths. */
export interface StreamName {
  ns: string;
  stream: string;
}

/** Which messages are shown: of these segments, received at a time or later. */
export interface MessageFilter {
  segment: string | undefined;
  from: string | undefined;
}

/** Ids that one call looks through; more where a filter leaves messages out. */
const IDS = 200n;
const FILTERED_IDS = 1_000n;
/** Messages that one call of the tail brings. */
const TAIL_MESSAGES_MAX = 200;
/** Between two calls that both bring messages, so that a busy stream does not keep the page busy. */
const TAIL_PAUSE_MS = 500;

export function pathOf(stream: Stream): string {
  return to("/streams/:ns/:stream", { ns: stream.namespace, stream: stream.stream });
}

export function nameOf({ namespace, stream }: Stream): string {
  return `${namespace}/${stream}`;
}

export function loadStream(path: StreamName, signal: AbortSignal): Promise<Stream> {
  return ask(api.GET("/v1/streams/{ns}/{stream}", { params: { path }, signal }));
}

/**
 * The newest messages first. The API reads upwards: ids are looked through from the last one
 * down, some at a time. The cursor is the lowest id that was looked at, the lowest of all, and how
 * many were looked at.
 */
export async function loadNewest(
  path: StreamName,
  filter: MessageFilter,
  cursor: string | undefined,
  signal: AbortSignal,
): Promise<Page<StreamMessage>> {
  const [before, first, fitted] = cursor === undefined ? await ends(path, filter.from, signal) : idsOf(cursor);
  if (before <= first) return { items: [], next_cursor: null };
  let count = least(before - first, filter.segment === undefined ? IDS : FILTERED_IDS, fitted * 4n);
  for (;;) {
    const after = before - count - 1n;
    const query = { after: String(after), limit: Number(count), ...filled({ segment: filter.segment }) };
    const page = await askNear(() => ask(api.GET("/v1/streams/{ns}/{stream}/messages", { params: { path, query }, signal })), count > 1n);
    if (page === undefined) {
      count = count / 4n > 1n ? count / 4n : 1n;
      continue;
    }
    // A page ends early where its messages are large: fewer ids are asked for then.
    if (BigInt(page.next_after) < before - 1n && count > 1n && page.items.length > 0) {
      count = count / 4n > 1n ? count / 4n : 1n;
      continue;
    }
    const items = page.items.filter(({ id }) => BigInt(id) < before).reverse();
    const lowest = after + 1n;
    return { items, next_cursor: lowest > first ? `${lowest}-${first}-${count}` : null, looked_at: Number(count) };
  }
}

/** Nothing where a storage is away: newer messages may be in another one, which fewer ids show. */
async function askNear<T>(call: () => Promise<T>, fewer: boolean): Promise<T | undefined> {
  try {
    return await call();
  } catch (refused) {
    if (fewer && refused instanceof FieldpostError && refused.code === "storage_unavailable") return undefined;
    throw refused;
  }
}

function least(...numbers: readonly bigint[]): bigint {
  return numbers.reduce((a, b) => (a < b ? a : b));
}

/** Behind the ids that are looked at, the lowest of all, and how many were looked at before. */
type Ids = [before: bigint, first: bigint, fitted: bigint];

function idsOf(cursor: string): Ids {
  const [before = 0n, first = 0n, fitted = 1n] = cursor.split("-").map(BigInt);
  return [before, first, fitted];
}

/** Behind the newest message, and the oldest one that is shown. */
async function ends(path: StreamName, from: string | undefined, signal: AbortSignal): Promise<Ids> {
  const { first_id, last_id } = await loadStream(path, signal);
  const before = BigInt(last_id) + 1n;
  if (from === undefined) return [before, BigInt(first_id), FILTERED_IDS];
  const params = { path, query: { from, limit: 1 } };
  const page = await ask(api.GET("/v1/streams/{ns}/{stream}/messages", { params, signal }));
  return [before, page.items[0] === undefined ? before : BigInt(page.items[0].id), FILTERED_IDS];
}

/**
 * What is appended from now on. `onjump` is called when the tail begins, and when it goes on at the
 * end because more came than a call brings.
 */
export function tailOf(path: StreamName, segment: string | undefined, onjump: () => void): Feed<StreamMessage> {
  const tail = async (signal: AbortSignal): Promise<string> => {
    const { last_id } = await loadStream(path, signal);
    if (!signal.aborted) onjump();
    return last_id;
  };
  return {
    tail,
    next: async (after, wait, signal) => {
      const query = { after, wait, limit: TAIL_MESSAGES_MAX, ...filled({ segment }) };
      const page = await ask(api.GET("/v1/streams/{ns}/{stream}/messages", { params: { path, query }, signal }));
      if (page.items.length > 0) await new Promise((done) => setTimeout(done, TAIL_PAUSE_MS));
      if (page.items.length < TAIL_MESSAGES_MAX) return { items: page.items, tail_cursor: page.next_after };
      return { items: [], tail_cursor: await tail(signal) };
    },
  };
}

/** Sets a stream, which is made where it is not there. */
export function set(path: StreamName, settings: StreamSettings): Promise<unknown> {
  return ask(api.PUT("/v1/streams/{ns}/{stream}/settings", { params: { path }, body: settings }));
}

/** What an append came to, in a sentence. */
export function appended({ id, duplicate, conflict }: Shape<"AppendedMessage">): string {
  if (!duplicate) return `Appended as message ${id ?? ""}.`;
  if (id === null) return "Nothing was appended: there was such a message, which is gone.";
  return `Nothing was appended: message ${id} has this source and external id${conflict === true ? ", and another payload" : ""}.`;
}
