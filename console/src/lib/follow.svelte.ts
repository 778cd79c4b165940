/** Waits for news of a feed, one call after another, while somebody looks at the page. */
import { isAborted, type Page } from "./api";
import { connection } from "./connection.svelte";

export interface FeedPage<T> extends Page<T> {
  /** Behind the last item. */
  tail_cursor: string;
}

/** A feed in the order of time. */
export interface Feed<T> {
  /** The place behind the newest item. */
  tail: (signal: AbortSignal) => Promise<string>;
  /** What follows a place; waits so long for the first item. */
  next: (cursor: string, wait: string, signal: AbortSignal) => Promise<FeedPage<T>>;
}

/** How long a call may wait for the first item. */
const WAIT = "30s";

/**
 * In a component. `onnews` hears of items that come from now on. A refusal ends it; it begins again
 * after a cut.
 */
export function follow<T>({ tail, next }: Feed<T>, onnews: (items: T[]) => void): void {
  let hidden = $state(document.hidden);
  $effect(() => {
    const seen = (): void => void (hidden = document.hidden);
    document.addEventListener("visibilitychange", seen);
    return () => document.removeEventListener("visibilitychange", seen);
  });
  // A tab that is looked at again goes on where it was.
  let cursor: string | undefined;
  $effect(() => {
    void connection.epoch;
    if (hidden) return;
    const giveUp = new AbortController();
    void (async () => {
      try {
        cursor ??= await tail(giveUp.signal);
        while (!giveUp.signal.aborted) {
          const page = await next(cursor, WAIT, giveUp.signal);
          cursor = page.tail_cursor;
          if (page.items.length > 0) onnews(page.items);
        }
      } catch (error) {
        // The page's own lists say what is wrong; a cut is told of by the connection.
        if (!isAborted(error)) cursor = undefined;
      }
    })();
    return () => giveUp.abort();
  });
}
