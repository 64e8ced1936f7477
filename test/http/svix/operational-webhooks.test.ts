/** Endpoints of operational webhooks in the Svix API: destinations of the operator's tenant. */
import { beforeEach, describe, expect, it } from "vitest";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";

const { call } = testApi({ create: createSvixApi });
const native = testApi();
const AT = "/api/v1/operational-webhook/endpoint";
beforeEach(emptyDatabase);

const create = async (body: object = {}) => call("POST", AT, { url: "https://ops.example/hooks", ...body });

describe("an endpoint of operational webhooks", () => {
  it("is a destination of the operator with the template svix, and gets the events that Svix also has", async () => {
    const { status, json } = await create({ uid: "ops", description: "Ops", metadata: { a: "b" } });
    const about = { url: "https://ops.example/hooks", uid: "ops", description: "Ops", metadata: { a: "b" } };
    expect([status, json]).toMatchObject([
      201,
      { ...about, eventTypes: null, disabled: false, throttleRate: null },
    ]);
    const destination = (await native.call("GET", `/v1/destinations/${json.id}`)).json;
    expect(destination).toMatchObject({
      tenant: "operator",
      template: "svix",
      event_types: ["destination.paused", "destination.resumed"],
    });
    for (const name of [json.id, "ops"]) expect((await call("GET", `${AT}/${name}`)).json).toEqual(json);
    expect((await call("GET", AT)).json).toMatchObject({ data: [json], done: true });
  });

  it("gets the event types of Svix that it names, and shows them", async () => {
    const { json } = await create({ eventTypes: ["endpoint.disabled"] });
    expect(json.eventTypes).toEqual(["endpoint.disabled"]);
    const destination = (await native.call("GET", `/v1/destinations/${json.id}`)).json;
    expect(destination.event_types).toEqual(["destination.paused"]);
    const update = { url: "https://ops.example/other", eventTypes: ["endpoint.enabled"] };
    expect((await call("PUT", `${AT}/${json.id}`, update)).json).toMatchObject(update);
    const all = await call("PUT", `${AT}/${json.id}`, { url: "https://ops.example/other" });
    expect([all.status, all.json.eventTypes]).toEqual([200, null]);
  });

  it("takes the former name of event types, as version 1 of the SDKs sends it", async () => {
    const { json } = await create({ filterTypes: ["endpoint.disabled"] });
    expect(json.eventTypes).toEqual(["endpoint.disabled"]);
    const update = { url: "https://ops.example/hooks", filterTypes: ["endpoint.enabled"] };
    expect((await call("PUT", `${AT}/${json.id}`, update)).json.eventTypes).toEqual(["endpoint.enabled"]);
  });

  it.each<[object, string]>([
    [{ eventTypes: ["message.attempt.exhausted"] }, "eventTypes"],
    [{ filterTypes: ["message.attempt.exhausted"] }, "eventTypes"],
    [{ eventTypes: ["endpoint.disabled", "__proto__"] }, "eventTypes"],
    [{ eventTypes: [null] }, "eventTypes"],
    [{ eventTypes: [["endpoint.disabled"]] }, "eventTypes"],
    [{ eventTypes: [{ toString: 1 }] }, "eventTypes"],
    [{ eventTypes: "endpoint.disabled" }, "eventTypes"],
    [{ url: "nowhere" }, "url"],
  ])("is refused with %j", async (body, field) => {
    for (const method of ["POST", "PUT"]) {
      const { id } = (await create()).json;
      const given = { url: "https://ops.example/hooks", ...body };
      const { status, json } = await call(method, method === "PUT" ? `${AT}/${id}` : AT, given);
      expect([status, json.detail[0].loc.slice(0, 2)]).toEqual([422, ["body", field]]);
    }
  });

  it("is created by an update of an unused uid, rotated, given headers and deleted", async () => {
    const put = await call("PUT", `${AT}/ops`, { url: "https://ops.example/hooks" });
    expect([put.status, put.json.uid]).toEqual([201, "ops"]);
    const secret = async () => (await call("GET", `${AT}/ops/secret`)).json.key;
    const before = await secret();
    expect((await call("POST", `${AT}/ops/secret/rotate`, {})).status).toBe(200);
    expect(await secret()).not.toBe(before);
    expect((await call("PUT", `${AT}/ops/headers`, { headers: { "x-a": "1" } })).status).toBe(204);
    expect((await call("GET", `${AT}/ops/headers`)).json).toEqual({ headers: {}, sensitive: ["x-a"] });
    expect((await call("DELETE", `${AT}/ops`)).status).toBe(204);
    expect((await call("GET", `${AT}/ops`)).status).toBe(404);
  });

  it("is separate from endpoints of applications", async () => {
    const { id } = (await create({ uid: "ops" })).json;
    const app = (await call("POST", "/api/v1/app", { name: "A", uid: "a" })).json.id;
    const endpoint = (await call("POST", "/api/v1/app/a/endpoint", { url: "https://a.example/" })).json.id;
    expect((await call("GET", `${AT}/${endpoint}`)).status).toBe(404);
    expect((await call("GET", `/api/v1/app/${app}/endpoint/${id}`)).status).toBe(404);
    expect((await call("GET", "/api/v1/app/operator/endpoint")).status).toBe(404);
  });

  it("is refused to a key that is bound to a tenant, and to one without the scope", async () => {
    const { id } = (await create()).json;
    const keyed = async (body: object) => {
      const { key } = (await native.call("POST", "/v1/keys", body)).json;
      return { authorization: `Bearer ${key}` };
    };
    const bound = await keyed({ scopes: ["admin", "read"], tenant: "operator2" });
    const reader = await keyed({ scopes: ["read"] });
    const routes: [string, string][] = [
      ["GET", AT],
      ["POST", AT],
      ["GET", `${AT}/${id}`],
      ["PUT", `${AT}/${id}`],
      ["DELETE", `${AT}/${id}`],
      ["GET", `${AT}/${id}/secret`],
      ["POST", `${AT}/${id}/secret/rotate`],
      ["GET", `${AT}/${id}/headers`],
      ["PUT", `${AT}/${id}/headers`],
    ];
    const body = { url: "https://evil.example/", headers: {} };
    for (const [method, path] of routes) {
      const given = method === "GET" || method === "DELETE" ? undefined : body;
      expect([path, (await call(method, path, given, bound)).status]).toEqual([path, 403]);
      const isRead = method === "GET" && !path.endsWith("secret");
      expect([path, (await call(method, path, given, reader)).status]).toEqual([path, isRead ? 200 : 403]);
    }
  });
});
