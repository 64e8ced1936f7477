/**
 * The least that can be done on this runtime: store, queue, send, note the end. No signature, no gate, no
 * retry: what remains is what the simulated D1 and Queues and the outgoing requests cost by themselves.
 */
const CONNECTIONS = 6;

// biome-ignore lint/style/noDefaultExport: a Worker's handlers are its default export.
export default {
  async fetch(request, env, context) {
    const given = await request.json();
    const events = given.events ?? [given];
    const { results } = await env.DB.prepare(
      "INSERT INTO events (type, body) SELECT value ->> 'type', value FROM json_each(?1) RETURNING id, type",
    )
      .bind(JSON.stringify(events))
      .all();
    const messages = results.map(({ id, type }, i) => ({ body: { id, type, body: events[i] } }));
    context.waitUntil(env.QUEUE.sendBatch(messages));
    return Response.json({ events: results.map(({ id }) => ({ id })) }, { status: 202 });
  },

  async queue(batch, env) {
    const left = [...batch.messages];
    const work = async () => {
      for (let message = left.shift(); message; message = left.shift()) {
        const { type, body } = message.body;
        const response = await fetch(env.ENDPOINTS[Number(type.split(".")[1])], {
          method: "POST",
          body: JSON.stringify(body),
        });
        await response.body?.cancel();
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, work));
    const ids = JSON.stringify(batch.messages.map(({ body }) => body.id));
    await env.DB.prepare("INSERT INTO ends (id) SELECT value FROM json_each(?1)").bind(ids).run();
  },
};
