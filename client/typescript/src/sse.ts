/** One message of a stream of server-sent events. */
export interface ServerSentEvent {
  /** Its kind; `message` if the server did not say. */
  event: string;
  data: string;
  /** Where to go on behind it; undefined if it has no id of its own. */
  id: string | undefined;
}

/**
 * Reads server-sent events out of pieces of text, wherever these are cut.
 * A message counts only when the empty line behind it has come: what a broken connection left half-way is not one.
 */
export class ServerSentEvents {
  /** What the server says about how long to wait before connecting again, in milliseconds. */
  retry: number | undefined;
  #rest = "";
  #event = "";
  #data: string[] = [];
  #id: string | undefined;

  /** Takes the next piece and returns the messages that it ends. */
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
