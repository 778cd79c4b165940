/** Campaigns: devices that are asked again and again, and how evenly. */
import type { paths } from "@fieldpost/client";
import { api, ask, type Page, type Shape } from "./api";
import type { Feed, FeedPage } from "./follow.svelte";
import type { PickResult } from "./tasks";

export type Campaign = Shape<"Campaign">;
/** As a live stream sends it: without its payload and the ids of its devices. */
export type LiveCampaign = Omit<Campaign, "payload" | "devices"> & { device_count?: number; revision: number };
/** A row of a list, or what a live stream has put in its place. */
export type CampaignRow = Campaign | LiveCampaign;
export type CampaignSlot = Shape<"CampaignSlot">;
export type Coverage = Shape<"Coverage">;

export interface SlotSpan {
  from?: string | undefined;
  to?: string | undefined;
}

/** "100 every 5m", "6000 over 1h". */
export function paceOf({ count, every, over }: CampaignRow): string {
  return every == null ? `${count} over ${over ?? "?"}` : `${count} every ${every}`;
}

type NewCampaign = paths["/v1/campaigns"]["post"]["requestBody"]["content"]["application/json"];
type Patch = paths["/v1/campaigns/{id}"]["patch"]["requestBody"]["content"]["application/json"];
const at = (id: string): { path: { id: string } } => ({ path: { id } });

export const campaigns = {
  list: (cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<Campaign>> =>
    ask(api.GET("/v1/campaigns", { params: { query: { cursor, limit } }, signal })),
  get: (id: string, signal: AbortSignal): Promise<Campaign> => ask(api.GET("/v1/campaigns/{id}", { params: at(id), signal })),
  /** What a form says; the server checks it. */
  create: (body: Record<string, unknown>): Promise<Campaign> => ask(api.POST("/v1/campaigns", { body: body as NewCampaign })),
  change: (id: string, patch: Record<string, unknown>): Promise<Campaign> =>
    ask(api.PATCH("/v1/campaigns/{id}", { params: at(id), body: patch as Patch })),
  delete: (id: string): Promise<unknown> => ask(api.DELETE("/v1/campaigns/{id}", { params: at(id) })),
  pause: (id: string): Promise<unknown> => ask(api.POST("/v1/campaigns/{id}/pause", { params: at(id) })),
  resume: (id: string): Promise<unknown> => ask(api.POST("/v1/campaigns/{id}/resume", { params: at(id) })),
  /** The newest first. */
  slots: (id: string, span: SlotSpan, cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<CampaignSlot>> =>
    ask(api.GET("/v1/campaigns/{id}/slots", { params: { ...at(id), query: { ...span, cursor, limit } }, signal })),
  /** The newest first. */
  results: (
    id: string, asked: SlotSpan & { device?: string | undefined }, cursor: string | undefined, limit: number, signal: AbortSignal,
  ): Promise<Page<PickResult>> =>
    ask(api.GET("/v1/campaigns/{id}/results", { params: { ...at(id), query: { ...asked, order: "desc", cursor, limit } }, signal })),
  coverage: (id: string, period: string, by: string | undefined, signal: AbortSignal): Promise<Coverage> =>
    ask(api.GET("/v1/campaigns/{id}/coverage", { params: { ...at(id), query: { period, by } }, signal })),
};

/** The results of a campaign as they come. */
export function resultFeed(id: string): Feed<PickResult> {
  const load = async (query: { from?: string; cursor?: string; wait?: string }, signal: AbortSignal): Promise<FeedPage<PickResult>> => {
    const page = await ask(api.GET("/v1/campaigns/{id}/results", { params: { ...at(id), query: { ...query, order: "asc" } }, signal }));
    return { ...page, tail_cursor: page.tail_cursor ?? "" };
  };
  // A cursor belongs to the parameters of its list.
  let since: { from?: string } = {};
  return {
    tail: async (signal) => {
      const { items } = await campaigns.results(id, {}, undefined, 1, signal);
      since = items[0] === undefined ? {} : { from: items[0].ended_at };
      return (await load(since, signal)).tail_cursor;
    },
    next: (cursor, wait, signal) => load({ ...since, cursor, wait }, signal),
  };
}
