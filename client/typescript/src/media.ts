import type { AccountCalls } from "./calls.js";
import type { Upload, UploadedPart } from "./gen/types.js";
import { Problem, StagedoorError } from "./problem.js";
import { segment, type CallOptions, type Transport } from "./transport.js";

/** A file: bytes, or a Blob, which need not fit in memory (`await fs.openAsBlob(path)` in Node). */
export type FileContent = Blob | Uint8Array | ArrayBuffer | string;

export interface UploadOptions {
  /** The file's name. */
  fileName: string;
  /** Its media type. Default: the Blob's, else application/octet-stream. */
  contentType?: string | undefined;
  /** Its SHA-256 in hexadecimal. The platform checks it. */
  sha256?: string | undefined;
  signal?: AbortSignal | undefined;
  /** How often an interrupted upload is resumed. Default 2. */
  maxRetries?: number | undefined;
}

/** Options of every download. */
export interface RangeOptions extends CallOptions {
  /** The bytes to download, such as `bytes=0-1023`. */
  range?: string | undefined;
  /** The ETag that the range belongs to. If the file has changed, the whole file is returned. */
  ifRange?: string | undefined;
  /** The ETag of your copy. The response is 304 if the file has not changed. */
  ifNoneMatch?: string | undefined;
}

export interface DownloadOptions extends RangeOptions {
  /** One of the platform's qualities, such as thumb, preview, full or source. Default: the platform's default. */
  quality?: string | undefined;
}

/** Downloads a file. */
export function download(transport: Transport, path: string, query: Record<string, string | undefined>, options: RangeOptions): Promise<Response> {
  const headers: Record<string, string> = { accept: "*/*" };
  if (options.range !== undefined) headers.range = options.range;
  if (options.ifRange !== undefined) headers["if-range"] = options.ifRange;
  if (options.ifNoneMatch !== undefined) headers["if-none-match"] = options.ifNoneMatch;
  return transport.open({ method: "GET", path, query, headers }, options);
}

/** Files of an account. They are streamed through; Stagedoor does not store them. */
export class AccountMedia {
  readonly #account: AccountCalls;

  constructor(account: AccountCalls) {
    this.#account = account;
  }

  /**
   * Uploads a file. Use `mediaId` of the result in posts and messages. An interrupted upload is resumed at the first
   * missing part.
   */
  async upload(file: FileContent, options: UploadOptions): Promise<Upload> {
    const contentType = options.contentType ?? (file instanceof Blob && file.type ? file.type : "application/octet-stream");
    const blob = file instanceof Blob ? file : new Blob([file as BlobPart], { type: contentType });
    const query = { fileName: options.fileName, sha256: options.sha256 };
    const call = { signal: options.signal, timeout: 0, maxRetries: 0 };
    try {
      const answer = await this.#account.transport.json<{ result: Upload }>(
        { method: "POST", path: this.#path(), query, body: blob, headers: { "content-type": contentType } },
        call,
      );
      return answer.result;
    } catch (error) {
      return this.#resume(blob, error, options.maxRetries ?? 2, { signal: options.signal });
    }
  }

  /** Resumes an interrupted upload: sends the missing parts, then completes it. */
  async #resume(blob: Blob, broke: unknown, tries: number, options: CallOptions): Promise<Upload> {
    const at = broken(broke);
    if (!at || tries <= 0) throw broke;
    try {
      const upload = await this.#account.call<Upload, CallOptions>("uploads", "get", "read", { uploadId: at.uploadId }, options);
      for (let number = at.nextPart; (number - 1) * upload.partSize < blob.size; number++) {
        const part = blob.slice((number - 1) * upload.partSize, number * upload.partSize);
        await this.uploadPart(at.uploadId, number, part, options);
      }
      return await this.#account.call<Upload, CallOptions>("uploads", "complete", "repeatable", { uploadId: at.uploadId }, options);
    } catch (error) {
      return this.#resume(blob, broken(error) ? error : broke, tries - 1, options);
    }
  }

  /** Sends one part of an upload that `uploads.init` started or that was interrupted. Every part but the last has `partSize` bytes. */
  async uploadPart(uploadId: string, number: number, part: FileContent, options: CallOptions = {}): Promise<UploadedPart> {
    const answer = await this.#account.transport.json<{ part: UploadedPart }>(
      {
        method: "PUT",
        path: `${this.#path()}/uploads/${segment(uploadId)}/parts/${segment(number)}`,
        body: part,
        headers: { "content-type": "application/octet-stream" },
        safe: true, // a part may be sent twice
      },
      { timeout: 0, ...options },
    );
    return answer.part;
  }

  /** Downloads a file of the vault, a post or a message. Read the response's `body`, `blob()` or `arrayBuffer()`. */
  async download(mediaId: string, options: DownloadOptions = {}): Promise<Response> {
    return download(this.#account.transport, `${this.#path()}/${segment(mediaId)}`, { quality: options.quality }, options);
  }

  /** Downloads from a URL in a result, such as an avatar's, through the account's own connection. */
  async fetch(url: string, options: RangeOptions = {}): Promise<Response> {
    return download(this.#account.transport, this.#path(), { url }, options);
  }

  #path(): string {
    if (this.#account.accountId === "") throw new StagedoorError("The account's id is empty.");
    return `/v1/accounts/${segment(this.#account.accountId)}/media`;
  }
}

/** Where an upload was interrupted, if the problem names the place and resuming may help. */
function broken(error: unknown): { uploadId: string; nextPart: number } | undefined {
  if (!(error instanceof Problem) || !error.retryable) return undefined;
  const { uploadId, nextPart } = error.body;
  return typeof uploadId === "string" && typeof nextPart === "number" ? { uploadId, nextPart } : undefined;
}
