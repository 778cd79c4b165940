/** Console paths and their patterns: `/devices/:id`. */

/** A console path with values put into it as they are: `to("/devices/:id", {id})`. */
export function to(pattern: string, values: Record<string, string>): string {
  return pattern.replace(/:([a-z_]+)/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
}

/** The values of `/devices/:id` in a path, or nothing if it is another page's. */
export function match(pattern: string, path: string): Record<string, string> | undefined {
  const [wanted, given] = [pattern, path].map((text) => text.replace(/\/+$/, "").split("/")) as [string[], string[]];
  if (wanted.length !== given.length) return undefined;
  const values: Record<string, string> = {};
  for (const [i, part] of wanted.entries()) {
    const text = given[i] ?? "";
    if (part.startsWith(":")) {
      try {
        values[part.slice(1)] = decodeURIComponent(text);
      } catch {
        return undefined;
      }
    } else if (part !== text) return undefined;
  }
  return values;
}
