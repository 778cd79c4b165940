/**
 * Whether the server answers. Every call says so here; the banner shows it, and what is shown is
 * loaded again when `epoch` rises. That the live stream is cut is another thing: a server that
 * answers may refuse it, so a cut alone loads nothing again.
 */
const state = $state({
  lostAt: undefined as number | undefined,
  retryAt: undefined as number | undefined,
  epoch: 0,
});

/** Between two looks at a server that is away. */
const LOOK_EVERY_MS = 3_000;
let looking: ReturnType<typeof setInterval> | undefined;
let wakeStream: (() => void) | undefined;

export const connection = {
  /** Since when no call is answered, in ms of the clock; `undefined` while they are. */
  get lostAt(): number | undefined {
    return state.lostAt;
  },
  get retryAt(): number | undefined {
    return state.retryAt;
  },
  /** Rises each time the server is back, or its stream: what depends on it is loaded again. */
  get epoch(): number {
    return state.epoch;
  },
  /** A call had no answer. */
  lost(): void {
    state.lostAt ??= Date.now();
    state.retryAt ??= Date.now() + LOOK_EVERY_MS;
    looking ??= setInterval(() => void look(), LOOK_EVERY_MS);
  },
  /** A call was answered. The stream keeps its own pauses: whoever refuses it may answer calls. */
  answered(): void {
    if (state.lostAt === undefined) return;
    clearInterval(looking);
    looking = undefined;
    state.lostAt = undefined;
    state.retryAt = undefined;
    state.epoch += 1;
  },
  /** The stream is cut: looks whether the server is away as well. */
  streamCut(): void {
    void look();
  },
  /** The stream is open again; `cutAt` is the `epoch` of when it was cut. */
  streamBack(cutAt: number): void {
    connection.answered();
    if (state.epoch === cutAt) state.epoch += 1;
  },
  /** The live stream's own way to try at once. */
  retryBy(retry: (() => void) | undefined): void {
    wakeStream = retry;
  },
  retryNow(): void {
    void look();
  },
};

/** A server that starts answers 503 for a while: only one that is ready is back. */
async function look(): Promise<void> {
  if (state.lostAt !== undefined) state.retryAt = Date.now() + LOOK_EVERY_MS;
  const answer = await fetch("/readyz", { cache: "no-store" }).catch(() => undefined);
  if (answer === undefined) connection.lost();
  else if (answer.ok && state.lostAt !== undefined) {
    connection.answered();
    wakeStream?.();
  }
}
