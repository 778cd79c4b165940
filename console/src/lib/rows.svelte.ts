/**
 * The rows of a list behind a cursor, for a table of any length: pages are loaded as they are
 * scrolled to; of a long list only those near the view are kept, the others are loaded again by
 * their cursor.
 */
import { isAborted, type Page } from "./api";
import { connection } from "./connection.svelte";

/** One call of the list. Pass `signal` on. */
export type LoadPage<T> = (cursor: string | undefined, limit: number, signal: AbortSignal) => Promise<Page<T>>;

/** A page's place in the list. */
interface Slot<T> {
  cursor: string | undefined;
  limit: number;
  start: number;
  count: number;
  items: T[] | undefined;
  loading: boolean;
}

/** The first page; the next ones are twice as long each, up to the longest that the API gives. */
const PAGE_ROWS = 200;
const PAGE_ROWS_MAX = 1_000;
/** Pages with their items, beside the rows that came live: twelve of the longest. */
const PAGES_KEPT_MAX = 12;
/** Rows that a table shows: a browser's limit for the height of an element, with room. */
export const ROWS_MAX = 400_000;
/** Rows that came live, kept on top. */
const LIVE_ROWS_MAX = 1_000;
/** The order of lists whose newest rows come first. */
export function isNewer(a: { created_at: string; id: string }, b: { created_at: string; id: string }): boolean {
  return a.created_at === b.created_at ? a.id > b.id : a.created_at > b.created_at;
}
/** Pages without a row that are passed before somebody is asked whether to go on. */
const EMPTY_PAGES_MAX = 20;

export class Rows<T> {
  readonly keyOf: (item: T) => string;
  /** Rows that are known of so far, those on top included. */
  length = $state(0);
  /** The list has more rows than these. */
  more = $state(false);
  loading = $state(false);
  error = $state.raw<unknown>();
  /** Of a list that filters behind its index: how many rows the server has looked at. */
  lookedAt = $state(0);
  /** It has looked at many without finding one, and waits for {@link goOn}. */
  asking = $state(false);
  /** Rises when what `at` answers has changed. */
  version = $state(0);

  private readonly load: LoadPage<T>;
  private isBefore: (a: T, b: T) => boolean = () => false;
  private slots: Slot<T>[] = [];
  private top: T[] = [];
  private next: string | undefined;
  /** What was put on top while the first page was asked for: it may not be in it. */
  /** Rows on the screen, up to this one. */
  private shownTo = 0;
  private meanwhile: T[] = [];
  /** Rows that were changed, or taken out, while pages were asked for: these know of it or not. */
  private changed = new Map<string, T | undefined>();
  /** Pages that are asked for now; the first one is one of them. */
  private pages = 0;
  private beginning = false;
  /** Rows that came to match while pages were asked for: these may not have them. */
  private arrived = new Map<string, T>();
  /** Rows that were put between others since the list began. */
  private inserted = 0;
  /** More came live than is kept: the list begins anew when it can. */
  private lacking = false;
  private generation = new AbortController();
  /** Where each row is, by key; made when it is asked for, dropped when rows move. */
  private places: Map<string, { items: T[]; at: number }> | undefined;

  /** In a component. What `load` reads is followed: when it changes, the list begins anew. */
  constructor(keyOf: (item: T) => string, load: () => LoadPage<T>) {
    this.keyOf = keyOf;
    let current: LoadPage<T> = async () => ({ items: [] });
    this.load = (cursor, limit, signal) => current(cursor, limit, signal);
    $effect(() => {
      void connection.epoch;
      current = load();
      this.reload();
      return () => this.generation.abort();
    });
  }

  /** Begins anew. The rows stay until the first page is there. */
  reload = (): void => {
    this.generation.abort();
    this.generation = new AbortController();
    void this.first(this.generation.signal);
  };

