/** Takes what the page's one stream brings to the part of the page that shows it. */
import { onDestroy } from "svelte";

type Take = (data: never) => void;

export class Hub {
  private readonly takes = new Map<string, Take>();
  private readonly agains = new Map<string, () => void>();

  /** In a component: takes the messages of a topic; `again` is called when some were left out. */
  on<T>(topic: string, take: (data: T) => void, again: () => void = () => {}): void {
    this.takes.set(topic, take as Take);
    this.agains.set(topic, again);
    onDestroy(() => {
      // The part that is shown next may have taken its place by now.
      if (this.takes.get(topic) !== take) return;
      this.takes.delete(topic);
      this.agains.delete(topic);
    });
  }

  say(topic: string, data: unknown): void {
    this.takes.get(topic)?.(data as never);
  }

  behind = (topic: string): void => this.agains.get(topic)?.();
}
