/** Clients, and the portals that are open to them. */
import { api, ask, type Shape } from "./api";

export type Client = Shape<"Client">;
/** What is changed. */
export type ClientFields = Partial<Pick<Client, "name" | "url" | "enabled" | "notices">>;

/** A link to the console of one client. */
export type Portal = Shape<"Portal">;
export type PortalRight = Portal["may"][number];

export function changeClient(id: string, body: ClientFields): Promise<Client> {
  return ask(api.PATCH("/v1/clients/{id}", { params: { path: { id } }, body }));
}

export function loadClient(id: string, signal: AbortSignal): Promise<Client> {
  return ask(api.GET("/v1/clients/{id}", { params: { path: { id } }, signal }));
}

export const portals = {
  open: (id: string, ttl: string, may: PortalRight[]): Promise<Shape<"NewPortal">> =>
    ask(api.POST("/v1/clients/{id}/portal", { params: { path: { id } }, body: { ttl, may } })),
  list: async (id: string, signal: AbortSignal): Promise<Portal[]> =>
    (await ask(api.GET("/v1/clients/{id}/portal", { params: { path: { id } }, signal }))).items,
  close: (id: string, portal_id: string): Promise<unknown> =>
    ask(api.DELETE("/v1/clients/{id}/portal/{portal_id}", { params: { path: { id, portal_id } } })),
};
