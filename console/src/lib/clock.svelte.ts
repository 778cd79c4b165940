/** One clock for all relative times of a page: it ticks once a second while somebody looks. */
const state = $state({ now: Date.now() });
setInterval(() => {
  if (!document.hidden) state.now = Date.now();
}, 1_000);

export const clock = {
  /** In ms. Read in a component, it is followed. */
  get now(): number {
    return state.now;
  },
};
