/**
 * Functions in development. The local runtime stops no endless loop, so each function runs in a process of its own, which
 * ../functions-runtime.ts starts and ends. Production's code handles its answers.
 */
import type { FunctionCall } from "../../src/core/transform/code.ts";
import { type FunctionLoader, FunctionRunner, isolateNameOf } from "../../src/gate/functions-object.ts";

/** Wrapped environments. An environment always gets the same one, by which the Worker recognizes an isolate. */
const envs = new WeakMap<object, object>();

/** The environment with both bindings of functions, where there is a runtime for them. */
export function withFunctions<E extends object>(env: E): E {
  const { FUNCTIONS_RUNTIME: url } = env as { FUNCTIONS_RUNTIME?: string };
  if (url === undefined) return env;
  const known = envs.get(env) ?? { ...env, FUNCTIONS: objectsAt(url), LOADER: loaderAt(url) };
  envs.set(env, known);
  return known as E;
}

/**
 * Replaces the Durable Objects, which development does not need. The runtime is started first, so that its start takes
 * none of the function's time.
 */
function objectsAt(url: string) {
  const run = async (call: FunctionCall) => {
    await callRuntime(url, { name: await isolateNameOf(call) });
    return new FunctionRunner(loaderAt(url)).run(call);
  };
  return { idFromName: (name: string) => name, get: () => ({ run }) };
}

function loaderAt(url: string): FunctionLoader {
  const get: FunctionLoader["get"] = (name, make) => ({
    getEntrypoint: () => ({
      fetch: async (_url, { body, signal }) =>
        callRuntime(url, { name, worker: make(), event: body }, signal),
    }),
  });
  return { get, endsLoops: true };
}

async function callRuntime(url: string, call: object, signal?: AbortSignal | null): Promise<Response> {
  const body = JSON.stringify(call);
  const answer = await fetch(url, { method: "POST", body, ...(signal && { signal }) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}
