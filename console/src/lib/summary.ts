/** A device's readings in equal steps of time, for its chart: `/v1/devices/{id}/readings/summary`. */
import { api, ask, type Shape } from "./api";

export type Step = Shape<"SummaryStep">;

export interface Summary {
  items: Step[];
  stepMs: number;
  lookedAt: number;
  complete: boolean;
}

export interface Span {
  from: string;
  to: string;
}

/** Calls that one chart makes: each reads some tens of thousands of readings. */
const CALLS_MAX = 20;

/** The steps of a span, however many readings it has, up to a bound that `complete` tells of. */
export async function summarize(
  id: string,
  asked: Span & { points: number; path?: string },
  signal: AbortSignal,
): Promise<Summary> {
  const summary: Summary = { items: [], stepMs: 0, lookedAt: 0, complete: false };
  let cursor: string | undefined;
  for (let calls = 0; calls < CALLS_MAX && !summary.complete; calls += 1) {
    const query = { ...asked, ...(cursor === undefined ? {} : { cursor }) };
    const page = await ask(api.GET("/v1/devices/{id}/readings/summary", { params: { path: { id }, query }, signal }));
    summary.items = joined(summary.items, page.items);
    summary.stepMs = page.step_ms;
    summary.lookedAt += page.looked_at;
    summary.complete = page.complete;
    cursor = page.next_cursor;
  }
  return summary;
}

/** Steps and those that follow; a step in two parts, of two answers, becomes one. */
export function joined(steps: readonly Step[], more: readonly Step[]): Step[] {
  const all = [...steps];
  for (const step of more) {
    const last = all.at(-1);
    if (last?.from === step.from) all[all.length - 1] = added(last, step);
    else all.push(step);
  }
  return all;
}

function added(a: Step, b: Step): Step {
  const count = a.count + b.count;
  const sum: Step = { from: a.from, count, changed: a.changed + b.changed, last: b.last };
  if (a.mean == null || b.mean == null) return { ...a, ...b, ...sum };
  return {
    ...sum,
    min: Math.min(a.min ?? a.mean, b.min ?? b.mean),
    max: Math.max(a.max ?? a.mean, b.max ?? b.mean),
    mean: (a.mean * a.count + b.mean * b.count) / count,
  };
}

/** Pointers that are looked for in a reading, and how deep. */
const POINTERS_MAX = 50;
const DEPTH_MAX = 5;

/** JSON pointers to the numbers of a value, then to its booleans; "" is the value itself. */
export function pointersOf(data: unknown): string[] {
  return [...leaves(data, "number"), ...leaves(data, "boolean")].slice(0, POINTERS_MAX);
}

function leaves(data: unknown, type: "number" | "boolean", at = "", depth = 0): string[] {
  if (typeof data === type) return [at];
  if (typeof data !== "object" || data === null || depth === DEPTH_MAX) return [];
  const escaped = (key: string): string => key.replaceAll("~", "~0").replaceAll("/", "~1");
  return Object.entries(data).flatMap(([key, value]) => leaves(value, type, `${at}/${escaped(key)}`, depth + 1));
}
