/** The rule of what a caller is offered, by scopes. The server has its own, and decides. */

import type { Shape } from "./api";

export type Caller = Shape<"Caller">;

/**
 * What somebody may want to do, by the scopes that reach it. The second word is where the scope has
 * to fit: a namespace, or a client.
 *
 * - `look`: lists and objects that no narrower word names; `look.devices`: devices, commands,
 *   desired values, timelines; `look.queue` NS; `look.client` ID: one client, its links and deliveries.
 * - `look.fleet`: counts, weights and fairness; `look.picks`: tasks and campaigns; `pick`: have
 *   devices picked, end a task; `operate.picks`: pause and resume a campaign.
 * - `register`: devices, clients, links, labels, and deleting them; quarantine's deletes.
 * - `command`: commands, desired values and rollouts.
 * - `deliver` ID: retry and resend of deliveries; `test` ID: a test notification; `url` ID: a client's
 *   URL and secret.
 * - `jobs` NS: publish, change and delete jobs, settings; `respawn` NS: also dead letters and pauses;
 *   `control` NS: what the workers of its queues are told.
 * - `coordinate` NS: locks and limits.
 * - `look.stream` NS: streams, their messages and blocks; `subscribe` NS: subscriptions, and their
 *   positions; `append` NS: messages; `streams` NS: also settings, and deleting a stream.
 * - `operate`: what `operate` reaches everywhere; `portal`: links for a client's owner.
 * - `admin`: nothing less will do.
 */
export type Permission =
  | "look" | "look.devices" | "look.queue" | "look.client" | "look.fleet" | "look.picks" | "pick" | "operate.picks"
  | "register" | "command" | "deliver" | "test" | "url" | "jobs" | "respawn" | "control" | "coordinate" | "look.stream" | "subscribe" | "append" | "streams" | "operate" | "portal" | "admin";

/** Whether the caller may do it. */
export function permits(caller: Caller, permission: Permission, where?: string): boolean {
  if (caller.open) return true;
  const has = (...scopes: string[]): boolean => scopes.some((scope) => caller.scopes.includes(scope));
  const own = caller.client != null && (where === undefined || where === caller.client);
  const namespace = where === undefined ? caller.scopes.some((scope) => scope.startsWith("jobs:")) : has(`jobs:${where}`);
  const stream = (...rights: string[]): boolean => streams(caller).some(({ ns, right }) => (where === undefined || ns === where) && rights.includes(right));
  switch (permission) {
    case "look": return has("admin", "read", "operate");
    case "look.devices": return has("admin", "read", "operate", "commands");
    case "look.queue": return has("admin", "read", "operate") || namespace;
    case "look.fleet": return has("admin", "read", "operate", "commands", "tasks");
    case "look.picks": return has("admin", "read", "operate", "tasks");
    case "pick": return has("admin", "tasks");
    case "operate.picks": return has("admin", "operate", "tasks");
    case "look.client": return has("admin", "read", "operate") || own;
    case "register": return has("admin");
    case "command": return has("admin", "operate", "commands");
    case "deliver": return has("admin", "operate") || (own && (caller.may?.includes("retry") ?? true));
    case "test": return has("admin") || (own && (caller.may?.includes("retry") ?? true));
    case "url": return has("admin") || (own && (caller.may?.includes("url") ?? false));
    case "jobs": return has("admin") || namespace;
    case "respawn": return has("admin", "operate") || namespace;
    case "control": return has("admin") || namespace || coordinates(caller, where);
    case "coordinate": return has("admin") || coordinates(caller, where);
    case "look.stream": return has("admin", "read", "operate") || stream("all", "read");
    case "subscribe": return has("admin") || stream("all", "read");
    case "append": return has("admin") || stream("all", "append");
    case "streams": return has("admin") || stream("all");
    case "operate": return has("admin", "operate");
    case "portal": return has("admin", "operate");
    case "admin": return has("admin");
  }
}

/** The token reaches locks and limits of that namespace, or of any. */
function coordinates({ scopes }: Caller, where: string | undefined): boolean {
  return scopes.some((scope) => (where === undefined ? scope.startsWith("coordinate:") : scope === `coordinate:${where}`));
}

/** The namespaces of streams that a token reaches, with what it may do there: `streams:NS[:read|:append]`. */
export function streams(caller: Caller): { ns: string; right: string }[] {
  return caller.scopes.flatMap((scope) => {
    const [kind, ns, right = "all"] = scope.split(":");
    return kind === "streams" && ns !== undefined ? [{ ns, right }] : [];
  });
}
