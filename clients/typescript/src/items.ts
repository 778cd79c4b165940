/** Lists, a page after another. */

/** A page of any list. Lists that filter behind an index say how many rows they looked at. */
export interface Page<T> {
  items: T[];
  next_cursor?: string | null;
  tail_cursor?: string | null;
  looked_at?: number;
}

/**
 * Every item of a list. `page` asks for the page at a cursor, the first one without; it is asked
 * when the items before have been taken.
 */
export async function* items<T>(page: (cursor: string | undefined) => Promise<Page<T>>): AsyncGenerator<T> {
  let cursor: string | undefined;
  do {
    const answer = await page(cursor);
    yield* answer.items;
    cursor = answer.next_cursor ?? undefined;
  } while (cursor !== undefined);
}
