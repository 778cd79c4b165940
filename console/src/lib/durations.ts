/** Durations as the API has them: `250ms`, `30s`, `1h30m`. */

const UNITS_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;

/** In ms; nothing for what is none. */
export function durationMs(text: string): number | undefined {
  if (!/^(?=\d)(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$/.test(text)) return undefined;
  const parts = text.matchAll(/(\d+)(ms|[dhms])/g);
  return [...parts].reduce((sum, [, n, unit]) => sum + Number(n) * UNITS_MS[unit as keyof typeof UNITS_MS], 0);
}

/** 5,400,000 ms as "1 h 30 min", to two units. */
export function spanOf(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const names: [keyof typeof UNITS_MS, string][] = [["d", "d"], ["h", "h"], ["m", "min"], ["s", "s"]];
  const parts: string[] = [];
  let rest = ms;
  for (const [unit, name] of names) {
    const n = Math.floor(rest / UNITS_MS[unit]);
    rest -= n * UNITS_MS[unit];
    if (n > 0) parts.push(`${n} ${name}`);
    else if (parts.length > 0) break;
  }
  return parts.slice(0, 2).join(" ");
}

/** What a `datetime-local` field says, as the API takes it; nothing for an empty one. */
export function timeOf(local: string | null): string | undefined {
  if (local === null || local === "") return undefined;
  const at = new Date(local);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}
