/** The headers of an attempt as they are shown afterwards: those of the request, with what authenticates it masked. */
import { describe, expect, test } from "vitest";
import { noCredentials } from "../../src/delivery/authorization.ts";
import { requestHeadersOf } from "../../src/delivery/http.ts";
import { shownHeaders } from "../../src/delivery/shown-request.ts";
import { signerFor } from "../../src/delivery/signature.ts";
import { testConfig } from "../support/config.ts";
import { utf8 } from "../support/utf8.ts";
import { vault } from "../support/vault.ts";

const AT = 1_795_251_600_999;
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const request = { id: "evt_1", type: "order.paid", contentType: "text/csv", attempt: 3, at: AT };

const destination = (fields: object = {}) =>
  ({ headers: null, sealedHeaders: null, auth: null, signatureForms: null, ...fields }) as never;

const ours = {
  "content-type": "text/csv",
  "user-agent": expect.stringMatching(/^Breakwater\//),
  "webhook-attempt": "3",
  "webhook-deployment": "***",
  "webhook-id": "evt_1",
  "webhook-timestamp": "1795251600",
  "webhook-signature": "v1,***",
};

test("without further headers Breakwater's are shown, with the signature masked", () => {
  expect(shownHeaders(request, destination())).toStrictEqual(ours);
});

test("the number of the attempt is left out if it is not known", () => {
  const { "webhook-attempt": _, ...others } = ours;
  expect(shownHeaders({ ...request, attempt: undefined }, destination())).toStrictEqual(others);
});

test("headers of the event and of the destination are masked, in lower case, after Breakwater's", () => {
  const headers = { "X-Trace": "t1", "WEBHOOK-ID": "forged" };
  const own = { sealedHeaders: { "X-Api-Key": "sealed", "Content-Type": "sealed" } };
  expect(shownHeaders({ ...request, headers }, destination(own))).toStrictEqual({
    ...ours,
    "x-trace": "***",
    "x-api-key": "***",
  });
});

test.each([
  [{ kind: "bearer", sealed: "s" }, { authorization: "***" }],
  [{ kind: "header", header: "X-Key", sealed: "s" }, { "x-key": "***" }],
  [{ kind: "nonsense", sealed: "s" }, {}],
])("the header that %j makes is masked", (auth, shown) => {
  expect(shownHeaders(request, destination({ auth }))).toStrictEqual({ ...ours, ...shown });
});

test("headers that cannot be read are not shown at all", () => {
  expect(shownHeaders(request, destination({ sealedHeaders: "{" }))).toStrictEqual(ours);
});

describe("for each form of signatures the headers are those of the request", () => {
  test.each(["standard", "svix", "stripe", "github", "slack", "shopify"] as const)("%s", async (form) => {
    const signing = {
      id: "dst_1",
      secret: await vault.seal("dst_1", SECRET),
      previousSecrets: null,
      signatureForms: [{ form }],
    };
    const signer = await signerFor(vault, signing, AT);
    const message = { ...request, body: utf8("{}") };
    const sent = await requestHeadersOf(
      { config: testConfig() },
      message,
      { signer, credentials: noCredentials },
      AT,
    );
    const shown = shownHeaders(request, destination(signing));
    expect(Object.keys(shown).toSorted()).toEqual(Object.keys(sent).toSorted());
    for (const [name, value] of Object.entries(shown)) {
      const [before = "", after] = value.split("***");
      if (after === undefined) expect(sent[name], name).toBe(value);
      else expect(sent[name]?.startsWith(before) && sent[name] !== value, name).toBe(true);
    }
    const masked = Object.entries(shown).filter(([, value]) => value.endsWith("***"));
    expect(masked.filter(([name]) => name !== "webhook-deployment")).toHaveLength(1);
  });
});
