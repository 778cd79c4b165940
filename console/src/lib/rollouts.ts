/** Rollouts: their parts, and how many devices they would mean. */
import { api, type Page, type Shape } from "./api";
import { countable } from "./labels";

export type Rollout = Shape<"Rollout">;
export type RolloutDevice = Shape<"RolloutDevice">;
export type MemberStatus = RolloutDevice["status"];

/** In the order in which devices go through them, with their colours. */
export const PARTS: readonly { status: MemberStatus; colour: string }[] = [
  { status: "acknowledged", colour: "var(--series-3)" },
  { status: "published", colour: "var(--series-1)" },
  { status: "scheduled", colour: "var(--series-4)" },
  { status: "failed", colour: "var(--bad)" },
  { status: "expired", colour: "var(--warn)" },
  { status: "superseded", colour: "var(--series-5)" },
  { status: "cancelled", colour: "var(--series-6)" },
  { status: "waiting", colour: "var(--line-strong)" },
];

/** It goes on, or may go on. */
export function isOpen({ status }: Rollout): boolean {
  return status === "running" || status === "waiting" || status === "paused" || status === "stopped";
}

export interface Counted {
  devices: number;
  /** There are more. */
  more: boolean;
}

const PAGE_ROWS = 1_000;
const PAGES_MAX = 10;

/**
 * How many devices a selector means now, up to ten thousand; `undefined` for one that only the server
 * can tell of, when the rollout starts.
 */
export async function countDevices(selector: string, signal: AbortSignal): Promise<Counted | undefined> {
  const query = countable(selector);
  if (query === undefined) return undefined;
  let [devices, cursor] = [0, undefined as string | undefined];
  for (let pages = 0; pages < PAGES_MAX; pages += 1) {
    const asked = { ...query, limit: PAGE_ROWS, cursor };
    const page = await api.call<Page<unknown>>("GET", "/v1/devices", { query: asked, signal });
    devices += page.items.length;
    cursor = page.next_cursor ?? undefined;
    if (cursor === undefined) return { devices, more: false };
  }
  return { devices, more: true };
}
