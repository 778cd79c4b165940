/** How many devices a selection means now, counted anew when somebody has stopped typing. */
import { sentence } from "./api";
import { countFleet, type FleetCount } from "./fleet";
import { Resource } from "./resource.svelte";
import { isEverybody, type Selection } from "./selection";
import { count } from "./when";

const TYPING_PAUSE_MS = 300;

export class Counted {
  private readonly given: () => Selection | undefined;
  private settled = $state.raw<Selection>();
  private readonly resource: Resource<FleetCount | undefined>;

  /** In a component. `undefined` counts nothing. */
  constructor(selection: () => Selection | undefined) {
    this.given = selection;
    this.settled = selection();
    $effect(() => {
      const now = selection();
      const timer = setTimeout(() => (this.settled = now), TYPING_PAUSE_MS);
      return () => clearTimeout(timer);
    });
    this.resource = new Resource(async (signal) => (this.settled === undefined ? undefined : countFleet(this.settled, signal)));
  }

  get error(): unknown {
    return this.resource.error;
  }

  /** The count of what is typed now; nothing while it is made. */
  get now(): FleetCount | undefined {
    const isOld = JSON.stringify(this.settled) !== JSON.stringify(this.given());
    return isOld || this.resource.loading || this.error !== undefined ? undefined : this.resource.data;
  }

  reload = (): void => this.resource.reload();

  /** A sentence; "" where nothing is counted. */
  get text(): string {
    const selection = this.given();
    if (selection === undefined) return "";
    if (this.error !== undefined) return sentence(this.error);
    const now = this.now;
    if (now === undefined) return "Counting…";
    const whom = now.total === 1 ? "device matches" : "devices match";
    return `${count(now.total)} ${whom} now, ${count(now.connected)} connected${isEverybody(selection) ? ": the whole fleet" : ""}.`;
  }
}
