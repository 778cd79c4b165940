/** One thing that a page loads: its data, its error, and a way to load it again. */
import { untrack } from "svelte";
import { isAborted } from "./api";
import { connection } from "./connection.svelte";

export class Resource<T> {
  error = $state.raw<unknown>();
  loading = $state(false);
  private shown = $state.raw<T>();
  private asked = $state(0);
  /** How often `data` was set by others: an answer that was asked for before is older. */
  private sets = 0;

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

  /** What was loaded last; it stays while it is loaded again. Set it to what came live, or was changed. */
  get data(): T | undefined {
    return this.shown;
  }

  set data(data: T | undefined) {
    this.sets += 1;
    this.shown = data;
  }

  reload = (): void => {
    this.asked += 1;
  };

  private async take(loading: Promise<T>, signal: AbortSignal): Promise<void> {
    const before = this.sets;
    this.loading = true;
    try {
      const data = await loading;
      if (signal.aborted) return;
      if (this.sets === before) this.shown = data;
      this.error = undefined;
    } catch (error) {
      if (!signal.aborted && !isAborted(error)) this.error = error;
    } finally {
      if (!signal.aborted) this.loading = false;
    }
  }
}
