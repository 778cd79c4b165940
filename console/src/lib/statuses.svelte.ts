/**
 * What became of deliveries that came live: the stream tells of each when it is made, and not of
 * its attempts. A while after some came, the newest are read once.
 */
import { onDestroy } from "svelte";
import { api, ask, isAborted } from "./api";
import type { Delivery } from "./deliveries";
import type { Rows } from "./rows.svelte";

/** Long enough for a first attempt; at most one read in this time. */
const SETTLED_MS = 2_000;
const ROWS_MAX = 200;

interface Whose {
  client?: string | undefined;
  device?: string | undefined;
}

/** In a component. Call what it answers when deliveries came. */
export function useStatuses(rows: Rows<Delivery>, whose: () => Whose): () => void {
  const giveUp = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const read = async (): Promise<void> => {
    timer = undefined;
    try {
      const { signal } = giveUp;
      const query = { ...whose(), limit: ROWS_MAX };
      rows.update((await ask(api.GET("/v1/deliveries", { params: { query }, signal }))).items);
    } catch (error) {
      if (!isAborted(error)) rows.error = error;
    }
  };
  onDestroy(() => {
    clearTimeout(timer);
    giveUp.abort();
  });
  return () => (timer ??= setTimeout(() => void read(), SETTLED_MS));
}
