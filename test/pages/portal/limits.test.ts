/** How often visitors of the portal and of the dashboard may request pages and send forms, and what is counted. */
import { beforeEach, describe, expect, it } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { testDashboard } from "../../support/dashboard.ts";
import { testPortal, visitor } from "../../support/portal.ts";

beforeEach(emptyDatabase);

/** Limits of so many requests for each name, and the names. */
function limits(most: number) {
  const counts = new Map<string, number>();
  const binding = (kind: string) =>
    ({
      limit: async ({ key }: { key: string }) => {
        const name = `${kind} ${key}`;
        counts.set(name, (counts.get(name) ?? 0) + 1);
        return { success: (counts.get(name) ?? 0) <= most };
      },
    }) as RateLimit;
  const services = {
    readLimit: binding("read"),
    writeLimit: binding("write"),
    ingestLimit: binding("ingest"),
    anonymousLimit: binding("anonymous"),
  };
  return { counts, services };
}

describe("a visit of the portal", () => {
  it("uses up only its own rate, by pages and by forms", async () => {
    const { counts, services } = limits(5);
    const [first, second] = [
      await visitor("acme", {}, { services }),
      await visitor("acme", {}, { services }),
    ];
    const statuses: number[] = [];
    for (let i = 0; i < 7; i++) statuses.push((await first.get("/portal")).status);
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429, 429]);
    const refused = await first.get("/portal");
    expect([refused.headers.get("retry-after"), refused.html]).toEqual([
      "10",
      expect.stringContaining("Too many requests"),
    ]);
    expect((await second.get("/portal")).status).toBe(200);
    const forms: number[] = [];
    for (let i = 0; i < 6; i++)
      forms.push((await second.post("/portal/preferences", { theme: "dark" })).status);
    expect(forms).toEqual([303, 303, 303, 303, 303, 429]);
    expect([...counts.keys()].every((name) => /^(read|write) portal:acme:/.test(name))).toBe(true);
  });
});

describe("a key", () => {
  it("changes things no more often than its limit, at the dashboard too", async () => {
    const { counts, services } = limits(3);
    const api = testApi({ services });
    const { json } = await api.call("POST", "/v1/keys", { scopes: ["read", "admin", "events:write"] });
    const authorization = `Bearer ${json.key}`;
    const pause = async () =>
      (await api.call("POST", "/v1/destinations/dst_1/pause", undefined, { authorization })).status;
    expect([await pause(), await pause(), await pause(), await pause()]).toEqual([404, 404, 404, 429]);
    const post = await api.call("POST", "/v1/events", { type: "a", data: 1 }, { authorization });
    expect(post.status).toBe(202);
    expect(counts.get(`ingest ${json.id}`)).toBe(1);
    const browser = testDashboard({ services });
    await browser.signIn(json.key);
    const pages = [];
    for (let i = 0; i < 4; i++) pages.push((await browser.get("/dashboard/keys")).status);
    expect(pages).toEqual([200, 200, 200, 429]);
    expect((await browser.post("/dashboard/sign-out")).status).toBe(429);
  });
});

describe("a form that cannot be read", () => {
  const headers = { "content-type": "multipart/form-data", "cf-connecting-ip": "203.0.113.7" };

  it.each(["/dashboard/sign-in", "/portal/enter"])("is 400, and counted: %s", async (path) => {
    const { counts, services } = limits(2);
    const browser = path.startsWith("/portal") ? testPortal({ services }) : testDashboard({ services });
    const statuses: number[] = [];
    for (let i = 0; i < 3; i++) statuses.push((await browser.post(path, { key: "k" }, headers)).status);
    expect(statuses).toEqual([400, 400, 429]);
    expect([...counts.keys()]).toEqual(["anonymous 203.0.113.7"]);
  });
});
