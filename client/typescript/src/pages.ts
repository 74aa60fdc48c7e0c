/**
 * Iterates over the items of all pages and requests a page when its first item is needed.
 * It ends with a page that has no cursor, or that repeats the cursor of its own request.
 */
export async function* paginate<Page, Item>(
  load: (cursor: string | undefined) => Promise<Page>,
  items: (page: Page) => readonly Item[] | null | undefined,
  next: (page: Page) => string | null | undefined,
): AsyncGenerator<Item, void, undefined> {
  let cursor: string | undefined;
  for (;;) {
    const page = await load(cursor);
    yield* items(page) ?? [];
    const following = next(page);
    if (!following || following === cursor) return;
    cursor = following;
  }
}
