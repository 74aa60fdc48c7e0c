/**
 * Walks through pages, item by item; the next page is asked for when its first item is.
 * It ends with the page that has no cursor, or gives the one back that it was asked with.
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
