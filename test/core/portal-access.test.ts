/** The rights and limits of the portal's visitors: a table of rules. */
import { describe, expect, test } from "vitest";
import {
  accessUnder,
  allows,
  allowsAnother,
  type Capability,
  capabilities,
  limitsWithin,
  type PortalAction,
  type PortalRules,
  portalActions,
  readOnlyRules,
  rulesShape,
  tenantPortalOf,
  tenantPortalShape,
  visitIn,
} from "../../src/core/portal-access.ts";
import { zodOf } from "../../src/core/zod-of.ts";

const everything = accessUnder();
const nothing = accessUnder(Object.fromEntries(capabilities.map((name) => [name, false])) as PortalRules);

describe("access", () => {
  test("is everything, without limits, unless a rule says otherwise", () => {
    expect(everything).toEqual({
      may_edit_endpoints: true,
      may_transform: true,
      may_write_code: true,
      may_rotate: true,
      may_resend: true,
      may_test: true,
      may_poll: true,
      may_see_payloads: true,
      max_endpoints: null,
      max_concurrency: null,
      rate_per_second: null,
    });
    expect(accessUnder({}, { may_test: null, max_endpoints: null })).toEqual(everything);
  });

  test.each<[PortalRules, PortalRules, object]>([
    [{ may_rotate: false }, { may_rotate: true }, { may_rotate: false }],
    [{ may_rotate: true }, { may_rotate: false }, { may_rotate: false }],
    [{ max_endpoints: 3 }, { max_endpoints: 5 }, { max_endpoints: 3 }],
    [{ max_endpoints: 5 }, { max_endpoints: 3 }, { max_endpoints: 3 }],
    [{ max_endpoints: 5 }, {}, { max_endpoints: 5 }],
    [{ max_endpoints: 5 }, { max_endpoints: null }, { max_endpoints: 5 }],
    [{}, { max_endpoints: 0 }, { max_endpoints: 0 }],
    [{ max_concurrency: 10 }, { max_concurrency: 1000 }, { max_concurrency: 10 }],
    [{ rate_per_second: 0.5 }, { rate_per_second: 20 }, { rate_per_second: 0.5 }],
  ])("under %j and %j is narrowed by both, in any order", (tenant, link, expected) => {
    expect(accessUnder(tenant, link)).toMatchObject(expected);
    expect(accessUnder(link, tenant)).toEqual(accessUnder(tenant, link));
  });

  test.each(capabilities)("without %s permits exactly what does not need it", (missing) => {
    const access = accessUnder({ [missing]: false });
    const refused = (Object.keys(portalActions) as PortalAction[]).filter(
      (action) => !allows(access, action),
    );
    const needing = Object.entries(portalActions).filter(([, needed]) => [needed].flat().includes(missing));
    expect(refused).toEqual(needing.map(([action]) => action));
    expect(refused.length).toBeGreaterThan(0);
  });

  test("to reading is never refused, and everything else can be", () => {
    const allowed = (Object.keys(portalActions) as PortalAction[]).filter((action) =>
      allows(nothing, action),
    );
    expect(allowed).toEqual(["read"]);
  });

  test("in read-only mode has no capability that changes anything", () => {
    const access = accessUnder(readOnlyRules);
    const left = capabilities.filter((name: Capability) => access[name]);
    expect(left).toEqual(["may_see_payloads"]);
  });

  test.each([
    [null, 5000, true],
    [5, 4, true],
    [5, 5, false],
    [5, 6, false],
    [0, 0, false],
  ])("with at most %j endpoints and %j of them: another one is allowed: %j", (most, endpoints, expected) => {
    expect(allowsAnother(accessUnder({ max_endpoints: most }), endpoints)).toBe(expected);
  });

  test("of a tenant with unreadable settings is read-only", () => {
    for (const stored of ["{", { "": "" }, { may_fly: true }, { max_endpoints: "many" }, []])
      expect(accessUnder(tenantPortalOf(stored))).toEqual({ ...nothing });
    expect(tenantPortalOf(null)).toEqual({});
    expect(tenantPortalOf(undefined)).toEqual({});
  });

  test("of a tenant stays as it was set, with the branding of its portal", () => {
    for (const theme of ["auto", "light", "dark"])
      for (const language of ["en", "de"]) {
        const stored = { may_test: false, max_endpoints: 3, theme, language };
        expect(tenantPortalOf(stored)).toEqual(stored);
      }
    for (const max_endpoints of [0, 10_000])
      expect(tenantPortalOf({ max_endpoints })).toEqual({ max_endpoints });
  });
});

