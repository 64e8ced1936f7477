/**
 * Functions in development. The local runtime stops no endless loop, so each function runs in a process of its own, which
 * ../functions-runtime.ts starts and ends. Production's code handles its answers.
 */
import type { FunctionCall } from "../../src/core/transform/code.ts";
import { type FunctionLoader, FunctionRunner, isolateNameOf } from "../../src/gate/functions-object.ts";

/** Always the same one for an environment: by it the Worker knows an isolate. */
const envs = new WeakMap<object, object>();

/** The environment with both bindings of functions, where there is a runtime for them. */
export function withFunctions<E extends object>(env: E): E {
  const { FUNCTIONS_RUNTIME: url } = env as { FUNCTIONS_RUNTIME?: string };
  if (url === undefined) return env;
  const known = envs.get(env) ?? { ...env, FUNCTIONS: objectsAt(url), LOADER: loaderAt(url) };
  envs.set(env, known);
  return known as E;
}

/** In place of the objects: development needs none. A runtime that must start first uses up none of a function's time. */
function objectsAt(url: string) {
  const run = async (call: FunctionCall) => {
    await ask(url, { name: await isolateNameOf(call) });
    return new FunctionRunner(loaderAt(url)).run(call);
  };
  return { idFromName: (name: string) => name, get: () => ({ run }) };
}

function loaderAt(url: string): FunctionLoader {
  const get: FunctionLoader["get"] = (name, make) => ({
    getEntrypoint: () => ({
      fetch: async (_url, { body, signal }) => ask(url, { name, worker: make(), event: body }, signal),
    }),
  });
  return { get, endsLoops: true };
}

async function ask(url: string, question: object, signal?: AbortSignal | null): Promise<Response> {
  const body = JSON.stringify(question);
  const answer = await fetch(url, { method: "POST", body, ...(signal && { signal }) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}
