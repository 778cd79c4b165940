/** Rollouts, and the parts of their devices. */
import type { Shape } from "./api";

export type Rollout = Shape<"Rollout">;
/** What a rollout waits for that goes on and hands nothing out. */
export type RolloutWait = NonNullable<Rollout["waits_for"]>;
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

export const WAITS: Record<RolloutWait, string> = {
  soak: "its soak time to pass",
  approval: "somebody to approve it",
  window: "its window to open",
};
