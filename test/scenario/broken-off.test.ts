/** A client that disconnects in the middle of its request affects no other: the local stack continues to serve. */
import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Stack, stopStack } from "../../tools/stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "../../tools/throwaway.ts";
import { until } from "./until.ts";

const TIMES = 10;

let throwaway: Awaited<ReturnType<typeof prepareThrowaway>>;
let stack: Stack;

beforeAll(async () => {
  throwaway = await prepareThrowaway();
  stack = await throwaway.start();
});

afterAll(async () => {
  await stopStack(stack);
  throwaway.discard();
});

/** Announces more than it sends, and disconnects. */
async function breakOff(): Promise<void> {
  const { host, hostname, port } = new URL(stack.url);
  const headers = [
    "POST /v1/events HTTP/1.1",
    `host: ${host}`,
    `authorization: Bearer ${THROWAWAY_KEY}`,
    "content-type: application/json",
    "content-length: 200000",
  ];
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  await new Promise((sent) => socket.write(`${headers.join("\r\n")}\r\n\r\n${"x".repeat(65_536)}`, sent));
  socket.destroy();
}

/** How often it was printed that a request could not be read to its end. */
const noticed = () => throwaway.output().match(/Network connection lost/g)?.length ?? 0;

test("the stack serves requests after aborted uploads", async () => {
  for (let n = 1; n <= TIMES; n++) {
    const before = noticed();
    await breakOff();
    await until(() => noticed() > before, {
      otherwise: () => `upload ${n} was not noticed:\n${throwaway.lastLines()}`,
    });
    expect((await fetch(`${stack.url}/v1/health`)).status).toBe(200);
  }
});
