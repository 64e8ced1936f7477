/** A column that a person has edited into nonsense never makes an error of a request that shows the row. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { broken } from "../support/answer-check.ts";
import { emptyDatabase, testApi } from "../support/api.ts";
import { operations } from "../support/operations.ts";

beforeEach(emptyDatabase);

const shown = operations.find(({ method, path }) => method === "GET" && path === "/v1/destinations/{id}");

describe.each(["event_types", "metadata", "headers", "retry"])("a destination's %s", (column) => {
  it.each(["not json", "{", "5", '"text"', "[1]", '{"a":{}}', "null", "true"])("of %s", async (value) => {
    const { call } = testApi();
    const { json } = await call("POST", "/v1/destinations", { url: "https://example.com/" });
    await env.DB.prepare(`UPDATE destinations SET ${column} = ?1`).bind(value).run();
    const answer = await call("GET", `/v1/destinations/${json.id}`);
    expect(answer.status).toBe(200);
    if (shown === undefined) throw new Error("GET /v1/destinations/{id} must be described");
    expect(broken(shown, answer), answer.text).toEqual([]);
    expect((await call("GET", "/v1/destinations")).status).toBe(200);
    expect((await call("PATCH", `/v1/destinations/${json.id}`, { [column]: null })).status).toBe(200);
  });
});
