/**
 * What happens now, for the page that is shown. A page opens one stream with `useLive`; it is taken
 * up again after a cut and closed when the page is left. Browsers give a page few connections to
 * one server, so there is one stream, and not one for each part of a page.
 */
import { live, type FieldpostError, type LiveHandle } from "@fieldpost/client";
import { untrack } from "svelte";
import { connection } from "./connection.svelte";
import { filled } from "./filled";
import { toast } from "./toast.svelte";
import { token } from "./token";

export type LiveState = "off" | "connecting" | "connected" | "old" | "refused";

/** What a feed's topic brings: the newest last; the first message has the last N. */
export interface FeedMessage<T> {
  items: T[];
  first?: boolean;
}

export interface LiveRequest {
  /** `overview`, `events`, `deliveries`, `commands`, `timeline`, `devices`, `queues`, `notices`. */
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

/** A change of the request within so many ms makes one new stream: rows that are scrolled past. */
const SETTLE_MS = 250;

/**
 * Opens the stream that `request` asks for, in a component. `undefined` is none. It is opened anew
 * when the topics or parameters change, not when the handlers do.
 */
export function useLive(request: () => LiveRequest | undefined): void {
  const key = $derived.by(() => {
    const asked = request();
    return asked === undefined ? "" : JSON.stringify(parameters(asked));
  });
  let opened = false;
  let slept = false;
  $effect(() => {
    if (key === "") return;
    if (tab.asleep) {
      slept = true;
      return;
    }
    // What came meanwhile is not in the stream.
    if (slept) untrack(() => request()?.topics.forEach((topic) => request()?.behind?.(topic)));
    slept = false;
    const query = JSON.parse(key) as Record<string, string>;
    let handle: LiveHandle | undefined;
    const timer = setTimeout(() => (handle = open(query, request)), opened ? SETTLE_MS : 0);
    opened = true;
    return () => {
      clearTimeout(timer);
      handle?.close();
      connection.retryBy(undefined);
      state.live = "off";
    };
  });
}

function parameters({ topics, query }: LiveRequest): Record<string, string> {
  return { topics: topics.join(","), ...(filled(query ?? {}) as Record<string, string>) };
}

function open(query: Record<string, string>, request: () => LiveRequest | undefined): LiveHandle {
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
      state.error = error;
    },
    onMessage: ({ event, data }) => take(event, data, request()),
  });
  state.retry = handle.retryNow.bind(handle);
  connection.retryBy(state.retry);
  return handle;
}

function take(event: string, data: unknown, request: LiveRequest | undefined): void {
  if (event === "hello") {
    const { version } = data as { version: string };
    if (versionSeen !== undefined && versionSeen !== version) {
      toast.show(`The server is now version ${version}: reload this page to match it.`, {
        action: { label: "Reload", run: () => location.reload() },
      });
    }
    versionSeen = version;
  } else if (event === "behind") {
    request?.behind?.((data as { topic: string }).topic);
  } else {
    (request?.on[event] as ((data: unknown) => void) | undefined)?.(data);
  }
}
