/**
 * The one way to the server: the typed client with the tab's token. A call that fails tells the
 * connection; the error's sentence is the server's own, and is shown as it is.
 */
import { ask as askTyped, fieldpost, Unreachable, type components } from "@fieldpost/client";
import { connection } from "./connection.svelte";
import { token } from "./token";

export { FieldpostError, Unreachable } from "@fieldpost/client";
export type { Page } from "@fieldpost/client";
/** The API's objects: `Shape<"Device">`. */
export type Shape<Name extends keyof components["schemas"]> = components["schemas"][Name];

/** Typed calls: `ask(api.GET("/v1/devices/{id}", {params: {path: {id}}}))`. */
export const api = fieldpost({ baseUrl: location.origin, token: token.get, fetch: watched });

let unauthorized: (() => void) | undefined;

/** Called when the token is none any more. */
export function onUnauthorized(act: () => void): void {
  unauthorized = act;
}

async function watched(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  try {
    const response = await fetch(input, { cache: "no-store", ...init });
    // A 503 is an answer, but of a server that is not ready: /readyz says when it is.
    if (response.status !== 503) connection.answered();
    if (response.status === 401) unauthorized?.();
    return response;
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "AbortError")) connection.lost();
    throw error;
  }
}

/** The answer of a typed call; throws the refusal. */
export const ask = askTyped;

/** A sentence for people, of whatever was thrown. */
export function sentence(error: unknown): string {
  if (error instanceof Unreachable) return "The server cannot be reached.";
  return error instanceof Error ? error.message : String(error);
}

/** The call was given up by the page itself. */
export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
