/**
 * The Worker before two versions of Breakwater: it hands each request, batch of messages and cron to one of them, as the
 * platform does while a deployment reaches its locations. Of a queue several invocations run side by side. Paths that begin with `/old` or `/new` choose the version.
 */

/** The share of the new version, 0 to 1. */
let share = 0;
let turns = 0;

/** In turn, so that each gets its share in a short time too. */
function next(env) {
  turns += 1;
  return Math.floor(turns * share) > Math.floor((turns - 1) * share) ? env.NEW : env.OLD;
}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const [, first] = url.pathname.split("/");
    if (first === "share") {
      share = Number(await request.text());
      return new Response();
    }
    if (first === "cron") return Response.json(await next(env).scheduled({ cron: "* * * * *" }));
    if (first !== "old" && first !== "new") return next(env).fetch(request);
    url.pathname = url.pathname.slice(first.length + 1);
    return (first === "old" ? env.OLD : env.NEW).fetch(new Request(url, request));
  },

  /** Each invocation takes as many messages as in production; the simulator runs one consumer at a time. */
  async queue(batch, env) {
    const size = env.BATCH_SIZES[batch.queue];
    const count = Math.ceil(batch.messages.length / size);
    const portions = Array.from({ length: count }, (_, i) => batch.messages.slice(i * size, (i + 1) * size));
    await Promise.all(portions.map((messages) => consume(next(env), batch.queue, messages)));
  },
};

async function consume(version, queue, messages) {
  const given = messages.map(({ id, timestamp, body, attempts }) => ({ id, timestamp, body, attempts }));
  const result = await version.queue(queue, given).catch(() => undefined);
  if (result?.outcome !== "ok") {
    for (const message of messages) message.retry();
    return;
  }
  const retries = new Map(result.retryMessages.map((retry) => [retry.msgId, retry]));
  for (const message of messages) {
    const retry = retries.get(message.id) ?? (result.retryBatch.retry ? result.retryBatch : undefined);
    if (retry && !result.explicitAcks.includes(message.id))
      message.retry({ delaySeconds: retry.delaySeconds });
    else message.ack();
  }
}
