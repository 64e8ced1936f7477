import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { z } from "zod";
import { breakerShape, limitShape } from "../../src/core/limits.ts";
import { appearanceFields, rulesShape, tenantPortalShape } from "../../src/core/portal-access.ts";
import { brandShape } from "../../src/core/portal-branding.ts";
import { retryShape } from "../../src/core/retry/policy.ts";
import { channelShape, destinationChannels, eventChannels } from "../../src/core/routing.ts";
import { readAs, type Shape } from "../../src/core/shape.ts";
import { signatureFormsShape } from "../../src/core/signature-forms.ts";
import { zodOf } from "../../src/core/zod-of.ts";
import { shownAuth } from "../../src/delivery/authorization.ts";
import { targetFields } from "../../src/delivery/kinds/registry.ts";

/** Every form of a shape once. */
const everyForm = {
  kind: "object",
  fields: {
    any: { kind: "number" },
    whole: { kind: "number", whole: true, optional: true },
    word: { kind: "text", max: 3, nullable: true },
    flag: { kind: "boolean", nullable: true, optional: true },
    one: { kind: "choice", values: [1, "1"] },
    list: { kind: "list", of: { kind: "choice", values: ["a"], nullable: true }, min: 1, max: 2 },
    texts: { kind: "record", of: { kind: "text", max: 1 } },
    either: { kind: "either", of: [{ kind: "text" }, { kind: "list", of: { kind: "number" } }] },
    open: { kind: "object", fields: { a: { kind: "boolean" } }, others: "dropped", optional: true },
  },
} as const satisfies Shape;

const shapes: Readonly<Record<string, Shape>> = {
  everyForm,
  limitShape,
  breakerShape,
  retryShape,
  signatureFormsShape,
  channelShape,
  destinationChannels,
  eventChannels,
  rulesShape,
  tenantPortalShape,
  brandShape,
  shownAuth,
  ...appearanceFields,
  ...targetFields,
};

const noise = fc.oneof(
  fc.constantFrom<unknown>(null, undefined, 0, -1, 1.5, 1e16, Number.NaN, Number.POSITIVE_INFINITY, true),
  fc.constantFrom<unknown>("", "x", [], {}, [null], { a: 1 }, JSON.parse('{"__proto__":"x"}')),
  fc.anything(),
);

const texts = fc.constantFrom(
  ...["", "a", "abcd", "X-Id", "{id}.{body}", "{body}{body}", "sha256=", "{type} ", "#0b6a72", "\u0007"],
  ...["https://a.example/x", "data:image/png;base64,iVBORw0KGgo=", "/hook", "/a/../b", "ORDERS"],
  ...["023e105f4ecef8ad9ca31a8372d0c353", "cfut_0123456789abcdefghij", "x".repeat(129), "webhook-id"],
);

/** Mostly values of the shape, and some that miss it by a little. */
function near(shape: Shape): fc.Arbitrary<unknown> {
  const nothing = shape.nullable ? [{ weight: 1, arbitrary: fc.constant(null) }] : [];
  return fc.oneof({ weight: 30, arbitrary: meant(shape) }, { weight: 1, arbitrary: noise }, ...nothing);
}

function meant(shape: Shape): fc.Arbitrary<unknown> {
  switch (shape.kind) {
    case "number": {
      const { min = 400, max = 599 } = shape;
      const inside = fc.integer({ min: Math.ceil(min), max: Math.floor(max) });
      const edges = fc.constantFrom(min, max, min - 1, max + 1, min + 0.5, 410);
      return fc.oneof({ weight: 12, arbitrary: inside }, { weight: 1, arbitrary: edges });
    }
    case "text":
      return texts;
    case "boolean":
      return fc.boolean();
    case "choice":
      return fc.constantFrom(...shape.values);
    case "list":
      return fc.array(near(shape.of), { maxLength: (shape.max ?? 3) + 1, size: "small" });
    case "record":
      return fc.dictionary(fc.constantFrom("a", "b", "__proto__", "constructor"), near(shape.of));
    case "either":
      return fc.oneof(...shape.of.map(near));
    case "tagged":
      return fc.oneof(...shape.of.map(near));
    case "object": {
      const entries = Object.entries(shape.fields);
      const all = fc.record(Object.fromEntries(entries.map(([name, field]) => [name, near(field)])), {
        requiredKeys: entries.flatMap(([name, field]) => (field.optional ? [] : [name])),
      });
      const more = fc.oneof({ weight: 12, arbitrary: fc.constant({}) }, fc.constant({ other: 1 }));
      return fc.tuple(all, more).map(([own, other]) => ({ ...own, ...other }));
    }
  }
}

/** Without the types of values, which would be those of all shapes. */
const schemaFor: (shape: Shape) => z.ZodType = zodOf as never;
const readFor: (shape: Shape, value: unknown) => unknown = readAs as never;

/** Values of shapes whose fields seldom match by chance. */
const examples: Readonly<Record<string, readonly unknown[]>> = {
  everyForm: [{ any: 1.5, word: "abc", one: "1", list: ["a"], texts: { a: "x" }, either: [1] }],
  retryShape: [
    { preset: "svix", schedule: [60, 120], max_attempts: 3, on: { retry: [404], fail: [503] } },
    { base: 30, factor: 2, cap: 3600, jitter: { proportional: 0.5 }, give_up_after: 86_400 },
  ],
};

describe("the engine's shapes accept the same values as the API's schemas", () => {
  test.each(Object.entries(shapes))("%s", (name, shape) => {
    const schema = schemaFor(shape);
    const outcomes = new Set<boolean>();
    fc.assert(
      fc.property(fc.oneof(near(shape), ...(examples[name] ?? []).map(fc.constant)), (value) => {
        const parsed = schema.safeParse(value);
        const read = readFor(shape, value);
        expect(read).toEqual(parsed.success ? parsed.data : undefined);
        // Secrets are sealed with this text of what is shown beside them.
        expect(JSON.stringify(read)).toBe(JSON.stringify(parsed.data));
        outcomes.add(parsed.success);
      }),
      { numRuns: 300 },
    );
    expect(outcomes).toEqual(new Set([true, false]));
  });
});

test("a refusal says once what a text should be, and names unknown fields", () => {
  const messages = (shape: Shape, value: unknown) =>
    schemaFor(shape)
      .safeParse(value)
      .error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  expect(messages(brandShape, { name: " ".repeat(81), colour: "" })).toEqual([
    "name: expected 1 to 80 characters without control characters",
    ": unknown colour: expected an object of name, logo, accent",
  ]);
  expect(messages(limitShape.fields.timeout_ms, 99)).toEqual(
    ["expected a whole number from 100 to 25000"].map((m) => `: ${m}`),
  );
  expect(
    messages({ kind: "list", of: { kind: "text" }, min: 1, expected: "texts", length: "one" }, []),
  ).toEqual([": expected one"]);
});
