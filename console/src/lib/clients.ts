/** Clients, with what newer servers tell of them, and the portals that are open to them. */
import { api, ask, type Page, type Shape } from "./api";

export type Client = Shape<"Client"> & {
  /** It is sent notices; missing on servers that have none. */
  notices?: boolean;
};

/** What is changed, or registered. */
export interface ClientFields {
  name: string;
  url: string;
  enabled?: boolean;
  notices?: boolean;
}

/** A link to the console of one client. */
export interface Portal {
  id: string;
  may: string[];
  created_at: string;
  expires_at: string;
  by?: string;
}

export type PortalRight = "read" | "retry" | "url";

export function changeClient(id: string, changes: Partial<ClientFields>): Promise<Client> {
  return api.call<Client>("PATCH", `/v1/clients/${encodeURIComponent(id)}`, { body: changes });
}

export function loadClient(id: string, signal: AbortSignal): Promise<Client> {
  return ask(api.GET("/v1/clients/{id}", { params: { path: { id } }, signal }));
}

export const portals = {
  open: (client: string, ttl: string, may: PortalRight[]): Promise<Portal & { url: string; token: string }> =>
    api.call("POST", path(client), { body: { ttl, may } }),
  list: async (client: string, signal: AbortSignal): Promise<Portal[]> =>
    (await api.call<Page<Portal>>("GET", path(client), { signal })).items,
  close: (client: string, id: string): Promise<void> =>
    api.call("DELETE", `${path(client)}/${encodeURIComponent(id)}`),
};

function path(client: string): string {
  return `/v1/clients/${encodeURIComponent(client)}/portal`;
}
