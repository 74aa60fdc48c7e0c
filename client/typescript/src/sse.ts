/** One message of a stream of server-sent events. */
export interface ServerSentEvent {
  /** The kind; `message` unless the server names one. */
  event: string;
  data: string;
  /** The cursor after this message; undefined if it has no id. */
  id: string | undefined;
}

/**
 * Reads server-sent events from pieces of text, wherever the pieces are cut.
 * A message is complete once its empty line has arrived; what a lost connection left unfinished is dropped.
 */
export class ServerSentEvents {
  /** The milliseconds to wait before reconnecting, if the server sent them. */
  retry: number | undefined;
  #rest = "";
  #event = "";
  #data: string[] = [];
  #id: string | undefined;

  /** Reads the next piece and returns the messages that it completes. */
  push(piece: string): ServerSentEvent[] {
    const found: ServerSentEvent[] = [];
    const text = this.#rest + piece;
    let from = 0;
    for (let at = from; at < text.length; at++) {
      const char = text[at];
      if (char !== "\n" && char !== "\r") continue;
      if (char === "\r" && at === text.length - 1) break; // its \n may be in the next piece
      this.#line(text.slice(from, at), found);
      if (char === "\r" && text[at + 1] === "\n") at++;
      from = at + 1;
    }
    this.#rest = text.slice(from);
    return found;
  }

  #line(line: string, found: ServerSentEvent[]): void {
    if (line === "") {
      if (this.#data.length > 0) found.push({ event: this.#event || "message", data: this.#data.join("\n"), id: this.#id });
      this.#event = "";
      this.#data = [];
      this.#id = undefined;
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && value !== "") this.#id = value;
    else if (field === "retry" && /^[0-9]+$/.test(value)) this.retry = Number(value);
  }
}
