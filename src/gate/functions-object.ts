/**
 * A tenant's functions: one Durable Object that runs transformations in code, each in a separate isolate that the
 * runtime makes from a text (a dynamic Worker). Such an isolate has no bindings, no network and no secrets, and its
 * answer is text that is read outside of it (core/transform/code.ts).
 *
 * It is an object because an invocation may have only four dynamic Workers in flight, and an object ten. It stores
 * nothing.
 */
import { DurableObject } from "cloudflare:workers";
import {
  CALL_CPU_MS,
  CALL_MS,
  FUNCTION_MODULE,
  type FunctionCall,
  type FunctionOutcome,
  functionStopped,
  functionUnavailable,
  inOneLine,
  MOST_ANSWER,
  outcomeIn,
  thrownOutcome,
} from "../core/transform/code.ts";
import { transientOf } from "../core/transient.ts";
import { faultOf } from "../log.ts";
import { sleepByTimer, within } from "../time.ts";

/** Calls at once: the platform allows ten dynamic Workers in flight, and an ended call may still be counted. */
const AT_ONCE = 8;
/** Calls at once of one batch, so that a destination's hanging function leaves others of the tenant their turn. */
const OF_A_BATCH = 2;
/** The time within which a batch begins calls: the rest of it comes again with the next drain. */
const BATCH_MS = 2_000;
/** Characters of answers after which a batch begins no further call: a call of an object returns 32 MiB at most. */
const BATCH_CHARACTERS = 8_000_000;
const COMPATIBILITY_DATE = "2026-08-15";
/** The runtime's messages for a module that is not JavaScript. */
const NOT_STARTED = "Failed to start Worker";
const SILENCE = `takes longer than ${CALL_MS} ms`;

/** Runs inside the isolate, beside the code, which may change everything there: its answer is not trusted. */
const HARNESS = `
const Reply = Response;
const { parse, stringify } = JSON;
let loading;
export default {
  async fetch(request) {
    let answer;
    try {
      const { default: make } = await (loading ??= import(${JSON.stringify(`./${FUNCTION_MODULE}`)}));
      if (typeof make !== "function") throw new TypeError("The default export is not a function");
      const event = await request.text();
      answer = stringify({ made: event === "" ? null : await make(parse(event)) });
    } catch (thrown) {
      answer = shown(thrown);
    }
    return new Reply(answer);
  },
};
function shown(thrown) {
  try {
    const message = String(thrown?.message ?? thrown).slice(0, 1000);
    return stringify({ thrown: { message, stack: String(thrown?.stack).slice(0, 4000) } });
  } catch {
    return '{"thrown":{}}';
  }
}`;

/** A `WorkerLoader`, or its replacement in development. */
export type FunctionLoader = Readonly<{
  get: (
    name: string,
    make: () => WorkerLoaderWorkerCode,
  ) => Readonly<{
    getEntrypoint: () => Readonly<{ fetch: (url: string, init: RequestInit) => Promise<Response> }>;
  }>;
  /** Whether it ends endless loops even if the runtime does not. */
  endsLoops?: boolean;
}>;

export async function isolateNameOf({ tenant, code }: FunctionCall): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(code));
  return `${tenant} ${new Uint8Array(digest).toHex()} ${CALL_CPU_MS}`;
}

export class TenantFunctions extends DurableObject<Env> {
  readonly #runner = new FunctionRunner((this.env as { LOADER?: FunctionLoader }).LOADER);

  /** Runs the code for each of the events. The answers are in their order. */
  run(call: FunctionCall): Promise<FunctionOutcome[]> {
    return this.#runner.run(call);
  }
}

/** Runs functions, a limited number at once. */
export class FunctionRunner {
  #free = AT_ONCE;
  readonly #waiting: (() => void)[] = [];
  readonly #loader: FunctionLoader | undefined;

  constructor(loader: FunctionLoader | undefined) {
    this.#loader = loader;
  }

  /** See `TenantFunctions`. */
  async run(call: FunctionCall): Promise<FunctionOutcome[]> {
    const { code, events } = call;
    const loader = this.#loader;
    const each = events.length === 0 ? [""] : events;
    if (loader === undefined)
      return each.map(() => functionUnavailable("has no [[worker_loaders]] to run in"));
    const name = await isolateNameOf(call);
    const outcomes = each.map(() =>
      functionUnavailable("has not run yet: the rest of its batch used the time"),
    );
    let characters = 0;
    const endsAt = Date.now() + BATCH_MS;
    const left = [...each.entries()].values();
    const lane = async () => {
      for (const [i, event] of left) {
        await this.#turn();
        try {
          if (Date.now() > endsAt || characters > BATCH_CHARACTERS) return;
          const outcome = await outcomeOf(loader, name, code, event);
          outcomes[i] = outcome;
          if (outcome.kind === "made") characters += outcome.made?.body?.length ?? 0;
        } finally {
          this.#pass();
        }
      }
    };
    await Promise.all(Array.from({ length: OF_A_BATCH }, lane));
    return outcomes;
  }

  async #turn(): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #pass(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }
}

async function outcomeOf(
  loader: FunctionLoader,
  name: string,
  code: string,
  event: string,
): Promise<FunctionOutcome> {
  const over = new AbortController();
  try {
    const worker = loader.get(name, () => ({
      compatibilityDate: COMPATIBILITY_DATE,
      mainModule: "harness.js",
      modules: { "harness.js": HARNESS, [FUNCTION_MODULE]: code },
      env: {},
      globalOutbound: null,
      limits: { cpuMs: CALL_CPU_MS, subRequests: 0 },
    }));
    const request = { method: "POST", body: event, signal: over.signal };
    const answered = worker.getEntrypoint().fetch("https://function.invalid/", request).then(textOf);
    const text = await within({ sleep: sleepByTimer }, CALL_MS, answered, SILENCE);
    return text === undefined ? functionStopped("returned too much") : outcomeIn(text);
  } catch (error) {
    const fault = faultOf(error);
    if (fault.endsWith(SILENCE)) return functionStopped(SILENCE);
    if (fault.includes(NOT_STARTED)) return thrownOutcome({ message: fault, stack: fault });
    // A fault of the platform says nothing about the code.
    const isOurs = !/cpu|memory/i.test(fault) && (transientOf(error) ?? /too many/i.exec(fault));
    return isOurs
      ? functionUnavailable(inOneLine(fault))
      : functionStopped(`was stopped: ${inOneLine(fault)}`);
  } finally {
    over.abort();
  }
}

/** The body as text; undefined if it is longer than any result may be. */
async function textOf({ body }: Response): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MOST_ANSWER) return undefined;
  }
  return text + decoder.decode();
}
