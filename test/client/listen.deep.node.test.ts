/** `breakwater listen`, as a child process: what a polled destination has arrives at a server on this machine. */
import { EventEmitter, once } from "node:events";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, expect, test } from "vitest";
import { localServer } from "../support/local-server.ts";
import { commandLine, page, problem, type Routes } from "./command-line.ts";

const { started, answers } = await commandLine();
const ID = "dst_0123456789abcdefghjk";

/** Emits "change" when a server of the test has been called, or the command has printed something. */
const world = new EventEmitter();

async function until(isOver: () => boolean): Promise<void> {
  while (!isOver()) await once(world, "change");
}

/** A server that records what it gets. `answer` says when it answers with which status. */
async function receiver(answer: (count: number) => number) {
  const got: { id: string; signature: string; body: string }[] = [];
  const server = localServer(async (request, response) => {
    const body = await text(request);
    const { "webhook-id": id, "webhook-signature": signature } = request.headers;
    const status = answer(got.length + 1);
    got.push({ id: String(id), signature: String(signature), body });
    response.writeHead(status);
    response.end("thanks");
    world.emit("change");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  afterAll(() => void server.close());
  return { got, port: (server.address() as AddressInfo).port };
}

/** A deployment with a polled destination that has so many events; what is not committed is handed out again at once. */
function inboxOf(count: number) {
  const open = Array.from({ length: count }, (_, n) => `evt_${n}`);
  const pages = new Map<string, readonly string[]>();
  const routes: Routes = {
    "POST /v1/destinations": { status: 201, body: { id: ID, secret: "whsec_x" } },
    [`DELETE /v1/destinations/${ID}`]: { status: 204 },
    [`GET /v1/destinations/${ID}/poll`]: () => {
      const next = open.slice(0, 50);
      const iterator = `listen.${pages.size + 1}`;
      pages.set(iterator, next);
      const data = next.map((id) => ({
        id,
        type: "order.paid",
        attempt: 1,
        headers: { "webhook-id": id, "webhook-signature": `v1,${id}`, "content-type": "application/json" },
        body: `{"of":"${id}"}`,
      }));
      return { body: { data, iterator, done: next.length < 50 } };
    },
    [`POST /v1/destinations/${ID}/poll/commit`]: ({ body }) => {
      const { iterator, return: back } = body as { iterator: string; return: { id: string }[] };
      const returned = back.map(({ id }) => id);
      for (const id of pages.get(iterator) ?? [])
        if (!returned.includes(id) && open.includes(id)) open.splice(open.indexOf(id), 1);
      world.emit("change");
      return { status: 204 };
    },
  };
  return { open, routes };
}

test("forwards with the headers and the body of a delivery, and shows the outcome", async () => {
  const { got, port } = await receiver((count) => (count === 2 ? 500 : 204));
  const inbox = inboxOf(3);
  const sent = answers(inbox.routes);
  const child = started(["listen", String(port), "--types", "order.*", "--json", "--concurrency", "1"]);
  let out = "";
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
    world.emit("change");
  });
  await until(() => out.split("\n").length > 3 && inbox.open.length === 0);
  child.kill("SIGINT");
  expect(await once(child, "close")).toEqual([0, null]);
  expect(got.map(({ id, signature, body }) => [id, signature, body])).toEqual(
    [0, 1, 2].map((n) => [`evt_${n}`, `v1,evt_${n}`, `{"of":"evt_${n}"}`]),
  );
  expect(
    out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).status),
  ).toEqual([204, 500, 204]);
  expect(sent[0]?.body).toMatchObject({ kind: "poll", event_types: ["order.*"] });
  expect(sent.at(-1)).toMatchObject({ method: "DELETE" });
});

test.each([
  ["--concurrency", "0"],
  ["--concurrency", "0.5"],
  ["--concurrency", "all"],
  ["4000"],
])("with %s %s it takes no events: nothing is committed that was not forwarded", async (...more) => {
  const { port } = await receiver(() => 204);
  const sent = answers(inboxOf(3).routes);
  const child = started(["listen", String(port), ...more]);
  expect(await once(child, "close")).toEqual([2, null]);
  expect(sent).toEqual([]);
});

test.each(["0.5", "99999", "ftp://example.com/"])("listens to no %s", async (target) => {
  const sent = answers(inboxOf(3).routes);
  expect(await once(started(["listen", target]), "close")).toEqual([2, null]);
  expect(sent).toEqual([]);
});

test("does not forward an event that cannot be converted, says why, and gets it again a minute later", async () => {
  const { got, port } = await receiver(() => 204);
  const { routes } = inboxOf(0);
  const fault = "conversion of order.paid from version 2 to 1: body is no JSON";
  const rest = { type: "order.paid", attempt: 1 };
  const data = [
    { id: "evt_0", ...rest, headers: {}, fault },
    { id: "evt_1", ...rest, headers: { "webhook-id": "evt_1" }, body: "{}" },
  ];
  const commits: unknown[] = [];
  answers({
    ...routes,
    [`GET /v1/destinations/${ID}/poll`]: () => ({
      body: { data: commits.length === 0 ? data : [], iterator: "listen.1", done: true },
    }),
    [`POST /v1/destinations/${ID}/poll/commit`]: ({ body }) => {
      commits.push(body);
      world.emit("change");
      return { status: 204 };
    },
  });
  const child = started(["listen", String(port)]);
  let out = "";
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
    world.emit("change");
  });
  await until(() => commits.length > 0 && out.split("\n").length > 2);
  child.kill("SIGINT");
  await once(child, "close");
  expect(got.map(({ id }) => id)).toEqual(["evt_1"]);
  expect(out).toMatch(/ {2}not sent {2}\d+ ms {2}order\.paid {2}evt_0 {2}conversion of order\.paid/);
  expect(commits).toMatchObject([{ return: [{ id: "evt_0", retry_after_s: 60 }] }]);
});

test("after it is killed in the middle of a thousand events, it continues where it was, and all arrive", async () => {
  const { got, port } = await receiver(() => 204);
  const { open, routes } = inboxOf(1000);
  answers(routes);
  const killed = started(["listen", String(port)]);
  await until(() => got.length > 300);
  killed.kill("SIGKILL");
  await once(killed, "close");
  expect(open.length).toBeGreaterThan(0);
  let uid = "";
  answers({
    ...routes,
    "POST /v1/destinations": ({ body }) => {
      uid = (body as { uid: string }).uid;
      return problem(409, "The uid is taken");
    },
    "GET /v1/destinations": () => page({ id: ID, uid }),
  });
  const again = started(["listen", String(port)]);
  await until(() => open.length === 0);
  again.kill("SIGINT");
  await once(again, "close");
  expect(new Set(got.map(({ id }) => id)).size).toBe(1000);
});

test("an event that the server does not answer comes again", async () => {
  const inbox = inboxOf(1);
  const sent = answers(inbox.routes);
  const commits = () => sent.filter(({ path }) => path.endsWith("/commit"));
  // Nothing listens at this port.
  const child = started(["listen", "1"]);
  await until(() => commits().length > 0);
  child.kill("SIGINT");
  await once(child, "close");
  expect(commits()[0]?.body).toMatchObject({ return: [{ id: "evt_0", retry_after_s: 5 }] });
  expect(inbox.open).toEqual(["evt_0"]);
});
