/**
 * Classifies a call stack by the work that it does for an event. Most samples are in native code of the runtime, so the
 * names of native functions decide.
 */

/** Names of functions, the innermost first. */
export type Stack = readonly string[];

/**
 * The first pattern that matches the beginning of any function's name decides. The rest of a name lists the types of
 * its arguments, so it is not searched.
 */
const kinds: readonly (readonly [name: string, marks: RegExp])[] = [
  ["garbage collection", /^v8::internal::(Heap::CollectGarbage|MinorGC|Scavenge|Sweeper|ConcurrentMark)/m],
  ["D1: SQLite at work", /^(workerd::api::SqlStorage|JS:.*database\.worker\.js)/m],
  ["gates: state read and written", /^workerd::api::SyncKvStorage/m],
  ["SQLite: commits to disk", /^(workerd::ActorSqlite|workerd::SqliteDatabase|sqlite3)/m],
  ["gates: the calls", /^workerd::(api::JsRpc|(des|s)erializeV8Value|jsg::(Des|S)erializer)/m],
  ["D1: the calls", /^JS:.*d1-api/m],
  ["queues, simulated", /^(JS:.*broker\.worker\.js|workerd::api::Queue)/m],
  ["Miniflare's front door", /^JS:.*(entry\.worker\.js|miniflare:)/m],
  ["signing", /^workerd::api::(SubtleCrypto|TextEncoder)/m],
  ["timers", /^workerd::(api::Scheduler|api::AbortSignal|IoContext::TimeoutManager)/m],
  [
    "HTTP",
    /^(non-virtual thunk to )?(workerd::api::(fetchImpl|.*fetchImpl|Headers|Request|Response|Body|handleHttp|makeHttp)|kj::.{0,24}Http|tcp_|sock_)/m,
  ],
  ["the Worker's JavaScript", /^JS:/m],
];

const OTHERS = "the runtime: promises, contexts, locks";

/** The share of each kind of work in all stacks, the largest first. */
export function sharesOf(stacks: readonly Stack[]): ReadonlyMap<string, number> {
  const counts = Map.groupBy(stacks, kindOf);
  const shares = [...counts].map(([kind, { length }]) => [kind, length / stacks.length] as const);
  return new Map(shares.toSorted(([, a], [, b]) => b - a));
}

function kindOf(stack: Stack): string {
  const text = stack.join("\n");
  return kinds.find(([, marks]) => marks.test(text))?.[0] ?? OTHERS;
}
