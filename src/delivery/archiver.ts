/**
 * Stores the exchanges of an invocation in R2 (core/archive.ts), if the binding `BODIES` exists, without delaying
 * deliveries.
 *
 * - An attempt passes its exchange on and continues. The unread rest of the answer is read at the same time.
 * - Nothing is written before the batch has been recorded and its messages are settled. Then some connections are not
 *   needed for attempts any more, and only those are used (`Connections`); one whose write hangs stays occupied.
 * - An invocation holds a bounded amount, and writes for a bounded time. Exchanges that do not fit, fail or come too
 *   late are not stored: one log line counts them, and D1 has the beginning of the answers.
 */
import {
  type ArchivedExchange,
  type AttemptKey,
  archiveNameOf,
  type Encoded,
  MOST_BODY_BYTES,
} from "../core/archive.ts";
import { joined } from "../core/bundle.ts";
import { bodyFormOf } from "../core/content.ts";
import { templateOf } from "../core/message-templates.ts";
import { transformedUrl } from "../core/transform/url.ts";
import { eventId } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { ArchivableResult, Services } from "../services.ts";
import type { LoadedDelivery } from "../store/deliveries.ts";
import { within } from "../time.ts";
import { MASK, withoutValues } from "./authorization.ts";
import type { Connections } from "./connections.ts";
import { readable, textOf, transformedRequest } from "./http.ts";
import { SHORT_ANSWER } from "./outcome.ts";
import { shownHeaders } from "./shown-request.ts";

/** The most that an invocation holds, answers that are being read counted as if they were the largest. */
const MOST_HELD_BYTES = 4_194_304;
/** Bytes of an exchange without the answer's body, approximately. */
const ABOUT_BYTES = 2_048;
/** Once the batch is done, the rest of an answer is awaited for at most this long. */
const READ_MS = 2_000;
/** Writes take at most this long: the platform ends work behind a queue's handler after 30 seconds. */
const WRITE_MS = 15_000;
/** Characters of an answer's headers that are stored. */
const MOST_HEADERS = 16_384;

/** The name under which the archive holds connections, beside destinations' names. */
const HOLDER = "archive";

type Kept = Readonly<{
  key: AttemptKey;
  exchange: Omit<ArchivedExchange, "response">;
  answer?: Readonly<{ status: number; headers: Record<string, string>; reading: Reading }> | undefined;
  secrets: readonly string[];
}>;

/** The archiver of one invocation. */
class Archiver {
  readonly #services: Services;
  readonly #bucket: R2Bucket;
  readonly #connections: Connections;
  #room = MOST_HELD_BYTES;
  #kept: Kept[] = [];
  #mayWrite = false;
  /** How many exchanges were not stored, and why the first of them was not. */
  #lost: { attempts: number; error: string } | undefined;

  constructor(services: Services, bucket: R2Bucket, connections: Connections) {
    this.#services = services;
    this.#bucket = bucket;
    this.#connections = connections;
  }

  /** Takes an exchange if it is to be stored. False: it is not, and the caller still owns the rest of the answer. */
  take(delivery: LoadedDelivery, contentType: string, arrived: ArchivableResult): boolean {
    if (!this.#isWanted(arrived)) return false;
    if (this.#room < MOST_BODY_BYTES + ABOUT_BYTES) {
      this.#lose(1, "too much at once");
      return false;
    }
    this.#kept.push(this.#keptOf(delivery, contentType, arrived));
    if (this.#mayWrite) this.#writeAll();
    return true;
  }

  /** Called when the batch is done. Writes the collected exchanges in the background, and each later one as it arrives. */
  release(): void {
    this.#mayWrite = true;
    this.#writeAll();
  }

  #isWanted({ answer }: ArchivableResult): boolean {
    if (this.#services.config.bodiesOf === "all") return true;
    return answer !== undefined && !answer.response.ok && (answer.excerpt?.length ?? 0) > SHORT_ANSWER;
  }

  #keptOf(
    { event, destination, row, transformed }: LoadedDelivery,
    contentType: string,
    { startedAt, answer, secrets }: ArchivableResult,
  ): Kept {
    const { type } = event;
    const made = transformed?.kind === "request" ? transformed : undefined;
    const headers = made ? transformedRequest(made, event.headers).headers : event.headers;
    const url = transformedUrl(destination.url, made);
    const attempt = (row?.attempts ?? 0) + 1;
    const about = { id: eventId(event.id), type, headers, contentType, attempt, at: startedAt };
    const form = {
      body: bodyFormOf(destination.body),
      template: templateOf(destination.template) ?? null,
      ...(made && { transformed: true }),
    };
    this.#room -= MOST_BODY_BYTES + ABOUT_BYTES;
    const giveBack = (read: number) => {
      this.#room += MOST_BODY_BYTES - read;
    };
    if (answer === undefined) giveBack(0);
    return {
      key: { event: event.id, destination: destination.id, at: startedAt },
      exchange: {
        version: 1,
        tenant: destination.tenant,
        destination: destination.id,
        at: startedAt,
        request: { url, headers: shownHeaders(about, destination), form },
      },
      answer: answer && {
        status: answer.response.status,
        headers: headersOf(answer.response.headers, secrets()),
        reading: new Reading(answer.chunks, answer.rest, giveBack),
      },
      secrets: secrets(),
    };
  }

  #writeAll(): void {
    const kept = this.#kept.splice(0);
    if (kept.length > 0) this.#services.background(this.#write(kept));
  }

