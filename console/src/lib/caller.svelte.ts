/**
 * Who is asking, and what they may do. Buttons and pages that the token does not reach are not
 * shown; the server decides all the same.
 */
import { api, ask, FieldpostError, onUnauthorized } from "./api";
import { permits, streams, type Caller, type Permission } from "./rights";
import { token } from "./token";

export type { Caller, Permission } from "./rights";

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
      state.caller = await ask(api.GET("/v1/caller"));
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
    // What else the tab keeps is of whoever was logged in.
    sessionStorage.clear();
    location.assign("/console/");
  },
};

// A token that was deleted or has ended while its page is open.
onUnauthorized(() => {
  if (state.session === "ready") void session.begin();
});

/** Whether the token permits it. Read in a component, it is followed. */
export function may(permission: Permission, where?: string): boolean {
  return permits(state.caller, permission, where);
}

/** The namespaces whose queues the token sees, for `namespace=`; `undefined` where it sees all. */
export function namespaces(): string[] | undefined {
  if (may("look")) return undefined;
  return state.caller.scopes.filter((scope) => scope.startsWith("jobs:")).map((scope) => scope.slice("jobs:".length));
}

/** The namespaces whose streams the token sees; `undefined` where it sees all. */
export function streamNamespaces(): string[] | undefined {
  if (may("look")) return undefined;
  return [...new Set(streams(state.caller).filter(({ right }) => right !== "append").map(({ ns }) => ns))];
}

/** The namespaces whose locks and limits the token sees; `undefined` where it sees all. */
export function coordinationNamespaces(): string[] | undefined {
  if (may("admin")) return undefined;
  return state.caller.scopes.filter((scope) => scope.startsWith("coordinate:")).map((scope) => scope.slice("coordinate:".length));
}
