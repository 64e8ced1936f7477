/**
 * Every route that the JavaScript SDK of Svix calls, against a whole deployment: it is there, or it answers 501, names
 * itself, and docs/from-svix.md says that it is missing.
 */
import { globSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startBreakwater } from "../../support/breakwater-runtime.ts";
import type { Runtime } from "../../support/runtime.ts";

const KEY = "test-admin-key-0123456789";
const ROOT = new URL("../../..", import.meta.url).pathname;

type Route = readonly [method: string, path: string];

const routes = globSync("node_modules/svix/src/api*/*.ts", { cwd: ROOT })
  .flatMap((file) => [...readFileSync(ROOT + file, "utf8").matchAll(/HttpMethod\.(\w+),\s*"([^"]+)"/g)])
  .map(([, method = "", path = ""]): Route => [method, path])
  .filter(([method, path], i, all) => all.findIndex(([m, p]) => m === method && p === path) === i)
  // Deletions come last, of inner objects first.
  .sort(([a, longer], [b, shorter]) =>
    a === b && a === "DELETE"
      ? shorter.length - longer.length
      : Number(a === "DELETE") - Number(b === "DELETE"),
  );

const [, section = ""] = readFileSync(`${ROOT}docs/from-svix.md`, "utf8").split("\n## What is missing");
const [table = ""] = section.split("\n## ");

/** The patterns in the first column of the table of what is missing. */
const missing = [...table.matchAll(/^\|([^|]+)\|/gm)]
  .flatMap(([, cell = ""]) => [...cell.matchAll(/`([^`]+)`/g)])
  .map(([, pattern = ""]) => {
    const whole = pattern.startsWith("/") ? pattern : `/api/v1/${pattern}`;
    const source = whole.replaceAll("{}", "\\{\\w+\\}").replaceAll("*", ".*");
    return { pattern, matches: new RegExp(`^${source}$`) };
  });

const known: Record<string, string> = {
  app_id: "walk",
  endpoint_id: "hook",
  event_type_name: "order.paid",
};

let runtime: Runtime;
beforeAll(async () => {
  runtime = await startBreakwater({ vars: { ADMIN_KEY: KEY } });
  const hook = { url: "https://receiver.example/", uid: "hook", disabled: true };
  const { id: tenant } = JSON.parse((await call("POST", "/api/v1/app", { name: "Walk", uid: "walk" })).text);
  await call("POST", "/api/v1/app/walk/endpoint", hook);
  await call("POST", "/api/v1/operational-webhook/endpoint", hook);
  await call("POST", "/api/v1/event-type", { name: "order.paid", description: "" });
  const message = { eventType: "order.paid", payload: {} };
  known.msg_id = JSON.parse((await call("POST", "/api/v1/app/walk/msg", message)).text).id;
  const polled = await call("POST", "/v1/destinations", { kind: "poll", tenant });
  known.sink_id = JSON.parse(polled.text).id;
  const range = { since: new Date(Date.now() - 60_000).toISOString() };
  known.task_id = JSON.parse((await call("POST", "/api/v1/app/walk/endpoint/hook/recover", range)).text).id;
});
afterAll(() => runtime?.stop());

async function call(method: string, path: string, body: object = {}) {
  const hasBody = method !== "GET" && method !== "DELETE";
  const headers = { authorization: `Bearer ${KEY}`, ...(hasBody && { "content-type": "application/json" }) };
  const init = { method, headers, ...(hasBody && { body: JSON.stringify(body) }) };
  const response = await fetch(runtime.url + path, init);
  return { status: response.status, text: await response.text() };
}

test("the test finds the SDK's routes", () => {
  expect(routes.length).toBeGreaterThan(120);
});

test("each of the SDK's routes answers, or names itself and is listed as missing", async () => {
  const wrong: unknown[] = [];
  for (const [method, path] of routes) {
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => known[name] ?? "none");
    const { status, text } = await call(method, filled);
    const isListed = missing.some(({ matches }) => matches.test(path));
    const isMissing = status === 501 && text.includes(`${method} ${filled} is not supported`);
    // The endpoint is disabled: there is no attempt.
    const isThere = status < 500 && (status !== 404 || /There is no attempt/.test(text));
    if (isListed ? !isMissing : !isThere)
      wrong.push([method, path, status, text.slice(0, 200), { isListed }]);
  }
  expect(wrong).toEqual([]);
});

test("the list of missing routes has only routes of the SDK", () => {
  const unknown = missing.filter(({ matches }) => !routes.some(([, path]) => matches.test(path)));
  expect(unknown.map(({ pattern }) => pattern)).toEqual([]);
});
