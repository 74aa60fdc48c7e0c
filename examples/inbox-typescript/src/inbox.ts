import { isProblem, type Chat, type Message, type Stagedoor, type User } from "@stagedoor/client";

/** A chat of one of the accounts, for the list. */
export interface Entry {
  accountId: string;
  accountLabel: string;
  chatId: string;
  user: User;
  last: Message | null;
  unread: boolean;
}

/**
 * The chats of all accounts. They are listed once at the start. From then on the event stream reports what has changed, so
 * that showing the inbox needs no calls.
 */
export class Inbox {
  readonly #client: Stagedoor;
  readonly #entries = new Map<string, Entry>();
  readonly #labels = new Map<string, string>();
  readonly #watchers = new Set<(accountId: string, chatId: string) => void>();

  constructor(client: Stagedoor) {
    this.#client = client;
  }

  /** Lists all chats and follows the event stream. It returns when the list is complete; `signal` ends the stream. */
  async start(signal: AbortSignal): Promise<void> {
    // Open the stream before reading the lists, so that nothing is missed in between.
    await new Promise<void>((resolve, reject) => {
      this.#follow(signal, resolve).catch(reject);
    });
    for await (const account of this.#client.accounts.listAll({ limit: 100 })) {
      this.#labels.set(account.id, account.label || account.displayName || account.id);
      await this.#list(account.id);
    }
  }

  async #list(accountId: string): Promise<void> {
    try {
      const page = await this.#client.account(accountId).chats.list({ limit: 50 });
      for (const chat of page.items) this.#put(accountId, chat);
    } catch (error) {
      // An account that must be reconnected must not prevent the others from being shown.
      if (!isProblem(error, "account-disconnected", "account-paused", "upstream/account-restricted")) throw error;
      console.error(`skipping ${this.#labels.get(accountId)}: ${error.title}`);
    }
  }

  async #follow(signal: AbortSignal, onReady: () => void): Promise<void> {
    const stream = this.#client.stream({ events: ["message", "messageSent", "account.connected", "account.reconnected"], signal, onReady });
    for await (const event of stream) {
      const accountId = event.accountId ?? "";
      if (event.event === "message") await this.#arrived(accountId, event.data.chatId, event.data.message, event.data.fromUser);
      else if (event.event === "messageSent") await this.#arrived(accountId, event.data.chatId, event.data.message);
      else {
        this.#labels.set(accountId, event.data.account.label || accountId);
        await this.#list(accountId);
      }
    }
  }

  #put(accountId: string, chat: Chat): void {
    const entry: Entry = {
      accountId,
      accountLabel: this.#labels.get(accountId) ?? accountId,
      chatId: chat.id,
      user: chat.user,
      last: chat.lastMessage,
      unread: chat.unreadCount > 0,
    };
    const known = this.#entries.get(key(accountId, chat.id));
    // A message from the stream may be newer than the list.
    if (!known?.last || !entry.last || known.last.createdAt <= entry.last.createdAt) this.#entries.set(key(accountId, chat.id), entry);
  }

  async #arrived(accountId: string, chatId: string, message: Message, from?: User): Promise<void> {
    const known = this.#entries.get(key(accountId, chatId));
    if (!known && !from) {
      this.#put(accountId, await this.#client.account(accountId).chats.get({ chatId }));
    } else {
      const user = known?.user ?? from;
      if (user) {
        const accountLabel = this.#labels.get(accountId) ?? accountId;
        this.#entries.set(key(accountId, chatId), { accountId, accountLabel, chatId, user, last: message, unread: message.fromUserId === user.id });
      }
    }
    for (const watcher of this.#watchers) watcher(accountId, chatId);
  }

  /** Returns the chats, the one with the newest message first. */
  list(): Entry[] {
    return [...this.#entries.values()].sort((a, b) => (b.last?.createdAt ?? "").localeCompare(a.last?.createdAt ?? ""));
  }

  get(accountId: string, chatId: string): Entry | undefined {
    return this.#entries.get(key(accountId, chatId));
  }

  read(accountId: string, chatId: string): void {
    const entry = this.get(accountId, chatId);
    if (entry) entry.unread = false;
  }

  /** Calls watcher whenever a chat has a new message. The returned function ends that. */
  watch(watcher: (accountId: string, chatId: string) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}

function key(accountId: string, chatId: string): string {
  return `${accountId}/${chatId}`;
}
