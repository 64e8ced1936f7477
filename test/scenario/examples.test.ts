/**
 * Breakwater and its users, all running: the examples of shops, by service binding and in several frameworks, a Worker that
 * puts events on a queue of its own, and the action that publishes event types.
 */
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { bundleCommandLine } from "../../client/bundle.ts";
import { type ReceiverServer, startReceiver } from "../../tools/receiver.ts";
import { type ApiClient, apiClient } from "../../tools/stack.ts";
import { projectRoot } from "../../tools/wrangler.ts";
import { startBreakwater, workerIn } from "../support/breakwater-runtime.ts";
import type { Runtime } from "../support/runtime.ts";
import { skipped } from "../support/skipped.ts";
import { freePort, shops } from "./shops.ts";
import { until } from "./until.ts";

const KEY = "test-admin-key-0123456789";
const EXAMPLE = "examples/service-binding";
const QUEUE = "till-events";
const PATH = "/hooks/acme";

/** Puts what is posted on the queue, and records what comes out of the dead-letter queue. */
const TILL = `
  const dead = [];
  export default {
    async fetch(request, { EVENTS }) {
      if (request.method === "GET") return Response.json(dead);
      await EVENTS.sendBatch(await request.json());
      return new Response(null, { status: 202 });
    },
    queue(batch) {
      dead.push(...batch.messages.map(({ body }) => body));
    },
  };`;

const till = {
  name: "till",
  modules: true,
  script: TILL,
  compatibilityDate: "2026-08-15",
  queueProducers: { EVENTS: { queueName: QUEUE } },
  queueConsumers: { [`${QUEUE}-dead`]: { maxBatchTimeout: 0 } },
};

