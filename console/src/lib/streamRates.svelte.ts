/** How fast streams grow: messages in a second, by how their newest ids rise between two looks. */
import { nameOf, type Stream } from "./streams";

/** Two looks that are closer together say little. */
const LOOK_MS_MIN = 1_000;

interface Look {
  last: bigint;
  at: number;
}

export class StreamRates {
  private readonly looks = new Map<string, Look>();
  private rates = $state.raw<ReadonlyMap<string, number>>(new Map());

  /** Streams as they were read at a time, in milliseconds. */
  note(streams: readonly Stream[], at: number): void {
    const rates = new Map(this.rates);
    for (const stream of streams) {
      const name = nameOf(stream);
      const last = BigInt(stream.last_id);
      const before = this.looks.get(name);
      if (before !== undefined && at - before.at < LOOK_MS_MIN) continue;
      this.looks.set(name, { last, at });
      // One that was made again begins anew.
      if (before === undefined || last < before.last) rates.delete(name);
      else rates.set(name, (Number(last - before.last) * 1_000) / (at - before.at));
    }
    this.rates = rates;
  }

  /** `undefined` before the second look. */
  of(stream: Stream): number | undefined {
    return this.rates.get(nameOf(stream));
  }
}

/** A rate for people: tenths while it is small. */
export function perSecond(rate: number | undefined): string {
  if (rate === undefined) return "";
  return rate > 0 && rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en");
}
