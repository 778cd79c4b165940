/** Outbox relays: programs that move rows of a PostgreSQL table into queues and streams. */
import { api, type Page } from "./api";
import { filled } from "./filled";

/** What a relay says of itself. Stats are those of its table; null while it does not know them. */
export interface Relay {
  name: string;
  /** Without its password. */
  database: string;
  table: string;
  state: "connecting" | "waiting" | "working";
  /** What becomes of rows that are refused for good. */
  on_refused: "skip" | "hold" | null;
  /** Rows, and what they take. */
  waiting: number | null;
  bytes: number | null;
  /** Rows that were refused and hold up their key. */
  held: number | null;
  /** Rows that were refused for good and set aside. */
  refused: number | null;
  oldest_at: string | null;
  /** Rows that it has moved since it began. */
  moved: number;
  /** Rows that it moves a second. */
  rate: number;
  /** Why it does not move. */
  error: string | null;
  /** When it last said all this; ten seconds later it is forgotten. */
  last_seen_at: string;
}

export function loadRelays(cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<Relay>> {
  return api.call("GET", "/v1/relays", { query: { ...filled({ cursor }), limit }, signal });
}

/** What its state means. */
export const DOES: Record<Relay["state"], string> = {
  working: "it moves rows",
  waiting: "another relay works on the table",
  connecting: "it tries to reach the database",
};

/** How it stands, in a word with its tone. */
export function standing({ state, error }: Pick<Relay, "state" | "error">): { word: string; tone: "ok" | "warn" | "bad" | "plain" } {
  if (error !== null && error !== undefined) return { word: state === "working" ? "stuck" : state, tone: "bad" };
  return { word: state, tone: state === "working" ? "ok" : state === "connecting" ? "warn" : "plain" };
}
