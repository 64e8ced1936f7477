/** Compressed bodies, at every entry point of the deployment. */
import { env, exports } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { countRows, emptyDatabase } from "../support/api.ts";

const worker = exports.default as unknown as Pick<Fetcher, "fetch">;
const { ADMIN_KEY } = env as unknown as { ADMIN_KEY: string };

beforeEach(emptyDatabase);

function post(path: string, contentType: string, encoding: string) {
  const headers = {
    authorization: `Bearer ${ADMIN_KEY}`,
    "content-type": contentType,
    "content-encoding": encoding,
  };
  return worker.fetch(`https://breakwater.example${path}`, {
    method: "POST",
    headers,
    body: '{"type": "a.b", "data": 1}',
  });
}

describe("a compressed body", () => {
  it.each([
    ["an event", "/v1/events", "application/json"],
    ["a batch", "/v1/events/batch", "application/x-ndjson"],
    ["content", "/v1/events?type=a.b", "text/csv"],
  ])("of %s is refused with the supported encodings, and stores nothing", async (_, path, contentType) => {
    const answer = await post(path, contentType, "gzip");
    expect([answer.status, answer.headers.get("accept-encoding")]).toEqual([415, "identity"]);
    expect(await answer.json()).toMatchObject({
      detail: expect.stringContaining("Content-Encoding is gzip"),
    });
    expect(await countRows("events")).toBe(0);
  });

  const fault = expect.stringContaining("Content-Encoding is gzip");

  it.each([
    ["the Svix API", "/api/v1/app/acme/msg", { code: "unsupported_media_type", detail: fault }],
    ["MCP", "/mcp", { jsonrpc: "2.0", error: { message: fault } }],
  ])("of %s is refused with an error in the form of its API", async (_, path, error) => {
    const answer = await post(path, "application/json", "gzip");
    expect([answer.status, answer.headers.get("content-type")]).toEqual([
      415,
      expect.stringMatching(/^application\/json/),
    ]);
    expect(await answer.json()).toMatchObject(error);
    expect(await countRows("events")).toBe(0);
  });

  it("is taken when the header says that it is not compressed", async () => {
    expect((await post("/v1/events", "application/json", "Identity")).status).toBe(202);
  });
});
