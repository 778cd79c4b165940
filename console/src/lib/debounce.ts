/** Much that happens at once makes one call. */
import { onDestroy } from "svelte";

/** In a component: `work` is done `ms` after it was asked for first, once for all that ask meanwhile. */
export function debounced(ms: number, work: () => unknown): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  onDestroy(() => clearTimeout(timer));
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      void work();
    }, ms);
  };
}
