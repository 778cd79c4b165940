/**
 * Who is asking, and what they may do. Buttons and pages that the token does not reach are not
 * shown; the server decides all the same.
 */
import { api, FieldpostError, isAbsent, onUnauthorized } from "./api";
import { reaches, type Act, type Caller } from "./rights";
import { token } from "./token";

export type { Act, Caller } from "./rights";

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

/** Whether the token reaches it. Read in a component, it is followed. */
export function may(act: Act, where?: string): boolean {
  return reaches(state.caller, act, where);
}

/** The namespaces whose queues the token sees, for `namespace=`; `undefined` where it sees all. */
export function namespaces(): string[] | undefined {
  if (may("look")) return undefined;
  return state.caller.scopes.filter((scope) => scope.startsWith("jobs:")).map((scope) => scope.slice("jobs:".length));
}
