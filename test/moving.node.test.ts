/**
 * The requests on the pages about moving to Breakwater: each is sent to Breakwater in the local runtime, and what comes
 * to the receiver verifies as the former sender's receivers verify it.
 */
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../tools/wrangler.ts";
import { until } from "./scenario/until.ts";
import { startBreakwater } from "./support/breakwater-runtime.ts";
import { type Hit, type HttpReceiver, startHttpReceiver } from "./support/http-receiver.ts";
import type { Runtime } from "./support/runtime.ts";

const KEY = "test-admin-key-0123456789";

let receiver: HttpReceiver;
let runtime: Runtime;
beforeAll(async () => {
  receiver = await startHttpReceiver();
  runtime = await startBreakwater({ vars: { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" } });
});
afterAll(async () => {
  await runtime?.stop();
  receiver?.stop();
});

type Page = "from-outpost" | "from-convoy" | "from-a-job-queue";
const textOf = (page: Page) => readFileSync(join(projectRoot, `docs/${page}.md`), "utf8");

/** The commands `api PATH [-H HEADER] --json BODY` of a page. */
function requestsOf(page: Page, path: string) {
  const command = /^api (\S+)(?: -H "Idempotency-Key: ([^"]+)")? --json '([^']+)'$/gm;
  return [...textOf(page).matchAll(command)]
    .filter(([, to]) => to === path)
    .map(([, , key, body = ""]) => ({ key, body: JSON.parse(body) as Record<string, unknown> }));
}

/** The settings that a page shows as JSON alone: one a line, or one in a block. */
function settingsOf(page: Page): object[] {
  const blocks = [...textOf(page).matchAll(/^```json\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => text);
  return blocks.flatMap((block) => block.split(/\n(?=\{)/).map((text) => JSON.parse(text)));
}

function send(method: string, path: string, body: unknown, key?: string): Promise<Response> {
  return fetch(`${runtime.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${KEY}`,
      "content-type": "application/json",
      ...(key !== undefined && { "idempotency-key": key }),
    },
    body: JSON.stringify(body),
  });
}

/** Creates a destination of a page and posts the page's event to it alone; returns what comes, and the secret. */
async function delivered(
  page: Page,
  index: number,
): Promise<Hit & Readonly<{ secret: string; eventId: string }>> {
  const { body, key } = requestsOf(page, "/v1/destinations")[index] ?? { body: {}, key: undefined };
  const path = `/${page}/${index}`;
  const made = await send("POST", "/v1/destinations", { ...body, url: `${receiver.url}${path}` }, key);
  const { id } = (await made.json()) as { id: string };
  expect(made.status).toBe(201);
  const [event] = requestsOf(page, "/v1/events");
  const types = body.event_types as string[] | undefined;
  const type = (types?.[0] ?? String(event?.body.type)).replace("*", "paid");
  const posted = await send("POST", "/v1/events", { ...event?.body, type, destination_ids: [id] });
  const { id: eventId } = (await posted.json()) as { id: string };
  expect(posted.status).toBe(202);
  const found = () => receiver.hits.find((hit) => hit.path === path);
  await until(() => found() !== undefined, { otherwise: () => `nothing came to ${path}` });
  return { ...(found() as Hit), secret: String(body.secret), eventId };
}

const hmac = (secret: string, text: string) => createHmac("sha256", secret).update(text).digest("hex");

describe("from Outpost", () => {
  test("the default mode's receivers verify the body by the secret's text", async () => {
    const { headers, body, secret, eventId } = await delivered("from-outpost", 0);
    expect(headers["x-outpost-signature"]).toBe(`v0=${hmac(secret, body)}`);
    expect(headers).toMatchObject({
      "x-outpost-event-id": eventId,
      "x-outpost-topic": "user.created",
      "x-outpost-source": "signup-service",
      "x-api-key": "secret123",
    });
    expect(body).toBe('{"user_id":"usr_123"}');
  });

  test("the other mode's receivers verify with a library of Standard Webhooks", async () => {
    const { headers, body, secret } = await delivered("from-outpost", 1);
    expect(() => new Webhook(secret).verify(body, headers as Record<string, string>)).not.toThrow();
  });
});

describe("from Convoy", () => {
  test("receivers verify advanced signatures over the time, a comma and the body", async () => {
    const { headers, body, secret, eventId } = await delivered("from-convoy", 0);
    const { t, v1 } = Object.fromEntries(
      String(headers["x-convoy-signature"])
        .split(",")
        .map((part) => part.split("=")),
    );
    expect(v1).toBe(hmac(secret, `${t},${body}`));
    expect(Math.abs(Number(t) - Date.now() / 1000)).toBeLessThan(60);
    expect(headers["x-convoy-idempotency-key"]).toBe(eventId);
    expect(body).toBe('{"amount":1000}');
  });

  test("receivers verify simple signatures over the body", async () => {
    const { headers, body, secret } = await delivered("from-convoy", 1);
    expect(headers["x-convoy-signature"]).toBe(hmac(secret, body));
  });
});

describe("from a job queue", () => {
  test("receivers verify the body as before", async () => {
    const { headers, body, secret, eventId } = await delivered("from-a-job-queue", 0);
    expect(headers["x-shop-signature"]).toBe(`sha256=${hmac(secret, body)}`);
    expect(headers).toMatchObject({ "x-shop-delivery": eventId, "x-shop-event": "order.paid" });
  });
});

describe.each<Page>(["from-outpost", "from-convoy", "from-a-job-queue"])("%s", (page) => {
  test("requests have keys, so repeating them is harmless", async () => {
    for (const { key, body } of requestsOf(page, "/v1/events")) {
      const first = (await (await send("POST", "/v1/events", body, key)).json()) as { id: string };
      const again = await send("POST", "/v1/events", body, key);
      expect(key).toBeDefined();
      expect(again.headers.get("idempotent-replayed")).toBe("true");
      expect(await again.json()).toMatchObject({ id: first.id });
    }
  });

  test("its settings are valid for a destination", async () => {
    const made = await send("POST", "/v1/destinations", {
      url: `${receiver.url}/settings`,
      tenant: `settings-${page}`,
      event_types: ["none"],
    });
    const { id } = (await made.json()) as { id: string };
    const all = settingsOf(page);
    expect(all.length).toBeGreaterThan(0);
    for (const settings of all) {
      const changed = await send("PATCH", `/v1/destinations/${id}`, settings);
      expect([settings, changed.status, changed.ok ? "" : await changed.text()]).toEqual([settings, 200, ""]);
    }
  });
});
