/** Targets of each kind of destination: stored, shown, and refused. */
import { beforeEach, describe, expect, test } from "vitest";
import type { z } from "zod";
import { zodFieldsOf } from "../../src/core/zod-of.ts";
import {
  deploymentFaults,
  destinationKinds,
  shownTarget,
  targetAmong,
  targetFaults,
  targetFields,
  targetText,
} from "../../src/delivery/kinds/registry.ts";
import { type DestinationKind, kindNameOf, kindOf } from "../../src/delivery/kinds/sending.ts";
import { type Sending, sendingThroughBindings } from "../support/sending.ts";
import { utf8 } from "../support/utf8.ts";

const ACCOUNT = "023e105f4ecef8ad9ca31a8372d0c353";
const QUEUE = "f1e2d3c4b5a697887766554433221100";
const TOKEN = "cfut_0123456789abcdefghijKLMNOPQRSTUV";

const targetSchemas = zodFieldsOf(targetFields);

let sending: Sending;
beforeEach(() => {
  sending = sendingThroughBindings();
});

describe("a target", () => {
  test.each<[DestinationKind, object, string]>([
    ["https", { url: "https://example.com/a:b" }, "https://example.com/a:b"],
    ["queue", { binding: "ORDERS" }, "queue:ORDERS"],
    ["queue", { account_id: ACCOUNT, queue_id: QUEUE }, `queue:${ACCOUNT}/${QUEUE}`],
    ["service", { binding: "A", path: "/" }, "service:A/"],
    ["service", { binding: "_a9", path: "/x/y?a=b&c" }, "service:_a9/x/y?a=b&c"],
  ])("of kind %s with %j is stored as %s, and shown as it was given", (kind, fields, stored) => {
    expect(targetText(kind, fields as never)).toBe(stored);
    expect(kindNameOf(stored)).toBe(kind);
    expect(shownTarget(stored)).toEqual(fields);
    expect(targetFaults(kind, fields as never)).toEqual(
      "queue_id" in fields
        ? [
            {
              field: "token",
              fault: "is missing",
              expected: expect.stringContaining("account_id and queue_id"),
            },
          ]
        : [],
    );
  });

  test("of a service has the path / unless given", () => {
    expect(targetText("service", { binding: "A" })).toBe("service:A/");
  });

  test.each([
    ["", "https", { url: "" }],
    ["queue", "https", { url: "queue" }],
    [":queue", "https", { url: ":queue" }],
    ["toString:x", "https", { url: "toString:x" }],
    ["ftp://example.com", "https", { url: "ftp://example.com" }],
    ["queue:", "queue", {}],
    ["queue:9A", "queue", {}],
    [`queue:${"a".repeat(65)}`, "queue", {}],
    [`queue:${ACCOUNT}/`, "queue", {}],
    [`queue:${ACCOUNT}/${QUEUE}0`, "queue", {}],
    [`queue:${ACCOUNT.toUpperCase()}/${QUEUE}`, "queue", {}],
    ["service:A", "service", {}],
    ["service:/x", "service", {}],
    ["service:A/x/../y", "service", {}],
    ["service:A/x\ny", "service", {}],
    ["service:A/x#y", "service", {}],
    ["service:A/x?y=\\z", "service", {}],
    ["service:A/x\\y", "service", {}],
    [`service:A/${"x".repeat(1_024)}`, "service", {}],
  ])("that was edited into %j is of kind %s, shown as %j, and gets nothing", async (stored, kind, shown) => {
    expect([kindNameOf(stored), shownTarget(stored)]).toEqual([kind, shown]);
    expect(await obstacleOf(stored)).toEqual({
      reason: "forbidden_target",
      fault: expect.stringMatching(kind === "https" ? /^The URL / : /^The target is malformed; expected .*:/),
    });
  });

  test.each([
    "https://example.com/",
    "queue:ORDERS",
    `queue:${ACCOUNT}/${QUEUE}`,
    "service:A/",
    `service:A/${"x".repeat(1_023)}`,
  ])("%s accepts it", async (stored) => {
    expect(await obstacleOf(stored)).toBeUndefined();
  });
});

async function obstacleOf(url: string, body = utf8("{}"), headers: object | null = null) {
  const destination = { url, headers: null, sealedHeaders: headers } as never;
  return (await kindOf({ url })).obstacles(destination, sending.services.config)(body);
}

