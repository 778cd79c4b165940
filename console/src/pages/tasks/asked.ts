/** The tasks that were begun in this tab, the newest first, until it is closed or logged out. */
const KEY = "fieldpost.tasks";
const KEPT_MAX = 20;

export const asked = {
  get all(): string[] {
    return (sessionStorage.getItem(KEY) ?? "").split(" ").filter((id) => id !== "");
  },
  add(id: string): void {
    sessionStorage.setItem(KEY, [id, ...asked.all].slice(0, KEPT_MAX).join(" "));
  },
};
