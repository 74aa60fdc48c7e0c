import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** Stands between the client and a node, so that the connection can be cut as a network would: without a word. */
export class Relay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #target: URL | undefined;

  private constructor() {
    this.#server = createServer((from) => this.#join(from));
  }

  static async start(target: string): Promise<Relay> {
    const relay = new Relay();
    relay.#target = new URL(target);
    await new Promise<void>((resolve) => relay.#server.listen(0, "127.0.0.1", resolve));
    return relay;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Cuts all connections, and every new one until `mend`. */
  cut(): void {
    this.#target = undefined;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Lets connections through again, to another node if you like. */
  mend(target: string): void {
    this.#target = new URL(target);
  }

  stop(): void {
    this.cut();
    this.#server.close();
  }

  #join(from: Socket): void {
    if (!this.#target) {
      from.destroy();
      return;
    }
    const to = connect(Number(this.#target.port || 80), this.#target.hostname);
    for (const [socket, other] of [[from, to], [to, from]] as const) {
      this.#sockets.add(socket);
      socket.pipe(other);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
  }
}
