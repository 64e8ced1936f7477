import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, expect, test } from "vitest";
import { type ReceiverServer, startReceiver } from "../../tools/receiver.ts";

let receiver: ReceiverServer | undefined;
afterEach(() => receiver?.close());

test("a request whose sender dies before the end of its body does not count, and the next one does", async () => {
  receiver = await startReceiver(() => ({ status: 200 }));
  const { hostname, port } = new URL(receiver.url);
  const socket = connect(Number(port), hostname);
  // The 100 Continue shows that the request is being read.
  socket.write("POST /half HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\nexpect: 100-continue\r\n\r\n");
  await once(socket, "data");
  socket.destroy();
  await once(socket, "close");
  expect((await fetch(`${receiver.url}/whole`, { method: "POST", body: "all of it" })).status).toBe(200);
  expect(receiver.hits.map(({ path, body }) => [path, body])).toEqual([["/whole", "all of it"]]);
});
