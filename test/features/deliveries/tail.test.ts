/** `GET /v1/deliveries/tail`: what it streams, to whom, and when it stops looking. The clock of the stream is the test's. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf } from "../../../src/core/bundle.ts";
import type { Principal } from "../../../src/core/principal.ts";
import { tailDeliveries } from "../../../src/features/deliveries/tail.ts";
import { createApp } from "../../../src/http/app.ts";

import { eventNumber } from "../../../src/ids.ts";
import { type Services, servicesOf } from "../../../src/services.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { meteredD1 } from "../../support/meter.ts";

beforeEach(emptyDatabase);

const operator = testApi();

/** The stream sleeps before each poll: then the test acts. */
function services(meanwhile: (look: number) => Promise<unknown> = async () => {}): Services {
  let looks = 0;
  return {
    ...servicesOf(env, { waitUntil: () => {} }),
    now: () => NOW,
    log: () => {},
    sleep: async () => void (await meanwhile(++looks)),
  };
}

async function textOf(stream: Promise<ReadableStream<Uint8Array>>): Promise<string> {
  return new Response(await stream).text();
}

type Sent = Readonly<{ event: string; data: Record<string, unknown> }>;

function sentIn(text: string): Sent[] {
  return text.split("\n\n").flatMap((block) => {
    const event = /^event: (.*)$/m.exec(block)?.[1];
    const data = /^data: (.*)$/m.exec(block)?.[1];
    return event && data ? [{ event, data: JSON.parse(data) }] : [];
  });
}

async function streamOf(services: Services, filter = {}, last?: string): Promise<ReadableStream<Uint8Array>> {
  const caller = { services, principal: { scopes: ["read"] as const } };
  const tailed = await tailDeliveries(caller, {
    ...filter,
    last,
    render: ({ found, event: { type, tenant } }) =>
      JSON.stringify({ state: found.kind === "stored" ? found.row.state : "queued", type, tenant }),
  });
  if (tailed.kind !== "ok") throw new Error(tailed.detail);
  return tailed.value;
}

const lastIdIn = (text: string) => [...text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1];

async function newDestination(tenant: string): Promise<string> {
  return (await operator.call("POST", "/v1/destinations", { url: "https://example.com/hook", tenant })).json
    .id;
}

const post = async (tenant: string, type = "order.paid") =>
  (await operator.call("POST", "/v1/events", { type, data: {}, tenant })).json;

async function deliver(destination: string, event: string, state: string): Promise<void> {
  await env.DB.prepare("DELETE FROM deliveries").run();
  await insertRow("deliveries", {
    ...{
      destination_id: destination,
      event_id: eventNumber(event),
      state,
      attempts: 1,
      give_up_at: NOW,
      log: [],
    },
  });
}

