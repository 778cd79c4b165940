/** What was filled in: without members that are undefined, null, or an empty text. */
export function filled<T extends object>(record: T): { [K in keyof T]?: Exclude<T[K], undefined | null> } {
  const given = Object.entries(record).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return Object.fromEntries(given) as { [K in keyof T]?: Exclude<T[K], undefined | null> };
}
