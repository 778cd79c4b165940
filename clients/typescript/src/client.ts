/** The client itself: where the server is, and with which token it is asked. */
import createClient, { type Client } from "openapi-fetch";
import { problemOf, Unreachable } from "./problem.js";
import type { paths } from "./schema.js";

export interface FieldpostOptions {
  /** Where the server is, such as `https://fieldpost.example`. Without a slash at its end. */
  baseUrl: string;
  /** The token of each request, asked for anew each time, so that it can change. */
  token?: () => string | undefined;
  /** Called instead of the global `fetch`. */
  fetch?: typeof fetch;
}

/** A query parameter's value; `undefined` is left out. */
export type QueryValue = string | number | boolean | undefined;

export type Fieldpost = Client<paths, "application/json"> & Undocumented;

interface Undocumented {
  /**
   * A call that the document of this client's version does not have. Answers the JSON body, or
   * `undefined` where there is none; throws as {@link ask} does.
   */
  call<T>(method: string, path: string, options?: CallOptions): Promise<T>;
}

/** What {@link Undocumented.call} sends. */
export interface CallOptions {
  query?: Record<string, QueryValue>;
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** Makes a client. It holds no connection of its own. */
export function fieldpost(options: FieldpostOptions): Fieldpost {
  const plain = options.fetch ?? ((request: RequestInfo | URL, init?: RequestInit) => fetch(request, init));
  const withToken = (request: Request): Promise<Response> => {
    const token = options.token?.();
    if (token !== undefined) request.headers.set("authorization", `Bearer ${token}`);
    return plain(request).catch((error: unknown) => {
      if (request.signal.aborted) throw error;
      throw new Unreachable(error);
    });
  };
  const client = createClient<paths, "application/json">({ baseUrl: options.baseUrl, fetch: withToken });
  const call = async <T>(method: string, path: string, more: CallOptions = {}): Promise<T> => {
    const response = await withToken(requestOf(options.baseUrl, method, path, more));
    const body = await bodyOf(response);
    if (!response.ok) throw problemOf(response, body);
    return body as T;
  };
  return Object.assign(client, { call });
}

function requestOf(baseUrl: string, method: string, path: string, more: CallOptions): Request {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(more.query ?? {})) {
    if (value !== undefined) query.set(name, String(value));
  }
  const headers = new Headers(more.headers);
  const init: RequestInit = { method, headers };
  if (more.body !== undefined) {
    headers.set("content-type", "application/json");
    init.body = JSON.stringify(more.body);
  }
  if (more.signal !== undefined) init.signal = more.signal;
  const text = query.toString();
  return new Request(`${baseUrl}${path}${text === "" ? "" : `?${text}`}`, init);
}

async function bodyOf(response: Response): Promise<unknown> {
  const text = await response.text();
  if (text === "") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/**
 * The answer of a typed call, or its refusal as an error.
 *
 * @throws FieldpostError if the server refuses, Unreachable if it cannot be reached.
 */
export async function ask<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  if (!response.ok) throw problemOf(response, error);
  return data as T;
}