describe("the fields of a target", () => {
  test.each<[DestinationKind, object, readonly string[]]>([
    ["https", {}, ["url is missing; an https URL"]],
    ["https", { url: "x", path: "/" }, ["path is not a field of the kind https; only url"]],
    ["https", { url: "x", path: undefined }, []],
    ["queue", {}, ["binding is missing; a binding, or account_id, queue_id and token"]],
    ["queue", { account_id: ACCOUNT, queue_id: QUEUE, token: TOKEN }, []],
    [
      "queue",
      { account_id: ACCOUNT },
      [
        "queue_id is missing; it together with account_id, or a binding instead",
        "token is missing; it together with account_id, or a binding instead",
      ],
    ],
    [
      "queue",
      { binding: "A", account_id: ACCOUNT, token: TOKEN },
      [
        "account_id is given together with binding; one or the other",
        "token is given together with binding; one or the other",
      ],
    ],
    ["service", { path: "/" }, ["binding is missing; the binding of a service"]],
    [
      "service",
      { binding: "A", url: "x", token: TOKEN },
      [
        "url is not a field of the kind service; only binding, path",
        "token is not a field of the kind service; only binding, path",
      ],
    ],
  ])("of kind %s %j are at fault: %j", (kind, fields, faults) => {
    const found = targetFaults(kind, fields as never);
    expect(found.map(({ field, fault, expected }) => `${field} ${fault}; ${expected}`)).toEqual(faults);
  });

  test("are taken from a body without its nulls, and a value that is not text counts as given", () => {
    expect(
      targetAmong({ url: "u", binding: null, path: undefined, token: 7, queue_id: "", color: "red" }),
    ).toEqual({
      url: "u",
      token: "",
      queue_id: "",
    });
  });

  test.each<[string, unknown, RegExp]>([
    ["url", 7, /^expected an https URL$/],
    ["binding", 7, /^expected the name of a binding/],
    ["binding", "9A", /^expected the name of a binding/],
    ["account_id", 7, /^expected 32 hexadecimal digits$/],
    ["queue_id", "x", /^expected 32 hexadecimal digits$/],
    ["token", 7, /^expected an API token of 20 to 500/],
    ["token", "x".repeat(19), /^expected an API token of 20 to 500/],
    ["token", "x".repeat(501), /^expected an API token of 20 to 500/],
    ["path", 7, /^expected a path such as \/hook.*dot segments$/],
    ["path", "x", /^expected a path such as \/hook.*dot segments$/],
  ])("%s refuses %j and says what it expects", (field, value, message) => {
    const schema: z.ZodType = targetSchemas[field as keyof typeof targetFields];
    expect(schema.safeParse(value).error?.issues.map((issue) => issue.message)).toEqual([
      expect.stringMatching(message),
    ]);
  });

  test("are described in the API's document, with the token write-only", () => {
    for (const [field, schema] of Object.entries(targetSchemas))
      expect(schema.meta(), field).toMatchObject({ description: expect.stringMatching(/\w+/) });
    expect(targetSchemas.token.meta()?.writeOnly).toBe(true);
    expect(targetSchemas.account_id.meta()?.description).toContain("Cloudflare account that has the queue");
    expect(targetSchemas.queue_id.meta()?.description).toContain("The id of the queue,");
    for (const field of ["url", "binding", "account_id", "queue_id", "path"] as const) {
      const schema: z.ZodType = targetSchemas[field];
      expect(schema.safeParse(schema.meta()?.example).success, field).toBe(true);
      expect(schema.meta()?.example, field).toBeTruthy();
    }
  });
});

describe("a binding", () => {
  const faultsOf = (kind: DestinationKind, binding: string | undefined, tenant = "acme") =>
    deploymentFaults(sending.services, kind, { binding }, tenant).map(
      ({ field, fault, expected }) => `${field} ${fault}; ${expected}`,
    );

  const unknown = (binding: string, tenant = "acme") => [
    `binding is "${binding}", which is not known; a binding that the operator lets the tenant ${tenant} use`,
  ];

  test("that the operator lets the tenant use, or all tenants, is accepted for its kind", () => {
    expect(faultsOf("queue", "ORDERS")).toEqual([]);
    expect(faultsOf("service", "BILLING_2")).toEqual([]);
    for (const kind of destinationKinds) expect(faultsOf(kind, undefined)).toEqual([]);
    expect(faultsOf("https", "NOBODY")).toEqual([]);
  });

  test("of the other kind is refused as such, and one of another tenant as unknown", () => {
    expect(faultsOf("queue", "BILLING_2")).toEqual([
      'binding is "BILLING_2", the binding of a service; the binding of a queue',
    ]);
    expect(faultsOf("service", "ORDERS")).toEqual([
      'binding is "ORDERS", the binding of a queue; the binding of a service',
    ]);
    expect(faultsOf("queue", "NOBODY")).toEqual(unknown("NOBODY"));
    expect(faultsOf("queue", "ORDERS", "globex")).toEqual(unknown("ORDERS", "globex"));
    expect(faultsOf("queue", "BILLING_2", "globex")).toEqual(unknown("BILLING_2", "globex"));
  });

  test("is unknown in a deployment without any", () => {
    Object.assign(sending.services, { destinationBindings: undefined });
    expect(faultsOf("queue", "ORDERS")).toEqual(unknown("ORDERS"));
  });
});

describe("a message of a queue", () => {
  const url = "queue:ORDERS";
  const fault = (bytes: number, free: number) => ({
    reason: "too_large",
    fault: `The body is ${bytes} bytes as a JSON string; a message has room for ${free}.`,
  });

  test.each([
    ["a", 119_998, undefined],
    ["a", 119_999, fault(120_001, 120_000)],
    ["\u0001", 19_999, undefined],
    ["\u0001", 20_000, fault(120_002, 120_000)],
    ["é", 59_999, undefined],
    ["é", 60_000, fault(120_002, 120_000)],
  ])("has room for 120,000 bytes as a JSON string: %j %i times", async (letter, times, obstacle) => {
    expect(await obstacleOf(url, utf8(letter.repeat(times)))).toEqual(obstacle);
  });

  test("shares the room with the destination's own headers", async () => {
    const headers = { "x-a": "b".repeat(90) };
    const free = 120_000 - JSON.stringify(headers).length;
    expect(await obstacleOf(url, utf8("a".repeat(free - 2)), headers)).toBeUndefined();
    expect(await obstacleOf(url, utf8("a".repeat(free - 1)), headers)).toEqual(fault(free + 1, free));
  });
});
