/**
 * The receivers of a test: a `fetch` that answers as scripted, by URL, and remembers what it was sent.
 * A receiver without a script answers 204.
 */

/** What one attempt brought. */
export type Call = Readonly<{
  url: string;
  init: RequestInit;
  headers: Headers;
  body: string;
  /** Fires when the attempt gives up. */
  signal: AbortSignal;
}>;

/** A status, an error to throw, or anything else that makes a response of a call. */
export type Script = number | Error | ((call: Call) => Response | Promise<Response>);

export type Receivers = Readonly<{
  fetch: typeof fetch;
  /** All of the calls so far, in the order in which they came. */
  calls: readonly Call[];
  /** The calls so far that one URL got. */
  to: (url: string) => readonly Call[];
  /** From now on, answers one call after the other as scripted; the last script is for all that follow. */
  script: (url: string, ...scripts: Script[]) => void;
  /** Resolves once there have been so many calls in all. */
  called: (times: number) => Promise<void>;
  /** From now on, every answer waits for this first. */
  pausing: (pause: () => Promise<void>) => void;
  /** Calls without an answer: now, and the most at any one time, of one URL where it is named. */
  open: () => number;
  mostOpen: (url?: string) => number;
}>;

export function receivers(): Receivers {
  const calls: Call[] = [];
  const scripts = new Map<string, Script[]>();
  const watchers: { times: number; seen: () => void }[] = [];
  const openTo = new Map<string, Readonly<{ now: number; most: number }>>();
  let pause: (() => Promise<void>) | undefined;
  let open = 0;
  let mostOpen = 0;

  function next(url: string): Script {
    const left = scripts.get(url) ?? [204];
    return (left.length > 1 ? left.shift() : left[0]) ?? 204;
  }

  function count(url: string, change: 1 | -1): void {
    const { now, most } = openTo.get(url) ?? { now: 0, most: 0 };
    openTo.set(url, { now: now + change, most: Math.max(most, now + change) });
  }

  async function answer(input: unknown, init: RequestInit = {}): Promise<Response> {
    const url = String(input);
    const signal = init.signal ?? new AbortController().signal;
    const call = { url, init, headers: new Headers(init.headers), body: String(init.body), signal };
    calls.push(call);
    mostOpen = Math.max(mostOpen, ++open);
    count(url, 1);
    for (const { times, seen } of watchers) if (calls.length >= times) seen();
    const script = next(url);
    try {
      // Without a pause not even a turn: tests that hold the clock read it when the call comes.
      if (pause) await pause();
      return await played(script, call);
    } finally {
      open -= 1;
      count(url, -1);
    }
  }

  return {
    fetch: answer as typeof fetch,
    calls,
    to: (url) => calls.filter((call) => call.url === url),
    script: (url, ...all) => void scripts.set(url, all),
    called: (times) =>
      calls.length >= times ? Promise.resolve() : new Promise((seen) => watchers.push({ times, seen })),
    pausing: (by) => {
      pause = by;
    },
    open: () => open,
    mostOpen: (url) => (url === undefined ? mostOpen : (openTo.get(url)?.most ?? 0)),
  };
}

async function played(script: Script, call: Call): Promise<Response> {
  if (typeof script === "number") return new Response(null, { status: script });
  if (script instanceof Error) throw script;
  return script(call);
}

/** A script that gives no answer until it is told to, or until the attempt gives up. */
export function silence(): Readonly<{ script: Script; end: (status: number) => void }> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const script = ({ signal }: Call) =>
    new Promise<Response>((answer, fail) => {
      signal.addEventListener("abort", () => fail(signal.reason));
      void promise.then((status) => answer(new Response(null, { status })));
    });
  return { script, end: resolve };
}
