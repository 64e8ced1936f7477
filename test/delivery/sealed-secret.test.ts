/** Deliveries whose destination's secret cannot be opened, and signatures with key pairs. */
import { beforeEach, describe, expect, test } from "vitest";
import { sweep } from "../../src/jobs/sweep.ts";
import { newSecret } from "../../src/secrets/signing.ts";
import { vault } from "../support/vault.ts";
import {
  execute,
  newDestination,
  newWorld,
  rowOf,
  SECRET,
  START,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

describe("a secret that cannot be opened", () => {
  const spoil = (secret: string) =>
    execute("UPDATE destinations SET secret = ?1 WHERE id = ?2", secret, destination);

  test.each([
    ["is not sealed", async () => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    ["is another destination's", () => vault.seal("dst_00000000000000000000", newSecret("hmac-sha256"))],
    ["is nonsense", async () => ""],
  ])("because it %s makes deliveries wait, without an attempt", async (_, secret) => {
    await spoil(await secret());
    const [message] = await world.post();
    if (!message) throw new Error("The event is for the destination");
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(world.receiver.calls).toEqual([]);
    expect(await rowOf(message)).toMatchObject({
      state: "waiting",
      reason: "sealed",
      attempts: 0,
      nextAttemptAt: START + 60_000,
    });
    expect(world.gates.called()).toEqual([]);
    expect(world.logged("secret_unreadable")).toMatchObject([{ destination }]);
    expect(JSON.stringify(world.log)).not.toMatch(/whsec|MfKQ9r8/);
  });

  test("does not delay another destination in the same batch", async () => {
    const other = await newDestination();
    await spoil("nonsense");
    const messages = await world.post();
    expect(await world.consume(messages)).toEqual(["acked", "acked"]);
    expect(world.receiver.calls.map(({ url }) => url)).toEqual([urlOf(other)]);
  });

  test("no longer makes deliveries wait once it opens again: the sweep schedules a drain", async () => {
    const sealed = await vault.seal(destination, newSecret("hmac-sha256"));
    await spoil("nonsense");
    const [message] = await world.post();
    if (!message) throw new Error("The event is for the destination");
    await world.consume([message]);
    world.clock.pass(60_000);
    await sweep.run(world.services);
    await world.drain(destination);
    expect(await rowOf(message)).toMatchObject({ state: "waiting", attempts: 0 });
    await spoil(sealed);
    world.clock.pass(60_000);
    await sweep.run(world.services);
    await world.drain(destination);
    expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 1 });
  });
});

describe("headers that cannot be opened", () => {
  const headersOf = async (place: string, value: string, content: "header" | undefined) =>
    JSON.stringify({ "x-api-key": await vault.seal(place, value, content) });

  test.each([
    ["a value is not sealed", async () => '{"x-api-key":"h3ad3r"}'],
    ["a value is another destination's", () => headersOf("dst_00000000000000000000", "h3ad3r", "header")],
    ["a value is the sealed signing secret", () => headersOf(destination, SECRET, undefined)],
    ["they are no JSON", async () => "{"],
    ["they are another JSON value", async () => '["h3ad3r"]'],
  ])("because %s make deliveries wait, and nothing is sent without them", async (_, stored) => {
    await execute("UPDATE destinations SET sealed_headers = ?1 WHERE id = ?2", await stored(), destination);
    const [message] = await world.post();
    if (!message) throw new Error("The event is for the destination");
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(world.receiver.calls).toEqual([]);
    expect(await rowOf(message)).toMatchObject({ state: "waiting", reason: "sealed", attempts: 0 });
    expect(world.logged("secret_unreadable")).toMatchObject([{ destination }]);
    expect(JSON.stringify(world.log)).not.toMatch(/h3ad3r|MfKQ9r8/);
  });
});

test("a destination with a key pair gets a v1a signature that its public key verifies", async () => {
  const secret = newSecret("ed25519");
  const place = await newDestination({ secret });
  await world.consume(await world.post());
  const [call] = world.receiver.to(urlOf(place));
  const header = (name: string) => call?.headers.get(name) ?? "";
  const [version, signature = ""] = header("webhook-signature").split(",");
  expect(version).toBe("v1a");
  const { publicKey = new Uint8Array() } = await vault.open(place, await vault.seal(place, secret));
  const key = await crypto.subtle.importKey("raw", publicKey, "Ed25519", false, ["verify"]);
  const bytes = (text: string) => new TextEncoder().encode(text);
  const signed = `${header("webhook-id")}.${header("webhook-timestamp")}.${call?.body}`;
  const given = Uint8Array.from(atob(signature), (char) => char.charCodeAt(0));
  expect(await crypto.subtle.verify("Ed25519", key, given, bytes(signed))).toBe(true);
  expect(await crypto.subtle.verify("Ed25519", key, given, bytes(`${signed} `))).toBe(false);
});
