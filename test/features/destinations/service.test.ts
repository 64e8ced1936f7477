/** The services of destinations check their principals themselves, whichever adapter calls them. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { accessUnder, capabilities, type PortalRules } from "../../../src/core/portal-access.ts";
import type { Principal } from "../../../src/core/principal.ts";
import type { Refused, Result } from "../../../src/core/result.ts";
import { scopes } from "../../../src/core/scopes.ts";
import { clearHold, getDestinationHealth } from "../../../src/features/destinations/health.ts";
import { rotateMasterKey } from "../../../src/features/destinations/master-key.ts";
import { previewDestination } from "../../../src/features/destinations/preview.ts";
import { revealSecret, rotateSecret } from "../../../src/features/destinations/secrets.ts";
import {
  createDestination,
  getDestination,
  getDestinations,
  pauseDestination,
  removeDestination,
  resumeDestination,
  testDestination,
  updateDestination,
  updateHeaders,
} from "../../../src/features/destinations/service.ts";
import type { Caller } from "../../../src/features/service.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { everythingStored } from "../../support/operations.ts";

const requests: string[] = [];
const { call, services } = testApi({
  services: {
    gates: env.GATES,
    fetch: async (request) => {
      requests.push(String(request));
      return new Response(null, { status: 204 });
    },
  },
});

const requestUrl = "https://breakwater.example/v1/destinations";
const url = "https://example.com/other";

type Call = (caller: Caller, id: string) => Promise<Result<unknown>>;

/** Every service, called for a destination of acme. */
const calls: Readonly<Record<string, Call>> = {
  createDestination: (caller) =>
    createDestination(caller, { destination: { url, tenant: "acme" }, requestUrl }),
  getDestinations: (caller) => getDestinations(caller, { tenant: "acme", after: undefined, limit: 10 }),
  getDestination,
  updateDestination: (caller, id) =>
    updateDestination(caller, { id, change: { description: "Changed" }, requestUrl }),
  updateHeaders: (caller, id) => updateHeaders(caller, { id, set: { "x-team": "billing" }, remove: [] }),
  removeDestination,
  pauseDestination,
  resumeDestination,
  testDestination: (caller, id) => testDestination(caller, { id }),
  previewDestination: (caller, id) => previewDestination(caller, { id }),
  rotateSecret: (caller, id) => rotateSecret(caller, { id }),
  revealSecret,
  getDestinationHealth,
  clearHold,
  rotateMasterKey: (caller) => rotateMasterKey(caller, ""),
};

const all = Object.entries(calls);

/** The services that no visitor of the portal may call, with any rights. */
const FOR_OPERATORS = ["revealSecret", "getDestinationHealth", "clearHold", "rotateMasterKey"];

/** The right that each service requires of a visit; every visitor may call the others. */
const RIGHTS: Readonly<Record<string, keyof PortalRules>> = {
  createDestination: "may_edit_endpoints",
  updateDestination: "may_edit_endpoints",
  updateHeaders: "may_edit_endpoints",
  removeDestination: "may_edit_endpoints",
  pauseDestination: "may_edit_endpoints",
  resumeDestination: "may_edit_endpoints",
  testDestination: "may_test",
  previewDestination: "may_see_payloads",
  rotateSecret: "may_rotate",
};

let id: string;

beforeEach(async () => {
  await emptyDatabase();
  const created = await call("POST", "/v1/destinations", {
    url: "https://example.com/hook",
    tenant: "acme",
    status: "paused",
    headers: { "x-api-key": "abc" },
  });
  id = created.json.id;
  requests.length = 0;
});

async function refusal(work: Call, principal: Principal): Promise<Refused> {
  const before = await everythingStored();
  const result = await work({ services, principal }, id);
  expect(await everythingStored()).toBe(before);
  expect(requests).toEqual([]);
  if (result.kind === "ok") throw new Error(`Not refused: ${JSON.stringify(result.value)}`);
  return result;
}

describe("a principal of another tenant", () => {
  it.each(all)("is refused, and changes nothing: %s", async (_, work) => {
    const refused = await refusal(work, { scopes, tenant: "globex" });
    expect(["forbidden", "not_found"]).toContain(refused.kind);
  });
});

describe("a principal without the scope", () => {
  const reads = ["getDestinations", "getDestination", "getDestinationHealth", "previewDestination"];

  it.each(all)("is refused, and changes nothing: %s", async (name, work) => {
    const others = reads.includes(name) ? (["events:write"] as const) : (["events:write", "read"] as const);
    expect((await refusal(work, { scopes: others })).kind).toBe("forbidden");
  });
});

describe("a visit of the portal without the right", () => {
  const guarded = all.filter(([name]) => name in RIGHTS || FOR_OPERATORS.includes(name));

  it.each(guarded)("is refused, and changes nothing: %s", async (name, work) => {
    const right = RIGHTS[name];
    const rules = Object.fromEntries(capabilities.map((one) => [one, one !== right]));
    const visit = accessUnder(rules);
    expect((await refusal(work, { scopes, tenant: "acme", visit })).kind).toBe("forbidden");
  });

  it.each(
    all.filter(([name]) => !FOR_OPERATORS.includes(name)),
  )("may do everything else in the portal: %s", async (name, work) => {
    const rules = Object.fromEntries(capabilities.map((one) => [one, one === RIGHTS[name]]));
    const principal = { scopes, tenant: "acme", visit: accessUnder(rules) };
    expect(await work({ services, principal }, id)).toMatchObject({ kind: "ok" });
  });

  it("sets no limit above its own, by name or by default", async () => {
    const visit = accessUnder({ max_concurrency: 5 });
    const principal = { scopes, tenant: "acme", visit };
    const update =
      (max_concurrency: number | null): Call =>
      (caller) =>
        updateDestination(caller, { id, change: { max_concurrency }, requestUrl });
    expect((await refusal(update(6), principal)).kind).toBe("invalid");
    expect((await refusal(update(null), principal)).kind).toBe("invalid");
    expect((await refusal(calls.createDestination as Call, principal)).kind).toBe("invalid");
  });
});

describe("a destination", () => {
  it("is not created at the host of the caller's request, whichever adapter forgets to check it", async () => {
    const principal = { scopes };
    const own = { url: "https://breakwater.example/hook", tenant: "acme" };
    const create: Call = (caller) => createDestination(caller, { destination: own, requestUrl });
    expect((await refusal(create, principal)).kind).toBe("invalid");
    const move: Call = (caller) => updateDestination(caller, { id, change: { url: own.url }, requestUrl });
    expect((await refusal(move, principal)).kind).toBe("invalid");
  });

  it("is created once with a key: a repeat names the first", async () => {
    const create = () =>
      createDestination(
        { services, principal: { scopes } },
        { destination: { url, tenant: "acme" }, key: "signup-1", requestUrl },
      );
    const first = await create();
    if (first.kind !== "ok") throw new Error(first.detail);
    expect(await create()).toMatchObject({ kind: "conflict", existing: first.value.row.id });
  });
});
