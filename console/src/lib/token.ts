/**
 * The token of this tab: gone when the tab is closed. A portal's is kept in memory and in its link
 * alone: two portals in one page share a tab's storage, and must not share a token.
 */
const KEY = "fieldpost.token";
let ofPortal: string | undefined;

export const token = {
  get: (): string | undefined => ofPortal ?? sessionStorage.getItem(KEY) ?? undefined,
  set: (value: string): void => sessionStorage.setItem(KEY, value),
  forget: (): void => {
    if (ofPortal === undefined) sessionStorage.removeItem(KEY);
  },
  /** From now on this page asks with a portal's token, and with no other. */
  ofPortal: (value: string): void => {
    ofPortal = value;
  },
};
