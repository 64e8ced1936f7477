/**
 * One invocation of the Worker, and what it has used of its quotas. All its calls go through here. A call that exceeds
 * a quota fails, waits, is dropped or is cut off as in production, and is recorded as a breach.
 */
import {
  LOG_LIMIT_LINE,
  productionErrors,
  QUOTAS,
  type Quota,
  type Quotas,
  quotaErrors,
  utf8Bytes,
} from "./quotas.ts";

/** The first time that an invocation exceeded a quota. */
export type Breach = Readonly<{
  quota: Quota;
  limit: number;
  used: number;
  /** The call: the beginning of a statement, or a method; never a value. */
  where: string;
}>;

type Options = Readonly<{
  /** The Worker's clock, epoch ms. */
  now: () => number;
  onBreach?: (breach: Breach) => void;
  /** Limits that differ from the paid plan's. */
  quotas?: Partial<Quotas>;
}>;

/** The usage so far; for usage that can go down again, the maximum. */
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
  /** The number of calls that waited because six others were waiting for their headers. */
  waitedForConnection = 0;
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
  #isCut = false;
  readonly #cuts = new Set<() => void>();

  constructor({ now, onBreach = () => {}, quotas = {} }: Options) {
    this.#now = now;
    this.#onBreach = onBreach;
    this.quotas = { ...QUOTAS, ...quotas };
  }

  /** The handler has returned; work in `waitUntil` has 30 seconds from now on. */
  handlerReturned(): void {
    this.#returnedAt ??= this.#now();
  }

  /**
   * Makes a subrequest. One that begins or ends too long after the handler never returns, because the platform has
   * cancelled its caller; its effects stay.
   */
  async call<T>(where: string, work: () => Promise<T>): Promise<T> {
    if (this.#isCutOff(where)) return new Promise(() => {});
    this.used.subrequests += 1;
    this.limit("subrequests", this.used.subrequests, where);
    return this.#unlessCutOff(where, work);
  }

  /** Counts statements before they are run; throws when there have been too many. */
  countQueries(statements: number, where: string): void {
    this.used.d1Queries += statements;
    this.limit("d1Queries", this.used.d1Queries, where);
  }

  /**
   * Holds one of the six connections until `work` has its headers. If none is free, it waits, which is recorded as a
   * breach. A signal that is aborted meanwhile ends the wait, and nothing is sent.
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
      // Passed to the next in line, so that a new call cannot take it in between.
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

  /** Returns the line to log: the text, once the notice that the limit is exceeded, or nothing. */
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

  /** Counts the bytes of one round trip to D1. */
  hasRead(bytes: number, where: string): void {
    this.#largestRead = Math.max(this.#largestRead, bytes);
    this.#account(where);
  }

  /**
   * Counts bytes that are being sent while `work` runs.
   *
   * Memory for bodies is estimated from below: the largest result of one round trip to D1, as if it were kept to the
   * end, plus what is being sent (bound values, messages, bodies of fetches), each as V8 stores its text. Copies,
   * parsed JSON and other invocations of the isolate come on top; that is why the limit is a third of the isolate. A
   * breach is recorded but fails nothing: production would end the whole isolate at some later point.
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

  /**
   * Settles as the work does, or resolves when it is cut off. This is not a race with one shared promise: that promise
   * would never settle, and the runtime, which waits for the race, would then never end the invocation.
   */
  untilCutOff(work: Promise<unknown>): Promise<unknown> {
    if (this.#isCut) return Promise.resolve();
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const cut = () => resolve(undefined);
    this.#cuts.add(cut);
    work.then(resolve, reject).finally(() => this.#cuts.delete(cut));
    return promise;
  }

  /** @throws production's error when the quota is exceeded */
  limit(quota: keyof typeof quotaErrors, used: number, where: string): void {
    const limit = this.quotas[quota];
    if (used <= limit) return;
    this.breach(quota, used, where);
    throw quotaErrors[quota](used, limit);
  }

  /** Records the first breach of a quota. */
  breach(quota: Quota, used: number, where: string): void {
    if (this.breaches.some((known) => known.quota === quota)) return;
    const breach = { quota, limit: this.quotas[quota], used, where };
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
    const elapsedMs = this.#now() - this.#returnedAt;
    if (elapsedMs <= this.quotas.waitUntilMs) return false;
    this.breach("waitUntilMs", elapsedMs, where);
    this.#isCut = true;
    for (const cut of this.#cuts) cut();
    return true;
  }
}