  /** Goes on looking. */
  goOn = (): void => {
    this.asking = false;
    if (this.lacking) this.reload();
    else void this.append(this.generation.signal);
  };

  /** The row, if it is here. Read in a component, it is followed. */
  at(index: number): T | undefined {
    void this.version;
    if (index < this.top.length) return this.top[index];
    const slot = this.slotAt(index - this.top.length);
    return slot?.items?.[index - this.top.length - slot.start];
  }

  /** The row is here. */
  has(item: T): boolean {
    this.places ??= this.placesNow();
    return this.places.has(this.keyOf(item));
  }

  /** These rows are on the screen: loads what is missing of them, and what comes next. */
  show(from: number, until: number): void {
    const [first, last] = [Math.max(0, from - this.top.length), Math.max(0, until - this.top.length)];
    for (const slot of this.slots) {
      if (slot.start < last && slot.start + slot.count > first && slot.items === undefined) void this.refill(slot);
    }
    this.shownTo = until;
    if (this.nearsEnd()) void this.append(this.generation.signal);
    this.forgetFarFrom(first);
  }

  /** There are more rows, and those on the screen are close to the last one here. */
  private nearsEnd(): boolean {
    return this.more && this.shownTo > 0 && this.shownTo >= this.length - PAGE_ROWS / 2;
  }

  /** Puts rows on top, newest first: what came live. Those that are there already are changed. */
  prepend(items: readonly T[]): void {
    if (this.beginning) this.meanwhile = this.kept(this.unique([...items, ...this.meanwhile]));
    const fresh = this.unique(items).filter((item) => !this.replace(item));
    if (fresh.length > 0) {
      const top = [...fresh, ...this.top];
      this.top = this.beginning ? top.slice(0, LIVE_ROWS_MAX) : this.kept(top);
      this.count();
    }
    this.version += 1;
    this.catchUp();
  }

  /**
   * Looks for newer rows of a list that begins with the newest: the first page is asked for again,
   * and what is new in it is put on top.
   */
  freshen = async (): Promise<void> => {
    if (this.loading) {
      this.lacking = true;
      return;
    }
    const signal = this.generation.signal;
    try {
      const page = await this.page(undefined, PAGE_ROWS_MAX, signal);
      if (signal.aborted) return;
      const joins = (page.next_cursor ?? undefined) === undefined || page.items.some((item) => this.has(item));
      if (joins) this.prepend(page.items);
      else this.reload();
    } catch (error) {
      if (!signal.aborted && !isAborted(error)) this.error = error;
    }
  };

  /** Changes rows that are here; others are left alone. */
  update(items: readonly T[]): void {
    let changed = false;
    for (const item of items) {
      if (this.pages > 0) this.note(this.keyOf(item), item);
      changed = this.replace(item) || changed;
    }
    if (changed) this.version += 1;
  }

  /**
   * Puts rows between the others that have come to match; those that are here already stay as they
   * are. What belongs behind the last row that is loaded comes with its page.
   */
  insert(items: readonly T[], isBefore: (a: T, b: T) => boolean): void {
    this.isBefore = isBefore;
    const missing = this.unique(items).filter((item) => !this.has(item));
    for (const item of missing) {
      if (this.pages > 0) this.arrived.set(this.keyOf(item), item);
      if (!this.beginning) this.put(item);
    }
    if (this.arrived.size > LIVE_ROWS_MAX) {
      this.arrived.clear();
      this.lacking = true;
    }
    this.version += 1;
    this.catchUp();
  }

  /** Takes a row out that was deleted. */
  remove(key: string): void {
    if (this.pages > 0) this.note(key, undefined);
    this.arrived.delete(key);
    this.top = this.top.filter((item) => this.keyOf(item) !== key);
    let gone = 0;
    for (const slot of this.slots) {
      slot.start -= gone;
      const items = slot.items?.filter((item) => this.keyOf(item) !== key);
      if (items !== undefined && slot.items !== undefined && items.length < slot.items.length) {
        gone += slot.items.length - items.length;
        slot.items = items;
        slot.count = items.length;
      }
    }
    this.count();
    this.version += 1;
  }

