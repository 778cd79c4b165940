/** `/v1/operations`: acts on everything that matches a list's filter. */
import { api } from "./api";

export type Action =
  | "dead.respawn" | "dead.delete" | "jobs.delete" | "deliveries.retry" | "deliveries.resend"
  | "quarantine.replay" | "quarantine.delete" | "commands.cancel" | "commands.retry"
  | "devices.label" | "devices.link" | "devices.unlink" | "devices.delete";

/** The parameters of the list, or up to 1,000 ids. */
export type OperationFilter = Record<string, string | boolean | undefined> | { ids: string[] };

export interface NewOperation {
  action: Action;
  filter: OperationFilter;
  /** Of `devices.label`; a `null` takes the label away. */
  labels?: Record<string, string | null>;
  /** Of `devices.link` and `devices.unlink`. */
  client?: string;
  /** Rows a second. */
  rate?: number;
}

export interface DryRun {
  matched: number;
  looked_at: number;
  complete: boolean;
}

export interface Operation {
  id: string;
  action: Action;
  filter: OperationFilter;
  status: "running" | "done" | "cancelled" | "failed";
  rate?: number;
  matched: number;
  done: number;
  refused: number;
  skipped: number;
  created_at: string;
  ended_at?: string;
  by: string | null;
  last_error?: { code: string; detail: string; subject: string };
}

export const operations = {
  dryRun: (asked: NewOperation, signal: AbortSignal): Promise<DryRun> =>
    api.call<DryRun>("POST", "/v1/operations", { body: { ...asked, dry_run: true }, signal }),
  start: (asked: NewOperation): Promise<Operation> => api.call<Operation>("POST", "/v1/operations", { body: asked }),
  get: (id: string, signal?: AbortSignal): Promise<Operation> =>
    api.call<Operation>("GET", `/v1/operations/${encodeURIComponent(id)}`, signal === undefined ? {} : { signal }),
  cancel: (id: string): Promise<void> => api.call<void>("DELETE", `/v1/operations/${encodeURIComponent(id)}`),
};
