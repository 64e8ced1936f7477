/**
 * The Worker before two versions of Breakwater: it hands each request, batch of messages and cron to one of them, as the
 * platform does while a deployment reaches its locations, and to any of that version's isolates. Of a queue several
 * invocations run side by side. Paths that begin with `/old` or `/new` choose the version.
 */

/** The share of the new version, 0 to 1, once it has been changed. */
let share;
let turns = 0;

/** In turn, so that each gets its share in a short time too. */
function next(env) {
  turns += 1;
  const ofNew = share ?? env.SHARE;
  return isolateOf(env, Math.floor(turns * ofNew) > Math.floor((turns - 1) * ofNew) ? "new" : "old");
}

/** One of a version's isolates, at random. */
function isolateOf(env, version) {
  return env[`${version}${Math.floor(Math.random() * env.ISOLATES)}`];
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
    return isolateOf(env, first).fetch(new Request(url, request));
  },

  /**
   * Each invocation takes as many messages as in production, and many run side by side. The simulator runs one consumer at a
   * time: it gets its answer as soon as all invocations have begun, and a message to be retried is sent again.
   */
  async queue({ queue, messages }, env, ctx) {
    const { maxBatchSize: size } = env.CONSUMERS[queue];
    for (let from = 0; from < messages.length; from += size) {
      while ((running.get(queue) ?? 0) >= AT_ONCE) await new Promise((free) => waiting.push(free));
      running.set(queue, (running.get(queue) ?? 0) + 1);
      ctx.waitUntil(consume(env, queue, messages.slice(from, from + size).map(given)));
    }
  },
};

/** Invocations of each queue that run side by side at most. */
const AT_ONCE = 20;
const running = new Map();
/** Called when an invocation has ended. */
const waiting = [];

/** A message as its consumer gets it: one that was sent again is what it was at first, but for its attempts. */
function given({ id, timestamp, body, attempts }) {
  return body?.again ?? { id, timestamp, body, attempts };
}

async function consume(env, queue, messages) {
  try {
    const result = await next(env)
      .queue(queue, messages)
      .catch(() => undefined);
    const retried =
      result?.outcome === "ok" ? retriesIn(result, messages) : messages.map((message) => ({ message }));
    await Promise.all(retried.map((one) => sendAgain(env, queue, one)));
  } finally {
    running.set(queue, running.get(queue) - 1);
    for (const free of waiting.splice(0)) free();
  }
}

function retriesIn({ retryMessages, retryBatch, explicitAcks }, messages) {
  const retries = new Map(retryMessages.map((retry) => [retry.msgId, retry]));
  return messages.flatMap((message) => {
    const retry = retries.get(message.id) ?? (retryBatch.retry ? retryBatch : undefined);
    if (retry === undefined || explicitAcks.includes(message.id)) return [];
    return [{ message, delaySeconds: retry.delaySeconds }];
  });
}

/** Soon where the version has died. */
async function sendAgain(env, queue, { message, delaySeconds = 1 }) {
  const { maxRetries, deadLetterQueue } = env.CONSUMERS[queue];
  const again = { ...message, attempts: message.attempts + 1 };
  if (message.attempts <= maxRetries) await env[queue].send({ again }, { contentType: "v8", delaySeconds });
  else if (deadLetterQueue) await env[deadLetterQueue].send(message.body);
}
