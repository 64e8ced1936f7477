/** A destination's signature forms: chosen, changed and refused, together with its secret and its own headers. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { newSecret } from "../../../src/secrets/signing.ts";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { receivers } from "../../support/receivers.ts";
import { vault } from "../../support/vault.ts";

const URL_ = "https://example.com/hook";
const TEXT = "8f742231b10e8888abcd99yyyzzz85a5";
const WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const template = { form: "template", content: "{id}:{body}", signature_header: "X-Sig", encoding: "base64" };

let receiver: ReturnType<typeof receivers>;
let call: ReturnType<typeof testApi>["call"];
beforeEach(async () => {
  await emptyDatabase();
  receiver = receivers();
  const gate = { claimTest: async () => null, scheduleDrain: async () => {}, resume: async () => {} };
  const gates = { idFromName: (name: string) => name, get: () => gate };
  ({ call } = testApi({ services: { fetch: receiver.fetch, gates } as never }));
});

const post = (fields: object) => call("POST", "/v1/destinations", { url: URL_, ...fields });

async function created(fields: object): Promise<{ id: string; secret: string }> {
  const { status, json, text } = await post(fields);
  expect(status, text).toBe(201);
  return json;
}

const count = () => env.DB.prepare("SELECT count(*) AS n FROM destinations").first("n");

it.each([
  null,
  [{ form: "stripe" }],
  [{ form: "standard" }, template],
])("forms are shown as they were set: %j", async (signature_forms) => {
  const { id } = await created({ signature_forms });
  expect((await call("GET", `/v1/destinations/${id}`)).json.signature_forms).toEqual(signature_forms);
  const patched = await call("PATCH", `/v1/destinations/${id}`, { signature_forms: null });
  expect(patched.json.signature_forms).toBeNull();
});

it("a test event is signed in every form of the destination", async () => {
  const { id, secret } = await created({ signature_forms: [{ form: "github" }, template] });
  const { json } = await call("POST", `/v1/destinations/${id}/test`);
  const [sent] = receiver.calls;
  const key = async (hash: string) =>
    crypto.subtle.importKey("raw", new TextEncoder().encode(secret), { name: "HMAC", hash }, false, [
      "verify",
    ]);
  const verifies = async (signature: Uint8Array<ArrayBuffer>, text: string) =>
    crypto.subtle.verify("HMAC", await key("SHA-256"), signature, new TextEncoder().encode(text));
  const header = (name: string) => sent?.headers.get(name) ?? "";
  const hex = header("x-hub-signature-256").replace("sha256=", "").match(/../g) ?? [];
  expect(
    await verifies(
      Uint8Array.from(hex, (pair) => Number.parseInt(pair, 16)),
      sent?.body ?? "",
    ),
  ).toBe(true);
  const base64 = Uint8Array.from(atob(header("x-sig")), (char) => char.charCodeAt(0));
  expect(await verifies(base64, `${header("webhook-id")}:${sent?.body}`)).toBe(true);
  expect(header("x-github-event")).toBe("breakwater.test");
  expect([header("webhook-id"), header("webhook-timestamp")]).not.toContain("");
  expect(sent?.headers.has("webhook-signature")).toBe(false);
  expect(json.sent.headers["x-hub-signature-256"]).toBe(header("x-hub-signature-256"));
});

describe("a secret", () => {
  it.each([
    ["of plain text", TEXT, [{ form: "slack" }]],
    ["of plain text that looks like Stripe's", "whsec_abcdefghijklmnopqrstu", [{ form: "stripe" }]],
    ["of plain text with spaces", "It's a Secret to Everybody", [{ form: "github" }]],
    [
      "of plain text, during a migration to Standard Webhooks",
      TEXT,
      [{ form: "standard" }, { form: "shopify" }],
    ],
    ["of Standard Webhooks", WHSEC, [{ form: "stripe" }]],
    ["of Standard Webhooks, by its bytes", WHSEC, [{ ...template, key: "bytes" }]],
  ])("%s is accepted if a form takes it", async (_, secret, signature_forms) => {
    expect(await created({ secret, signature_forms })).toMatchObject({ secret });
  });

  it.each([
    ["plain text, without a form that takes it", TEXT, null],
    ["plain text, where only Svix's form is chosen", TEXT, [{ form: "svix" }]],
    ["plain text, where a template takes bytes", TEXT, [{ ...template, key: "bytes" }]],
    [
      "whsec_ of something else, where one form decodes it",
      "whsec_abcdefghijklmnopqrstu",
      [{ form: "stripe" }, { form: "standard" }],
    ],
    ["plain text that is short", "nineteen-characters", [{ form: "github" }]],
    ["plain text that is long", "x".repeat(129), [{ form: "github" }]],
    ["plain text with a space at the end", `${TEXT} `, [{ form: "github" }]],
    ["plain text beyond ASCII", "ü".repeat(24), [{ form: "github" }]],
    ["half a key pair", "whsk_abcdefghijklmnopqrstuvwxyz", [{ form: "github" }]],
  ])("is refused, and not repeated: %s", async (_, secret, signature_forms) => {
    const { status, json, text } = await post({ secret, signature_forms });
    const fault = `is a string of ${secret.length} characters`;
    expect([status, json.errors]).toEqual([
      422,
      [
        {
          field: "secret",
          fault,
          expected: expect.stringContaining("whsec_ and the base64 of 24 to 64 bytes"),
        },
      ],
    ]);
    expect(text).not.toContain(secret.trim());
    expect(await count()).toBe(0);
  });

  it.each([
    [{ signature: "ed25519" }, "signature"],
    [{ secret: newSecret("ed25519") }, "secret"],
  ])("for ed25519 is refused beside a form that only knows HMAC: %j", async (input, field) => {
    const { status, json } = await post({
      ...input,
      signature_forms: [{ form: "standard" }, { form: "svix" }],
    });
    expect([status, json.errors]).toEqual([
      422,
      [
        {
          field,
          fault: "is for ed25519",
          expected: "hmac-sha256: only the signature form standard takes ed25519",
        },
      ],
    ]);
    expect((await post({ ...input, signature_forms: [{ form: "standard" }] })).status).toBe(201);
  });
});

describe("a change", () => {
  it("of the forms of a destination with a key pair is refused", async () => {
    const { id } = await created({ signature: "ed25519" });
    const path = `/v1/destinations/${id}`;
    const { status, json } = await call("PATCH", path, {
      signature_forms: [{ form: "standard" }, { form: "slack" }],
    });
    expect([status, json.errors]).toEqual([
      422,
      [
        {
          field: "signature_forms[1].form",
          fault: "is slack, and the destination signs with ed25519",
          expected: "standard; for another form rotate to a secret for hmac-sha256 first",
        },
      ],
    ]);
    await call("POST", `${path}/rotate-secret`, { signature: "hmac-sha256" });
    expect((await call("PATCH", path, { signature_forms: [{ form: "slack" }] })).status).toBe(200);
  });

  it("of the secret takes what the forms take, and refuses a key pair", async () => {
    const { id } = await created({ signature_forms: [{ form: "slack" }] });
    const rotate = (body: object) => call("POST", `/v1/destinations/${id}/rotate-secret`, body);
    expect((await rotate({ secret: TEXT })).json).toMatchObject({ secret: TEXT });
    const { status, json } = await rotate({ signature: "ed25519" });
    expect([status, json.errors[0].field]).toEqual([422, "signature"]);
    await call("PATCH", `/v1/destinations/${id}`, { signature_forms: null });
    expect((await rotate({ secret: `${TEXT}x` })).status).toBe(422);
    expect((await rotate({ signature: "ed25519" })).json.public_key).toMatch(/^whpk_/);
  });
});

it("a rotation to a key pair is refused when the forms change while it is under way", async () => {
  const { id } = await created({});
  const forms = JSON.stringify([{ form: "github" }]);
  const seal = async (destination: string, secret: string) => {
    await env.DB.prepare("UPDATE destinations SET signature_forms = ?1").bind(forms).run();
    return vault.seal(destination, secret);
  };
  const meanwhile = testApi({ services: { vault: { ...vault, seal } } });
  const rotate = (body: object) => meanwhile.call("POST", `/v1/destinations/${id}/rotate-secret`, body);
  expect((await rotate({ signature: "ed25519" })).status).toBe(409);
  expect((await rotate({})).status).toBe(200);
});

describe("the destination's own headers", () => {
  const own = { "X-Sig": "1", "x-github-EVENT": "push" };

  it("that a form sets are refused, whichever of the two is set second", async () => {
    const { status, json } = await post({ headers: own, signature_forms: [{ form: "github" }, template] });
    expect([status, json.errors]).toEqual([
      422,
      [
        { field: "headers.X-Sig", fault: "is set by the signature form template", expected: "another name" },
        {
          field: "headers.x-github-EVENT",
          fault: "is set by the signature form github",
          expected: "another name",
        },
      ],
    ]);
    const { id } = await created({ headers: own });
    const path = `/v1/destinations/${id}`;
    const second = await call("PATCH", path, { signature_forms: [{ form: "stripe" }, template] });
    expect([second.status, second.json.errors]).toEqual([
      422,
      [
        {
          field: "signature_forms[1].signature_header",
          fault: "sets x-sig, which the destination's headers or auth set",
          expected: "a header that is set in one place",
        },
      ],
    ]);
    const both = { headers: null, signature_forms: [template] };
    expect((await call("PATCH", path, both)).status).toBe(200);
    expect((await call("PATCH", path, { headers: { "x-sig": "1" } })).status).toBe(422);
    expect((await call("PATCH", path, { headers: { "x-signed": "1" } })).status).toBe(200);
  });

  it.each([
    "content-type",
    "Webhook-Signature",
    "host",
    "cf-ray",
    "X-Forwarded-For",
  ])("and those of a template must not be %s", async (name) => {
    const { status, json } = await post({
      signature_forms: [{ form: "stripe" }, { ...template, signature_header: name }],
    });
    expect([status, json.errors]).toMatchObject([
      422,
      [
        {
          field: "signature_forms[1].signature_header",
          expected: expect.stringContaining("none of the headers"),
        },
      ],
    ]);
    expect(await count()).toBe(0);
  });
});

it("every fault of a template is named with its field", async () => {
  const bad = {
    form: "template",
    content: "{timestamp}",
    signature_header: "a b",
    prefix: "\r\n",
    colour: 1,
  };
  const { status, json } = await post({ signature_forms: [bad] });
  expect(status).toBe(422);
  expect(json.errors.map(({ field }: { field: string }) => field).toSorted()).toEqual([
    "signature_forms[0].colour",
    "signature_forms[0].content",
    "signature_forms[0].prefix",
    "signature_forms[0].signature_header",
  ]);
  expect(json.detail).toMatch(/^signature_forms\[0\]\.content is "\{timestamp\}"; expected .*\{body\} once/);
});
