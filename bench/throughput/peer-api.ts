/** The peers' HTTP server: checks the key and the event, stores it with its job, answers 202. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { KEY } from "./contender.ts";
import { jobsOf, type Posted } from "./peer-jobs.ts";
import type { PeerArgs } from "./peers.ts";
import { givenArgs } from "./processes.ts";

const jobs = await jobsOf(givenArgs<PeerArgs>());

const server = createServer(async (request, response) => {
  const [status, body] = await answer(request);
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
});

async function answer(request: IncomingMessage): Promise<[number, unknown]> {
  if (request.headers.authorization !== `Bearer ${KEY}`) return [401, {}];
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const given = JSON.parse(Buffer.concat(chunks).toString());
  const posted = request.url === "/v1/events/batch" ? given.events.map(postedOf) : [postedOf(given)];
  const ids = await jobs.accept(posted);
  return [202, { events: ids.map((id) => ({ id })) }];
}

function postedOf({ type, data }: { type: unknown; data: unknown }): Posted {
  if (typeof type !== "string" || data === undefined) throw new Error("An event has a type and data");
  return { type, body: JSON.stringify({ type, timestamp: new Date().toISOString(), data }) };
}

server.listen(0, "127.0.0.1", () => {
  process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
process.once("SIGTERM", () => process.exit(0));
