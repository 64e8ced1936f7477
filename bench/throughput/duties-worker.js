/**
 * The bare Worker with the calls that Breakwater's promises need, and without the work behind them: an object commits single
 * events together, an object for each endpoint is called before and after a batch, and each request has a signature, its
 * headers and a timeout. It shows how much of Breakwater's CPU time these calls alone take.
 */
import { DurableObject } from "cloudflare:workers";

const CONNECTIONS = 6;
const TIMEOUT_MS = 30_000;

const encoder = new TextEncoder();
const algorithm = { name: "HMAC", hash: "SHA-256" };
const key = encoder.encode("a-secret-of-at-least-24-bytes");
let imported;

export class Gate extends DurableObject {
  #inFlight = 0;

  admit(count) {
    this.#inFlight += count;
    return { granted: count, inFlight: this.#inFlight, until: Date.now() + TIMEOUT_MS };
  }

  settle(count) {
    this.#inFlight -= count;
  }
}

export class Intake extends DurableObject {
  #waiting = [];
  #isCommitting = false;

  accept(event) {
    const { promise, resolve, reject } = Promise.withResolvers();
    this.#waiting.push({ event, resolve, reject });
    if (!this.#isCommitting) this.#commit();
    return promise;
  }

  async #commit() {
    this.#isCommitting = true;
    while (this.#waiting.length > 0) {
      const taken = this.#waiting.splice(0);
      const events = taken.map(({ event }) => event);
      try {
        const ids = await store(this.env, events);
        for (const [i, { resolve }] of taken.entries()) resolve(ids[i]);
      } catch (error) {
        for (const { reject } of taken) reject(error);
      }
    }
    this.#isCommitting = false;
  }
}

async function store(env, events) {
  const { results } = await env.DB.prepare(
    "INSERT INTO events (type, body) SELECT value ->> 'type', value FROM json_each(?1) RETURNING id, type",
  )
    .bind(JSON.stringify(events))
    .all();
  await env.QUEUE.sendBatch(results.map(({ id, type }, i) => ({ body: { id, type, body: events[i] } })));
  return results.map(({ id }) => id);
}

async function signedHeaders(id, text) {
  imported ??= crypto.subtle.importKey("raw", key, algorithm, false, ["sign"]);
  const timestamp = String(Math.floor(Date.now() / 1000));
  const signature = await crypto.subtle.sign(
    "HMAC",
    await imported,
    encoder.encode(`${id}.${timestamp}.${text}`),
  );
  return {
    "content-type": "application/json",
    "user-agent": "Bench/1.0",
    "webhook-attempt": "1",
    "webhook-id": String(id),
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${new Uint8Array(signature).toBase64()}`,
  };
}

// biome-ignore lint/style/noDefaultExport: a Worker's handlers are its default export.
export default {
  async fetch(request, env) {
    const given = await request.json();
    const ids = given.events
      ? await store(env, given.events)
      : [await env.INTAKE.get(env.INTAKE.idFromName("0")).accept(given)];
    return Response.json({ events: ids.map((id) => ({ id })) }, { status: 202 });
  },

  async queue({ messages }, env) {
    const byType = [...Map.groupBy(messages, ({ body }) => body.type)];
    const atGates = (method) =>
      Promise.all(
        byType.map(([type, { length }]) => env.GATE.get(env.GATE.idFromName(type))[method](length)),
      );
    await atGates("admit");
    const left = [...messages];
    const work = async () => {
      for (let message = left.shift(); message; message = left.shift()) {
        const { id, type, body } = message.body;
        const text = JSON.stringify(body);
        const response = await fetch(env.ENDPOINTS[Number(type.split(".")[1])], {
          method: "POST",
          headers: await signedHeaders(id, text),
          body: text,
          signal: AbortSignal.timeout(TIMEOUT_MS),
        });
        await response.body?.cancel();
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, work));
    const ids = JSON.stringify(messages.map(({ body }) => body.id));
    await env.DB.prepare("INSERT INTO ends (id) SELECT value FROM json_each(?1)").bind(ids).run();
    await atGates("settle");
  },
};
