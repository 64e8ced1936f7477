/**
 * Malformed requests to every operation of the document. Every answer is one that the document describes, none is a 500,
 * and a refused request changes nothing.
 */
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { scopes } from "../../src/core/scopes.ts";
import { emptyDatabase, testApi } from "../support/api.ts";
import { runs } from "../support/effort.ts";
import { everythingStored, operations, thingsOf } from "../support/operations.ts";
import { type Crooked, crookedRequest } from "../support/requests.ts";
import { responseFaults } from "../support/response-check.ts";

const RUNS = runs(12, 100);

const fetch = async () => new Response(null, { status: 204 });
const { call } = testApi({ authenticate: async () => ({ scopes }), services: { gates: env.GATES, fetch } });

beforeEach(emptyDatabase);

describe("a malformed request is answered as documented, and leaves no trace when it is refused", () => {
  test.each(
    operations.map((described) => [`${described.method} ${described.path}`, described] as const),
  )("%s", async (_name, described) => {
    const things = await thingsOf(call, "acme");
    let before = await everythingStored();
    const holds = async ({ path, body, headers }: Crooked) => {
      const answer = await call(described.method, path, body, headers);
      expect(responseFaults(described, answer), answer.text).toEqual([]);
      expect(answer.status, answer.text).toBeLessThan(500);
      const after = await everythingStored();
      if (answer.status >= 400 || described.method === "GET") expect(after).toBe(before);
      before = after;
    };
    await fc.assert(fc.asyncProperty(crookedRequest(described, things), holds), { numRuns: RUNS });
  });
});
