/** The setting `signature_forms`: what is refused, what is signed, and which headers result. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  formsOf,
  namedHeaders,
  recipeOf,
  type SignatureForm,
  signatureFormsShape,
  signatureHeaders,
  signedTexts,
  takesBytes,
  takesKeyPair,
  takesPlainText,
} from "../../src/core/signature-forms.ts";
import { zodOf } from "../../src/core/zod-of.ts";

const signatureForms = zodOf(signatureFormsShape);

const signed = { id: "evt_1", type: "order.created", timestamp: "1795251600" };
const template = { form: "template", content: "{body}", signature_header: "X-Signature" } as const;

const vendors = ["standard", "svix", "stripe", "github", "slack", "shopify"] as const;

describe("the signed content", () => {
  test.each([
    [{ form: "standard" }, ["evt_1.1795251600.", ""]],
    [{ form: "svix" }, ["evt_1.1795251600.", ""]],
    [{ form: "stripe" }, ["1795251600.", ""]],
    [{ form: "github" }, ["", ""]],
    [{ form: "slack" }, ["v0:1795251600:", ""]],
    [{ form: "shopify" }, ["", ""]],
    [
      { ...template, content: "{type}\n{id}\n{timestamp}\n{body}!{id}" },
      ["order.created\nevt_1\n1795251600\n", "!evt_1"],
    ],
  ] as const)("in the form %j is the body between these texts", (form, texts) => {
    expect(signedTexts(recipeOf(form), signed)).toEqual(texts);
  });
});

describe("the headers", () => {
  test.each([
    [{ form: "standard" }, ["v1,a", "v1,b"], { "webhook-signature": "v1,a v1,b" }],
    [
      { form: "svix" },
      ["v1,a", "v1,b"],
      { "svix-id": "evt_1", "svix-timestamp": "1795251600", "svix-signature": "v1,a v1,b" },
    ],
    [{ form: "stripe" }, ["v1=a", "v1=b"], { "stripe-signature": "t=1795251600,v1=a,v1=b" }],
    [
      { form: "github" },
      ["sha256=a"],
      {
        "x-hub-signature-256": "sha256=a",
        "x-github-event": "order.created",
        "x-github-delivery": "evt_1",
      },
    ],
    [{ form: "slack" }, ["v0=a"], { "x-slack-signature": "v0=a", "x-slack-request-timestamp": "1795251600" }],
    [
      { form: "shopify" },
      ["a"],
      {
        "x-shopify-hmac-sha256": "a",
        "x-shopify-topic": "order.created",
        "x-shopify-webhook-id": "evt_1",
      },
    ],
    [template, ["a"], { "x-signature": "a" }],
    [
      {
        ...template,
        prefix: "ts={timestamp};h1=",
        timestamp_header: "X-Time",
        id_header: "X-Id",
        type_header: "X-Type",
      },
      ["a"],
      {
        "x-signature": "ts=1795251600;h1=a",
        "x-time": "1795251600",
        "x-id": "evt_1",
        "x-type": "order.created",
      },
    ],
  ] as const)("of %j are those that its receivers read", (form, signatures, headers) => {
    expect(signatureHeaders(recipeOf(form), signed, signatures)).toEqual(headers);
    expect(
      namedHeaders(form)
        .map(({ name }) => name)
        .toSorted(),
    ).toEqual(Object.keys(headers).toSorted());
  });
});

describe("a form's digest", () => {
  test("is the digest that its receivers compute", () => {
    const digests = vendors.map((form) => recipeOf({ form }).digest);
    const bytes = { key: "bytes", algorithm: "sha256", encoding: "base64" };
    const text = { key: "text", algorithm: "sha256", encoding: "hex" };
    expect(digests).toEqual([bytes, bytes, text, text, text, { ...text, encoding: "base64" }]);
    expect(recipeOf(template).digest).toEqual(text);
    const versions = vendors.map((form) => recipeOf({ form }).version);
    expect(versions).toEqual(["v1,", "v1,", "v1=", "sha256=", "v0=", ""]);
  });

  test("covers a content that contains the body once", () => {
    for (const form of vendors) expect(recipeOf({ form }).content.split("{body}")).toHaveLength(2);
  });

  test("decides which keys the forms take together", () => {
    const takes = (...names: (typeof vendors)[number][]) => {
      const forms = names.map((form) => ({ form }));
      return [takesKeyPair(forms), takesPlainText(forms), takesBytes(forms)];
    };
    expect(takes("standard")).toEqual([true, false, true]);
    expect(takes("svix")).toEqual([false, false, true]);
    expect(takes("github")).toEqual([false, true, false]);
    expect(takes("standard", "github")).toEqual([false, true, true]);
    expect(takes("github", "slack")).toEqual([false, true, false]);
  });
});

describe("accepted are", () => {
  test.each<readonly [readonly SignatureForm[]]>([
    ...vendors.map((form) => [[{ form }]] as const),
    [[{ form: "standard" }, { form: "svix" }, { form: "stripe" }, { form: "github" }, template]],
    [[template, { ...template, signature_header: "X-Other" }]],
    [[{ ...template, prefix: "", encoding: "base64", algorithm: "sha512", key: "bytes" }]],
  ])("%j", (forms) => {
    expect(signatureForms.safeParse(forms)).toMatchObject({ success: true });
    expect(formsOf(forms)).toEqual(forms);
  });
});

const collision = (name: string) => `expected headers that no other form sets: ${name} is set already`;

describe("refused are", () => {
  test.each([
    ["no form at all", [], "", /1 to 5 forms/],
    ["more than five", vendors.map((form) => ({ form })), "", /1 to 5 forms/],
    ["a form alone, without a list", { form: "stripe" }, "", /1 to 5 forms/],
    ["a form that nobody knows", [{ form: "paypal" }], "0.form", /one of standard, svix, stripe/],
    ["the name of a form alone", ["stripe"], "0", /one of standard, svix, stripe/],
    ["a field that a vendor's form does not have", [{ form: "github", prefix: "x" }], "0", /of form$/],
    ["a template without a content", [{ ...template, content: undefined }], "0.content", /\{body\} once/],
    ["a content without the body", [{ ...template, content: "{timestamp}" }], "0.content", /\{body\} once/],
    [
      "a content with the body twice",
      [{ ...template, content: "{body}{body}" }],
      "0.content",
      /\{body\} once/,
    ],
    ["a placeholder that does not exist", [{ ...template, content: "{url}{body}" }], "0.content", /braces/],
    ["a brace alone", [{ ...template, content: "{{body}}" }], "0.content", /braces/],
    ["a content beyond ASCII", [{ ...template, content: "ü{body}" }], "0.content", /ASCII/],
    ["a content too long", [{ ...template, content: `${"x".repeat(195)}{body}` }], "0.content", /200/],
    [
      "a template without a header",
      [{ ...template, signature_header: undefined }],
      "0.signature_header",
      /name/,
    ],
    [
      "a header name with a line feed",
      [{ ...template, signature_header: "X\nY" }],
      "0.signature_header",
      /name/,
    ],
    ["a header name with a colon", [{ ...template, id_header: "X: Y" }], "0.id_header", /name/],
    ["an empty header name", [{ ...template, type_header: "" }], "0.type_header", /name/],
    ["a prefix with a line feed", [{ ...template, prefix: "a\r\nx: y" }], "0.prefix", /printable/],
    ["a prefix with the body", [{ ...template, prefix: "{body}" }], "0.prefix", /braces/],
    [
      "a prefix with a placeholder that does not exist",
      [{ ...template, prefix: "{url}" }],
      "0.prefix",
      /braces/,
    ],
    ["a prefix too long", [{ ...template, prefix: "x".repeat(101) }], "0.prefix", /100/],
    ["a prefix after a space", [{ ...template, prefix: " x" }], "0.prefix", /space/],
    [
      "an algorithm that is no more",
      [{ ...template, algorithm: "md5" }],
      "0.algorithm",
      /sha256, sha512, sha1/,
    ],
    ["another encoding", [{ ...template, encoding: "base32" }], "0.encoding", /hex, base64/],
    ["another key", [{ ...template, key: "hex" }], "0.key", /text, bytes/],
    ["an unknown field of a template", [{ ...template, header: "X" }], "0", /signature_header/],
    [
      "the same form twice",
      [{ form: "stripe" }, { form: "stripe" }],
      "1.form",
      collision("stripe-signature"),
    ],
    [
      "a template that sets a vendor's header",
      [{ form: "stripe" }, { ...template, signature_header: "Stripe-Signature" }],
      "1.signature_header",
      collision("stripe-signature"),
    ],
    [
      "a template with one header for two things",
      [{ ...template, id_header: "x-signature" }],
      "0.id_header",
      collision("x-signature"),
    ],
    [
      "a template that sets the id of every attempt",
      [{ ...template, id_header: "Webhook-Id" }],
      "0.id_header",
      collision("webhook-id"),
    ],
    [
      "a template that sets the time of every attempt",
      [{ ...template, timestamp_header: "webhook-timestamp" }],
      "0.timestamp_header",
      collision("webhook-timestamp"),
    ],
    [
      "a template that sets the number of every attempt",
      [{ ...template, id_header: "webhook-attempt" }],
      "0.id_header",
      collision("webhook-attempt"),
    ],
  ])("%s", (_, forms, path, message) => {
    const { error } = signatureForms.safeParse(forms);
    const found = error?.issues.find((issue) => issue.path.join(".") === path);
    expect(found?.message, JSON.stringify(error?.issues)).toMatch(message);
    expect(formsOf(forms)).toEqual([{ form: "standard" }]);
  });
});

test("a text with several faults gets the expectation once", () => {
  const faults = signatureForms.safeParse([{ ...template, content: "ü", prefix: "{body}\n" }]).error?.issues;
  expect(faults?.map(({ path }) => path.join("."))).toEqual(["0.content", "0.prefix"]);
});

test.each([
  null,
  undefined,
  "stripe",
  5,
  {},
  [{}],
  [null],
])("a stored value that is not a list of forms (%j) counts as Standard Webhooks", (stored) =>
  expect(formsOf(stored)).toEqual([{ form: "standard" }]));

test("no accepted template can put a control character into a header", () => {
  const risky = fc.string({ unit: fc.constantFrom(..."aZ0-_=:, \r\n\0\x7f{}ü"), maxLength: 4 });
  fc.assert(
    fc.property(risky, risky, (prefix, name) => {
      const form = { ...template, prefix, id_header: name };
      if (!signatureForms.safeParse([form]).success) return;
      const headers = signatureHeaders(recipeOf(form), signed, ["00ff"]);
      for (const text of Object.entries(headers).flat()) expect(text).toMatch(/^[ -~]+$/);
    }),
    { numRuns: 3_000 },
  );
});