  /** The newest of what came live; without the others rows would be missing. */
  private kept(items: T[]): T[] {
    if (items.length > LIVE_ROWS_MAX) this.lacking = true;
    return items.slice(0, LIVE_ROWS_MAX);
  }

  /** Begins anew where rows are missing. After a failure it is for somebody to say when. */
  private catchUp(): void {
    if (this.lacking && !this.loading && this.error === undefined) this.reload();
  }

  /** The first one of each key. */
  private unique(items: readonly T[]): T[] {
    const seen = new Set<string>();
    return items.filter((item) => {
      const key = this.keyOf(item);
      return !seen.has(key) && seen.add(key);
    });
  }

  private note(key: string, item: T | undefined): void {
    this.changed.set(key, item);
    if (this.changed.size <= LIVE_ROWS_MAX) return;
    this.changed.clear();
    this.lacking = true;
  }

  /** A page as it is now: what came live while it was asked for is newer, or comes live again. */
  private upToDate(items: readonly T[]): T[] {
    const now = items.map((item) => {
      const key = this.keyOf(item);
      return this.changed.has(key) ? this.changed.get(key) : item;
    });
    return now.filter((item) => item !== undefined);
  }

  private replace(item: T): boolean {
    this.places ??= this.placesNow();
    const place = this.places.get(this.keyOf(item));
    if (place === undefined) return false;
    place.items[place.at] = item;
    return true;
  }

  /** Puts a row into its place, by `isBefore`. */
  private put(item: T): void {
    this.inserted += 1;
    if (this.inserted > LIVE_ROWS_MAX) {
      this.lacking = true;
      return;
    }
    const above = this.top.findIndex((other) => this.isBefore(item, other));
    if (above >= 0) this.top.splice(above, 0, item);
    else if (!this.putIntoPage(item)) return;
    this.count();
  }

  private putIntoPage(item: T): boolean {
    const isHere = ({ items }: Slot<T>): boolean => items?.some((other) => this.isBefore(item, other)) ?? false;
    const slot = this.slots.find(isHere) ?? (this.next === undefined ? this.slots.at(-1) : undefined);
    if (slot === undefined) {
      if (this.next === undefined) this.top.push(item);
      return this.next === undefined;
    }
    if (slot.items === undefined) return false;
    const at = slot.items.findIndex((other) => this.isBefore(item, other));
    slot.items.splice(at < 0 ? slot.items.length : at, 0, item);
    slot.count += 1;
    slot.limit = Math.min(Math.max(slot.limit, slot.count), PAGE_ROWS_MAX);
    for (const later of this.slots.slice(this.slots.indexOf(slot) + 1)) later.start += 1;
    return true;
  }

  /** After a page: what came to match while it was asked for. */
  private putArrived(): void {
    const arrived = this.upToDate([...this.arrived.values()]);
    for (const item of arrived.filter((item) => !this.has(item))) this.put(item);
  }

  private placesNow(): Map<string, { items: T[]; at: number }> {
    const places = new Map<string, { items: T[]; at: number }>();
    for (const items of [this.top, ...this.slots.map((slot) => slot.items ?? [])]) {
      items.forEach((item, at) => places.set(this.keyOf(item), { items, at }));
    }
    return places;
  }

  private slotAt(index: number): Slot<T> | undefined {
    let [low, high] = [0, this.slots.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      const slot = this.slots[middle];
      if (slot === undefined) return undefined;
      if (index < slot.start) high = middle - 1;
      else if (index >= slot.start + slot.count) low = middle + 1;
      else return slot;
    }
    return undefined;
  }

  private count(): void {
    this.places = undefined;
    const last = this.slots.at(-1);
    this.length = this.top.length + (last === undefined ? 0 : last.start + last.count);
    this.more = this.next !== undefined && this.length < ROWS_MAX;
  }

