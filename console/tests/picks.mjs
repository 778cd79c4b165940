/** Answers of a server whose fleet was asked many things, for what takes hours to come to. */
const HOSTILE = '<img src=x onerror="document.title=1">';
export const HOSTILE_TEXT = HOSTILE;

const LEVELS = ["country", "province", "operator"];
const COUNTS = { total: 12_345, connected: 9_876, online: 10_000, lost: 345, never_seen: 2_000, place: LEVELS };
const VALUES = {
  country: [["CN", 8_000, 7_000], ["שלום עולם", 3_000, 2_000], [HOSTILE, 1_000, 876], ["two_words", 300, 0], [null, 45, 0]],
  province: [["52", 4_000, 3_900], ["53", 4_000, 3_100]],
};

/** `GET /v1/fleet/*`. */
export function fleetAnswers() {
  return {
    "GET /v1/fleet/count": ({ selector, by }) => {
      if (selector === "site in (") return [422, { code: "bad_selector", detail: "`selector` ends within brackets, at 9" }];
      if (by === undefined) return COUNTS;
      const items = (VALUES[by] ?? [["yes", 9_000, 9_000], ["no", 3_345, 876]]).map(([value, total, connected]) => ({ value, total, connected }));
      return { ...COUNTS, items, more: by === "province" };
    },
    "GET /v1/fleet/fairness": () => ({ connected: 9_876, avg_picked: 97.5, avg_tasks: 41.3, punishment: 2.45, constant: 0.001, period: "1m" }),
    "GET /v1/fleet/weights": () => ({
      items: Array.from({ length: 40 }, (_, n) => ({
        device_id: `probe${String(n).padStart(3, "0")}`, weight: 1 - n * 0.00245, picks: 10 + (n % 3), last_picked_at: n === 0 ? null : "2026-11-22T12:00:00.000Z",
        ...(n === 2 ? { benched_until: "2036-11-22T12:00:00.000Z" } : {}),
      })),
      next_cursor: null,
    }),
  };
}

const AT = "2026-11-22T12:00:00.000Z";
export const TASK = { id: "tsk_01", status: "running", created_at: AT, wanted: 5, picked: 6, answered: 2, failed: 1, expired: 1, replaced: 1 };
export const RESULTS = [
  { device_id: "probe004", picked_at: AT, answered_at: "2026-11-22T12:00:01.500Z", ended_at: AT, outcome: "answered", result: { note: HOSTILE, rtt_ms: 12 } },
  { device_id: "probe003", picked_at: AT, answered_at: AT, ended_at: AT, outcome: "failed", reason: "refused", result: "שלום" },
  { device_id: "probe002", picked_at: AT, answered_at: null, ended_at: AT, outcome: "expired", reason: "no_answer", late: { ok: true, at: AT, result: 7 } },
  { device_id: "x".repeat(64), picked_at: AT, answered_at: AT, ended_at: AT, outcome: "answered", result: "long ".repeat(500) },
];
/** A stream that says nothing. */
const silent = () => new Promise(() => {});

export function taskAnswers() {
  return {
    ...fleetAnswers(),
    "GET /v1/live": silent,
    "GET /v1/tasks/tsk_01": () => TASK,
    "GET /v1/tasks/tsk_01/results": () => ({ items: RESULTS, next_cursor: null }),
  };
}

export const CAMPAIGN = {
  id: "ping", name: `Pings ${HOSTILE}`, status: "running", created_at: AT, payload: { op: "ping" }, selector: "kind=probe,country=CN", count: 100,
  every: "5m", phase: "12s", class: "ordinary", answer_timeout: "10s", missed: "skip", panel: false, results: { queue: "shop/pings" },
};

export function campaignAnswers() {
  const slots = [
    { slot: 3, due_at: "2026-11-22T12:15:00.000Z", started_at: "2026-11-22T12:15:00.010Z", wanted: 100, picked: 30, answered: 20, failed: 0, expired: 0, replaced: 0 },
    { slot: 2, due_at: "2026-11-22T12:10:00.000Z", started_at: null, wanted: 100, picked: 0, answered: 0, failed: 0, expired: 0, replaced: 0, skipped: true },
    { slot: 1, due_at: "2026-11-22T12:05:00.000Z", started_at: "2026-11-22T12:05:00.010Z", wanted: 100, picked: 104, answered: 95, failed: 3, expired: 6, replaced: 4 },
  ];
  const figures = { eligible: 40, picked: 440, never_picked: 0, min: 10, max: 12, mean: 11, gini: 0.041 };
  return {
    ...fleetAnswers(),
    "GET /v1/live": silent,
    "GET /v1/campaigns": () => ({ items: [CAMPAIGN, { ...CAMPAIGN, id: "c".repeat(64), status: "paused", every: null, over: "1h" }], next_cursor: null }),
    "GET /v1/campaigns/ping": () => CAMPAIGN,
    "GET /v1/campaigns/ping/slots": () => ({ items: slots, next_cursor: null }),
    "GET /v1/campaigns/ping/results": ({ order, wait }) => {
      if (order !== "asc") return { items: RESULTS.map((result) => ({ ...result, slot: 3 })), next_cursor: null };
      return wait === undefined ? { items: [], next_cursor: null, tail_cursor: "tail" } : silent();
    },
    "GET /v1/campaigns/ping/coverage": ({ by }) => ({
      ...figures, ...(by === undefined ? {} : { items: [{ value: "north", ...figures }, { value: HOSTILE, ...figures, picked: 220 }, { value: null, ...figures, picked: 0 }] }),
    }),
  };
}
