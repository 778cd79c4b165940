/** Dark, light, or as the system has it. Kept in this browser. */
export type Theme = "auto" | "light" | "dark";

const KEY = "fieldpost.theme";
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

function stored(): Theme {
  const theme = localStorage.getItem(KEY);
  return THEMES.find((known) => known === theme) ?? "auto";
}

const state = $state({ theme: stored() });

export const theme = {
  get now(): Theme {
    return state.theme;
  },
  set(theme: Theme): void {
    state.theme = theme;
    localStorage.setItem(KEY, theme);
    applyTheme();
  },
};

export function applyTheme(): void {
  if (state.theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = state.theme;
}
