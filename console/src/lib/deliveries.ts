/** Deliveries and their attempts, with what newer servers tell of them. */
import { api, ask, type Shape } from "./api";

export type Delivery = Shape<"Delivery">;

/** An attempt; what is measured and answered is missing on servers that do not keep it. */
export type Attempt = Shape<"Attempt"> & {
  /** The first 2 KiB of what was answered. */
  answer?: string | null;
  dns_ms?: number | null;
  connect_ms?: number | null;
  tls_ms?: number | null;
  first_byte_ms?: number | null;
  /** The connection was there already. */
  reused?: boolean;
  /** A sentence that names what to do. */
  cause?: string | null;
};

export type DeliveryInFull = Omit<Shape<"DeliveryWithAttempts">, "attempts"> & {
  attempts: Attempt[];
  /** As it was sent; `null` where it is not kept, and `body_gone` says why. */
  body?: string | null;
  body_gone?: string | null;
  /** Those of the latest attempt, without the signature. */
  headers?: Record<string, string | null>;
  /** `null` once the client is gone. */
  url?: string | null;
};

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
  const lines = Object.entries(headers ?? {}).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  return ["curl -X POST", ...lines, `--data-raw ${quoted(body ?? "")}`, quoted(url ?? "")].join(" \\\n  ");
}
