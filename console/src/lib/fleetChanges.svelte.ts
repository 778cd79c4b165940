/** Tells when the counts of the fleet have changed, so that devices are counted anew. */
import { may } from "./caller.svelte";
import { debounced } from "./debounce";
import { useLive } from "./live.svelte";
import type { Overview } from "./overview";

/** Changes within so many ms make one count. */
const SETTLE_MS = 2_000;

/** In a component. */
export function useFleetChanges(again: () => void): void {
  const againSoon = debounced(SETTLE_MS, again);
  let before: string | undefined;
  const overview = ({ devices }: Overview): void => {
    const now = JSON.stringify(devices);
    // The first ones may be newer than what was counted.
    if (now !== before) againSoon();
    before = now;
  };
  useLive(() => (may("look.devices") ? { topics: ["overview"], on: { overview } } : undefined));
}
