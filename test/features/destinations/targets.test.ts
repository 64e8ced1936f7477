/** Every URL of the corpus, at creation and as a change of an existing destination. */
import { beforeAll, describe, expect, it } from "vitest";
import { countRows, emptyDatabase, testApi } from "../../support/api.ts";
import { accepted, refused } from "../../support/targets.ts";

const { call } = testApi();
const groups = Object.entries(refused);
let path = "";

beforeAll(async () => {
  await emptyDatabase();
  const { json } = await call("POST", "/v1/destinations", { url: "https://example.com/" });
  path = `/v1/destinations/${json.id}`;
});

describe.each(groups)("%s", (_what, urls) => {
  it("is refused, and nothing of it is stored", async () => {
    for (const url of urls) {
      for (const { status, json } of [
        await call("POST", "/v1/destinations", { url }),
        await call("PATCH", path, { url }),
      ]) {
        expect([status, json.errors?.[0]?.field], url).toEqual([422, "url"]);
      }
    }
    expect(await countRows("destinations")).toBe(1);
    expect((await call("GET", path)).json.url).toBe("https://example.com/");
  });
});

it("every public URL is accepted", async () => {
  for (const url of accepted) {
    expect((await call("POST", "/v1/destinations", { url })).json, url).toMatchObject({ url });
  }
});
