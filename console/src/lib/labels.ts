/** Labels as people type them, `site=12, floor=3`, and the filters of lists that they make. */

export interface TypedLabels {
  labels: Record<string, string>;
  /** The first part that is no label. */
  wrong?: string;
}

/** Reads `key=value` parts with commas between. A value may be quoted, as in JSON: `"a, b"`. */
export function labelsOf(text: string): TypedLabels {
  const read: TypedLabels = { labels: {} };
  const parts = text.match(/(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g) ?? [];
  for (const part of parts.map((part) => part.trim()).filter((part) => part !== "")) {
    const at = part.indexOf("=");
    const key = part.slice(0, Math.max(at, 0)).trim();
    if (/^[a-z][a-z0-9_.-]{0,31}$/.test(key)) read.labels[key] = unquoted(part.slice(at + 1).replace(/^=/, ""));
    else read.wrong ??= part;
  }
  return read;
}

function unquoted(text: string): string {
  const quoted = /^"((?:[^"\\]|\\.)*)"$/.exec(text.trim());
  return quoted?.[1]?.replace(/\\(.)/g, "$1") ?? text.trim();
}

/** `site=12, floor=3`, which {@link labelsOf} reads again. */
export function labelText(labels: Record<string, string>): string {
  const quoted = (value: string): string => (/[,"]|^[\s=]|\s$/.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : value);
  return Object.entries(labels).map(([key, value]) => `${key}=${quoted(value)}`).join(", ");
}

/** The parameters `label.KEY=VALUE` of a list. */
export function labelFilter(labels: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).map(([key, value]) => [`label.${key}`, value]));
}
