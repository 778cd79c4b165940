/** Commands: what they can still become. */
import type { Shape } from "./api";

export type Command = Shape<"Command">;
export type CommandStatus = Command["status"];

export const STATUSES: readonly CommandStatus[] = [
  "scheduled", "published", "running", "acknowledged", "failed", "expired", "superseded", "cancelled",
];

/** It has not ended: it can be cancelled. */
export function isOpen({ status }: { status: CommandStatus }): boolean {
  return status === "scheduled" || status === "published" || status === "running";
}

/** It came to nothing, and can be tried anew. */
export function isRetryable({ status }: { status: CommandStatus }): boolean {
  return status === "failed" || status === "expired" || status === "cancelled";
}
