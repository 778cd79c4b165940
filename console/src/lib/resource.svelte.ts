/** One thing that a page loads: its data, its error, and a way to load it again. */
import { untrack } from "svelte";
import { isAborted } from "./api";
import { connection } from "./connection.svelte";

export class Resource<T> {
  /** What was loaded last; it stays while it is loaded again. Set it after a change of your own. */
  data = $state.raw<T>();
  error = $state.raw<unknown>();
  loading = $state(false);
  private asked = $state(0);

  /**
   * In a component. What `load` reads before its first `await` is followed: when that changes, or
   * the server is back after a cut, it is loaded again, and the call before is given up.
   */
  constructor(load: (signal: AbortSignal) => Promise<T>) {
    $effect(() => {
      void connection.epoch;
      void this.asked;
      const giveUp = new AbortController();
      const loading = load(giveUp.signal);
      untrack(() => void this.take(loading, giveUp.signal));
      return () => giveUp.abort();
    });
  }

  reload = (): void => {
    this.asked += 1;
  };

  private async take(loading: Promise<T>, signal: AbortSignal): Promise<void> {
    this.loading = true;
    try {
      const data = await loading;
      if (signal.aborted) return;
      this.data = data;
      this.error = undefined;
    } catch (error) {
      if (!signal.aborted && !isAborted(error)) this.error = error;
    } finally {
      if (!signal.aborted) this.loading = false;
    }
  }
}
