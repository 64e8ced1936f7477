/** Runs everything that handles secrets, then searches all that was answered and logged. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { faultOf } from "../../src/log.ts";
import { newSecret } from "../../src/secrets/signing.ts";
import { emptyDatabase, testApi } from "../support/api.ts";

const own = newSecret("hmac-sha256");
const rotated = newSecret("hmac-sha256");
const pair = newSecret("ed25519");
const hidden = [own, rotated, pair].map((secret) => secret.slice(secret.indexOf("_") + 1));
const URL_ = "https://example.com/hook";

beforeEach(emptyDatabase);

test("a secret is shown in the answer that creates it, and nowhere else", async () => {
  const said: string[] = [];
  const { call, log } = testApi();
  const send = async (method: string, path: string, body?: unknown) => {
    const { json, text, headers } = await call(method, path, body);
    said.push(text, JSON.stringify([...headers]));
    return json;
  };
  const created = (await call("POST", "/v1/destinations", { url: URL_, secret: own })).json;
  const other = await send("POST", "/v1/destinations", { url: URL_, secret: pair });
  expect(created.secret).toBe(own);
  const path = `/v1/destinations/${created.id}`;
  expect((await call("POST", `${path}/rotate-secret`, { secret: rotated })).json.secret).toBe(rotated);

  for (const place of ["", "/jwks.json", "/health"]) await send("GET", `${path}${place}`);
  await send("GET", `/v1/destinations/${other.id}/jwks.json`);
  await send("GET", "/v1/destinations");
  await send("PATCH", path, { description: "x" });
  await send("PATCH", path, { secret: own });
  await send("POST", `${path}/pause`);
  await send("POST", `${path}/resume`);
  await send("POST", "/v1/rotate-master-key");
  for (const secret of [`${own} `, own.slice(6), [own], { own }])
    await send("POST", "/v1/destinations", { url: URL_, secret });
  await send("POST", "/v1/destinations", { url: URL_, secret: own, signature: "ed25519" });
  await send("POST", "/v1/destinations", { url: URL_, headers: { "x y": own, "webhook-id": own } });
  for (const broken of [
    `{"secret":x${own.slice(6)}}`,
    `{"secret":"${own}"x`,
    `"${own}"`,
    `{"secret":"${own}`,
  ])
    await send("POST", "/v1/destinations", broken);
  await send("DELETE", path);

  const all = said.join("\n") + JSON.stringify(log);
  for (const secret of hidden)
    for (let at = 0; at + 6 <= secret.length; at++) expect(all).not.toContain(secret.slice(at, at + 6));
});

test("a database error reveals nothing of the values to write", async () => {
  const prepare = () => {
    throw new Error("D1_ERROR: away");
  };
  const { call, log } = testApi({ services: { db: { ...env.DB, prepare } as unknown as D1Database } });
  const headers = { authorization: "Bearer of a secret" };
  const { status, text } = await call("POST", "/v1/destinations", { url: URL_, secret: own, headers });
  expect(status).toBe(503);
  expect(text + JSON.stringify(log)).not.toMatch(/Bearer of|whsec_/);
});

test("a failed query is described by its cause, without the values bound to it", () => {
  const failed = new Error("Failed query: update x set y = ?\nparams: Bearer abc");
  expect(faultOf(Object.assign(failed, { cause: new Error("D1_ERROR: full") }))).toBe(
    "Error: D1_ERROR: full",
  );
  expect(faultOf(new Error("Failed query: select ?\nparams: Bearer abc"))).toBe("Failed query");
});
