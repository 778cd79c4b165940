/** Dark, light, or as the system has it. Kept in this browser. */
export type Theme = "auto" | "light" | "dark";

const KEY = "fieldpost.theme";
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

/** A page that is embedded by another one may have no storage. */
function storage(): Storage | undefined {
  try {
    return localStorage;
  } catch {
    return undefined;
  }
}

function stored(): Theme {
  const theme = storage()?.getItem(KEY);
  return THEMES.find((known) => known === theme) ?? "auto";
}

const state = $state({ theme: stored() });

export const theme = {
  get now(): Theme {
    return state.theme;
  },
  set(theme: Theme): void {
    state.theme = theme;
    storage()?.setItem(KEY, theme);
    applyTheme();
  },
};

export function applyTheme(): void {
  if (state.theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = state.theme;
}
