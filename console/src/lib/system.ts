/** `GET /v1/system`. */
import { api, ask, type Shape } from "./api";

export type System = Shape<"System">;
export type Limit = Shape<"Limit">;

export function loadSystem(signal: AbortSignal): Promise<System> {
  return ask(api.GET("/v1/system", { signal }));
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
