/** Tasks: devices that were asked once, and what they answered. */
import type { paths } from "@fieldpost/client";
import { api, ask, type Page, type Shape } from "./api";

export type Task = Shape<"Task">;
/** How the picks of a task, or of a slot, stand. `picked` has replacements too. */
export type PickCounts = Shape<"PickCounts"> & { wanted: number };
/** What came of a pick; of a campaign's, with its slot. */
export type PickResult = Shape<"TaskResult"> & { slot?: number };

export const PICK_CLASSES = ["large", "enterprise", "ordinary"] as const;

const REASONS: Record<NonNullable<PickResult["reason"]>, string> = {
  not_sent: "it was not sent in time",
  no_answer: "no answer",
  went_away: "the device went away",
  refused: "the device refused it",
};

/** Why a pick did not succeed, in words. */
export function reasonOf({ reason }: PickResult): string {
  return reason === undefined ? "" : REASONS[reason];
}

/** How long the device took, in ms. */
export function tookMs({ picked_at, answered_at }: PickResult): number | undefined {
  return answered_at == null ? undefined : Math.max(0, Date.parse(answered_at) - Date.parse(picked_at));
}

/** Picks that have not ended. */
export function openPicks({ picked, answered, failed, expired }: PickCounts): number {
  return Math.max(0, picked - answered - failed - expired);
}

type NewTask = paths["/v1/tasks"]["post"]["requestBody"]["content"]["application/json"];

export const tasks = {
  /** What a form says; the server checks it. */
  create: (body: Record<string, unknown>): Promise<Task> => ask(api.POST("/v1/tasks", { body: body as NewTask })),
  get: (id: string, signal: AbortSignal): Promise<Task> => ask(api.GET("/v1/tasks/{id}", { params: { path: { id } }, signal })),
  cancel: (id: string): Promise<unknown> => ask(api.DELETE("/v1/tasks/{id}", { params: { path: { id } } })),
  /** The newest first. */
  results: (id: string, cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<PickResult>> =>
    ask(api.GET("/v1/tasks/{id}/results", { params: { path: { id }, query: { order: "desc", cursor, limit } }, signal })),
};
