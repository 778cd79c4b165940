/**
 * What happens now, for the page that is shown. Its parts ask with `useLive`, and share one stream:
 * browsers give a page few connections to one server. The stream is taken up again after a cut, and
 * closed when the page is left.
 */
import { live, type FieldpostError, type LiveHandle } from "@fieldpost/client";
import { untrack } from "svelte";
import { unauthorized } from "./api";
import { connection } from "./connection.svelte";
import { filled } from "./filled";
import { toast } from "./toast.svelte";
import { token } from "./token";

export type LiveState = "off" | "connecting" | "connected" | "old" | "refused";

/** What a feed's topic brings: the newest last; the first message has the last N. */
export interface FeedMessage<T> {
  items: T[];
  first?: boolean;
  /** Items that were sent before, or are among `items`, as they are now: to be shown last. */
  moved?: T[];
}

/** What a topic of objects brings: those that changed, all of them at first. */
export interface ObjectsMessage<T> {
  items: T[];
  gone?: string[];
}

export interface LiveRequest {
  /** Those of `GET /v1/live`. */
  topics: string[];
  /** Parameters of the call; an empty one is left out. */
  query?: Record<string, string | undefined>;
  /** By topic, what to do with its messages. */
  on: Record<string, (data: never) => void>;
  /** Items of the topic were left out: load its list again. */
  behind?: (topic: string) => void;
}

const state = $state({
  live: "off" as LiveState,
  error: undefined as FieldpostError | undefined,
  retryAt: 0,
  retry: undefined as (() => void) | undefined,
});
let versionSeen: string | undefined;

export const liveState = {
  get now(): LiveState {
    return state.live;
  },
  get error(): FieldpostError | undefined {
    return state.error;
  },
  /** When a cut stream is tried again, in ms of the clock. */
  get retryAt(): number {
    return state.retryAt;
  },
  retryNow(): void {
    state.retry?.();
  },
};

/**
 * A tab that nobody has looked at for so long lets its stream go: a browser has six connections to a
 * server for all of its tabs.
 */
const HIDDEN_MS_MAX = 60_000;
const tab = $state({ asleep: false });
let fallsAsleep: ReturnType<typeof setTimeout> | undefined;
document.addEventListener("visibilitychange", () => {
  clearTimeout(fallsAsleep);
  if (document.hidden) fallsAsleep = setTimeout(() => (tab.asleep = true), HIDDEN_MS_MAX);
  else tab.asleep = false;
});

/** A change of what a page asks for within so many ms makes one new stream: rows that are scrolled past. */
const SETTLE_MS = 250;

type Request = () => LiveRequest | undefined;
/** Of the parts of the page that are shown. */
let requests = $state.raw<readonly Request[]>([]);

/**
 * Takes part in the page's stream, in a component. `undefined` asks for nothing. The stream is opened
 * anew when topics or parameters change, not when handlers do. Parts that ask for one topic share
 * its parameters.
 */
export function useLive(request: Request): void {
  $effect(() => {
    requests = [...untrack(() => requests), request];
    return () => (requests = untrack(() => requests).filter((one) => one !== request));
  });
}

function asked(): LiveRequest[] {
  return requests.map((request) => request()).filter((one) => one !== undefined);
}

$effect.root(() => {
  const key = $derived(asked().length === 0 ? "" : JSON.stringify(parameters(asked())));
  let opened: readonly Request[] = [];
  let slept = false;
  $effect(() => {
    const parts = untrack(() => requests);
    // Those who have just come do not wait.
    const settles = parts.every((part) => opened.includes(part));
    opened = parts;
    if (key === "") return;
    if (tab.asleep) {
      slept = true;
      return;
    }
    // What came meanwhile is not in the stream.
    if (slept) untrack(() => asked().forEach(({ topics, behind }) => topics.forEach((topic) => behind?.(topic))));
    slept = false;
    const query = JSON.parse(key) as Record<string, string>;
    let handle: LiveHandle | undefined;
    const timer = setTimeout(() => (handle = open(query)), settles ? SETTLE_MS : 0);
    return () => {
      clearTimeout(timer);
      handle?.close();
      connection.retryBy(undefined);
      state.live = "off";
    };
  });
});

function parameters(asked: readonly LiveRequest[]): Record<string, string> {
  const topics = [...new Set(asked.flatMap(({ topics }) => topics))];
  const query = Object.assign({}, ...asked.map(({ query }) => filled(query ?? {}))) as Record<string, string>;
  return { ...query, topics: topics.join(",") };
}

function open(query: Record<string, string>): LiveHandle {
  state.live = "connecting";
  state.error = undefined;
  let cutAt: number | undefined;
  const handle = live({
    baseUrl: location.origin,
    token: token.get,
    query,
    onOpen: () => {
      state.live = "connected";
      if (cutAt !== undefined) connection.streamBack(cutAt);
      cutAt = undefined;
    },
    onCut: (_, retryInMs) => {
      state.live = "old";
      state.retryAt = Date.now() + retryInMs;
      cutAt ??= connection.epoch;
      connection.streamCut();
    },
    onRefused: (error) => {
      state.live = "refused";
      if (error.status === 401) unauthorized();
      state.error = error;
    },
    onMessage: ({ event, data }) => take(event, data),
  });
  state.retry = handle.retryNow.bind(handle);
  connection.retryBy(state.retry);
  return handle;
}

function take(event: string, data: unknown): void {
  if (event === "hello") {
    const { version } = data as { version: string };
    if (versionSeen !== undefined && versionSeen !== version) {
      toast.show(`The server is now version ${version}: reload this page to match it.`, {
        action: { label: "Reload", run: () => location.reload() },
      });
    }
    versionSeen = version;
    return;
  }
  for (const request of asked()) {
    if (event === "behind") request.behind?.((data as { topic: string }).topic);
    else (request.on[event] as ((data: unknown) => void) | undefined)?.(data);
  }
}
