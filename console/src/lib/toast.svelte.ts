/** Short messages at the corner: what was done, with a way to undo it where there is one. */
export interface ToastAction {
  label: string;
  run: () => unknown;
}

interface Toast {
  id: number;
  text: string;
  kind: "done" | "failed";
  action: ToastAction | undefined;
}

const SHOWN_MS = 8_000;
const TOASTS_MAX = 4;
const state = $state({ toasts: [] as Toast[] });
let last = 0;

export const toast = {
  get all(): readonly Toast[] {
    return state.toasts;
  },
  show(text: string, more: { kind?: "done" | "failed"; action?: ToastAction } = {}): void {
    const id = (last += 1);
    const shown: Toast = { id, text, kind: more.kind ?? "done", action: more.action };
    state.toasts = [...state.toasts.slice(1 - TOASTS_MAX), shown];
    if (shown.kind === "done") setTimeout(() => toast.dismiss(id), SHOWN_MS);
  },
  dismiss(id: number): void {
    state.toasts = state.toasts.filter((toast) => toast.id !== id);
  },
};
