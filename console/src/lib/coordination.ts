/** Locks and limits that programs share by their names. */
import { api, FieldpostError, type Page } from "./api";
import { filled } from "./filled";
import { to } from "./paths";

/** A lock's place. */
export interface LockName {
  namespace: string;
  name: string;
}

/** How a lock stands. */
export interface Lock extends LockName {
  held: boolean;
  /** Shown to administrators only. */
  owner?: string | null;
  /** A decimal that rises with every new holder; "0" before the first. */
  fence: string;
  /** Callers that wait for it. */
  waiting: number;
  expires_at?: string | null;
}

/** A limit as it was asked last, and what is left of it now. */
export interface RateLimit extends LockName {
  kind: "smooth" | "window";
  limit: number;
  per: string;
  remaining: number;
}

/** The server has no such list: its names are for those who know them. */
export function isUnlisted(error: unknown): boolean {
  return error instanceof FieldpostError && error.code === "unknown_route";
}

function pathOf({ namespace: ns, name }: LockName): string {
  return to("/v1/locks/:ns/:name", { ns, name });
}

export function keyOf({ namespace, name }: LockName): string {
  return `${namespace}/${name}`;
}

/** What `?lock=` says; names have no slash. */
export function lockOf(key: string | null): LockName | undefined {
  const at = key?.indexOf("/") ?? -1;
  return key === null || at < 1 || at === key.length - 1 ? undefined : { namespace: key.slice(0, at), name: key.slice(at + 1) };
}

export const locks = {
  /** Those that are held or waited for. */
  list: (namespace: string | undefined, cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<Lock>> =>
    api.call("GET", "/v1/locks", { query: { ...filled({ namespace, cursor }), limit }, signal }),
  get: async (lock: LockName, signal: AbortSignal): Promise<Lock> => ({ ...(await api.call<Lock>("GET", pathOf(lock), { signal })), ...lock }),
  /** Refused where it is another's by now. */
  release: (lock: LockName, owner: string): Promise<unknown> => api.call("POST", `${pathOf(lock)}/release`, { body: { owner } }),
};

export function loadLimits(namespace: string | undefined, cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<RateLimit>> {
  return api.call("GET", "/v1/limits", { query: { ...filled({ namespace, cursor }), limit }, signal });
}