describe("the tail", () => {
  test("shows each new delivery, and each change of it, until it has ended", async () => {
    const destination = await newDestination("acme");
    await post("acme", "before.it");
    let event = "";
    const text = await textOf(
      streamOf(
        services(async (look) => {
          if (look === 2) event = (await post("acme")).id;
          if (look === 4) await deliver(destination, event, "retrying");
          if (look === 6) await deliver(destination, event, "delivered");
          if (look === 8) await deliver(destination, event, "dead");
        }),
      ),
    );
    expect(sentIn(text).map(({ event, data }) => [event, data.type, data.state])).toEqual([
      ["delivery", "order.paid", "queued"],
      ["delivery", "order.paid", "retrying"],
      ["delivery", "order.paid", "delivered"],
    ]);
    expect(text.startsWith("retry: 1000\n")).toBe(true);
  });

  test("shows only what the filter names", async () => {
    const [own, other] = [await newDestination("acme"), await newDestination("acme")];
    await newDestination("rival");
    const meanwhile = async (look: number) => {
      if (look === 1) await Promise.all([post("acme"), post("rival"), post("acme", "user.new")]);
    };
    const shown = async (filter: object) =>
      sentIn(await textOf(streamOf(services(meanwhile), filter))).map(
        ({ data }) => `${data.tenant} ${data.type}`,
      );
    expect((await shown({ tenant: "rival" })).sort()).toEqual(["rival order.paid"]);
    expect((await shown({ destinationId: own })).sort()).toEqual(["acme order.paid", "acme user.new"]);
    expect(await shown({ destinationId: own, tenant: "rival" })).toEqual([]);
    expect(await shown({ destinationId: other, type: "user.*" })).toEqual(["acme user.new"]);
  });

  test("shows nothing for an invalid id of a destination, and continues, whatever it is as a JSON path", async () => {
    const own = await newDestination("acme");
    await post("acme");
    for (const destinationId of ["", '"', "[", ".", "a.b", "$", `${own}[0]`, `${own}" `, "__proto__"]) {
      const meanwhile = async (look: number) => {
        if (look === 1) await post("acme");
      };
      const text = await textOf(streamOf(services(meanwhile), { destinationId }, "none"));
      expect([destinationId, sentIn(text), text.match(/^id: /gm)?.length]).toEqual([destinationId, [], 21]);
    }
  });

  test("continues after the last event that the client got, with deliveries that had not ended", async () => {
    const destination = await newDestination("acme");
    const first = await textOf(
      streamOf(
        services(async (look) => {
          if (look === 1) await deliver(destination, (await post("acme", "ended")).id, "delivered");
          if (look === 2) await post("acme", "open");
        }),
      ),
    );
    await post("acme", "meanwhile");
    const second = await textOf(streamOf(services(), {}, lastIdIn(first)));
    expect(sentIn(second).map(({ data }) => data.type)).toEqual(["open", "meanwhile"]);
  });

  test("begins now for an invalid id, and reads no more for an old one", async () => {
    await newDestination("acme");
    const old = (await post("acme")).id;
    await insertBundles(env.DB, Array(500).fill({ events: [{ tenant: "rival" }] }));
    for (const id of ["", "x", "evt_0000000000000", `${old}.${old}`.repeat(500)])
      expect(
        sentIn(await textOf(streamOf(services(), {}, id))).map(({ event }) => event),
        id,
      ).not.toContain("delivery");
    const metered = meteredD1(env.DB);
    const stream = streamOf({ ...services(), db: metered.db }, {}, old);
    expect(sentIn(await textOf(stream))).toEqual([{ event: "gap", data: {} }]);
    expect(metered.used().rowsRead).toBeLessThanOrEqual(200 + 25);
  });

  test("costs a row for each poll while nothing comes, and ends after twenty polls or when nothing reads it", async () => {
    await insertBundles(env.DB, Array(300).fill({ events: [{ tenant: "rival" }] }));
    const metered = meteredD1(env.DB);
    await textOf(streamOf({ ...services(), db: metered.db }));
    expect(metered.used()).toMatchObject({ rowsRead: 21, queries: 21 });

    const reader = (await streamOf({ ...services(), db: metered.db })).getReader();
    await reader.read();
    await reader.read();
    expect(metered.used()).toMatchObject({ queries: 2 });
    await reader.cancel();
    expect(metered.used()).toMatchObject({ queries: 0 });
  });

  test("stops waiting when the client goes", async () => {
    let aborted = false;
    const waiting = new Promise<void>(() => {});
    const sleep: Services["sleep"] = (_, signal) => {
      signal?.addEventListener("abort", () => {
        aborted = true;
      });
      return waiting;
    };
    const reader = (await streamOf({ ...services(), sleep })).getReader();
    await reader.read();
    void reader.read();
    await reader.cancel();
    expect(aborted).toBe(true);
  });

  test("ends when the database fails, so that the client connects again", async () => {
    const metered = meteredD1(env.DB);
    const stream = streamOf({
      ...services(async (look) => look === 2 && metered.failing(() => "before")),
      db: metered.db,
    });
    expect(lastIdIn(await textOf(stream))).toBeDefined();
  });

  test("reads at most 460 rows for each poll, however much comes and changes", async () => {
    const destination = await newDestination("acme");
    const foreign = { events: [{ tenant: "rival" }], acceptedAt: NOW };
    const own = { events: [{ tenant: "acme", destinations: [destination] }], acceptedAt: NOW };
    const arrive = async () => {
      await insertBundles(
        env.DB,
        Array.from({ length: 300 }, (_, i) => (i % 4 ? foreign : own)),
      );
      await env.DB.prepare(
        `INSERT OR IGNORE INTO deliveries (destination_id, event_id, state, attempts, give_up_at, next_attempt_at)
         SELECT ?1, id * 128, 'retrying', 1, 0, 0 FROM bundles WHERE plan <> '{}'`,
      )
        .bind(destination)
        .run();
    };
    const metered = meteredD1(env.DB);
    const most: number[] = [];
    const counting = {
      ...services(async () => {
        most.push(metered.used().rowsRead);
        await arrive();
      }),
      db: metered.db,
    };
    await textOf(streamOf(counting, { tenant: "acme" }));
    expect(Math.max(...most)).toBeGreaterThan(250);
    expect(Math.max(...most)).toBeLessThanOrEqual(460);
  });

  test("takes the newest of very many, and marks the gap", async () => {
    const destination = await newDestination("acme");
    const events = Array.from({ length: 80 }, () => ({ tenant: "acme", destinations: [destination] }));
    const text = await textOf(
      streamOf(services(async (look) => look === 1 && insertBundles(env.DB, [{ events, acceptedAt: NOW }]))),
    );
    expect(sentIn(text).filter(({ event }) => event === "delivery")).toHaveLength(50);
    expect(sentIn(text)[0]?.event).toBe("gap");
  });
});

