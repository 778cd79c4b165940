/**
 * `GET /v1/live`: server-sent events over `fetch`, because `EventSource` cannot carry a token. A cut
 * stream is taken up again where it ended, after a pause that grows.
 */
import { FieldpostError, type Problem, problemOf, Unreachable } from "./problem.js";

export interface LiveMessage {
  /** `hello`, `behind`, or the name of a topic. */
  event: string;
  data: unknown;
}

export interface LiveOptions {
  baseUrl: string;
  token?: () => string | undefined;
  fetch?: typeof fetch;
  /** The parameters of the call: `topics`, `device`, `client`, `ids`, `queues`, `last`. */
  query: Record<string, string>;
  onMessage: (message: LiveMessage) => void;
  /** The stream is open: its head has come. */
  onOpen?: () => void;
  /** The stream is cut. It is opened again in so many milliseconds. */
  onCut?: (error: unknown, retryInMs: number) => void;
  /** The server refuses the stream for good: nothing is tried again. */
  onRefused?: (error: FieldpostError) => void;
}

export interface LiveHandle {
  close(): void;
  /** Tries at once instead of at the end of the pause. */
  retryNow(): void;
}

/** Messages after which the next pause is as long as it would have been without them. */
const NOT_A_TOPIC = new Set(["hello", "behind"]);
/** The first pause after a cut; it doubles up to the last one, and begins anew with a topic's message. */
const RETRY_MS = { first: 500, last: 15_000 };
/** The server sends a line every 15 s; a stream that is silent for longer is dead. */
const SILENCE_MS_MAX = 40_000;
/** A message longer than this is not one of ours. */
const MESSAGE_CHARS_MAX = 16 * 1024 * 1024;

/** Opens the stream, and keeps it open until it is closed. */
export function live(options: LiveOptions): LiveHandle {
  const stream = new Stream(options);
  void stream.run();
  return stream;
}

class Stream implements LiveHandle {
  private readonly options: LiveOptions;
  private readonly closing = new AbortController();
  private resumeFrom: string | undefined;
  private wake: (() => void) | undefined;
  private pauseMs = RETRY_MS.first;

  constructor(options: LiveOptions) {
    this.options = options;
  }

  close(): void {
    this.closing.abort();
    this.wake?.();
  }

  retryNow(): void {
    this.wake?.();
  }

  async run(): Promise<void> {
    while (!this.closing.signal.aborted) {
      const error = await this.once().then(() => new Unreachable("the stream ended"), (error: unknown) => error);
      if (this.closing.signal.aborted) return;
      if (error instanceof FieldpostError && isFinal(error.status)) {
        this.options.onRefused?.(error);
        return;
      }
      await this.pause(error);
    }
  }

  private async pause(error: unknown): Promise<void> {
    // Spread, so that the pages that a restart has cut do not all come back at one moment.
    const pauseMs = this.pauseMs * (0.75 + Math.random() / 2);
    this.pauseMs = Math.min(this.pauseMs * 2, RETRY_MS.last);
    const over = new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, pauseMs);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.options.onCut?.(error, pauseMs);
    await over;
    this.wake = undefined;
  }

  /** One stream from its head to its end. */
  private async once(): Promise<void> {
    const silence = new AbortController();
    const signal = AbortSignal.any([this.closing.signal, silence.signal]);
    const ask = this.options.fetch ?? fetch;
    let timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
    try {
      const response = await ask(this.url(), { headers: this.headers(), signal, cache: "no-store" });
      if (!response.ok || response.body === null) throw problemOf(response, await response.json().catch(() => null));
      this.options.onOpen?.();
      const parse = eventParser((event) => this.take(event));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
        parse(value);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  private url(): string {
    return `${this.options.baseUrl}/v1/live?${new URLSearchParams(this.options.query).toString()}`;
  }

  private headers(): Record<string, string> {
    const token = this.options.token?.();
    return {
      accept: "text/event-stream",
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(this.resumeFrom === undefined ? {} : { "last-event-id": this.resumeFrom }),
    };
  }

  private take(event: RawEvent): void {
    const data = JSON.parse(event.data) as unknown;
    // The server says why it ends the stream: the token may no longer see it, or the server stops.
    if (event.event === "end") throw new FieldpostError(data as Problem);
    if (event.id !== undefined) this.resumeFrom = event.id;
    // A server that is busy says hello too, before it ends the stream.
    if (!NOT_A_TOPIC.has(event.event)) this.pauseMs = RETRY_MS.first;
    this.options.onMessage({ event: event.event, data });
  }
}

/** Neither waiting nor trying again helps. */
function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

interface RawEvent {
  event: string;
  data: string;
  id: string | undefined;
}

/** Reads server-sent events from pieces of text that end anywhere. */
export function eventParser(take: (event: RawEvent) => void): (piece: string) => void {
  let rest = "";
  let event: RawEvent = { event: "message", data: "", id: undefined };
  let data: string[] = [];
  const line = (text: string): void => {
    if (text === "") {
      if (data.length > 0) take({ ...event, data: data.join("\n") });
      event = { event: "message", data: "", id: undefined };
      data = [];
      return;
    }
    const colon = text.indexOf(":");
    const name = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "event") event.event = value;
    else if (name === "id") event.id = value;
  };
  return (piece) => {
    // A piece may end between the two characters of a line's end.
    const text = rest + piece;
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    if (rest.length > MESSAGE_CHARS_MAX) throw new Error("a live message has no end");
    lines.forEach(line);
  };
}
