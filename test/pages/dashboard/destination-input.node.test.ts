/** The form of a destination as a table: what is typed, and what the API gets of it. */
import { describe, expect, it } from "vitest";
import {
  changesIn,
  destinationSettingsIn,
  errorsIn,
  inputFieldsOf,
  newDestinationIn,
} from "../../../src/pages/dashboard/destination-input.ts";

const https = { url: "https://example.com/hook" };

/** The input of a new destination besides its target. */
const sent = (form: Record<string, string>) => {
  const { input, errors } = newDestinationIn({ ...https, ...form });
  expect(errors).toEqual([]);
  const { url, ...rest } = input;
  return { ...(url !== https.url && url !== undefined && { url }), ...rest };
};

describe("a new destination", () => {
  it.each<[Record<string, string>, object]>([
    [{}, {}],
    [
      { description: " Billing ", uid: "b-1", tenant: "acme" },
      { description: "Billing", uid: "b-1", tenant: "acme" },
    ],
    [{ event_types: "order.*, invoice.paid\nx" }, { event_types: ["order.*", "invoice.paid", "x"] }],
    [{ channels: "eu us" }, { channels: ["eu", "us"] }],
    [{ filter: '{"total": {"gte": 5}}' }, { filter: { total: { gte: 5 } } }],
    [{ metadata: '{"team": "a:b"}' }, { metadata: { team: "a:b" } }],
    [{ headers: "X-Key:  a: b \r\n\r\nx-two: 2" }, { headers: { "X-Key": "a: b", "x-two": "2" } }],
    [
      { max_concurrency: "3", rate_per_second: "0.5" },
      { max_concurrency: 3, rate_per_second: 0.5 },
    ],
    [{ timeout_ms: "soon" }, { timeout_ms: "soon" }],
    [
      { failure_ratio: "0.2" },
      {
        breaker: {
          failure_ratio: 0.2,
          min_attempts: null,
          window_s: null,
          cooldown_s: null,
          max_cooldown_s: null,
        },
      },
    ],
    [{ preset: "svix", base: "2 min" }, { retry: { preset: "svix", base: 120 } }],
    [
      { body: "data", template: "slack" },
      { body: "data", template: "slack" },
    ],
    [{ sign_standard: "on" }, {}],
    [
      { sign_standard: "on", sign_stripe: "on" },
      { signature_forms: [{ form: "standard" }, { form: "stripe" }] },
    ],
    [
      {
        sign_github: "on",
        template_2_content: "{body}\r\n",
        template_2_signature_header: "X-Sig",
        template_2_prefix: "v ",
        template_3_encoding: "base64",
      },
      {
        signature_forms: [
          { form: "github" },
          { form: "template", content: "{body}\n", signature_header: "X-Sig", prefix: "v " },
        ],
      },
    ],
    [
      { signature: "ed25519", secret: "whsk_x" },
      { signature: "ed25519", secret: "whsk_x" },
    ],
    [
      { handshake: "on", paused: "on" },
      { handshake: true, status: "paused" },
    ],
    [
      { kind: "queue", binding: "ORDERS", path: "/x" },
      { kind: "queue", binding: "ORDERS" },
    ],
    [
      { kind: "service", binding: "B", path: "/x", handshake: "on" },
      { kind: "service", binding: "B", path: "/x" },
    ],
    [{ kind: "nonsense" }, {}],
    [
      { auth_kind: "basic", auth_username: "u", auth_password: "p", auth_token: "t" },
      { auth: { kind: "basic", username: "u", password: "p" } },
    ],
    [{ auth_kind: "bearer" }, { auth: { kind: "bearer", token: "***" } }],
    [
      { auth_kind: "header", auth_header: "X-Key", auth_value: "v" },
      { auth: { kind: "header", header: "X-Key", value: "v" } },
    ],
    [{ auth_kind: "digest" }, { auth: { kind: "digest" } }],
    [
      {
        auth_kind: "oauth2",
        auth_token_url: "https://a.example/t",
        auth_client_id: "c",
        auth_client_secret: "s",
        auth_client_auth: "body",
        auth_params: '{"r": "1"}',
      },
      {
        auth: {
          kind: "oauth2",
          token_url: "https://a.example/t",
          client_id: "c",
          client_secret: "s",
          scope: null,
          audience: null,
          client_auth: "body",
          params: { r: "1" },
        },
      },
    ],
  ])("is read from %j", (form, input) => {
    expect(sent(form)).toEqual(input);
  });

  it("has an empty URL if none was typed, so that the API reports it as missing", () => {
    expect(newDestinationIn({}).input).toEqual({ url: "" });
  });

  it.each([
    ["filter", { filter: '{"a": }' }],
    ["metadata", { metadata: "team" }],
    ["auth.params", { auth_kind: "oauth2", auth_params: "[" }],
  ])("names the place in which %s is not JSON", (field, form) => {
    const [error] = newDestinationIn({ ...https, ...form }).errors;
    expect(error).toMatchObject({ field, fault: expect.stringMatching(/^is not JSON: ./) });
  });

  it("names the line that is not a header, and the header that appears twice", () => {
    const { errors } = destinationSettingsIn({ headers: "X-A: 1\nnonsense\nx-a: 2" });
    expect(errors.map(({ field, fault }) => [field, fault])).toEqual([
      ["headers[1]", "has no colon"],
      ["headers[2]", "is x-a once more"],
    ]);
  });
});

