/**
 * One invocation of the Worker and what it has used of its quotas. Whatever it calls goes through here; what
 * goes beyond a quota fails, waits, is dropped or is cut off as in production, and is kept as a breach.
 */
import { LOG_LIMIT_LINE, productionErrors, QUOTAS, type Quota, type Quotas, utf8Bytes } from "./quotas.ts";

/** The first time that an invocation went beyond a quota. */
export type Breach = Readonly<{
  quota: Quota;
  limit: number;
  asked: number;
  /** What was called: a statement's beginning, a method. Never a value. */
  where: string;
}>;

type Options = Readonly<{
  /** Epoch milliseconds; the clock of the Worker. */
  now: () => number;
  /** Told of each breach, once for each quota. */
  onBreach?: (breach: Breach) => void;
  /** Limits that differ from the paid plan's. */
  quotas?: Partial<Quotas>;
}>;

/** What is used, at the most at any time where it can go down again. */
export type Usage = {
  d1Queries: number;
  subrequests: number;
  connections: number;
  timers: number;
  logBytes: number;
  bodyBytes: number;
};

export class Invocation {
  readonly quotas: Quotas;
  readonly breaches: Breach[] = [];
  readonly used: Usage = {
    d1Queries: 0,
    subrequests: 0,
    connections: 0,
    timers: 0,
    logBytes: 0,
    bodyBytes: 0,
  };
  /** Calls that had to wait for a connection, because six others waited for their headers. */
  waitedForConnection = 0;
  /** Log lines that nobody will see. */
  linesDropped = 0;

  readonly #now: () => number;
  readonly #onBreach: (breach: Breach) => void;
  #returnedAt: number | undefined;
  #connections = 0;
  readonly #waiting: (() => void)[] = [];
  #timers = 0;
  #timersFinished = 0;
  #largestRead = 0;
  #inFlight = 0;
  readonly #cut = Promise.withResolvers<void>();

  constructor({ now, onBreach = () => {}, quotas = {} }: Options) {
    this.#now = now;
    this.#onBreach = onBreach;
    this.quotas = { ...QUOTAS, ...quotas };
  }

  /** The handler has returned: what is left to `waitUntil` has its 30 seconds from now on. */
  handlerReturned(): void {
    this.#returnedAt ??= this.#now();
  }

