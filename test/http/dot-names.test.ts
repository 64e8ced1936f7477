/** Names that a URL cannot have as a step of its path: `.` and `..`, which parsers of URLs remove, percent-encoded too. */
import { beforeEach, describe, expect, test } from "vitest";
import { createSvixApi } from "../../src/http/svix/app.ts";
import { emptyDatabase, testApi } from "../support/api.ts";

const native = testApi();
const svix = testApi({ create: createSvixApi });

beforeEach(emptyDatabase);

const url = "https://receiver.example/hook";
const event = { type: "order.paid", data: {} };
const message = { eventType: "order.paid", payload: {} };

describe.each([".", ".."])("the name %j", (name) => {
  test.each<readonly [string, string, object, string]>([
    ["POST", "/v1/destinations", { url, tenant: name }, "tenant"],
    ["POST", "/v1/destinations", { url, uid: name }, "uid"],
    ["POST", "/v1/destinations", { url, group: name }, "group"],
    ["POST", "/v1/events", { ...event, tenant: name }, "tenant"],
    ["POST", "/v1/events", { ...event, type: name }, "type"],
    ["POST", "/v1/keys", { scopes: ["read"], tenant: name }, "tenant"],
    ["POST", "/v1/portal-links", { tenant: name }, "tenant"],
  ])("is refused by %s %s of %j", async (method, path, body, field) => {
    const { status, json } = await native.call(method, path, body);
    expect(status).toBe(422);
    expect(json.errors).toEqual([
      { field: expect.stringMatching(`${field}$`), fault: `is "${name}"`, expected: expect.any(String) },
    ]);
  });

  test("is refused with what names there may be", async () => {
    const { json } = await native.call("POST", "/v1/destinations", { url, tenant: name });
    expect(json.detail).toBe(
      `tenant is "${name}"; expected 1 to 64 letters, digits and _ . : -, but neither . nor ..`,
    );
  });

  test.each<readonly [string, string, object, string]>([
    ["POST", "/api/v1/app", { name: "Acme", uid: name }, "uid"],
    ["POST", "/api/v1/app/acme/endpoint", { url, uid: name }, "uid"],
    ["POST", "/api/v1/app/acme/msg", { ...message, eventId: name }, "eventId"],
    ["POST", "/api/v1/event-type", { name, description: "Paid" }, "name"],
  ])("is refused in the Svix API by %s %s of %j", async (method, path, body, field) => {
    await svix.call("POST", "/api/v1/app", { name: "Acme", uid: "acme" });
    const { status, json } = await svix.call(method, path, body);
    expect([status, json.detail]).toEqual([422, [expect.objectContaining({ loc: ["body", field] })]]);
  });
});

test("names that have more dots are names", async () => {
  for (const name of ["...", "a.", ".a", "..a"])
    expect((await native.call("POST", "/v1/destinations", { url, tenant: name, uid: name })).status).toBe(
      201,
    );
});
