/**
 * Wrappers that enforce production's quotas on a Worker's bindings: `strictServices` for tests, which have one set of
 * services for each invocation, and `strictEnv` for the development server, where all invocations share one
 * environment. They wrap real and fake bindings alike, and change nothing within the quotas.
 */
import type { Services } from "../../src/services.ts";
import type { Invocation } from "./invocation.ts";
import { bytesNear, heapBytes, MESSAGE_METADATA_BYTES, productionErrors, utf8Bytes } from "./quotas.ts";

/** The invocation that makes the call. */
type Current = () => Invocation;

/** Makes the call `work`, once, with the latency of its kind. */
export type Latency = <T>(kind: "d1" | "gate" | "queue" | "r2", work: () => Promise<T>) => Promise<T>;

const noLatency: Latency = (_kind, work) => work();

/** The services of one invocation under its quotas. */
export function strictServices(services: Services, invocation: Invocation): Services {
  const current = () => invocation;
  return {
    ...services,
    db: strictD1(services.db, current),
    ...(services.further && { further: services.further.map((db) => strictD1(db, current)) }),
    deliveries: strictQueue(services.deliveries, current),
    drains: strictQueue(services.drains, current),
    upkeep: strictQueue(services.upkeep, current),
    gates: strictGates(services.gates, current),
    groups: strictGates(services.groups, current),
    ...(services.intake && { intake: strictGates(services.intake, current) }),
    ...(services.bodies && { bodies: strictBucket(services.bodies, current) }),
    fetch: strictFetch(services.fetch, current),
    sleep: (ms, signal) => invocation.timer(() => services.sleep(ms, signal)),
    log: (line) => {
      const text = JSON.stringify(line);
      const allowed = invocation.line(text);
      if (allowed === text) services.log(line);
      else if (allowed !== undefined) services.log({ what: "log_limit_exceeded" });
    },
    background: (work) => services.background(invocation.untilCutOff(work)),
  };
}

/** Wraps the bindings of an environment; variables stay as they are. */
export function strictEnv<E extends object>(env: E, current: Current, latency: Latency = noLatency): E {
  const bindings = Object.entries(env).map(([name, binding]) => [name, strict(binding, current, latency)]);
  return Object.fromEntries(bindings) as E;
}

function strict(binding: unknown, current: Current, latency: Latency): unknown {
  if (typeof binding !== "object" || binding === null) return binding;
  if ("prepare" in binding && "batch" in binding) return strictD1(binding as D1Database, current, latency);
  if ("sendBatch" in binding) return strictQueue(binding as Queue, current, latency);
  if ("idFromName" in binding) return strictGates(binding as DurableObjectNamespace, current, latency);
  if ("createMultipartUpload" in binding) return strictBucket(binding as R2Bucket, current, latency);
  return binding;
}

type Statement = Readonly<{ real: D1PreparedStatement; sql: string; values: readonly unknown[] }>;

export function strictD1(real: D1Database, current: Current, latency: Latency = noLatency): D1Database {
  const known = new WeakMap<D1PreparedStatement, Statement>();

  async function run<T>(statements: readonly Statement[], work: () => Promise<T>): Promise<T> {
    const invocation = current();
    const where = beginning(statements);
    return invocation.call(where, async () => {
      invocation.countQueries(statements.length, where);
      for (const statement of statements) checkStatement(statement, invocation);
      const bound = statements.flatMap(({ values }) => values).reduce((sum: number, v) => sum + sizeOf(v), 0);
      const answer = await invocation.holding(bound, where, () => latency("d1", work));
      checkAnswer(answer, invocation, where);
      return answer;
    });
  }

  function wrap(statement: Statement): D1PreparedStatement {
    const alone = [statement];
    const inner = statement.real;
    const wrapped = {
      bind: (...values: unknown[]) => wrap({ ...statement, real: inner.bind(...values), values }),
      all: () => run(alone, () => inner.all()),
      run: () => run(alone, () => inner.run()),
      first: (column?: string) =>
        run(alone, () => (column === undefined ? inner.first() : inner.first(column))),
      raw: (options?: { columnNames?: false }) => run(alone, () => inner.raw(options)),
    } as unknown as D1PreparedStatement;
    known.set(wrapped, statement);
    return wrapped;
  }

  return {
    prepare: (sql: string) => wrap({ real: real.prepare(sql), sql, values: [] }),
    batch: (statements: D1PreparedStatement[]) => {
      const inner = statements.map((one) => known.get(one) ?? { real: one, sql: "", values: [] });
      return run(inner, () => real.batch(inner.map((statement) => statement.real)));
    },
  } as unknown as D1Database;
}

