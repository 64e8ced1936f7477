/**
 * Resolving host names over HTTPS: which names are called, which deliveries wait, and what it costs. The queries and
 * their cache are tested in resolver.node.test.ts.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { sweep } from "../../src/jobs/sweep.ts";
import type { Script } from "../support/receivers.ts";
import { execute, newDestination, newWorld, rowOf, START, urlOf, type World } from "../support/world.ts";

const RESOLVER = "https://dns.example/dns-query";

type Answered = Readonly<{ type?: number; TTL?: number; data: string }>;

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  Object.assign(world.services.config, { dnsResolver: RESOLVER });
  destination = await newDestination();
});

const hostOf = (id: string) => new URL(urlOf(id)).hostname;
const question = (host: string, type: number) => `${RESOLVER}?name=${host}&type=${type}`;
const questions = () => world.receiver.calls.filter(({ url }) => url.startsWith(RESOLVER));
const json =
  (body: unknown): Script =>
  () =>
    Response.json(body);

/** From now on the resolver answers so for the destination's name. */
function names(a: readonly Answered[], aaaa: readonly Answered[] = [], host = hostOf(destination)): void {
  const records = (list: readonly Answered[], type: number) => list.map((one) => ({ type, TTL: 60, ...one }));
  world.receiver.script(question(host, 1), json({ Status: 0, Answer: records(a, 1) }));
  world.receiver.script(question(host, 28), json({ Status: 0, Answer: records(aaaa, 28) }));
}

async function deliver() {
  const [message] = await world.post();
  if (!message) throw new Error("The event is for the destination");
  const results = await world.consume([message]);
  return { message, results, row: await rowOf(message), made: world.receiver.to(urlOf(destination)).length };
}

test("a name with public addresses is called", async () => {
  names([{ data: "93.184.215.14" }], [{ data: "2606:2800:21f:cb07:6820:80da:af6b:8b2c" }]);
  expect((await deliver()).row).toMatchObject({ state: "delivered", attempts: 1 });
  expect(questions()).toHaveLength(2);
  expect(questions()[0]?.headers.get("accept")).toBe("application/dns-json");
});

describe("a name is not called, and its delivery waits without an attempt,", () => {
  test.each([
    ["when it leads inside", [{ data: "10.0.0.1" }], []],
    ["when one of several addresses is inside", [{ data: "8.8.8.8" }, { data: "169.254.169.254" }], []],
    ["when its IPv6 address is inside", [{ data: "8.8.8.8" }], [{ data: "fd00::1" }]],
    ["when its IPv6 address hides an inner one", [], [{ data: "::ffff:127.0.0.1" }]],
    ["when its IPv6 address is translated", [], [{ data: "64:ff9b::a00:1" }]],
    ["when an alias leads inside", [{ type: 5, data: "a.example." }, { data: "127.0.0.1" }], []],
    ["when an address is none", [{ data: "nonsense" }], []],
  ])("%s", async (_, a, aaaa) => {
    names(a, aaaa);
    const { row, results, made } = await deliver();
    expect(made).toBe(0);
    expect(results).toEqual(["acked"]);
    expect(row).toMatchObject({
      state: "waiting",
      reason: "forbidden_address",
      attempts: 0,
      nextAttemptAt: START + 60_000,
    });
    expect(world.logged("address_forbidden")).toMatchObject([{ destination }]);
  });

  test.each<[string, Script]>([
    ["when the resolver is away", new Error("Network connection lost.")],
    ["when the resolver answers 500", 500],
    ["when the resolver redirects", () => Response.redirect("https://elsewhere.example/")],
    ["when the resolver speaks nonsense", () => new Response("<html>")],
    ["when the resolver's JSON is another", json({ answers: [] })],
    ["when the resolver reports a failure", json({ Status: 2 })],
  ])("%s", async (_, script) => {
    names([{ data: "8.8.8.8" }]);
    world.receiver.script(question(hostOf(destination), 28), script);
    const { row, made } = await deliver();
    expect(made).toBe(0);
    expect(row).toMatchObject({ state: "waiting", reason: "unresolved", attempts: 0 });
    expect(world.logged("resolver_failed")).toMatchObject([{ destination }]);
  });
});

test.each([
  ["does not exist", { Status: 3 }],
  ["has no address", { Status: 0 }],
])("a name that %s is called: the attempt fails, and the policy decides", async (_, answer) => {
  for (const type of [1, 28]) world.receiver.script(question(hostOf(destination), type), json(answer));
  world.receiver.script(urlOf(destination), new Error("dns lookup failed"));
  expect((await deliver()).row).toMatchObject({ state: "retrying", reason: "dns", attempts: 1 });
});

test("waiting deliveries are delivered once the name has public addresses again", async () => {
  names([{ data: "10.0.0.1" }]);
  const { message } = await deliver();
  names([{ data: "8.8.8.8" }]);
  world.clock.pass(60_000);
  await sweep.run(world.services);
  await world.drain(destination);
  expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 1 });
});

test("waiting deliveries end as forbidden once the target is no longer a URL, without a query to the resolver", async () => {
  names([{ data: "10.0.0.1" }]);
  const { message } = await deliver();
  await execute("UPDATE destinations SET url = 'no URL'");
  world.clock.pass(60_000);
  await sweep.run(world.services);
  await world.drain(destination);
  expect(await rowOf(message)).toMatchObject({ state: "dead", reason: "forbidden_target", attempts: 0 });
  expect(questions()).toHaveLength(2);
});

test("one destination's name does not delay another's deliveries", async () => {
  const other = await newDestination();
  names([{ data: "10.0.0.1" }]);
  names([{ data: "8.8.8.8" }], [], hostOf(other));
  await world.consume(await world.post());
  expect(world.receiver.to(urlOf(other))).toHaveLength(1);
  expect(world.receiver.to(urlOf(destination))).toHaveLength(0);
});

test("without a resolver nothing is looked up", async () => {
  Object.assign(world.services.config, { dnsResolver: undefined });
  expect((await deliver()).row).toMatchObject({ state: "delivered" });
  expect(questions()).toEqual([]);
});

describe("if private addresses are allowed", () => {
  beforeEach(() => Object.assign(world.services.config, { allowPrivateDestinations: true }));

  test.each([
    "10.0.0.1",
    "127.0.0.1",
    "93.184.215.14",
  ])("a name with the address %s is called", async (data) => {
    names([{ data }]);
    expect((await deliver()).row).toMatchObject({ state: "delivered" });
  });

  test.each([
    ["169.254.169.254", []],
    ["8.8.8.8", [{ data: "fd00:ec2::254" }]],
    ["100.100.100.200", []],
    ["10.0.0.1", [{ data: "64:ff9b::a9fe:a9fe" }]],
  ])("a name that leads to a machine's metadata service is not: %s %j", async (data, aaaa) => {
    names([{ data }], aaaa);
    const { row, made } = await deliver();
    expect(made).toBe(0);
    expect(row).toMatchObject({ state: "waiting", reason: "forbidden_address", attempts: 0 });
  });
});

test("at most five queries are open at once, over all destinations", async () => {
  for (let i = 0; i < 12; i++) await newDestination();
  await world.consume(await world.post());
  expect(world.receiver.mostOpen()).toBeLessThanOrEqual(5);
  expect(questions().length).toBeGreaterThanOrEqual(13);
});
