/**
 * Who is asking, and what they may do. Buttons and pages that the token does not reach are not
 * shown; the server decides all the same.
 */
import { api, FieldpostError, isAbsent, onUnauthorized } from "./api";
import { token } from "./token";

export interface Caller {
  /** No tokens are configured: anybody on the server's machine may act. */
  open: boolean;
  token: string | null;
  scopes: string[];
  expires_at?: string | undefined;
  /** Of a token of one client: its id. */
  client?: string | undefined;
  /** Of a portal: what its holder may do. */
  may?: string[] | undefined;
}

type Session = "asking" | "login" | "ready" | "failed";

const state = $state({
  session: "asking" as Session,
  caller: { open: false, token: null, scopes: [] } as Caller,
  error: undefined as unknown,
});

export const session = {
  get state(): Session {
    return state.session;
  },
  get caller(): Caller {
    return state.caller;
  },
  /** Why nobody is let in: a refused token, or a server that does not answer. */
  get error(): unknown {
    return state.error;
  },
  async begin(): Promise<void> {
    try {
      state.caller = await askCaller();
      state.session = "ready";
      state.error = undefined;
    } catch (error) {
      const refused = error instanceof FieldpostError && (error.status === 401 || error.status === 403);
      state.error = refused && token.get() === undefined ? undefined : error;
      if (refused) token.forget();
      state.session = refused ? "login" : "failed";
    }
  },
  async logIn(given: string): Promise<void> {
    token.set(given);
    await session.begin();
  },
  logOut(): void {
    token.forget();
    location.assign("/console/");
  },
};

// A token that was deleted or has ended while its page is open.
onUnauthorized(() => {
  if (state.session === "ready") void session.begin();
});

async function askCaller(): Promise<Caller> {
  try {
    return await api.call<Caller>("GET", "/v1/caller");
  } catch (error) {
    if (!isAbsent(error)) throw error;
    // An older server does not say; then everything is offered, and refused where it must be.
    return { open: token.get() === undefined, token: null, scopes: ["admin"] };
  }
}

/**
 * What somebody may want to do, by the scopes that reach it. The second word is where the scope has
 * to fit: a namespace, or a client.
 *
 * - `look`: lists and objects that no narrower word names; `look.devices`: devices, commands,
 *   wishes, timelines; `look.queue` NS; `look.client` ID: one client, its links and deliveries.
 * - `register`: devices, clients, links, labels, and deleting them; quarantine's deletes.
 * - `command`: commands, wishes and rollouts.
 * - `deliver` ID: retry, resend and test of deliveries; `url` ID: a client's URL and secret.
 * - `jobs` NS: publish, change and delete jobs, settings; `respawn` NS: also dead letters and pauses.
 * - `operate`: what `operate` reaches everywhere; `portal`: links for a client's owner.
 * - `admin`: nothing less will do.
 */
export type Act =
  | "look" | "look.devices" | "look.queue" | "look.client"
  | "register" | "command" | "deliver" | "url" | "jobs" | "respawn" | "operate" | "portal" | "admin";

/** Whether the token reaches it. Read in a component, it is followed. */
export function may(act: Act, where?: string): boolean {
  return reaches(state.caller, act, where);
}

/** The rule of {@link may}. */
export function reaches(caller: Caller, act: Act, where?: string): boolean {
  if (caller.open) return true;
  const has = (...scopes: string[]): boolean => scopes.some((scope) => caller.scopes.includes(scope));
  const own = caller.client !== undefined && (where === undefined || where === caller.client);
  const namespace = where === undefined ? caller.scopes.some((scope) => scope.startsWith("jobs:")) : has(`jobs:${where}`);
  switch (act) {
    case "look": return has("admin", "read", "operate");
    case "look.devices": return has("admin", "read", "operate", "commands");
    case "look.queue": return has("admin", "read", "operate") || namespace;
    case "look.client": return has("admin", "read", "operate") || own;
    case "register": return has("admin");
    case "command": return has("admin", "operate", "commands");
    case "deliver": return has("admin", "operate") || (own && (caller.may?.includes("retry") ?? true));
    case "url": return has("admin") || (own && (caller.may?.includes("url") ?? false));
    case "jobs": return has("admin") || namespace;
    case "respawn": return has("admin", "operate") || namespace;
    case "operate": return has("admin", "operate");
    case "portal": return has("admin", "operate");
    case "admin": return has("admin");
  }
}
