/** Copies of streams: messages that are given on to another node, or taken from one. */
import { api, ask, FieldpostError, type Page } from "./api";
import { filled } from "./filled";
import { to } from "./paths";
import { fromOf, type StartForm } from "./starts";
import type { StreamName } from "./streams";
import { compact } from "./when";

export type CopyState = "idle" | "running" | "waiting" | "paused" | "source_reset";

/** Messages go to another stream; reports of devices to the other node itself. */
export type CopyKind = "messages" | "reports";

export interface StreamCopy {
  name: string;
  kind?: CopyKind;
  direction: "to" | "from";
  node: string;
  /** At the other end, as `namespace/name`; none of reports. */
  stream: string | null;
  segments: string[];
  /** Whose reports; those of all devices if there is none. */
  selector?: string | null;
  live_share: number;
  /** Bytes in a second; no bound if there is none. */
  rate: number | null;
  state: CopyState;
  position: string;
  lag: number;
  oldest_uncopied_at: string | null;
  copied: number;
  duplicates: number;
  dropped: number;
  /** Reports that the other node refused for good. */
  refused?: number;
  error: string | null;
  /** When the stream at the other end was last seen to be made anew. */
  source_reset_at?: string | null;
}

/** A copy with the stream of this node that it belongs to. */
export interface OwnedCopy {
  of: StreamName;
  copy: StreamCopy;
}

export interface CopyForm {
  name: string;
  kind: CopyKind;
  direction: "to" | "from";
  node: string;
  stream: string;
  segments: string;
  selector: string;
  start: StartForm;
  /** In per cent. */
  liveShare: string;
  rate: string;
}

/** What `PUT` takes. */
export interface CopyBody {
  kind?: CopyKind;
  direction: "to" | "from";
  node: string;
  stream?: string;
  segments?: string[];
  selector?: string;
  from?: string;
  live_share?: number;
  rate?: number;
}

export function formOf(copy: StreamCopy | undefined): CopyForm {
  return {
    name: copy?.name ?? "", kind: copy?.kind ?? "messages", direction: copy?.direction ?? "to", node: copy?.node ?? "", stream: copy?.stream ?? "",
    segments: (copy?.segments ?? []).join(","), selector: copy?.selector ?? "", start: { begins: copy === undefined ? "start" : "", id: "", time: "" },
    liveShare: copy && copy.live_share > 0 ? String(Number((copy.live_share * 100).toPrecision(12))) : "",
    rate: copy?.rate == null ? "" : String(copy.rate),
  };
}

/** The body of the call; what was left empty is left out. */
export function bodyOf({ kind, direction, node, stream, segments, selector, start, liveShare, rate }: CopyForm): CopyBody {
  const list = segments.split(",").map((one) => one.trim()).filter((one) => one !== "");
  const number = (given: string): number | undefined => (given.trim() === "" ? undefined : Number(given));
  const share = number(liveShare);
  if (kind === "reports") {
    return { kind, direction: "to", node, ...filled({ selector: selector.trim(), from: fromOf(start), rate: number(rate) }) };
  }
  return {
    direction, node,
    ...filled({
      stream: stream.trim(), from: fromOf(start), segments: list.length === 0 ? undefined : list,
      live_share: share === undefined ? undefined : Number((share / 100).toPrecision(12)), rate: number(rate),
    }),
  };
}

const COPIES = "/v1/streams/:ns/:stream/copies";

