/** The retry simulator: previews a policy without changing anything, and applies it by the API's own route. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, testApi } from "../../../support/api.ts";
import { customer, signedIn } from "../../../support/dashboard.ts";

beforeEach(emptyDatabase);

async function destinationOf(tenant = "default", fields: object = {}): Promise<string> {
  const body = { url: "https://example.com/hook", tenant, ...fields };
  return (await testApi().call("POST", "/v1/destinations", body)).json.id;
}

const retryOf = (id: string) =>
  env.DB.prepare("SELECT retry FROM destinations WHERE id = ?1").bind(id).first<string>("retry");

const path = (fields: Record<string, string>) => `/dashboard/simulator?${new URLSearchParams(fields)}`;

describe("the retry simulator", () => {
  it("shows the default policy: its schedule, its end, and an outage with the gate and without", async () => {
    const { status, html } = await (await signedIn()).get("/dashboard/simulator");
    expect(status).toBe(200);
    expect(html).toContain("Gives up 3 d 2 h after the first attempt, having made about 105 attempts.");
    expect(html).toContain("Presets compared");
    expect(html).toContain("every one but 402, 404, 408, 409, 423, 425, 429");
    expect(html).toContain("With the gate");
    expect(html).toContain("The same policy without it");
  });

  it("starts from the policy of a destination, and simulates with its limits", async () => {
    const id = await destinationOf("default", {
      retry: { schedule: [5, 7200], max_attempts: 2 },
      rate_per_second: 7,
      rate_burst: 1,
    });
    const { html } = await (await signedIn()).get(path({ destination: id }));
    expect(html).toContain('value="5 s, 2 h"');
    expect(html).toContain("Gives up after 2 attempts");
    const peak = /Peak second after the outage<\/th><td[^>]*>(\d+) of 100/.exec(html)?.[1];
    expect(Number(peak)).toBeLessThanOrEqual(8);
  });

  it("simulates the input, and changes nothing", async () => {
    const id = await destinationOf();
    const { html } = await (await signedIn()).get(
      path({ destination: id, preset: "svix", schedule: "30 s, 1 h", max_attempts: "3", outage: "1h" }),
    );
    expect(html).toContain("Gives up after 3 attempts, about 1 h");
    expect(html).toContain("down for 1 hour");
    expect(await retryOf(id)).toBeNull();
  });

  it("names every fault that the API would name, and keeps the input", async () => {
    const fields = {
      preset: "nobody",
      base: "soon",
      factor: "11",
      jitter: "proportional",
      give_up_after: "31 d",
    };
    const { status, html } = await (await signedIn()).get(path(fields));
    const retry = {
      preset: "nobody",
      base: "soon",
      factor: 11,
      jitter: { proportional: null },
      give_up_after: 2_678_400,
    };
    const api = await testApi().call("PATCH", `/v1/destinations/${await destinationOf()}`, { retry });
    expect([status, api.status]).toEqual([422, 422]);
    const escaped = (text: string) => text.replaceAll('"', "&quot;");
    for (const { field, fault, expected } of api.json.errors) {
      expect([field, html.includes(escaped(` ${fault}; expected ${expected}.</p>`))]).toEqual([field, true]);
    }
    expect(html).toContain('name="base" value="soon"');
    expect(html).not.toContain("If every attempt fails");
  });

  it("applies a policy to a destination", async () => {
    const id = await destinationOf();
    const form = { destination: id, preset: "capped", base: "10 s", factor: "3", cap: "1 h", outage: "6h" };
    const { status, headers } = await (await signedIn()).post("/dashboard/simulator", form);
    expect([status, headers.get("location")]).toEqual([303, `/dashboard/destinations/${id}?done=policy`]);
    expect(JSON.parse((await retryOf(id)) ?? "")).toEqual({
      preset: "capped",
      base: 10,
      factor: 3,
      cap: 3600,
    });
  });

  it("applies no invalid policy, and none without a destination", async () => {
    const id = await destinationOf();
    const browser = await signedIn();
    const post = (fields: Record<string, string>) =>
      browser.post("/dashboard/simulator", { preset: "capped", ...fields });
    const faulty = await post({ destination: id, max_attempts: "0" });
    expect(faulty.status).toBe(422);
    expect(faulty.html).toContain("Maximum attempts is 0; expected a whole number of attempts from 1 to 100");
    expect((await post({})).status).toBe(422);
    expect((await post({ destination: "../keys" })).status).toBe(422);
    expect(await retryOf(id)).toBeNull();
  });

  it("applies nothing for another site", async () => {
    const id = await destinationOf();
    const elsewhere = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
    const form = { destination: id, preset: "capped" };
    expect((await (await signedIn()).post("/dashboard/simulator", form, elsewhere)).status).toBe(403);
    expect(await retryOf(id)).toBeNull();
  });
});

describe("a customer's retry simulator", () => {
  it("shows no other tenant's destination", async () => {
    const id = await destinationOf("other", {
      description: "Theirs",
      retry: { schedule: [777], max_attempts: 9 },
    });
    const browser = await customer("acme");
    const { html } = await browser.get(path({ destination: id }));
    expect([html.includes("Theirs"), html.includes("777")]).toEqual([false, false]);
    expect((await browser.post("/dashboard/simulator", { destination: id, preset: "capped" })).status).toBe(
      422,
    );
    expect(JSON.parse((await retryOf(id)) ?? "")).toEqual({ schedule: [777], max_attempts: 9 });
  });

  it("applies nothing with a read-only link", async () => {
    const id = await destinationOf("acme");
    const browser = await customer("acme", true);
    expect((await browser.get(path({ destination: id }))).html).not.toContain("Apply to");
    expect((await browser.post("/dashboard/simulator", { destination: id, preset: "capped" })).status).toBe(
      422,
    );
    expect(await retryOf(id)).toBeNull();
  });
});
