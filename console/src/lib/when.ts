/** Times and numbers as people read them. */

const STEPS: readonly [limit: number, divisor: number, unit: Intl.RelativeTimeFormatUnit][] = [
  [60_000, 1_000, "second"],
  [3_600_000, 60_000, "minute"],
  [86_400_000, 3_600_000, "hour"],
  [Number.POSITIVE_INFINITY, 86_400_000, "day"],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "narrow" });
const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** "4 min. ago", "in 2 hr.". */
export function ago(atMs: number, nowMs: number): string {
  const by = atMs - nowMs;
  const size = Math.abs(by);
  if (size < 1_000) return "now";
  for (const [limit, divisor, unit] of STEPS) {
    if (size < limit) return relative.format(Math.trunc(by / divisor), unit);
  }
  return "";
}

/** The moment in the reader's time zone. */
export function moment(at: string | number): string {
  return exact.format(new Date(at));
}

/** A moment as the browser's `datetime-local` has it, in the reader's time zone; "" if it is none. */
export function toLocal(at: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function count(n: number): string {
  return whole.format(n);
}

/** 1,234,567 as 1.2M, with the rest for a title. */
export function compact(n: number): string {
  return n < 10_000 ? whole.format(Math.round(n * 10) / 10) : short.format(n);
}

/** A sentence of the server's with its bytes as people read them: "67 GB of 252 GB are free". */
export function withSizes(text: string): string {
  return text.replace(/(\d+) of (\d+) bytes/g, (_, used: string, all: string) => `${bytes(Number(used))} of ${bytes(Number(all))}`);
}

/** Bytes as KB, MB, GB: powers of 1,024, as the settings have them. */
export function bytes(n: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let [size, unit] = [n, 0];
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size < 10 && unit > 0 ? size.toFixed(1) : Math.round(size).toString()} ${units[unit] ?? ""}`;
}
