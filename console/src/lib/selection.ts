/** Selections as the API takes them: a selector over labels, and a place. */
import { filled } from "./filled";

export interface Selection {
  selector: string;
  /** Values with `_` between them, of the labels in `[fleet] place`. */
  place: string;
}

/** Keys that a selector has beside labels. */
export const BUILT_IN_KEYS: readonly string[] = ["kind", "connection", "connected", "client", "answering"];

/** The parameters of a call; what is empty is left out. */
export function parameters({ selector, place }: Selection): Record<string, string> {
  return filled({ selector: selector.trim(), place: place.trim() }) as Record<string, string>;
}

export function isEverybody(selection: Selection): boolean {
  return Object.keys(parameters(selection)).length === 0;
}

/** `key=value`, or `!key` where there is no value. */
export function requirement(key: string, value: string | null): string {
  if (value === null) return `!${key}`;
  return /^[A-Za-z0-9_.:@/-]+$/.test(value) ? `${key}=${value}` : `${key}="${value.replace(/["\\]/g, "\\$&")}"`;
}

/** Those of a selection that also fulfil these requirements. */
export function narrowed({ selector, place }: Selection, ...requirements: string[]): Selection {
  return { selector: [selector.trim(), ...requirements].filter((text) => text !== "").join(","), place };
}

export function segmentsOf(place: string): string[] {
  return place.trim() === "" ? [] : place.trim().split("_");
}

/** The first segments of a place. */
export function upTo({ selector, place }: Selection, segments: number): Selection {
  return { selector, place: segmentsOf(place).slice(0, segments).join("_") };
}

/**
 * The devices of a place that have this value of the next label. A value that a place cannot say is
 * asked for by the selector; `*` keeps its level.
 */
export function below(selection: Selection, key: string, value: string | null): Selection {
  if (value === null) return narrowed(selection, requirement(key, null));
  const canBeSaid = value !== "" && value !== "*" && !value.includes("_");
  const place = [...segmentsOf(selection.place), canBeSaid ? value : "*"].join("_");
  return canBeSaid ? { ...selection, place } : narrowed({ ...selection, place }, requirement(key, value));
}

/** A console path with this selection in its query. */
export function pathWith(path: string, selection: Selection, more: Record<string, string> = {}): string {
  const query = new URLSearchParams({ ...parameters(selection), ...more }).toString();
  return query === "" ? path : `${path}?${query}`;
}
