/** `GET /v1/overview`, and the message of the live topic of the same name. */
import { api, ask, type Shape } from "./api";

export type Overview = Shape<"Overview">;
export type Failing = Shape<"Failing">;

export function loadOverview(signal: AbortSignal): Promise<Overview> {
  return ask(api.GET("/v1/overview", { signal }));
}