  /**
   * A call to the outside. One that begins or ends too long after the handler never returns, for the platform
   * has cancelled whoever waits for it; what it has done by then is done.
   */
  async call<T>(where: string, work: () => Promise<T>): Promise<T> {
    if (this.#isCutOff(where)) return new Promise(() => {});
    this.used.subrequests += 1;
    if (this.used.subrequests > this.quotas.subrequests) {
      this.breach("subrequests", this.used.subrequests, where);
      throw productionErrors.subrequests();
    }
    return this.#unlessCutOff(where, work);
  }

  /** Counts statements before they are run; throws when there have been too many. */
  countQueries(statements: number, where: string): void {
    this.used.d1Queries += statements;
    if (this.used.d1Queries <= this.quotas.d1Queries) return;
    this.breach("d1Queries", this.used.d1Queries, where);
    throw productionErrors.d1Queries();
  }

  /**
   * Holds one of the six connections until `work` has its headers. Without a free one it waits, which is kept
   * as a breach; a signal that is aborted meanwhile ends the waiting, and nothing has been sent.
   */
  async connect<T>(where: string, work: () => Promise<T>, signal?: AbortSignal | null): Promise<T> {
    if (this.#connections >= this.quotas.connections) {
      this.waitedForConnection += 1;
      this.breach("connections", this.#connections + 1, where);
      await this.#turn(signal);
    } else this.#connections += 1;
    this.used.connections = Math.max(this.used.connections, this.#connections);
    try {
      return await work();
    } finally {
      // Handed on rather than freed: nobody who comes between may take it.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#connections -= 1;
    }
  }

  #turn(signal: AbortSignal | null | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const start = () => {
        signal?.removeEventListener("abort", giveUp);
        resolve();
      };
      const giveUp = () => {
        this.#waiting.splice(this.#waiting.indexOf(start), 1);
        reject(signal?.reason);
      };
      if (signal?.aborted) return reject(signal.reason);
      signal?.addEventListener("abort", giveUp, { once: true });
      this.#waiting.push(start);
    });
  }

  /** A timer, until it has gone off. */
  async timer<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isCutOff("a timer")) return new Promise(() => {});
    if (this.#timers >= this.quotas.timers) {
      this.breach("timers", this.#timers + 1, "a timer");
      throw productionErrors.timers(this.#timers, this.quotas.timers, this.#timersFinished);
    }
    this.#timers += 1;
    this.used.timers = Math.max(this.used.timers, this.#timers);
    try {
      return await this.#unlessCutOff("a timer", work);
    } finally {
      this.#timers -= 1;
      this.#timersFinished += 1;
    }
  }

  /** What is to be written for a log line: itself, once a note that there will be no more, or nothing. */
  line(text: string): string | undefined {
    const dropped = this.linesDropped;
    const bytes = utf8Bytes(text) + 1;
    if (dropped === 0 && this.used.logBytes + bytes <= this.quotas.logBytes) {
      this.used.logBytes += bytes;
      return text;
    }
    this.linesDropped += 1;
    this.breach("logBytes", this.used.logBytes + bytes, "a log line");
    return dropped === 0 ? LOG_LIMIT_LINE : undefined;
  }

  /** So many bytes have been read from D1 in one round trip. */
  hasRead(bytes: number, where: string): void {
    this.#largestRead = Math.max(this.#largestRead, bytes);
    this.#account(where);
  }

  /**
   * So many bytes are on their way to somebody while `work` goes on.
   *
   * The account of bodies is an estimate from below: the largest answer that D1 has given in one round trip,
   * as if it were held to the end, and what is being sent at the moment (values bound to statements, messages,
   * bodies of fetches), each as V8 stores its text. Copies, parsed JSON and what other invocations of the same
   * isolate hold come on top; that is why the limit is a third of the isolate. Going beyond it is kept as a
   * breach and fails nothing: production would end the whole isolate at some later point.
   */
  async holding<T>(bytes: number, where: string, work: () => Promise<T>): Promise<T> {
    this.#inFlight += bytes;
    this.#account(where);
    try {
      return await work();
    } finally {
      this.#inFlight -= bytes;
    }
  }

  #account(where: string): void {
    const held = this.#largestRead + this.#inFlight;
    this.used.bodyBytes = Math.max(this.used.bodyBytes, held);
    if (held > this.quotas.bodyBytes) this.breach("bodyBytes", held, where);
  }

  /** Settles with the work, or resolves when the work was cut off: then it never settles. */
  untilCutOff(work: Promise<unknown>): Promise<unknown> {
    return Promise.race([work, this.#cut.promise]);
  }

  /** Keeps what went beyond a quota, the first time. */
  breach(quota: Quota, asked: number, where: string): void {
    if (this.breaches.some((known) => known.quota === quota)) return;
    const breach = { quota, limit: this.quotas[quota], asked, where };
    this.breaches.push(breach);
    this.#onBreach(breach);
  }

  async #unlessCutOff<T>(where: string, work: () => Promise<T>): Promise<T> {
    try {
      const result = await work();
      if (!this.#isCutOff(where)) return result;
    } catch (error) {
      if (!this.#isCutOff(where)) throw error;
    }
    return new Promise(() => {});
  }

  #isCutOff(where: string): boolean {
    if (this.#returnedAt === undefined) return false;
    const behindMs = this.#now() - this.#returnedAt;
    if (behindMs <= this.quotas.behindHandlerMs) return false;
    this.breach("behindHandlerMs", behindMs, where);
    this.#cut.resolve();
    return true;
  }
}