const view = {
  kind: "https",
  url: "https://example.com/hook",
  uid: null,
  description: "Billing",
  metadata: { team: "a" },
  event_types: ["order.*"],
  channels: null,
  filter: { total: { gte: 5 } },
  headers: { "X-Key": "***", "X-Two": "***" },
  auth: {
    kind: "oauth2",
    token_url: "https://a.example/t",
    client_id: "c",
    scope: null,
    audience: null,
    params: {},
    client_auth: "basic",
  },
  body: "envelope",
  template: null,
  signature_forms: [{ form: "stripe" }, { form: "template", content: " {body} ", signature_header: "X-Sig" }],
  max_concurrency: 10,
  rate_per_second: 100,
  rate_burst: 100,
  timeout_ms: 15_000,
  breaker: { failure_ratio: 0.5, min_attempts: 5, window_s: 60, cooldown_s: 30, max_cooldown_s: 45 },
  retry: { base: 5, factor: 2, cap: 60 },
} as unknown as Parameters<typeof inputFieldsOf>[0];

describe("a change", () => {
  const stored = inputFieldsOf(view, null);
  const changed = (form: Record<string, string>) => changesIn({ ...stored, ...form }, view, null).input;

  it("is empty if the form is saved as it was shown", () => {
    expect(changed({})).toEqual({});
    expect(changed({ filter: '{ "total":{"gte":5} }', description: " Billing" })).toEqual({});
  });

  it.each<[Record<string, string>, object]>([
    [{ description: "" }, { description: null }],
    [{ url: "https://b.example/" }, { url: "https://b.example/" }],
    [{ kind: "queue", url: "https://b.example/" }, { url: "https://b.example/" }],
    [{ event_types: "" }, { event_types: null }],
    [{ filter: "" }, { filter: null }],
    [{ headers: "X-Key: ***\nX-New: 1" }, { headers: { "X-Key": "***", "X-New": "1" } }],
    [{ rate_burst: "7" }, { rate_burst: 7 }],
    [
      { cooldown_s: "" },
      {
        breaker: { failure_ratio: 0.5, min_attempts: 5, window_s: 60, cooldown_s: null, max_cooldown_s: 45 },
      },
    ],
    [{ preset: "", base: "", factor: "", cap: "" }, { retry: null }],
    [{ sign_stripe: "", template_0_content: "", template_0_signature_header: "" }, { signature_forms: null }],
    [{ auth_kind: "" }, { auth: null }],
    [{ auth_kind: "bearer", auth_token: "t" }, { auth: { kind: "bearer", token: "t" } }],
  ])("of %j is only that", (form, input) => {
    expect(changed(form)).toEqual(input);
  });

  it("of the shown part of an authentication does not include its secret, which the API requires", () => {
    expect(changed({ auth_token_url: "https://evil.example/" })).toMatchObject({
      auth: { token_url: "https://evil.example/", client_secret: "***" },
    });
  });
});

describe("an error", () => {
  const said = (field: string, form = {}) =>
    errorsIn(form, [{ field, fault: "is 7", expected: "8" }]).map(({ input, text }) => [input, text])[0];

  it.each([
    ["url", "url", "URL is 7; expected 8."],
    ["event_types[1]", "event_types", "Event types, entry 2, is 7; expected 8."],
    ["filter.order.total.gte", "filter", "Filter (JSON) at order.total.gte is 7; expected 8."],
    ["headers.X-Key", "headers", "Headers at X-Key is 7; expected 8."],
    ["auth.client_secret", "auth_client_secret", "Client secret is 7; expected 8."],
    ["auth", "auth_kind", "Authentication is 7; expected 8."],
    ["breaker.max_cooldown_s", "max_cooldown_s", "Maximum cool-down (seconds) is 7; expected 8."],
    ["retry.on.fail[0]", "on_fail", "Never retry, entry 1, is 7; expected 8."],
    ["rate_burst", "rate_burst", "Burst is 7; expected 8."],
    ["what_ever", undefined, "What ever is 7; expected 8."],
  ])("of %s is shown at %s, in the words of the form", (field, input, text) => {
    expect(said(field)).toEqual([input, text]);
  });

  it("of a signature form is shown at that form", () => {
    const form = { sign_stripe: "on", template_0_content: "", template_3_content: "x" };
    expect(said("signature_forms[0].form", form)).toEqual(["signature_forms", expect.anything()]);
    expect(said("signature_forms[1].content", form)).toEqual([
      "template_3_content",
      "Signed text is 7; expected 8.",
    ]);
  });

  it("names other fields by their labels too", () => {
    const [error] = errorsIn({}, [
      { field: "breaker.max_cooldown_s", fault: "is 5", expected: "at least the cooldown_s of 30" },
    ]);
    expect(error?.text).toBe(
      "Maximum cool-down (seconds) is 5; expected at least the “Cool-down (seconds)” of 30.",
    );
  });
});
