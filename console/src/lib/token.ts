/** The token of this tab: gone when the tab is closed. A portal's is kept apart from a login's. */
const KEY = "fieldpost.token";

export const token = {
  get: (): string | undefined => sessionStorage.getItem(KEY) ?? undefined,
  set: (value: string): void => sessionStorage.setItem(KEY, value),
  forget: (): void => sessionStorage.removeItem(KEY),
};