function checkStatement({ sql, values }: Statement, invocation: Invocation): void {
  const { d1Parameters, d1StatementBytes } = invocation.quotas;
  const where = firstWords(sql);
  invocation.limit("d1StatementBytes", bytesNear(sql, d1StatementBytes), where);
  if (values.length > d1Parameters) {
    invocation.breach("d1Parameters", values.length, where);
    throw productionErrors.d1Parameters(offsetOfParameter(sql, d1Parameters + 1));
  }
  for (const value of values) checkValue(value, invocation, where);
}

function checkValue(value: unknown, invocation: Invocation, where: string): void {
  const { d1ValueBytes } = invocation.quotas;
  const bytes = typeof value === "string" ? bytesNear(value, d1ValueBytes) : sizeOf(value);
  invocation.limit("d1ValueBytes", bytes, where);
}

/** The position of the nth parameter in a statement. */
function offsetOfParameter(sql: string, nth: number): number {
  const marks = [...sql.matchAll(/\?(\d*)/g)];
  const numbered = marks.find(([, number]) => number === String(nth));
  return (numbered ?? marks[nth - 1])?.index ?? 0;
}

/** A result has many forms: rows in `results`, rows as arrays, one row, one value, or several results. */
function checkAnswer(answer: unknown, invocation: Invocation, where: string): void {
  let bytes = 0;
  const visit = (part: unknown): void => {
    if (Array.isArray(part)) for (const one of part) visit(one);
    else if (part instanceof ArrayBuffer || typeof part !== "object" || part === null) {
      bytes += sizeOf(part);
      checkValue(part, invocation, where);
    } else if ("results" in part && "meta" in part) visit(part.results);
    else for (const value of Object.values(part)) visit(value);
  };
  visit(answer);
  invocation.hasRead(bytes, where);
}

function sizeOf(value: unknown): number {
  if (typeof value === "string") return heapBytes(value);
  return (value as ArrayBuffer | null | undefined)?.byteLength ?? 8;
}

const wordsOf = new Map<string, string>();

/** The beginning of a statement, by which it is recognized. */
function firstWords(sql: string): string {
  const words = wordsOf.get(sql) ?? sql.trimStart().slice(0, 300).replace(/\s+/g, " ").slice(0, 80);
  wordsOf.set(sql, words);
  return words;
}

function beginning(statements: readonly Statement[]): string {
  const [first] = statements;
  return `${statements.length > 1 ? `a batch of ${statements.length}: ` : ""}${firstWords(first?.sql ?? "")}`;
}

export function strictQueue<T>(real: Queue<T>, current: Current, latency: Latency = noLatency): Queue<T> {
  function post<R>(where: string, messages: readonly MessageSendRequest<T>[], work: () => Promise<R>) {
    const invocation = current();
    return invocation.call(where, () => {
      const bytes = checkMessages(messages, invocation, where);
      return invocation.holding(bytes, where, () => invocation.connect(where, () => latency("queue", work)));
    });
  }

  return {
    send: async (body: T, options?: QueueSendOptions) => {
      const delay = options?.delaySeconds;
      const message = { body, ...(delay !== undefined && { delaySeconds: delay }) };
      return post("send", [message], () => real.send(body, options));
    },
    sendBatch: async (messages: Iterable<MessageSendRequest<T>>, options?: QueueSendBatchOptions) => {
      const all = [...messages];
      const invocation = current();
      if (options?.delaySeconds !== undefined) checkDelay(options.delaySeconds, invocation, "sendBatch");
      if (all.length === 0) throw productionErrors.queueBatchEmpty();
      return post("sendBatch", all, () => real.sendBatch(all, options));
    },
    metrics: () => current().call("metrics", () => latency("queue", () => real.metrics())),
  } as unknown as Queue<T>;
}

/** Checks the messages, and returns the sum of their bytes. */
function checkMessages(
  messages: readonly MessageSendRequest<unknown>[],
  invocation: Invocation,
  where: string,
): number {
  invocation.limit("queueBatchMessages", messages.length, where);
  let total = 0;
  for (const { body, delaySeconds } of messages) {
    if (delaySeconds !== undefined) checkDelay(delaySeconds, invocation, where);
    const bytes = utf8Bytes(JSON.stringify(body) ?? "") + MESSAGE_METADATA_BYTES;
    invocation.limit("queueMessageBytes", bytes, where);
    total += bytes;
  }
  invocation.limit("queueBatchBytes", total, where);
  return total;
}

