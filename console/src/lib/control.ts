/** What the workers of a queue are told: to run, to finish what they have, or to stop. */
import { api, FieldpostError } from "./api";
import { filled } from "./filled";
import { to } from "./paths";
import type { QueueName } from "./queues";

export const CONTROL_STATES = ["run", "drain", "stop"] as const;
export type ControlState = (typeof CONTROL_STATES)[number];

export interface QueueControl {
  state: ControlState;
  /** Jobs that a worker may have at a time; no bound if there is none. */
  max_in_flight?: number | null;
  /** Whatever the workers' own code makes of it. */
  data?: unknown;
}

/** What each state asks of workers. */
export const ASKS: Record<ControlState, string> = {
  run: "workers take jobs",
  drain: "workers finish the jobs they have, and take no more",
  stop: "workers end",
};

function pathOf({ ns, queue }: QueueName): string {
  return to("/v1/queues/:ns/:queue/control", { ns, queue });
}

/** Nothing where workers were never told anything. */
export async function loadControl(queue: QueueName, signal: AbortSignal): Promise<QueueControl | null> {
  try {
    return await api.call<QueueControl>("GET", pathOf(queue), { signal });
  } catch (refused) {
    if (refused instanceof FieldpostError && refused.status === 404) return null;
    throw refused;
  }
}

/** Tells them exactly this; `null` tells them nothing any more. */
export function setControl(queue: QueueName, control: QueueControl | null): Promise<unknown> {
  return control === null ? api.call("DELETE", pathOf(queue)) : api.call("PUT", pathOf(queue), { body: filled(control) });
}
