/** Removing the content of messages in the Svix API: erasures of events. */
import { beforeEach, describe, expect, it } from "vitest";
import { createSvixApi } from "../../../src/http/svix/app.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";

const { call } = testApi({ create: createSvixApi });
const native = testApi();

let app = "";
beforeEach(async () => {
  await emptyDatabase();
  app = (await call("POST", "/api/v1/app", { name: "Acme", uid: "acme" })).json.id;
});

const at = (rest: string) => `/api/v1/app/acme/msg/${rest}`;

async function post(eventId: string): Promise<string> {
  const body = { eventType: "a", payload: { card: "4242" }, eventId };
  return (await call("POST", "/api/v1/app/acme/msg", body)).json.id;
}
const payloadOf = async (id: string) => (await call("GET", at(id))).json.payload;

/** A key of another tenant, with every scope. */
async function stranger() {
  const { key } = (await native.call("POST", "/v1/keys", { scopes: ["admin", "read"], tenant: "app_b" }))
    .json;
  return { authorization: `Bearer ${key}` };
}

describe("the content of a message", () => {
  it("is removed by id and by eventId, and may be removed again; the message stays", async () => {
    const [one, two, kept] = [await post("one"), await post("two"), await post("kept")];
    for (const name of [one, "two", "two"])
      expect((await call("DELETE", at(`${name}/content`))).status).toBe(204);
    for (const id of [one, two]) {
      expect((await call("GET", at(id))).status).toBe(200);
      expect(JSON.stringify(await payloadOf(id))).not.toContain("4242");
    }
    expect(await payloadOf(kept)).toEqual({ card: "4242" });
  });

  it("is not removed for an unknown message, nor with another tenant's key", async () => {
    const id = await post("one");
    for (const name of ["none", "evt_0000000000000", "%00"])
      expect((await call("DELETE", at(`${name}/content`))).status).toBe(404);
    await call("POST", "/api/v1/app", { name: "B", uid: "b" });
    expect((await call("DELETE", `/api/v1/app/b/msg/${id}/content`)).status).toBe(404);
    expect((await call("DELETE", at(`${id}/content`), undefined, await stranger())).status).toBe(404);
    expect(await payloadOf(id)).toEqual({ card: "4242" });
  });
});

describe("the content of many messages", () => {
  it("is removed with the result of each", async () => {
    const id = await post("one");
    await post("two");
    const { status, json } = await call("POST", at("bulk-expunge"), { ids: [id, "two", "none", id] });
    expect([status, json.results]).toEqual([200, { [id]: "expunged", two: "expunged", none: "not-found" }]);
    expect((await call("POST", at("bulk-expunge"), {})).json.results).toEqual({});
  });

  it.each([{ ids: "one" }, { ids: [1] }, { ids: Array(51).fill("a") }])("is refused for %j", async (body) => {
    expect((await call("POST", at("bulk-expunge"), body)).status).toBe(422);
  });
});

describe("the content of all messages", () => {
  it("is removed by a background task", async () => {
    await post("one");
    const { status, json } = await call("POST", at("expunge-all-contents"));
    const task = { status: "running", task: "application.purge_content" };
    expect([status, json]).toEqual([
      202,
      { ...task, id: expect.stringMatching(/^era_/), updatedAt: expect.any(String) },
    ]);
    const shown = (await call("GET", `/api/v1/background-task/${json.id}`)).json;
    expect(shown).toMatchObject({ ...task, id: json.id, data: { messagesPurged: expect.any(Number) } });
    const list = async (query: string) =>
      (await call("GET", `/api/v1/background-task?task=application.purge_content${query}`)).json;
    expect(await list("")).toMatchObject({ data: [shown], done: true });
    expect((await list("&status=finished")).data).toEqual([]);
    const headers = await stranger();
    expect((await call("GET", `/api/v1/background-task/${json.id}`, undefined, headers)).status).toBe(404);
    expect((await call("POST", at("expunge-all-contents"), {}, headers)).status).toBe(404);
  });

  it("does not count as a task if it is an erasure of another kind, or of another tenant", async () => {
    const id = await post("one");
    const one = (await native.call("POST", "/v1/erasures", { tenant: app, event_id: id })).json.id;
    const other = (await native.call("POST", "/v1/erasures", { tenant: "b", everything: true })).json.id;
    for (const none of [one, other, "era_none"])
      expect((await call("GET", `/api/v1/background-task/${none}`)).status).toBe(404);
  });
});