export const copies = {
  list: ({ ns, stream }: StreamName, cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<StreamCopy>> =>
    api.call("GET", to(COPIES, { ns, stream }), { query: { ...filled({ cursor }), limit }, signal }),
  get: ({ ns, stream }: StreamName, name: string, signal: AbortSignal): Promise<StreamCopy> =>
    api.call("GET", to(`${COPIES}/:name`, { ns, stream, name }), { signal }),
  put: ({ ns, stream }: StreamName, name: string, body: CopyBody): Promise<StreamCopy> =>
    api.call("PUT", to(`${COPIES}/:name`, { ns, stream, name }), { body }),
  pause: ({ ns, stream }: StreamName, name: string, paused: boolean): Promise<unknown> =>
    api.call("POST", to(`${COPIES}/:name/${paused ? "pause" : "resume"}`, { ns, stream, name })),
  delete: ({ ns, stream }: StreamName, name: string): Promise<unknown> => api.call("DELETE", to(`${COPIES}/:name`, { ns, stream, name })),
};

/** Streams whose copies a picture asks for, and copies that it takes of one. */
export const STREAMS_MAX = 500;
const COPIES_MAX = 1_000;
/** Calls at a time. */
const CALLS = 4;

export interface AllCopies {
  all: OwnedCopy[];
  /** There are more streams, whose copies were not asked for. */
  more: boolean;
}

/** The copies of all streams, in order of stream and name. */
export async function loadAll(signal: AbortSignal): Promise<AllCopies> {
  const page = await ask(api.GET("/v1/streams", { params: { query: { limit: STREAMS_MAX } }, signal }));
  const streams = page.items.map(({ namespace: ns, stream }) => ({ ns, stream }));
  return { all: await copiesOfAll(streams, signal), more: page.next_cursor != null };
}

/** The same copies as they are now; a stream that had none is not asked. */
export function lookAgain(known: readonly OwnedCopy[], signal: AbortSignal): Promise<OwnedCopy[]> {
  const streams = new Map(known.map(({ of }) => [`${of.ns}/${of.stream}`, of]));
  return copiesOfAll([...streams.values()], signal);
}

/** No call has the copies of several streams, so each stream is asked. */
async function copiesOfAll(streams: readonly StreamName[], signal: AbortSignal): Promise<OwnedCopy[]> {
  const found: OwnedCopy[][] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < streams.length; at = next++) {
      const of = streams[at]!;
      found[at] = (await copiesOf(of, signal)).map((copy) => ({ of, copy }));
    }
  };
  await Promise.all(Array.from({ length: CALLS }, work));
  return found.flat();
}

/** None where the stream was deleted meanwhile. */
async function copiesOf(stream: StreamName, signal: AbortSignal): Promise<StreamCopy[]> {
  try {
    return (await copies.list(stream, undefined, COPIES_MAX, signal)).items;
  } catch (refused) {
    if (refused instanceof FieldpostError && refused.code === "unknown_stream") return [];
    throw refused;
  }
}

export type CopyTone = "ok" | "warn" | "bad" | "plain";

/** How a copy stands, in a word with its tone. */
export function standing({ state, lag, error }: Pick<StreamCopy, "state" | "lag" | "error">): { word: string; tone: CopyTone } {
  if (state === "source_reset") return { word: "source reset", tone: "warn" };
  if (state === "paused") return { word: "paused", tone: "plain" };
  if (error !== null && error !== undefined) return { word: "fails", tone: "bad" };
  if (lag === 0) return { word: "level", tone: "ok" };
  return state === "waiting" ? { word: "waits", tone: "warn" } : { word: "copies", tone: "ok" };
}

/** How far behind it is, short: for an arrow. */
export function shortLag(copy: Pick<StreamCopy, "state" | "lag" | "error">): string {
  const { word } = standing(copy);
  const behind = copy.lag === 0 ? "" : `${compact(copy.lag)} behind`;
  if (word === "level" || word === "copies") return behind === "" ? "level" : behind;
  return behind === "" ? word : `${word}, ${behind}`;
}

/** The same in a few letters. */
export function shortestLag(copy: Pick<StreamCopy, "state" | "lag" | "error">): string {
  const { word } = standing(copy);
  if (word === "level" || word === "copies") return shortLag(copy);
  return [word.replace("source ", ""), copy.lag === 0 ? "" : compact(copy.lag)].filter((part) => part !== "").join(" ");
}
