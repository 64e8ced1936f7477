/** Fake receivers: a `fetch` that answers as scripted by URL, 204 without a script, and records its requests. */

import { textOf } from "./utf8.ts";

/** One request. */
export type Call = Readonly<{
  url: string;
  init: RequestInit;
  headers: Headers;
  body: string;
  /** Aborted when the attempt times out. */
  signal: AbortSignal;
}>;

/** A status, an error to throw, or a function that makes a response. */
export type Script = number | Error | ((call: Call) => Response | Promise<Response>);

export type Receivers = Readonly<{
  fetch: typeof fetch;
  /** All calls so far, in order. */
  calls: readonly Call[];
  /** The calls to one URL so far. */
  to: (url: string) => readonly Call[];
  /** Sets the scripts that answer calls from now on, one after the other; the last one is repeated. */
  script: (url: string, ...scripts: Script[]) => void;
  /** Resolves once there have been this many calls in all. */
  called: (times: number) => Promise<void>;
  /** Sets a pause before every answer. */
  pausing: (pause: () => Promise<void>) => void;
  /** Calls without an answer: now, and the maximum so far, of one URL if given. */
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
    const call = { url, init, headers: new Headers(init.headers), body: textOf(init.body), signal };
    calls.push(call);
    mostOpen = Math.max(mostOpen, ++open);
    count(url, 1);
    for (const { times, seen } of watchers) if (calls.length >= times) seen();
    const script = next(url);
    try {
      // Without a pause there is not even a turn of the event loop: tests read the clock when the call arrives.
      if (pause) await pause();
      return await answerOf(script, call);
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

async function answerOf(script: Script, call: Call): Promise<Response> {
  if (typeof script === "number") return new Response(null, { status: script });
  if (script instanceof Error) throw script;
  return script(call);
}

/** A script that answers when `end` is called, or fails when the attempt times out. */
export function silence(): Readonly<{ script: Script; end: (status: number) => void }> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const script = ({ signal }: Call) =>
    new Promise<Response>((answer, fail) => {
      signal.addEventListener("abort", () => fail(signal.reason));
      void promise.then((status) => answer(new Response(null, { status })));
    });
  return { script, end: resolve };
}