function checkDelay(delay: number, invocation: Invocation, where: string): void {
  const { queueDelaySeconds } = invocation.quotas;
  if (Number.isInteger(delay) && delay >= 0 && delay <= queueDelaySeconds) return;
  invocation.breach("queueDelaySeconds", delay, where);
  throw productionErrors.queueDelaySeconds(delay, queueDelaySeconds);
}

/** A batch whose messages can be retried only with delays that the platform accepts. */
export function strictBatch<T>(batch: MessageBatch<T>, invocation: Invocation): MessageBatch<T> {
  const checked = (options: QueueRetryOptions | undefined, retry: () => void) => {
    if (options?.delaySeconds !== undefined) checkDelay(options.delaySeconds, invocation, "retry");
    retry();
  };
  const messages = batch.messages.map((message) => ({
    id: message.id,
    body: message.body,
    timestamp: message.timestamp,
    attempts: message.attempts,
    ack: () => message.ack(),
    retry: (options?: QueueRetryOptions) => checked(options, () => message.retry(options)),
  }));
  return {
    queue: batch.queue,
    metadata: batch.metadata,
    messages,
    ackAll: () => batch.ackAll(),
    retryAll: (options?: QueueRetryOptions) => checked(options, () => batch.retryAll(options)),
  } as MessageBatch<T>;
}

export function strictGates<N extends DurableObjectNamespace<never> | DurableObjectNamespace>(
  real: N,
  current: Current,
  latency: Latency = noLatency,
): N {
  const wrap = (stub: object) =>
    new Proxy(stub as Record<string, unknown>, {
      get: (target, method) => {
        const member = target[method as string];
        if (typeof member !== "function" || method === "then") return member;
        return (...args: unknown[]) => {
          const work = async () => (target[method as string] as typeof member)(...args);
          return current().call(String(method), () => latency("gate", work));
        };
      },
    });
  return new Proxy(real, {
    get: (target, name) => {
      const member = (target as unknown as Record<string | symbol, unknown>)[name];
      if (typeof member !== "function") return member;
      const bound = member.bind(target) as (...args: unknown[]) => object;
      return name === "get" || name === "getByName" ? (...args: unknown[]) => wrap(bound(...args)) : bound;
    },
  });
}

/** Each call is a subrequest, and holds a connection. */
function strictBucket(real: R2Bucket, current: Current, latency: Latency = noLatency): R2Bucket {
  const wrapped =
    <A extends unknown[], R>(where: string, method: (...args: A) => Promise<R>) =>
    (...args: A): Promise<R> => {
      const invocation = current();
      const work = () => invocation.connect(where, () => latency("r2", () => method.apply(real, args)));
      return invocation.call(where, work);
    };
  return {
    put: wrapped("R2 put", real.put),
    get: wrapped("R2 get", real.get),
    list: wrapped("R2 list", real.list),
    delete: wrapped("R2 delete", real.delete),
  } as unknown as R2Bucket;
}

export function strictFetch(real: typeof fetch, current: Current): typeof fetch {
  const strict = (input: RequestInfo | URL, init?: RequestInit) => {
    const invocation = current();
    const request = input instanceof Request ? input : undefined;
    const where = `fetch ${hostOf(request?.url ?? String(input))}`;
    const body = init?.body;
    const bytes = body instanceof Uint8Array ? body.byteLength : 0;
    return invocation.call(where, () =>
      invocation.holding(bytes, where, () =>
        invocation.connect(where, () => real(input as RequestInfo, init), init?.signal ?? request?.signal),
      ),
    );
  };
  return strict as typeof fetch;
}

/** Returns the host only: paths and queries of customers' URLs can be secrets. */
function hostOf(url: string): string {
  return URL.parse(url)?.host ?? "";
}

type Kind = Parameters<Latency>[0];

/** The shortest and longest round trip. The local D1, gates and queues answer in well under a millisecond. */
const LATENCY_MS: Readonly<Record<Kind, readonly [number, number]>> = {
  d1: [5, 80],
  gate: [5, 60],
  queue: [5, 60],
  r2: [20, 200],
};

/** Some calls take a second. */
const SLOW_SHARE = 1 / 200;
const SLOW_MS = 1_000;

/**
 * Gives each call a random latency, one part before it and the rest after it. A process that is killed in between may
 * have done its work without the caller knowing.
 * @param random uniform in [0, 1)
 */
export function randomLatency(random: () => number, wait: (ms: number) => Promise<unknown>): Latency {
  return async (kind, work) => {
    const [least, most] = LATENCY_MS[kind];
    const ms = random() < SLOW_SHARE ? SLOW_MS : least + random() * (most - least);
    const thereMs = ms * random();
    await wait(thereMs);
    try {
      return await work();
    } finally {
      await wait(ms - thereMs);
    }
  };
}
