/** Queues, their jobs and dead letters. */
import { api, ask, type Page, type Shape } from "./api";
import { spanOf } from "./durations";
import { valueOf } from "./JsonField.svelte";
import { to } from "./paths";

/** A queue's stats, and since when its oldest ready job has been ready, by this machine's clock. */
export type Queue = Shape<"Queue"> & { readySince?: number; rates?: QueueRates };
/** Jobs a second, over about the last minute. */
export interface QueueRates {
  published: number;
  consumed: number;
  acked: number;
}
export type Job = Shape<"Job">;
export type DeadJob = Shape<"DeadJob">;

/** A queue's place in paths, and its name. */
export interface QueueName {
  ns: string;
  queue: string;
}

export function pathOf(queue: Queue): string {
  return to("/queues/:ns/:queue", { ns: queue.namespace, queue: queue.queue });
}

export function nameOf({ namespace, queue }: Queue): string {
  return `${namespace}/${queue}`;
}

export async function loadQueue(path: QueueName, signal: AbortSignal): Promise<Queue> {
  return dated(await ask(api.GET("/v1/queues/{ns}/{queue}", { params: { path }, signal })));
}

export async function loadQueues(
  query: { namespace: string | undefined; cursor: string | undefined; limit: number },
  signal: AbortSignal,
): Promise<Page<Queue>> {
  const page = await ask(api.GET("/v1/queues", { params: { query }, signal }));
  return { ...page, items: page.items.map(dated) };
}

/** Stats that came just now. They come again when they change, and waiting changes nothing. */
export function dated(queue: Shape<"Queue">): Queue {
  const { oldest_ready_ms: ms } = queue;
  return ms === null || ms === undefined ? queue : { ...queue, readySince: Date.now() - ms };
}

/** For how long its oldest ready job has been ready. */
export function readyFor({ readySince }: Queue, now: number): string {
  return readySince === undefined ? "–" : spanOf(Math.max(0, now - readySince));
}

export function pause(path: QueueName, paused: boolean): Promise<unknown> {
  const params = { path };
  return ask(paused ? api.POST("/v1/queues/{ns}/{queue}/pause", { params }) : api.POST("/v1/queues/{ns}/{queue}/resume", { params }));
}

/** What a job carries: JSON, or bytes as text where they are UTF-8. */
export function payloadOf(job: Shape<"Payload">): { value: unknown; bytes: boolean } {
  if (typeof job.payload_base64 !== "string") return { value: job.payload, bytes: false };
  const bytes = Uint8Array.from(atob(job.payload_base64), (char) => char.charCodeAt(0));
  try {
    return { value: new TextDecoder("utf-8", { fatal: true }).decode(bytes), bytes: true };
  } catch {
    return { value: job.payload_base64, bytes: true };
  }
}

/** A payload on one line of a table. */
export function onOneLine(job: Shape<"Payload">): string {
  const CHARS_MAX = 300;
  const { value, bytes } = payloadOf(job);
  const text = bytes ? String(value) : (JSON.stringify(value) ?? "null");
  return text.slice(0, CHARS_MAX);
}

/** The JSON that somebody typed. */
export function jsonOf(text: string): unknown {
  const read = valueOf(text);
  if ("wrong" in read) throw new Error(`The payload is no JSON: ${read.wrong}. A text needs quotes around it.`);
  return read.value;
}