let receiver: ReceiverServer;
let runtime: Runtime;
let api: ApiClient;
beforeAll(async () => {
  receiver = await startReceiver(() => ({ status: 204 }));
  runtime = await startBreakwater({
    vars: { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" },
    queueConsumers: {
      [QUEUE]: { maxBatchSize: 100, maxBatchTimeout: 0, maxRetries: 2, deadLetterQueue: `${QUEUE}-dead` },
    },
    others: async (place) => [
      {
        name: "shop",
        ...(await workerIn(`${place}/shop`, `${EXAMPLE}/wrangler.toml`, `${EXAMPLE}/src/worker.ts`)),
      },
      till,
    ],
  });
  api = apiClient(runtime.url, KEY);
  const { secret } = await api.post<{ secret: string }>("/v1/destinations", {
    url: `${receiver.url}${PATH}`,
    tenant: "acme",
  });
  receiver.secrets.set(PATH, secret);
});
afterAll(async () => {
  await runtime?.stop();
  receiver?.close();
});

/** The data of what the receiver has got with a signature that verifies. */
const received = () =>
  receiver.hits.filter(({ verified }) => verified).map(({ body }) => JSON.parse(body).data);

async function receivedAll(isWanted: (data: { order: { id: string } }) => boolean, count: number) {
  const found = () => received().filter(isWanted);
  await until(() => found().length >= count, {
    otherwise: () => `only ${found().length} of ${count} were received`,
  });
  return found();
}

async function shop(method: string, path: string, body?: unknown) {
  const response = await runtime.request("shop", `https://shop.example${path}`, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, json: await response.json() };
}

describe("the example of a shop", () => {
  test("has its event delivered, signed, and sees it delivered, without a key", async () => {
    const { status, json } = await shop("POST", "/orders", { id: "o-1", total: 12.5 });
    expect(status).toBe(201);
    const [accepted] = json as [{ id: string; deliveries: unknown[] }];
    expect(accepted.deliveries).toHaveLength(1);
    const [data] = await receivedAll(({ order }) => order.id === "o-1", 1);
    expect(data).toEqual({ order: { id: "o-1", total: 12.5 }, at: expect.stringMatching(/^20.*Z$/) });
    const seen = async () =>
      (await shop("GET", `/events/${accepted.id}`)).json as { deliveries: { state: string }[] };
    await until(async () => (await seen()).deliveries[0]?.state === "delivered", {
      otherwise: () => "it is not delivered",
    });
  });

  test("sends many orders as one batch", async () => {
    const orders = Array.from({ length: 150 }, (_, i) => ({ id: `many-${i}`, total: i }));
    expect((await shop("POST", "/orders", orders)).status).toBe(201);
    const all = await receivedAll(({ order }) => order.id.startsWith("many-"), 150);
    expect(new Set(all.map(({ order }) => order.id)).size).toBe(150);
  });

  test("gets a problem instead of a bare exception for objects that it may not see", async () => {
    const { id } = await api.post<{ id: string }>("/v1/events", { type: "a", tenant: "another", data: 1 });
    const { status, json } = await shop("GET", `/events/${id}`);
    expect([status, json]).toMatchObject([
      404,
      { type: "/problems/not-found", detail: `There is no event ${id}` },
    ]);
  });
});

describe("a queue of events", () => {
  test("has its messages delivered, whatever their form on the queue, and bad ones in its dead-letter queue", async () => {
    const message = (id: string, contentType: string) => ({
      body: { type: "order.created", tenant: "acme", data: { order: { id } } },
      contentType,
    });
    const bad = { body: { type: "order.created", tenant: "acme" }, contentType: "json" };
    const batch = [message("q-1", "json"), bad, message("q-2", "v8"), { body: "q-3", contentType: "text" }];
    const { status } = await runtime.request("till", "https://till.example/", {
      method: "POST",
      body: JSON.stringify(batch),
    });
    expect(status).toBe(202);
    const all = await receivedAll(({ order }) => order.id.startsWith("q-"), 2);
    expect(all.map(({ order }) => order.id).sort()).toEqual(["q-1", "q-2"]);
    const dead = async (): Promise<unknown[]> =>
      (await (await runtime.request("till", "https://till.example/")).json()) as unknown[];
    await until(async () => (await dead()).length >= 2, {
      otherwise: () => "the bad messages are not in the dead-letter queue",
    });
    expect(await dead()).toEqual(expect.arrayContaining([bad.body, "q-3"]));
    expect(await dead()).toHaveLength(2);
  });
});

describe.each(shops)("the example of a shop with $name", ({ name, isInstalled, start }) => {
  if (!isInstalled)
    return skipped(`the example of a shop with ${name}`, "its packages are missing, which .ci/run installs");
  const secret = `whsec_${Buffer.alloc(32, 5).toString("base64")}`;

  test("sends an order once, takes its delivery, and refuses a forged one", async () => {
    const port = await freePort();
    const at = (path: string) => `http://127.0.0.1:${port}${path}`;
    const stop = await start(port, {
      BREAKWATER_URL: runtime.url,
      BREAKWATER_KEY: KEY,
      WEBHOOK_SECRET: secret,
    });
    try {
      const { id } = await api.post<{ id: string }>("/v1/destinations", {
        url: at("/webhooks"),
        tenant: "acme",
        secret,
      });
      const post = async (path: string, body: string, headers: Record<string, string> = {}) =>
        fetch(at(path), {
          method: "POST",
          body,
          headers: { "content-type": "application/json", ...headers },
        });
      const order = JSON.stringify({ id: `o-${port}`, total: 12.5 });
      const answers = [await post("/orders", order), await post("/orders", order)];
      expect(answers.map(({ status }) => status)).toEqual([201, 201]);
      const [first, second] = await Promise.all(answers.map((answer) => answer.json()));
      expect(second).toEqual(first);
      type Seen = { deliveries: { destination_id: string; state: string }[] };
      const delivery = async () =>
        (await api.get<Seen>(`/v1/events/${(first as { event: string }).event}`)).deliveries.find(
          ({ destination_id }) => destination_id === id,
        );
      await until(async () => (await delivery())?.state === "delivered", {
        otherwise: () => "it is not delivered",
      });
      const signed = {
        "webhook-id": "evt_1",
        "webhook-timestamp": String(Math.floor(Date.now() / 1000)),
        "webhook-signature": new Webhook(secret).sign("evt_1", new Date(), '{"type":"order.created"}'),
      };
      const forged = [await post("/webhooks", "{}", signed), await post("/webhooks", "{}")];
      expect(forged.map(({ status }) => status)).toEqual([401, 401]);
    } finally {
      stop();
    }
  });
});

describe("the action that publishes event types", () => {
  const action = join(projectRoot, ".github/actions/publish-event-types");
  const folder = mkdtempSync(join(tmpdir(), "breakwater-action-"));
  const [summary, output] = [join(folder, "summary"), join(folder, "output")];
  afterAll(() => {
    rmSync(folder, { recursive: true });
    rmSync(script, { force: true });
  });
  // Within node_modules, where it finds its packages.
  const script = join(projectRoot, `node_modules/.cache/breakwater-action-${process.pid}.mjs`);

  beforeAll(async () => {
    await bundleCommandLine(script);
    mkdirSync(join(folder, "bin"));
    const { version } = JSON.parse(readFileSync(join(projectRoot, "client/package.json"), "utf8"));
    const npx = `#!/bin/sh
      test "$1 $2" = "--yes breakwater-client@${version}" || { echo "npx $*: not this client" >&2; exit 9; }
      shift 2
      exec "${process.execPath}" "${script}" "$@"`;
    writeFileSync(join(folder, "bin/npx"), npx);
    chmodSync(join(folder, "bin/npx"), 0o755);
  });

  /** Runs the step of action.yml as a runner does, with these inputs. */
  async function publish(file: string, inputs: Readonly<Record<string, string>> = {}) {
    const { runs, inputs: declared } = parse(readFileSync(join(action, "action.yml"), "utf8"));
    const { env, run } = runs.steps.at(-1);
    const given: Record<string, string> = { url: runtime.url, key: KEY, file: join(folder, file), ...inputs };
    const inputOf = (name: string) => given[name] ?? declared[name].default;
    const values = Object.entries<string>(env).map(([name, value]) => [
      name,
      value.replace(/\$\{\{ inputs\.(\w+) \}\}/, (_, input) => inputOf(input)),
    ]);
    for (const one of [summary, output]) writeFileSync(one, "");
    const child = spawn("bash", ["--noprofile", "--norc", "-eo", "pipefail", "-c", run], {
      env: {
        ...process.env,
        ...Object.fromEntries(values),
        PATH: `${join(folder, "bin")}${delimiter}${process.env.PATH}`,
        GITHUB_ACTION_PATH: action,
        GITHUB_OUTPUT: output,
        GITHUB_STEP_SUMMARY: summary,
      },
    });
    const code = new Promise((resolve) => child.once("close", resolve));
    const [out, error] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { code: await code, out, error, changes: readFileSync(output, "utf8").trim() };
  }

  const names = async () =>
    (await api.get<{ data: { name: string }[] }>("/v1/event-types")).data.map(({ name }) => name);

  test("shows the plan, applies it, and finds nothing to do afterwards", async () => {
    writeFileSync(
      join(folder, "types.yaml"),
      "event_types:\n  shop.opened: { description: A shop opened }\n",
    );
    const planned = await publish("types.yaml", { apply: "false" });
    expect(planned).toMatchObject({ code: 0, changes: "changes=true" });
    expect(readFileSync(summary, "utf8")).toContain("+ event type shop.opened");
    expect(await names()).toEqual([]);
    expect(await publish("types.yaml")).toMatchObject({ code: 0, changes: "changes=true" });
    expect(await names()).toEqual(["shop.opened"]);
    expect(await publish("types.yaml")).toMatchObject({ code: 0, changes: "changes=false" });
    writeFileSync(join(folder, "none.yaml"), "event_types:\n");
    expect(await publish("none.yaml")).toMatchObject({ code: 0, changes: "changes=false" });
    expect(await publish("none.yaml", { prune: "true" })).toMatchObject({ code: 0, changes: "changes=true" });
    expect(await names()).toEqual([]);
  });

  test("fails for a file with an unknown field, and for a wrong key, which it does not print", async () => {
    writeFileSync(join(folder, "bad.yaml"), "event_types:\n  shop.opened: { colour: red }\n");
    const bad = await publish("bad.yaml");
    expect([bad.code, bad.error]).toEqual([
      2,
      expect.stringContaining("line 2: event_types.shop.opened.colour"),
    ]);
    const wrong = await publish("types.yaml", { key: "bw_wrong_key" });
    expect(wrong.code).toBe(3);
    expect(wrong.out + wrong.error).not.toContain("bw_wrong_key");
  });
});