  /** Never rejects: a background task that does would make the platform repeat the batch. */
  async #write(kept: readonly Kept[]): Promise<void> {
    const until = this.#services.now() + WRITE_MS;
    let left = kept.length;
    const writes = kept.map(async (one) => {
      try {
        await this.#writeOne(one, until);
      } catch (error) {
        this.#lose(1, faultOf(error));
      } finally {
        left -= 1;
      }
    });
    await within(this.#services, WRITE_MS, Promise.all(writes), "R2 did not answer in time").catch((error) =>
      this.#lose(left, faultOf(error)),
    );
    const lost = this.#lost;
    this.#lost = undefined;
    if (lost) this.#services.log({ what: "exchanges_not_kept", ...lost });
  }

  async #writeOne({ key, exchange, answer, secrets }: Kept, until: number): Promise<void> {
    const bytes = (await answer?.reading.end(this.#services)) ?? new Uint8Array();
    try {
      await this.#connections.run(HOLDER, async () => {
        if (this.#services.now() >= until) throw new Error("no connection was free in time");
        const response = answer && responseOf(answer, bytes, secrets);
        await storeExchange(this.#bucket, key, { ...exchange, ...(response && { response }) });
      });
    } finally {
      this.#room += ABOUT_BYTES + bytes.byteLength;
    }
  }

  #lose(attempts: number, error: string): void {
    this.#lost = { attempts: (this.#lost?.attempts ?? 0) + attempts, error: this.#lost?.error ?? error };
  }
}

function responseOf(
  { status, headers, reading: { isCut } }: NonNullable<Kept["answer"]>,
  bytes: Uint8Array,
  secrets: readonly string[],
): ArchivedExchange["response"] {
  return { status, headers, ...encoded(bytes, isCut, secrets), cut: isCut };
}

type Reader = NonNullable<NonNullable<ArchivableResult["answer"]>["rest"]>;

/** Reads an answer's body to its end, or as much as is stored of it. */
class Reading {
  readonly #chunks: Uint8Array[] = [];
  readonly #rest: Reader | undefined;
  readonly #done: Promise<void>;
  #bytes = 0;
  /** Whether there was more, or may have been. */
  isCut = false;

  /** @param ended called with the bytes that were read, when there are no more */
  constructor(chunks: readonly Uint8Array[], rest: Reader | undefined, ended: (bytes: number) => void) {
    this.#rest = rest;
    for (const chunk of chunks) this.#add(chunk);
    this.#done = this.#read().finally(() => ended(this.#bytes));
  }

  /** The part of the body that has been read, at the latest after `READ_MS`. */
  async end(services: Services): Promise<Uint8Array> {
    await within(services, READ_MS, this.#done).catch(() => this.#stop());
    return joined(this.#chunks);
  }

  #add(chunk: Uint8Array): void {
    const taken = chunk.subarray(0, MOST_BODY_BYTES - this.#bytes);
    if (taken.byteLength < chunk.byteLength) this.isCut = true;
    // A copy: a view would keep all of a larger chunk in memory.
    this.#chunks.push(taken.slice());
    this.#bytes += taken.byteLength;
  }

  async #read(): Promise<void> {
    try {
      while (this.#rest && !this.isCut) {
        const { value, done } = await this.#rest.read();
        if (done) return;
        this.#add(value);
      }
      await this.#rest?.cancel();
    } catch {
      // The body broke off. The part that has arrived is stored.
      this.isCut = true;
    }
  }

  #stop(): void {
    this.isCut = true;
    this.#rest?.cancel().catch(() => {});
  }
}

/** Headers of an answer, without what was sent to the receiver, and without the cookies of its own sessions. */
function headersOf(headers: Headers, secrets: readonly string[]): Record<string, string> {
  let left = MOST_HEADERS;
  const kept = [...headers].flatMap(([name, value]) => {
    left -= name.length + value.length;
    if (left < 0) return [];
    return [[name, name === "set-cookie" ? MASK : withoutValues(value, secrets)] as const];
  });
  return Object.fromEntries(kept);
}

/** Secrets are masked in bytes that are not text, too. */
function encoded(bytes: Uint8Array, isCut: boolean, secrets: readonly string[]): Encoded {
  const text = textIn(bytes, isCut);
  if (text !== undefined) return { encoding: "utf-8", body: withoutValues(text, secrets) };
  const masked = withoutValues(
    characters(bytes),
    secrets.map((secret) => characters(new TextEncoder().encode(secret))),
  );
  return { encoding: "base64", body: btoa(masked) };
}

/** A character for each byte. */
function characters(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

/** The bytes as text, without a character that is cut at the end; undefined if they are not text. */
function textIn(bytes: Uint8Array, isCut: boolean): string | undefined {
  for (let cut = 0; cut <= (isCut ? 3 : 0); cut++) {
    const text = textOf(bytes.subarray(0, bytes.byteLength - cut));
    if (text !== undefined) return readable(text);
  }
  return undefined;
}

/** The services of an invocation that stores exchanges in the bucket, and the function to call when its batch is done. */
export function archiving(
  services: Services,
  bodies: R2Bucket,
  connections: Connections,
): Readonly<{ services: Services; release: () => void }> {
  const archiver = new Archiver(services, bodies, connections);
  return {
    services: { ...services, archiveExchange: (...exchange) => archiver.take(...exchange) },
    release: () => archiver.release(),
  };
}

/**
 * Stores an exchange, unless the name is taken: removing an attempt's content before it is stored takes its name
 * (`emptyExchange`). The call has no timeout; the caller decides how long to wait.
 */
export async function storeExchange(bucket: R2Bucket, key: AttemptKey, exchange: ArchivedExchange) {
  await bucket.put(archiveNameOf(key), JSON.stringify(exchange), {
    onlyIf: { etagDoesNotMatch: "*" },
    httpMetadata: { contentType: "application/json" },
  });
}
