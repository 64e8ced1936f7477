/**
 * Every service of every feature, called with another tenant's ids and name: it returns and changes nothing of that tenant.
 */
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { accessUnder } from "../../src/core/portal-access.ts";
import { scopes } from "../../src/core/scopes.ts";
import { createApplication } from "../../src/features/applications/service.ts";
import { findEventsById } from "../../src/features/events/service.ts";
import { eventNumber } from "../../src/ids.ts";
import { findDestination } from "../../src/store/destinations.ts";
import { emptyDatabase, testApi } from "../support/api.ts";
import { storedRows } from "../support/canaries.ts";
import { everyService as services } from "../support/every-service.ts";
import { thingsOf } from "../support/operations.ts";
import { type Owned, serviceInputs } from "../support/service-inputs.ts";

/** The destinations whose gates have been named since the last test began. */
const gatesNamed: string[] = [];

const { call: request, services: ofApi } = testApi({
  services: {
    gates: {
      idFromName: (name: string) => {
        gatesNamed.push(name);
        return env.GATES.idFromName(name);
      },
      get: (id: DurableObjectId) => env.GATES.get(id),
    } as unknown as DurableObjectNamespace<never>,
    fetch: async () => new Response(null, { status: 204 }),
  },
});

/** One object of each kind, with a word in every text that only this tenant has. */
async function owned(tenant: string): Promise<Owned> {
  const canary = `canary-of-${tenant}`;
  const things = await thingsOf(request, tenant);
  const { ids } = things;
  const change = { description: `At ${canary}`, headers: { "x-canary": canary } };
  await request("PATCH", `/v1/destinations/${ids.destinations}`, change);
  await request("POST", "/v1/events", { type: "order.paid", data: { canary }, tenant, tags: [canary] });
  await request("PATCH", `/v1/tenants/${tenant}`, { contact_email: `${canary}@example.com` });
  const number = eventNumber(ids.events ?? "") ?? 0;
  const found = await findEventsById({ services: ofApi, principal: { scopes, tenant } }, [number]);
  const event = found.kind === "ok" ? found.value.get(number) : undefined;
  const destination = await findDestination(ofApi.db, ids.destinations ?? "", tenant);
  if (!event || !destination) throw new Error("The fixtures must be stored");
  const fields = { uid: `uid-of-${tenant}`, name: canary, metadata: null, ratePerSecond: 0 };
  const made = await createApplication(
    { services: ofApi, principal: { scopes } },
    { ...fields, idempotencyKey: undefined },
  );
  if (made.kind !== "ok") throw new Error("The application must be stored");
  const { row: application } = made.value;
  return {
    ...things,
    ids: { ...ids, applications: application.id },
    application,
    event,
    destination,
    canary,
  };
}

/** The contents of a value, as text: streams and generators are read to their first part. */
async function textIn(value: unknown): Promise<string> {
  if (value instanceof ReadableStream) {
    const reader = value.getReader();
    const parts = [await reader.read(), await reader.read()];
    await reader.cancel();
    return parts.map((part) => new TextDecoder().decode(part.value)).join("");
  }
  if (typeof value === "object" && value !== null && Symbol.asyncIterator in value) {
    const parts: unknown[] = [];
    for await (const part of value as AsyncIterable<unknown>) parts.push(part);
    return textIn(parts);
  }
  return JSON.stringify(value, (_, one) => {
    if (one instanceof Map) return [...one];
    if (one instanceof Uint8Array) return new TextDecoder().decode(one);
    return one;
  });
}

const oddly: readonly ((text: string) => string)[] = [
  (text) => text,
  (text) => text.toUpperCase(),
  (text) => ` ${text} `,
  (text) => `${text}\u0000`,
  (text) => `${text}%00`,
  (text) => `../${text}`,
  (text) => `${text}' OR tenant = '`,
  (text) => text.repeat(400),
  () => "__proto__",
  () => "",
];

/** The input with every id and name of the tenant spelled otherwise. */
function spelled(input: unknown, { tenant, ids }: Owned, spell: (text: string) => string): unknown {
  const names = new Set([tenant, ...Object.values(ids)]);
  const within = (value: unknown): unknown => {
    if (typeof value === "string") return names.has(value) ? spell(value) : value;
    if (Array.isArray(value)) return value.map(within);
    if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, within(field)]));
  };
  return within(input);
}

/** The texts that only the tenant has, and that are not in the input. */
function marksOf({ tenant, ids, canary, event }: Owned, input: unknown = null): string[] {
  // The event's number is its id.
  const known = JSON.stringify(input).replaceAll(`${event.id}`, ids.events ?? "");
  return [tenant, canary, ...Object.values(ids)].filter((mark) => !known.includes(mark));
}

/** Every stored value that names the tenant or something of it. */
async function rowsOf(owner: Owned): Promise<unknown> {
  const marks = marksOf(owner);
  return (await storedRows()).filter(({ text }) => marks.some((mark) => text.includes(mark)));
}

let rival: Owned;
async function newTenants(): Promise<void> {
  await emptyDatabase();
  await owned("acme");
  rival = await owned("rival");
}

test("every service has inputs", () => {
  expect(Object.keys(serviceInputs).sort()).toEqual(services.map(({ exported }) => exported).sort());
});

describe("another tenant's ids and name", () => {
  beforeAll(newTenants);

  test.each(services)("reach nothing in $name", async ({ exported, service }) => {
    const inputs = serviceInputs[exported]?.(rival) ?? [];
    const before = await rowsOf(rival);
    gatesNamed.length = 0;
    for (const principal of [
      { scopes, tenant: "acme" },
      { scopes, tenant: "acme", visit: accessUnder({}) },
    ])
      for (const input of inputs)
        for (const spell of oddly) {
          const given = spelled(input, rival, spell);
          const result = await service({ services: ofApi, principal }, given);
          const text = await textIn(result.kind === "ok" ? result.value : result);
          for (const mark of marksOf(rival, [input, given]))
            expect(text, JSON.stringify(given)).not.toContain(mark);
        }
    expect(await rowsOf(rival)).toEqual(before);
    expect(gatesNamed).not.toContain(rival.ids.destinations);
  });
});

describe("the operator", () => {
  beforeEach(newTenants);

  test.each(services)("reaches it with the same inputs in $name", async ({ exported, service }) => {
    // It takes a tenant's principal alone.
    const principal = exported === "findEventsById" ? { scopes, tenant: "rival" } : { scopes };
    for (const input of serviceInputs[exported]?.(rival) ?? []) {
      const result = await service({ services: ofApi, principal }, input);
      // The destination has never been transformed, and the operator's own key has subscribed to nothing.
      const isMissing = ["restoreTransform", "unsubscribe"].includes(exported) && result.kind === "not_found";
      if (!isMissing) expect(["ok", "conflict"], JSON.stringify([input, result])).toContain(result.kind);
      if (result.kind === "ok") await textIn(result.value);
    }
  });
});
