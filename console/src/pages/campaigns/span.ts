/** The filters of a campaign's slots and results. */
import type { Filter } from "../../lib/Filters.svelte";

export const SPAN_FILTERS: readonly Filter[] = [
  { name: "from", label: "From", type: "datetime-local" },
  { name: "to", label: "Until", type: "datetime-local" },
];