describe("limits that a visitor sets", () => {
  const capped = accessUnder({ max_concurrency: 20, rate_per_second: 50 });
  const current = { max_concurrency: 40, rate_per_second: 10 };

  test.each<[string, Parameters<typeof limitsWithin>, ReturnType<typeof limitsWithin>]>([
    [
      "the defaults, where there are no limits and nothing is asked for",
      [everything, { max_concurrency: null, rate_per_second: null }],
      { set: { max_concurrency: 10, rate_per_second: 100 }, above: [] },
    ],
    [
      "no more than the limit, where a default is higher",
      [capped, { max_concurrency: null, rate_per_second: null }],
      { set: { max_concurrency: 10, rate_per_second: 50 }, above: [] },
    ],
    [
      "the same where the fields are missing from the form",
      [capped, {}],
      { set: { max_concurrency: 10, rate_per_second: 50 }, above: [] },
    ],
    [
      "as much as is allowed",
      [capped, { max_concurrency: 20, rate_per_second: 50 }],
      { set: { max_concurrency: 20, rate_per_second: 50 }, above: [] },
    ],
    [
      "more, and learn how much it may be",
      [capped, { max_concurrency: 21, rate_per_second: 50.1 }],
      {
        set: { max_concurrency: 21, rate_per_second: 50.1 },
        above: [
          { field: "max_concurrency", most: 20 },
          { field: "rate_per_second", most: 50 },
        ],
      },
    ],
    [
      "what an operator has raised, unchanged",
      [capped, { max_concurrency: 40, rate_per_second: 10 }, current],
      { set: {}, above: [] },
    ],
    [
      "even more than what an operator has raised",
      [capped, { max_concurrency: 41, rate_per_second: 10 }, current],
      { set: { max_concurrency: 41 }, above: [{ field: "max_concurrency", most: 20 }] },
    ],
    [
      "what is no number, for the API to refuse",
      [capped, { max_concurrency: "many", rate_per_second: -1 }],
      { set: { max_concurrency: "many", rate_per_second: -1 }, above: [] },
    ],
    [
      "what is a number only as text, for the API to refuse",
      [capped, { max_concurrency: "30", rate_per_second: 1 }],
      { set: { max_concurrency: "30", rate_per_second: 1 }, above: [] },
    ],
  ])("are %s", (_, given, expected) => {
    expect(limitsWithin(...given)).toEqual(expected);
  });
});

test("the settings of a link are complete, and lead back to https only", () => {
  const visit = { rules: {}, language: null, theme: null, return_url: null };
  expect(visitIn(visit)).toEqual(visit);
  for (const wrong of [
    {},
    { ...visit, rules: null },
    { ...visit, language: "fr" },
    { ...visit, return_url: "http://a.example/" },
    { ...visit, more: 1 },
  ])
    expect(visitIn(wrong)).toBeUndefined();
});

const RULES =
  "may_edit_endpoints, may_transform, may_write_code, may_rotate, may_resend, may_test, may_poll, may_see_payloads, max_endpoints, max_concurrency, rate_per_second";

test("unknown rules are refused by name", () => {
  const { error } = zodOf(rulesShape).safeParse({ may_fly: true });
  expect(error?.issues[0]?.message).toBe(`unknown may_fly: expected an object of ${RULES}`);
});

test("impossible settings of a tenant's portal are refused with the possible ones", () => {
  const portal = zodOf(tenantPortalShape);
  const counts = "expected a whole number from 0 to 10000";
  for (const [given, expected] of [
    [{ may_fly: true }, `unknown may_fly: expected an object of ${RULES}, language, theme`],
    [{ may_test: "yes" }, "expected true or false"],
    [{ max_endpoints: -1 }, counts],
    [{ max_endpoints: 10_001 }, counts],
    [{ max_endpoints: 1.5 }, counts],
    [{ language: "fr" }, "expected one of en, de"],
    [{ theme: "pink" }, "expected one of auto, light, dark"],
  ] as const)
    expect(portal.safeParse(given).error?.issues.map(({ message }) => message)).toEqual([expected]);
});
