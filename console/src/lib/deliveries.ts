/** Deliveries and their attempts. */
import { api, ask, type Shape } from "./api";

export type Delivery = Shape<"Delivery">;

export type Attempt = Shape<"Attempt">;
export type DeliveryInFull = Shape<"DeliveryWithAttempts">;

/** The receiver has taken it. */
export function isDelivered({ status_code: code, error }: Partial<Pick<Attempt, "status_code" | "error">>): boolean {
  return error == null && code != null && code >= 200 && code < 300;
}

export function loadDelivery(id: string, signal: AbortSignal): Promise<DeliveryInFull> {
  return ask(api.GET("/v1/deliveries/{id}", { params: { path: { id } }, signal }));
}

export function retryDelivery(id: string): Promise<unknown> {
  return ask(api.POST("/v1/deliveries/{id}/retry", { params: { path: { id } } }));
}

/** `delivered` is sent again under a new id; what a newer one has replaced is not sent any more. */
export function canRetry({ status }: Delivery): boolean {
  return status === "pending" || status === "failed" || status === "delivered";
}

/** A text as one word of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The same request by hand. It has no signature: the secret never leaves the server. */
export function curlOf({ url, headers, body }: DeliveryInFull): string {
  const lines = Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  return ["curl --globoff --proto =http,https -X POST", ...lines, `--data-raw ${quoted(body ?? "")}`, quoted(url ?? "")].join(" \\\n  ");
}
