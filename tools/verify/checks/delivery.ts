/** Undisturbed events: what arrives, how fast, and how often. */
import { createPublicKey, verify } from "node:crypto";
import { Webhook } from "standardwebhooks";
import type { DestinationTest } from "../../../client/src/api.ts";
import { arrived, type Check } from "../check.ts";
import { joinResults, judgeLatency, judgeOnce, msText } from "../judge.ts";
import type { EndpointHit } from "../protocol.ts";
import { errorMessage } from "../receiver.ts";

/** How long undisturbed events may take. */
const ARRIVES_MS = 60_000;

/** A new host on workers.dev takes a while until it is known everywhere. */
const REACHED_MS = 90_000;
/** A destination gets at most one test event in five seconds. */
const BETWEEN_TESTS_MS = 5_500;

export const reach: Check = {
  name: "reach",
  expected: "a test event reaches the receiver, and is answered 204",
  runsAlone: true,
  usesReceiver: true,
  reachesReceiver: true,
  run: async (run) => {
    const { deployment } = run;
    const { id } = await run.target("reach");
    let seen = "nothing";
    const reached = async () => {
      const { status, json, text } = await deployment.request("POST", `/v1/destinations/${id}/test`);
      const result = (json ?? {}) as DestinationTest;
      seen =
        status === 200
          ? `${result.error ?? result.status} after ${msText(result.latency_ms)}${explained(result)}`
          : `the test event was answered ${status}: ${text.slice(0, 200)}`;
      return result.status === 204;
    };
    return { ok: await run.until(reached, REACHED_MS, BETWEEN_TESTS_MS), seen };
  },
};

/** Explains the error of a Worker that calls another one of its own account. */
function explained({ response = "" }: DestinationTest): string {
  if (!/error code: 1042\b/.test(response)) return response && `: ${response.slice(0, 100)}`;
  return ": error code 1042, so the deployment lacks the compatibility flag global_fetch_strictly_public";
}

/** Values that a parser limited to JavaScript's numbers and ASCII would change. */
const DELICATE =
  '{"price":100.00,"number":12345678901234567890,"text":"Grüße, 世界 🌊","empty":{},"list":[1e5,-0]}';

export const signed: Check = {
  name: "signed",
  expected: "an event arrives byte for byte, signed with the destination's secret or key",
  runsAlone: true,
  usesReceiver: true,
  run: async (run) => {
    const { deployment } = run;
    const byKey = await run.endpoint("signed-key", { per: "request", replies: [{ status: 204 }] });
    const byHmac = await run.target("signed");
    const { type, secret } = byHmac;
    const body = { url: byKey.url, tenant: deployment.tenant, event_types: [type], signature: "ed25519" };
    const key = await deployment.call<{ public_key: string }>("POST", "/v1/destinations", body);
    const posted = `{"type":"${type}","tenant":"${deployment.tenant}","data":${DELICATE}}`;
    const { status, text } = await deployment.request("POST", "/v1/events", posted);
    if (status !== 202) return { ok: false, seen: `the event was answered ${status}: ${text.slice(0, 200)}` };
    const hits = await Promise.all(
      [byHmac, byKey].map((endpoint) => run.hitsOnce(endpoint, arrived(1), ARRIVES_MS)),
    );
    const [first, second] = hits.map(([hit]) => hit);
    if (first === undefined || second === undefined)
      return {
        ok: false,
        seen: "the event has not arrived; is the receiver's host reachable from the deployment?",
      };
    const faults = [
      ...bodyFaults(first, type),
      ...bodyFaults(second, type),
      ...hmacFaults(first, secret),
      ...(isSignedBy(second, key.public_key) ? [] : ["the signature with ed25519 does not verify"]),
    ];
    return { ok: faults.length === 0, seen: faults.join("; ") || "the same bytes, both signatures verify" };
  },
};

