/**
 * Paths below /console/, by the browser's history. Filters are in the query, so that a link to a
 * page shows what its sender saw.
 */
export { match, to } from "./paths";

export const BASE = "/console";

function here(): { path: string; query: string } {
  const path = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : "/";
  return { path: path === "" ? "/" : path, query: location.search.slice(1) };
}

const state = $state(here());

/** The query of the page that is shown. Read in a component, it is followed. */
export const router = {
  get path(): string {
    return state.path;
  },
  get query(): URLSearchParams {
    return new URLSearchParams(state.query);
  },
  /** Shows a page: a console path such as `/devices/lock7?tab=events`. */
  go(to: string, how: { replace?: boolean } = {}): void {
    const moved = to.split("?", 1)[0] !== state.path;
    // A portal's token is behind the #, and stays there.
    const url = href(to) + (moved ? "" : location.hash);
    if (how.replace === true) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    arrive();
  },
  /** Changes some of the query's parameters; an empty one is left out. */
  setQuery(changes: Record<string, string | undefined>, how: { push?: boolean } = {}): void {
    const query = router.query;
    for (const [name, value] of Object.entries(changes)) {
      if (value === undefined || value === "") query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString();
    router.go(`${state.path}${text === "" ? "" : `?${text}`}`, { replace: how.push !== true });
  },
};

/** The address of a console path, for `<a href>`. */
export function href(path: string): string {
  return `${BASE}${path}`;
}

function arrive(): void {
  const { path, query } = here();
  const moved = path !== state.path;
  state.path = path;
  state.query = query;
  if (moved) scrollTo(0, 0);
}

/** Follows links to pages of the console without loading it anew, and the browser's buttons. */
export function startRouter(): () => void {
  const clicked = (event: MouseEvent): void => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link === null || link.target !== "" || link.hasAttribute("download")) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(`${BASE}/`)) return;
    if (url.hash !== "" && url.hash !== location.hash) return;
    event.preventDefault();
    router.go(url.pathname.slice(BASE.length) + url.search);
  };
  addEventListener("popstate", arrive);
  addEventListener("click", clicked);
  return () => {
    removeEventListener("popstate", arrive);
    removeEventListener("click", clicked);
  };
}
