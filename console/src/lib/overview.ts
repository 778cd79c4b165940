/** `GET /v1/overview`, and the message of the live topic of the same name. */
import { api } from "./api";

export interface Overview {
  at: string;
  /** A second, over the last few seconds. */
  rates: Record<"reports" | "changes" | "losses" | "deliveries" | "jobs" | "commands", number>;
  devices: Record<"total" | "online" | "lost" | "never_seen" | "connected", number>;
  /** Not for who may look at devices and commands alone; so are those below. */
  queues?: Record<"scheduled" | "ready" | "reserved" | "dead" | "paused", number>;
  quarantine?: number;
  failing?: Failing[];
}

export interface Failing {
  what: string;
  subject: string;
  detail: string;
  count?: number;
  since?: string;
  /** A console path. */
  link?: string;
}

export function loadOverview(signal: AbortSignal): Promise<Overview> {
  return api.call<Overview>("GET", "/v1/overview", { signal });
}
