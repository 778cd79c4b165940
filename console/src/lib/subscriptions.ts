/** Subscriptions of a stream: readers whose position the server keeps, and receivers that it posts to. */
import { api, ask, type Page, type Shape } from "./api";
import { filled } from "./filled";
import { fromOf, type StartForm } from "./starts";
import type { StreamName } from "./streams";
import { count } from "./when";

export type Subscription = Shape<"Subscription">;

export interface SubscriptionForm {
  name: string;
  start: StartForm;
  segment: string;
  pushed: boolean;
  url: string;
  max: string;
  /** An empty one is made by the server, or stays. */
  secret: string;
}

/** What `PUT` takes. */
export interface SubscriptionBody {
  from?: string;
  segment?: string;
  push?: { url: string; max?: number; secret?: string };
}

export function formOf(subscription: Subscription | undefined): SubscriptionForm {
  const push = subscription?.push ?? undefined;
  return {
    name: subscription?.name ?? "", start: { begins: subscription === undefined ? "start" : "", id: "", time: "" },
    segment: subscription?.segment ?? "", pushed: push !== undefined, url: push?.url ?? "", max: String(push?.max ?? 100), secret: "",
  };
}

/** The body of the call; what was left empty is left out. */
export function bodyOf({ start, segment, pushed, url, max, secret }: SubscriptionForm): SubscriptionBody {
  const push = { url: url.trim(), ...filled({ max: max === "" ? undefined : Number(max), secret: secret.trim() }) };
  return { ...filled({ from: fromOf(start), segment: segment.trim() }), ...(pushed ? { push } : {}) };
}

/** How many messages are behind it. Those of other segments count too. */
export function lagOf({ lag, segment }: Subscription): string {
  return segment === null || lag === 0 ? count(lag) : `at most ${count(lag)}`;
}

export const subscriptions = {
  list: (path: StreamName, cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<Subscription>> =>
    ask(api.GET("/v1/streams/{ns}/{stream}/subscriptions", { params: { path, query: { ...filled({ cursor }), limit } }, signal })),
  get: (path: StreamName, name: string, signal: AbortSignal): Promise<Subscription> =>
    ask(api.GET("/v1/streams/{ns}/{stream}/subscriptions/{name}", { params: { path: { ...path, name } }, signal })),
  put: (path: StreamName, name: string, body: SubscriptionBody): Promise<Subscription> =>
    ask(api.PUT("/v1/streams/{ns}/{stream}/subscriptions/{name}", { params: { path: { ...path, name } }, body })),
  delete: (path: StreamName, name: string): Promise<unknown> =>
    ask(api.DELETE("/v1/streams/{ns}/{stream}/subscriptions/{name}", { params: { path: { ...path, name } } })),
  /** Everything up to `id` is read, also where more was; refused while somebody else reads. */
  commit: (path: StreamName, name: string, id: string): Promise<unknown> =>
    ask(api.POST("/v1/streams/{ns}/{stream}/subscriptions/{name}/commit", {
      params: { path: { ...path, name } }, body: { reader: "console", id, rewind: true },
    })),
};
