import { describe, expect, it, test } from "vitest";
import { type Identity, roleRules, ruleFor } from "../../src/core/role-rules.ts";

const { rules, faults } = roleRules(`
  Ann@Example.com: own;
  group On Call: repair;
  @example.com: look in acme, globex:eu , acme;
  service 0a1b.access: configure in acme;
`);

function person(email: string, ...groups: string[]): Identity {
  return { kind: "person", email, groups };
}

test("the example has no fault", () => {
  expect(faults).toEqual([]);
});

describe("a rule", () => {
  it.each<[string, Identity, string | undefined, string[] | undefined]>([
    ["an email", person("ann@example.com"), "own", undefined],
    ["an email in capitals", person("ANN@EXAMPLE.COM"), "own", undefined],
    ["a domain", person("bob@example.com"), "look", ["acme", "globex:eu"]],
    ["a group", person("eve@other.example", "Sales", "On Call"), "repair", undefined],
    ["the first of a group and a domain", person("bob@example.com", "On Call"), "repair", undefined],
    ["a service token", { kind: "service", name: "0a1b.access" }, "configure", ["acme"]],
    ["nobody of a subdomain", person("bob@sub.example.com"), undefined, undefined],
    ["nobody whose domain only begins so", person("bob@example.com.evil.example"), undefined, undefined],
    ["nobody whose domain only ends so", person("bob@evilexample.com"), undefined, undefined],
    ["no group in other letters", person("eve@other.example", "on call"), undefined, undefined],
    ["no person as a service token", person("0a1b.access"), undefined, undefined],
    ["no service token as an email", { kind: "service", name: "ann@example.com" }, undefined, undefined],
    ["no service token as a group", { kind: "service", name: "On Call" }, undefined, undefined],
  ])("names %s", (_, identity, role, tenants) => {
    const rule = ruleFor(rules, identity);
    expect([rule?.role, rule?.tenants]).toEqual([role, tenants]);
  });

  it("does not equate a Unicode letter with the ASCII letter that is its lower case", () => {
    const kelvin = roleRules("k@example.com: own; @kk.example: own").rules;
    for (const email of ["\u212A@example.com", "x@\u212Ak.example"])
      expect(ruleFor(kelvin, person(email))).toBeUndefined();
    expect(ruleFor(kelvin, person("K@example.com"))?.role).toBe("own");
  });
});

describe("a text with a fault", () => {
  it.each([
    ["ann@example.com", 'expected entries such as "ann@example.com: own;', '"ann@example.com"'],
    ["ann@example.com: admin", "expected entries such as", '"ann@example.com: admin"'],
    ["ann@example.com: Own", "expected entries such as", '"ann@example.com: Own"'],
    ["ann: own", "expected entries such as", '"ann: own"'],
    ["*: own", "expected entries such as", '"*: own"'],
    ["@: own", "expected entries such as", '"@: own"'],
    ["group: own", "expected entries such as", '"group: own"'],
    ["ann@example.com: own in", "expected entries such as", '"ann@example.com: own in"'],
    ["ann@example.com: look in a b", 'has "a b" in', "which is not a valid tenant name"],
    ["ann@example.com: look in acme,", 'has "" in', "which is not a valid tenant name"],
    ["ann@example.com: look in operator", 'has "operator" in', "which is reserved"],
    ["a@b.c: own; A@b.c: look", "has a@b.c after a@b.c", "which applies first"],
    ["@b.c: look; a@b.c: own", "has a@b.c after @b.c", "which applies first"],
    ["group x: look; group x: own", "has group x after group x", "which applies first"],
  ])("%j has the fault named", (text, start, part) => {
    const found = roleRules(text).faults;
    expect(found).toEqual([expect.stringContaining(start)]);
    expect(found[0]).toContain(part);
  });

  it("has every fault named", () => {
    expect(roleRules("x; y; ann@example.com: own").faults).toHaveLength(2);
  });
});
