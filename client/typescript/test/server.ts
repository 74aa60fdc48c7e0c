import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Stagedoor, type ClientOptions } from "../src/index.js";

/** A request as the server got it. */
export interface Got {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: string;
}

export type Handler = (got: Got, response: ServerResponse, count: number) => void | Promise<void>;

/** A server for one test: it notes every request and answers as the test says. */
export class Server {
  readonly got: Got[] = [];
  readonly #server;

  private constructor(handler: Handler) {
    this.#server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on("data", (piece: Buffer) => pieces.push(piece));
      request.on("end", () => {
        const url = new URL(request.url ?? "/", "http://127.0.0.1");
        const got: Got = {
          method: request.method ?? "",
          path: url.pathname,
          query: url.searchParams,
          headers: request.headers,
          body: Buffer.concat(pieces).toString(),
        };
        this.got.push(got);
        void handler(got, response, this.got.length);
      });
    });
  }

  static async start(handler: Handler): Promise<Server> {
    const server = new Server(handler);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  client(options: ClientOptions = {}): Stagedoor {
    return new Stagedoor({ apiKey: "sd_sandbox_test", baseUrl: this.url, ...options });
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Runs a test with a server that answers so. */
export async function withServer(handler: Handler, test: (server: Server) => Promise<void>): Promise<void> {
  const server = await Server.start(handler);
  try {
    await test(server);
  } finally {
    await server.stop();
  }
}

export function answer(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

export function problem(response: ServerResponse, status: number, code: string, more: Record<string, unknown> = {}): void {
  const body = { type: `https://stagedoor.example/problems/${code}`, title: "It did not work", status, code, retryable: false, ...more };
  answer(response, status, body, { "content-type": "application/problem+json", "x-request-id": "req_1" });
}
