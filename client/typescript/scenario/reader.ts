import type { EventOf, EventStream } from "../src/index.js";

/** Reads a stream of messages in the background. */
export class Reader {
  readonly ids: string[] = [];
  readonly texts: string[] = [];
  readonly #stream: EventStream<EventOf<"message">>;
  #changed: () => void = () => undefined;
  #error: unknown;

  /** Only messages that begin with the mark are counted: others may write as well. */
  constructor(
    stream: EventStream<EventOf<"message">>,
    readonly mark: string,
    readonly deadline: AbortSignal,
  ) {
    this.#stream = stream;
    deadline.addEventListener("abort", () => this.#changed());
    void this.#read().catch((error: unknown) => {
      this.#error = error;
      this.#changed();
    });
  }

  async #read(): Promise<void> {
    for await (const event of this.#stream) {
      this.ids.push(event.id);
      this.texts.push(event.data.message.text);
      this.#changed();
    }
  }

  /** Waits until so many of our own messages have come. */
  async until(count: number): Promise<void> {
    while (this.texts.filter((text) => text.startsWith(this.mark)).length < count) {
      if (this.#error) throw this.#error;
      this.deadline.throwIfAborted();
      await new Promise<void>((resolve) => (this.#changed = resolve));
    }
  }

  stop(): void {
    this.#stream.close();
  }
}