const context = {
  waitUntil: () => {},
  passThroughOnException: () => {},
  props: {},
} as unknown as ExecutionContext;

describe("GET /v1/deliveries/tail", () => {
  const streamFor = (principal: Principal, query = "", headers = {}) => {
    const app = createApp({
      authenticate: async () => principal,
      services: () => services(async (look) => look === 1 && Promise.all([post("acme"), post("rival")])),
    });
    const all = { authorization: "Bearer x", ...headers };
    return app.fetch(new Request(`https://x/v1/deliveries/tail${query}`, { headers: all }), env, context);
  };

  test("shows a tenant's key only its own deliveries, as JSON with their events", async () => {
    await newDestination("acme");
    await newDestination("rival");
    const response = await streamFor({ scopes: ["read"], tenant: "acme" });
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-store");
    const sent = sentIn(await response.text());
    expect(sent).toMatchObject([
      {
        data: { state: "queued", tenant: "acme", type: "order.paid", timestamp: "2026-11-21T09:00:00.000Z" },
      },
    ]);
    expect(bundleOf(eventNumber(String(sent[0]?.data.event_id)) ?? 0)).toBeGreaterThan(0);
  });

  test.each([
    ["newly", {}],
    ["again", { "last-event-id": "none" }],
  ])("answers 503 with Retry-After when the database fails at once (%s)", async (_, headers) => {
    const metered = meteredD1(env.DB);
    metered.failing(() => "before");
    const app = createApp({
      authenticate: async () => ({ scopes: ["read"] }),
      services: () => ({ ...services(), db: metered.db }),
    });
    const request = new Request("https://x/v1/deliveries/tail", {
      headers: { authorization: "Bearer x", ...headers },
    });
    const response = await app.fetch(request, env, context);
    expect(response.status).toBe(503);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(response.headers.get("content-type")).toContain("application/problem+json");
  });

  test("refuses another tenant, and parameters that it does not know", async () => {
    const principal: Principal = { scopes: ["read"], tenant: "acme" };
    expect((await streamFor(principal, "?tenant=rival")).status).toBe(403);
    expect((await streamFor(principal, "?state=dead")).status).toBe(422);
    expect((await streamFor({ scopes: ["admin"] })).status).toBe(403);
  });
});
