/**
 * Whether the server answers. Every call and the live stream say so here; the banner shows it, and
 * pages load again when `epoch` rises.
 */
const state = $state({
  lostAt: undefined as number | undefined,
  retryAt: undefined as number | undefined,
  epoch: 0,
});

/** Between two looks at a server that is away, while no live stream looks. */
const LOOK_EVERY_MS = 3_000;
let looking: ReturnType<typeof setInterval> | undefined;
let tryNow: (() => void) | undefined;

export const connection = {
  /** Since when nothing has come, in ms of the clock; `undefined` while all is well. */
  get lostAt(): number | undefined {
    return state.lostAt;
  },
  get retryAt(): number | undefined {
    return state.retryAt;
  },
  /** Rises each time the server is back: what depends on it is loaded again. */
  get epoch(): number {
    return state.epoch;
  },
  lost(retryInMs?: number): void {
    state.lostAt ??= Date.now();
    state.retryAt = Date.now() + (retryInMs ?? LOOK_EVERY_MS);
    looking ??= setInterval(() => void look(), LOOK_EVERY_MS);
  },
  back(): void {
    if (state.lostAt === undefined) return;
    clearInterval(looking);
    looking = undefined;
    state.lostAt = undefined;
    state.retryAt = undefined;
    state.epoch += 1;
    tryNow?.();
  },
  /** The live stream's own way to try at once. */
  retryBy(retry: (() => void) | undefined): void {
    tryNow = retry;
  },
  retryNow(): void {
    void look();
  },
};

/** A server that starts answers 503 for a while: only one that is ready is back. */
async function look(): Promise<void> {
  state.retryAt = Date.now() + LOOK_EVERY_MS;
  const answer = await fetch("/readyz", { cache: "no-store" }).catch(() => undefined);
  if (answer?.ok === true) connection.back();
}
