/** `/v1/fleet/*`: how many devices a selection means, and how often each was picked. */
import { api, ask, type Page, type Shape } from "./api";
import { parameters, type Selection } from "./selection";

export type FleetCount = Shape<"FleetCount">;
export type FleetCountItem = Shape<"FleetValue">;

export type FleetWeight = Shape<"FleetWeight">;
export type Fairness = Shape<"Fairness">;

export function countFleet(selection: Selection, signal: AbortSignal, by?: string): Promise<FleetCount> {
  const query = { ...parameters(selection), ...(by === undefined ? {} : { by }) };
  return ask(api.GET("/v1/fleet/count", { params: { query }, signal }));
}

export function loadWeights(
  selection: Selection, cursor: string | undefined, limit: number, signal: AbortSignal,
): Promise<Page<FleetWeight>> {
  return ask(api.GET("/v1/fleet/weights", { params: { query: { ...parameters(selection), cursor, limit } }, signal }));
}

export function loadFairness(signal: AbortSignal): Promise<Fairness> {
  return ask(api.GET("/v1/fleet/fairness", { signal }));
}
