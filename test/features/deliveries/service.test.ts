/** The services of deliveries refuse callers without the right to use them, and then change nothing. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { accessUnder } from "../../../src/core/portal-access.ts";
import type { Principal } from "../../../src/core/principal.ts";
import { scopes } from "../../../src/core/scopes.ts";
import { getAttempt, removeAttemptContent } from "../../../src/features/deliveries/attempts.ts";
import {
  cancelOneDelivery,
  cancelWaiting,
  retryDeliveries,
  retryDelivery,
} from "../../../src/features/deliveries/repairs.ts";
import {
  findDeliveries,
  findOneDelivery,
  getDeliveries,
  getDelivery,
  getDeliveryInFull,
  getDeliveryLog,
} from "../../../src/features/deliveries/service.ts";
import { tailDeliveries } from "../../../src/features/deliveries/tail.ts";
import type { Caller } from "../../../src/features/service.ts";
import { servicesOf } from "../../../src/services.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";

beforeEach(emptyDatabase);

const operator = testApi();

function callerOf(principal: Principal): Caller {
  return { services: { ...servicesOf(env, { waitUntil: () => {} }), log: () => {} }, principal };
}

async function posted() {
  const url = "https://example.com/hook";
  const destination = (await operator.call("POST", "/v1/destinations", { url, tenant: "acme" })).json.id;
  const event = await operator.call("POST", "/v1/events", { type: "a.b", data: 1, tenant: "acme" });
  return { destination, id: event.json.deliveries[0].id as string };
}

type Posted = Awaited<ReturnType<typeof posted>>;

const one = { limit: 10, state: "queued" } as const;
const tail = { last: undefined, render: () => "" };

/** Each service, with the scope that it needs and whether visitors of the portal may use it. */
const cases = {
  findDeliveries: ["read", false, (c: Caller) => findDeliveries(c, one)],
  getDeliveries: ["read", true, (c: Caller) => getDeliveries(c, one)],
  getDeliveryLog: ["read", true, (c: Caller) => getDeliveryLog(c, one)],
  findOneDelivery: ["read", false, (c: Caller, { id }: Posted) => findOneDelivery(c, id)],
  getDelivery: ["read", true, (c: Caller, { id }: Posted) => getDelivery(c, id)],
  getDeliveryInFull: ["read", true, (c: Caller, { id }: Posted) => getDeliveryInFull(c, id)],
  getAttempt: ["read", true, (c: Caller, { id }: Posted) => getAttempt(c, { delivery: id, at: "" })],
  tailDeliveries: ["read", false, (c: Caller) => tailDeliveries(c, { ...tail, tenant: "acme" })],
  retryDelivery: ["admin", false, (c: Caller, { id }: Posted) => retryDelivery(c, id)],
  retryDeliveries: ["admin", false, (c: Caller, { id }: Posted) => retryDeliveries(c, [id])],
  cancelOneDelivery: ["admin", false, (c: Caller, { id }: Posted) => cancelOneDelivery(c, id)],
  cancelWaiting: ["admin", false, (c: Caller, { destination }: Posted) => cancelWaiting(c, { destination })],
  removeAttemptContent: ["admin", false, (c: Caller, { id }: Posted) => removeAttemptContent(c, id)],
} as const;

const nothing = accessUnder({ may_resend: false, may_see_payloads: false });

describe.each(Object.entries(cases))("%s", (_, [scope, isForVisitors, call]) => {
  test("shows and changes nothing of another tenant", async () => {
    const things = await posted();
    const result = await call(callerOf({ scopes, tenant: "other" }), things);
    expect(JSON.stringify(result)).not.toMatch(/"event_id"|"eventId"|"kind":"planned"/);
    expect(await stateOf(things)).toBe("queued");
  });

  test("is refused without its scope", async () => {
    const things = await posted();
    const lacking = scopes.filter((name) => name !== scope);
    expect(await call(callerOf({ scopes: lacking, tenant: "acme" }), things)).toMatchObject({
      kind: "forbidden",
    });
    expect(await stateOf(things)).toBe("queued");
  });

  test("permits a visitor of the portal what the visit allows", async () => {
    const things = await posted();
    const { kind } = await call(callerOf({ scopes, tenant: "acme", visit: nothing }), things);
    if (isForVisitors) expect(kind).not.toBe("forbidden");
    else expect(kind).toBe("forbidden");
    expect(await stateOf(things)).toBe("queued");
  });
});

async function stateOf({ id }: Posted): Promise<string> {
  return (await operator.call("GET", `/v1/deliveries/${id}`)).json.state;
}
