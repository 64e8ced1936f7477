/** The requirements of svix-react on a server: the requests of its hooks, from a page, and the address of its AppPortal. */
import { beforeEach, describe, expect, it, test } from "vitest";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { createPortal } from "../../../src/pages/portal/app.tsx";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { testConfig } from "../../support/config.ts";

const PAGE = "https://app.sender.example";
const services = { config: testConfig({ portalOrigins: [PAGE] }) };
const { call } = testApi({ create: createSvixApi, services });
const native = testApi();
const portal = testApi({ create: createPortal as unknown as typeof createSvixApi, services });

let app = "";
let authorization = "";
beforeEach(async () => {
  await emptyDatabase();
  app = (await call("POST", "/api/v1/app", { name: "Acme" })).json.id;
  const key = { tenant: app, scopes: ["read", "admin"], expires_at: "2026-11-21T10:00:00Z" };
  authorization = `Bearer ${(await native.call("POST", "/v1/keys", key)).json.key}`;
});

const fromPage = (method: string, path: string, body?: unknown) =>
  call(method, `/api/v1${path}`, body, { authorization, origin: PAGE });

test("every hook is answered with a key of the application", async () => {
  const created = await fromPage("POST", `/app/${app}/endpoint`, {
    url: "https://example.com/hooks",
    description: "",
    filterTypes: ["order.paid"],
    version: 1,
  });
  expect(created.status).toBe(201);
  const endpoint = `/app/${app}/endpoint/${created.json.id}`;
  const message = (
    await call("POST", `/api/v1/app/${app}/msg`, { eventType: "order.paid", payload: { id: 1 } })
  ).json.id;
  const page = "limit=10&before=2026-11-22T00:00:00Z&after=2026-11-20T00:00:00Z&channel=a&with_content=true";
  const byType = `${page}&status=0&event_types=order.paid`;
  const requests: readonly [string, string, object?][] = [
    ["GET", `/app/${app}/endpoint?limit=10`],
    ["GET", endpoint],
    ["GET", `${endpoint}/secret`],
    ["POST", `${endpoint}/secret/rotate`, {}],
    ["GET", `${endpoint}/stats`],
    ["GET", `${endpoint}/headers`],
    ["PUT", `${endpoint}/headers`, { headers: { "x-a": "b" } }],
    ["PATCH", `${endpoint}/headers`, { headers: { "x-c": "d" } }],
    ["PUT", endpoint, { url: "https://example.com/other" }],
    ["POST", `${endpoint}/recover`, { since: "2026-11-21T00:00:00Z" }],
    ["GET", `/app/${app}/attempt/endpoint/${created.json.id}?${byType}&status_code_class=200`],
    ["GET", `${endpoint}/msg?${byType}`],
    ["GET", "/event-type?limit=10&with_content=true"],
    ["GET", `/app/${app}/msg?${page}&event_types=order.paid&tag=x`],
    ["GET", `/app/${app}/msg/${message}`],
    ["GET", `/app/${app}/msg/${message}/endpoint?limit=10`],
    ["GET", `/app/${app}/attempt/msg/${message}?${byType}&status_code_class=200`],
    ["POST", `/app/${app}/msg/${message}/endpoint/${created.json.id}/resend`],
    ["DELETE", endpoint],
  ];
  const answers: [string, string, number, string | null][] = [];
  for (const [method, path, body] of requests) {
    const { status, headers } = await fromPage(method, path, body);
    answers.push([method, path, status, headers.get("access-control-allow-origin")]);
  }
  // A delivery that has not ended is attempted anyway: it is not sent again.
  const refused = answers.filter(([, , status]) => status >= 300);
  expect(refused.map(([, path, status]) => [path.split("/").at(-1), status])).toEqual([["resend", 409]]);
  expect(new Set(answers.map(([, , , origin]) => origin))).toEqual(new Set([PAGE]));
});

describe("a page", () => {
  const preflight = (origin: string, path = `/api/v1/app/${app}/endpoint`) =>
    call("OPTIONS", path, undefined, {
      origin,
      authorization: null,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,svix-req-id",
    });

  it("of an origin that may show the portal may send a key, and reads refusals too", async () => {
    const { status, headers } = await preflight(PAGE);
    expect([status, headers.get("access-control-allow-origin")]).toEqual([204, PAGE]);
    expect(headers.get("access-control-allow-headers")).toBe("authorization,svix-req-id");
    expect(headers.get("access-control-allow-credentials")).toBeNull();
    const refused = await fromPage("POST", `/app/${app}/endpoint`, { url: 1 });
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([422, PAGE]);
    expect(refused.headers.get("vary")).toContain("Origin");
  });

  it.each([
    "https://evil.example",
    "https://app.sender.example.evil.example",
    "null",
  ])("of the origin %s may not", async (origin) => {
    const { status, headers } = await preflight(origin);
    expect([status, headers.get("access-control-allow-origin")]).toEqual([401, null]);
  });

  it("cannot use the token of a portal access as a key", async () => {
    const { token } = (await call("POST", `/api/v1/auth/app-portal-access/${app}`)).json;
    authorization = `Bearer ${token}`;
    expect((await fromPage("GET", `/app/${app}/endpoint`)).status).toBe(401);
  });
});

test.each([
  ["true", "dark"],
  ["auto", "auto"],
  ["no", "light"],
])("AppPortal's darkMode %s shows the portal in the theme %s", async (darkMode, theme) => {
  await native.call("PATCH", `/v1/tenants/${app}`, { portal: { theme: "light" } });
  const { url } = (await call("POST", `/api/v1/auth/app-portal-access/${app}`)).json;
  const { pathname, search } = new URL(url);
  const { text } = await portal.call("GET", `${pathname}${search}&darkMode=${darkMode}&primaryColor=000000`);
  expect(text).toContain(`data-theme="${theme}"`);
});