function bodyFaults({ body }: EndpointHit, type: string): string[] {
  const [, timestamp = ""] = /^\{"type":"[^"]*","timestamp":"([^"]+)"/.exec(body) ?? [];
  const expected = `{"type":"${type}","timestamp":"${timestamp}","data":${DELICATE}}`;
  return body === expected && !Number.isNaN(Date.parse(timestamp)) ? [] : [`other bytes: ${body}`];
}

function hmacFaults({ event, timestamp, signature, body }: EndpointHit, secret: string): string[] {
  const headers = { "webhook-id": event, "webhook-timestamp": timestamp, "webhook-signature": signature };
  try {
    new Webhook(secret).verify(body, headers);
    return [];
  } catch (error) {
    return [`the signature does not verify (${errorMessage(error)}); is this machine's clock right?`];
  }
}

/** @param publicKey `whpk_` and the base64 of an ed25519 key */
function isSignedBy({ event, timestamp, signature, body }: EndpointHit, publicKey: string): boolean {
  const x = Buffer.from(publicKey.replace(/^whpk_/, ""), "base64").toString("base64url");
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  const given = signature.split(" ").flatMap((one) => /^v1a,(.+)$/.exec(one)?.[1] ?? []);
  const content = Buffer.from(`${event}.${timestamp}.${body}`);
  return given.some((one) => verify(null, content, key, Buffer.from(one, "base64")));
}

const EVENTS = 40;
const EVERY_MS = 150;

export const latency: Check = {
  name: "latency",
  expected: "single events: accept p50 ≤ 1 s, p99 ≤ 5 s; accept to arrival p50 ≤ 3 s, p99 ≤ 15 s",
  runsAlone: true,
  usesReceiver: true,
  run: async (run) => {
    const target = await run.target("latency");
    const accepts: number[] = [];
    for (let n = 0; n < EVENTS; n++) {
      const { tookMs } = await run.deployment.postOne(target.type, { n }, run.unique(`latency-${n}`));
      accepts.push(tookMs);
      await run.wait(EVERY_MS);
    }
    const hits = await run.hitsOnce(target, arrived(EVENTS), ARRIVES_MS);
    const result = joinResults(
      judgeLatency("accept", accepts, { p50Ms: 1_000, p99Ms: 5_000 }),
      judgeLatency("arrival", hits.map(arrivalMs), { p50Ms: 3_000, p99Ms: 15_000 }),
    );
    return { ok: result.ok && arrived(EVENTS)(hits), seen: `${result.seen}, of ${hits.length}` };
  },
};

/** From the time of acceptance, which is in the body, to the arrival: both by Cloudflare's clocks. */
export function arrivalMs({ at, body }: EndpointHit): number {
  const { timestamp } = JSON.parse(body) as { timestamp: string };
  return at - Date.parse(timestamp);
}

const BATCH = 250;

export const batch: Check = {
  name: "batch",
  expected: `${BATCH} events of one request arrive, each once`,
  usesReceiver: true,
  run: async (run) => {
    const target = await run.target("batch");
    const events = await run.post(target, BATCH, "batch");
    return judgeOnce(events, await run.hitsOnce(target, arrived(BATCH), ARRIVES_MS));
  },
};

export const idempotency: Check = {
  name: "idempotency",
  expected: "one key: the same ids and one delivery however often; 409 for other content",
  usesReceiver: true,
  run: async (run) => {
    const { deployment } = run;
    const target = await run.target("idempotency");
    const post = () => run.post(target, 2, "idempotency");
    // Posts at the same time, and again after the event was accepted.
    const ids = [...(await Promise.all([post(), post(), post()])), await post()];
    const event = { type: target.type, tenant: deployment.tenant, data: { n: 3 } };
    const other = JSON.stringify({ events: [event] });
    const key = { "idempotency-key": run.unique("idempotency") };
    const { status } = await deployment.request("POST", "/v1/events/batch", other, key);
    const hits = await run.hitsOnce(target, arrived(2), ARRIVES_MS);
    // A second delivery would come at once too.
    await run.wait(3_000);
    const once = judgeOnce(ids[0] ?? [], hits.length > 2 ? hits : await target.hits());
    const distinct = new Set(ids.map((each) => each.join())).size;
    const sameIds = distinct === 1 ? "the same ids" : `${distinct} different sets of ids`;
    return {
      ok: once.ok && distinct === 1 && status === 409,
      seen: `${ids.length} requests, ${sameIds}; ${once.seen}; other content ${status}`,
    };
  },
};
