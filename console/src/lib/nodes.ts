/** Other nodes, as this one reaches them. */
import { api, type Page } from "./api";
import { filled } from "./filled";
import { to } from "./paths";

export interface PeerNode {
  name: string;
  url: string;
  /** Nothing before it was asked for the first time. */
  reachable: boolean | null;
  last_contact_at: string | null;
  /** What came of the latest call. */
  error: string | null;
}

/** The node that stands for this one in copies. */
export const SELF = "self";

export const nodes = {
  list: (cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<PeerNode>> =>
    api.call("GET", "/v1/nodes", { query: { ...filled({ cursor }), limit }, signal }),
  get: (name: string, signal: AbortSignal): Promise<PeerNode> => api.call("GET", to("/v1/nodes/:name", { name }), { signal }),
  /** A token that is left out is that of before. */
  put: (name: string, body: { url: string; token?: string }): Promise<unknown> => api.call("PUT", to("/v1/nodes/:name", { name }), { body }),
  delete: (name: string): Promise<unknown> => api.call("DELETE", to("/v1/nodes/:name", { name })),
};

/** Whether it answers, as a word with a tone. */
export function contactOf({ reachable }: Pick<PeerNode, "reachable">): { word: string; tone: "ok" | "bad" | "plain" } {
  if (reachable === true) return { word: "reachable", tone: "ok" };
  return reachable === false ? { word: "not reachable", tone: "bad" } : { word: "not asked yet", tone: "plain" };
}
