/**
 * What became of deliveries that came live: the stream tells of each when it is made, and not of
 * its attempts. A while after some came the newest are read, and again while some of them wait.
 */
import { onDestroy } from "svelte";
import { api, ask, isAborted } from "./api";
import { debounced } from "./debounce";
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
  let giveUp = new AbortController();
  const read = async (): Promise<void> => {
    giveUp.abort();
    giveUp = new AbortController();
    const { signal } = giveUp;
    try {
      const query = { ...whose(), limit: ROWS_MAX };
      const { items } = await ask(api.GET("/v1/deliveries", { params: { query }, signal }));
      if (signal.aborted) return;
      rows.update(items);
      if (items.some((delivery) => delivery.status === "pending" && rows.has(delivery))) soon();
    } catch (error) {
      if (!isAborted(error)) rows.error = error;
    }
  };
  const soon = debounced(SETTLED_MS, read);
  onDestroy(() => giveUp.abort());
  return soon;
}
