/** `/v1/operations`: acts on everything that matches a list's filter. */
import { api } from "./api";
import { namespaces } from "./caller.svelte";

export type Action =
  | "dead.respawn" | "dead.delete" | "jobs.delete" | "deliveries.retry" | "deliveries.resend"
  | "quarantine.replay" | "quarantine.delete" | "commands.cancel" | "commands.retry"
  | "devices.label" | "devices.link" | "devices.unlink" | "devices.delete";

/** The parameters of the list, or up to 1,000 `ids`. */
export type OperationFilter = Record<string, string | boolean | string[] | undefined>;

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

/** The namespace of the queue that a filter is about. */
export function namespaceOf(filter: OperationFilter): string | undefined {
  const { queue } = filter;
  return typeof queue === "string" ? queue.split("/", 1)[0] : undefined;
}

/** A token of queues says which namespace it asks for. */
function asking(namespace: string | undefined): { namespace: string | undefined } {
  const own = namespaces();
  return { namespace: own === undefined ? undefined : (namespace ?? own[0]) };
}

export const operations = {
  dryRun: (asked: NewOperation, signal: AbortSignal): Promise<DryRun> => {
    const query = asking(namespaceOf(asked.filter));
    return api.call<DryRun>("POST", "/v1/operations", { query, body: { ...asked, dry_run: true }, signal });
  },
  start: (asked: NewOperation): Promise<Operation> =>
    api.call<Operation>("POST", "/v1/operations", { query: asking(namespaceOf(asked.filter)), body: asked }),
  get: (id: string, signal?: AbortSignal, namespace?: string): Promise<Operation> =>
    api.call<Operation>("GET", path(id), { query: asking(namespace), ...(signal === undefined ? {} : { signal }) }),
  cancel: (id: string, namespace?: string): Promise<void> =>
    api.call<void>("DELETE", path(id), { query: asking(namespace) }),
};

function path(id: string): string {
  return `/v1/operations/${encodeURIComponent(id)}`;
}