  private async first(signal: AbortSignal): Promise<void> {
    this.meanwhile = [];
    this.lacking = false;
    this.beginning = true;
    await this.fetching(signal, async () => {
      const page = await this.page(undefined, PAGE_ROWS, signal);
      if (signal.aborted) return;
      this.top = [];
      this.slots = [];
      this.inserted = 0;
      this.lookedAt = 0;
      this.asking = false;
      this.take({ cursor: undefined, limit: PAGE_ROWS }, page);
      // A row that the page has is newer there than when it came.
      const places = this.placesNow();
      this.top = this.upToDate(this.meanwhile).filter((item) => !places.has(this.keyOf(item)));
      this.count();
      this.putArrived();
    });
    if (signal.aborted) return;
    this.beginning = false;
    if (this.lacking) this.catchUp();
    // Whoever came to the end while it was loaded moves no further by themselves.
    else if (this.nearsEnd()) await this.append(signal);
  }

  private async append(signal: AbortSignal): Promise<void> {
    for (let empty = 0; this.next !== undefined && !this.loading && !this.asking; empty += 1) {
      if (empty === EMPTY_PAGES_MAX) {
        this.asking = true;
        return;
      }
      const [cursor, before] = [this.next, this.length];
      const limit = Math.min(PAGE_ROWS * 2 ** this.slots.length, PAGE_ROWS_MAX);
      await this.fetching(signal, async () => {
        const page = await this.page(cursor, limit, signal);
        if (signal.aborted) return;
        this.take({ cursor, limit }, page);
        this.putArrived();
      });
      if (!signal.aborted) this.catchUp();
      if (signal.aborted || this.error !== undefined || this.length > before) return;
    }
  }

  private take(asked: Pick<Slot<T>, "cursor" | "limit">, page: Page<T>): void {
    const last = this.slots.at(-1);
    const start = last === undefined ? 0 : last.start + last.count;
    const items = this.upToDate(page.items);
    if (items.length > 0) this.slots.push({ ...asked, start, count: items.length, items, loading: false });
    this.next = page.next_cursor ?? undefined;
    this.lookedAt += page.looked_at ?? 0;
    this.count();
    this.version += 1;
  }

  /** Loads a page again that was forgotten. Its rows may have changed, its place does not. */
  private async refill(slot: Slot<T>): Promise<void> {
    if (slot.loading) return;
    const signal = this.generation.signal;
    slot.loading = true;
    try {
      const page = await this.page(slot.cursor, slot.limit, signal);
      if (signal.aborted) return;
      slot.items = this.upToDate(page.items.slice(0, slot.count));
      this.places = undefined;
      this.version += 1;
    } catch (error) {
      if (!isAborted(error)) this.error = error;
    } finally {
      slot.loading = false;
    }
  }

  private async page(cursor: string | undefined, limit: number, signal: AbortSignal): Promise<Page<T>> {
    if (this.pages === 0) {
      this.changed.clear();
      this.arrived.clear();
    }
    this.pages += 1;
    try {
      return await this.load(cursor, limit, signal);
    } finally {
      this.pages -= 1;
    }
  }

  private async fetching(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    this.loading = true;
    try {
      await work();
      if (!signal.aborted) this.error = undefined;
    } catch (error) {
      if (!signal.aborted && !isAborted(error)) this.error = error;
    } finally {
      if (!signal.aborted) this.loading = false;
    }
  }

  private forgetFarFrom(row: number): void {
    const filled = this.slots.filter((slot) => slot.items !== undefined);
    if (filled.length <= PAGES_KEPT_MAX) return;
    filled.sort((a, b) => Math.abs(b.start - row) - Math.abs(a.start - row));
    for (const slot of filled.slice(0, filled.length - PAGES_KEPT_MAX)) slot.items = undefined;
    this.places = undefined;
  }
}
