/** Other nodes, as this one reaches them. */
import { api, type Page } from "./api";
import { filled } from "./filled";
import { to } from "./paths";

export interface PeerNode {
  name: string;
  url: string;
  /** The latest call was answered. */
  reachable: boolean;
  last_contact_at: string | null;
  /** Why the latest call failed. */
  error: string | null;
}

/** The node that stands for this one in copies. */
export const SELF = "self";

export const nodes = {
  list: (cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<PeerNode>> =>
    api.call("GET", "/v1/nodes", { query: { ...filled({ cursor }), limit }, signal }),
  get: (name: string, signal: AbortSignal): Promise<PeerNode> => api.call("GET", to("/v1/nodes/:name", { name }), { signal }),
  /** Exactly this: without a token none is shown to it any more. */
  put: (name: string, body: { url: string; token?: string }): Promise<unknown> => api.call("PUT", to("/v1/nodes/:name", { name }), { body }),
  delete: (name: string): Promise<unknown> => api.call("DELETE", to("/v1/nodes/:name", { name })),
};

/** Whether it answers, as a word with a tone. Nothing is known of it before the first call. */
export function contactOf({ reachable, error }: Pick<PeerNode, "reachable" | "error">): { word: string; tone: "ok" | "bad" | "plain" } {
  if (reachable) return { word: "reachable", tone: "ok" };
  return error === null ? { word: "not asked yet", tone: "plain" } : { word: "not reachable", tone: "bad" };
}
