/** `/v1/operations`: acts on everything that matches a list's filter. */
import { api, ask, type Shape } from "./api";
import { namespaces } from "./caller.svelte";

export type Operation = Shape<"Operation">;
export type Action = Operation["action"];
export type DryRun = Shape<"OperationDryRun">;

/** Ids that one operation takes. */
export const IDS_MAX = 1_000;

/** The parameters of the list, or up to {@link IDS_MAX} `ids`. */
export type OperationFilter = Record<string, string | boolean | string[] | undefined>;

export interface NewOperation {
  action: Action;
  filter: OperationFilter;
  /** Of `devices.label`; a `null` removes the label. */
  labels?: Record<string, string | null>;
  /** Of `devices.link` and `devices.unlink`. */
  client?: string;
  /** Rows a second. */
  rate?: number;
}

/** The namespace of the queue that a filter is about. */
export function namespaceOf(filter: Record<string, unknown> | undefined): string | undefined {
  const queue = filter?.["queue"];
  return typeof queue === "string" ? queue.split("/", 1)[0] : undefined;
}

/** A token of queues says which namespace it asks for. */
function asking(namespace: string | undefined): { namespace?: string } {
  const own = namespaces();
  const asked = own === undefined ? undefined : (namespace ?? own[0]);
  return asked === undefined ? {} : { namespace: asked };
}

export const operations = {
  dryRun: async (asked: NewOperation, signal: AbortSignal): Promise<DryRun> => {
    const params = { query: asking(namespaceOf(asked.filter)) };
    return (await ask(api.POST("/v1/operations", { params, body: { ...asked, dry_run: true }, signal }))) as DryRun;
  },
  start: async (asked: NewOperation): Promise<Operation> => {
    const params = { query: asking(namespaceOf(asked.filter)) };
    return (await ask(api.POST("/v1/operations", { params, body: asked }))) as Operation;
  },
  get: (id: string, signal: AbortSignal, namespace?: string): Promise<Operation> =>
    ask(api.GET("/v1/operations/{id}", { params: { path: { id }, query: asking(namespace) }, signal })),
  cancel: (id: string, namespace?: string): Promise<unknown> =>
    ask(api.DELETE("/v1/operations/{id}", { params: { path: { id }, query: asking(namespace) } })),
};
