/** The filter of the devices' page: its fields, and what they ask of the list. */
import type { Filter } from "../../lib/Filters.svelte";
import { durationMs } from "../../lib/durations";
import { filled } from "../../lib/filled";
import { labelFilter, labelsOf } from "../../lib/labels";
import { narrowed, requirement, type Selection } from "../../lib/selection";

export const FILTERS: readonly Filter[] = [
  { name: "id_prefix", label: "Id begins with" },
  { name: "selector", label: "Selector", placeholder: "site in (12,13)" },
  { name: "place", label: "Place", placeholder: "CN_52" },
  { name: "labels", label: "Labels", placeholder: "site=12" },
  { name: "kind", label: "Kind", placeholder: "lock" },
  { name: "connection", label: "Connection", options: ["", "online", "lost", "never_seen"] },
  { name: "connected", label: "Session", options: [{ value: "", label: "any" }, { value: "true", label: "connected" }, { value: "false", label: "not connected" }] },
  { name: "waiting", label: "Commands", options: [{ value: "", label: "any" }, { value: "true", label: "waiting" }, { value: "false", label: "none waiting" }] },
  { name: "silent_for", label: "Silent for", options: [
    { value: "", label: "any time" }, { value: "10m", label: "10 minutes" }, { value: "1h", label: "an hour" },
    { value: "1d", label: "a day" }, { value: "7d", label: "a week" }, { value: "30d", label: "30 days" },
  ] },
];

const AS_THEY_ARE = ["id_prefix", "selector", "place", "kind", "connection", "connected", "waiting"];
/** What only the list knows. */
const SYMPTOMS = ["id_prefix", "waiting", "silent_for"];

/** The list's parameters. */
export function listQuery(query: URLSearchParams, nowMs: number): Record<string, string> {
  const asked = filled(Object.fromEntries(AS_THEY_ARE.map((name) => [name, query.get(name)]))) as Record<string, string>;
  const silentMs = durationMs(query.get("silent_for") ?? "");
  if (silentMs !== undefined) asked["last_seen_before"] = new Date(nowMs - silentMs).toISOString();
  return { ...asked, ...labelFilter(labelsOf(query.get("labels") ?? "").labels) };
}

/** The devices of the list as a selection, which can be counted; nothing for one that says less than the filter. */
export function selectionOf(query: URLSearchParams): Selection | undefined {
  if (SYMPTOMS.some((name) => query.has(name))) return undefined;
  const said = filled({ kind: query.get("kind"), connection: query.get("connection"), connected: query.get("connected") });
  const all = { ...(said as Record<string, string>), ...labelsOf(query.get("labels") ?? "").labels };
  const selection = { selector: query.get("selector") ?? "", place: query.get("place") ?? "" };
  return narrowed(selection, ...Object.entries(all).map(([key, value]) => requirement(key, value)));
}

/** The part of the labels' field that is no label. */
export function wrongLabel(query: URLSearchParams): string | undefined {
  return labelsOf(query.get("labels") ?? "").wrong;
}
