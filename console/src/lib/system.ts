/** `GET /v1/system`. */
import { api } from "./api";

export interface System {
  version: string;
  node: string | null;
  started_at?: string;
  ready: boolean;
  reason?: string;
  health: { what: string; ok: boolean; detail?: string }[];
  store: { data_bytes: number; log_bytes: number; disk_free_bytes?: number; last_checkpoint_at?: string };
  memory: { resident_bytes?: number; budget_bytes?: number; budget_used_bytes?: number };
  limits: Limit[];
  /** Those in force, by section and key. */
  settings: Record<string, Record<string, unknown> | unknown> | null;
}

export interface Limit {
  name: string;
  used: number;
  max: number;
  /** The setting that says so. */
  setting?: string;
}

export function loadSystem(signal: AbortSignal): Promise<System> {
  return api.call<System>("GET", "/v1/system", { signal });
}

/** The settings one by one: `http.listen` and its value as text. */
export function settingsOf({ settings }: System): { key: string; value: string }[] {
  return Object.entries(settings ?? {}).flatMap(([section, keys]) => {
    if (typeof keys !== "object" || keys === null || Array.isArray(keys)) return [{ key: section, value: shown(keys) }];
    return Object.entries(keys).map(([key, value]) => ({ key: `${section}.${key}`, value: shown(value) }));
  });
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
