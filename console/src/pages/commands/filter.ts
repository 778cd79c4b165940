/** The filter of the commands' page: its fields, and what they ask of the list. */
import type { Filter } from "../../lib/Filters.svelte";
import { STATUSES, type Command } from "../../lib/commands";
import { timeOf } from "../../lib/durations";
import { filled } from "../../lib/filled";
import { labelFilter, labelsOf } from "../../lib/labels";

export const FILTERS: readonly Filter[] = [
  { name: "device", label: "Device", placeholder: "id", search: true },
  { name: "status", label: "Status", options: ["", ...STATUSES] },
  { name: "origin", label: "Origin" },
  { name: "labels", label: "Labels of the device", placeholder: "site=12" },
  { name: "from", label: "Sent from", type: "datetime-local" },
  { name: "to", label: "Sent until", type: "datetime-local" },
];

/** The list's parameters. */
export function listQuery(query: URLSearchParams): Record<string, string> {
  const asked = filled({
    device: query.get("device"), status: query.get("status"), origin: query.get("origin"),
    from: timeOf(query.get("from")), to: timeOf(query.get("to")),
  });
  return { ...asked, ...labelFilter(labelsOf(query.get("labels") ?? "").labels) };
}

/** Whether the list has this command; labels of devices only the server knows. */
export function isMeant(query: Record<string, string>, command: Command): boolean {
  const at = Date.parse(command.created_at);
  return Object.entries(query).every(([name, wanted]) => {
    switch (name) {
      case "device": return command.device_id === wanted;
      case "status": return command.status === wanted;
      case "origin": return command.origin === wanted;
      case "from": return at >= Date.parse(wanted);
      case "to": return at < Date.parse(wanted);
      default: return false;
    }
  });
}
