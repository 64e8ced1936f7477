/** Which bindings destinations may be, as the operator writes it. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { bindingRules, mayUse } from "../../src/core/destination-bindings.ts";

test("each entry names a binding and its tenants, of which some have colons in their names", () => {
  expect(bindingRules(" ORDERS: acme, globex:eu ;AUDIT:*; ")).toEqual({
    rules: [
      { name: "ORDERS", tenants: ["acme", "globex:eu"] },
      { name: "AUDIT", tenants: "*" },
    ],
    faults: [],
  });
  expect(bindingRules("ORDERS : acme").rules).toEqual([{ name: "ORDERS", tenants: ["acme"] }]);
  expect(bindingRules("")).toEqual({ rules: [], faults: [] });
});

const EXPECTED = 'expected entries such as "ORDERS: acme, globex; AUDIT: *"';

test.each([
  ["ORDERS", `${EXPECTED}, not "ORDERS"`],
  [": acme", `${EXPECTED}, not ": acme"`],
  [" ORDERS ;", `${EXPECTED}, not "ORDERS"`],
  [`ORDERS: ${" a".repeat(40)}`, `${EXPECTED}: ORDERS has "${"a ".repeat(30)}"; * stands alone`],
  ["2ND: acme", `${EXPECTED}, not "2ND: acme"`],
  ["ORDERS:", `${EXPECTED}: ORDERS has a missing tenant; * stands alone`],
  ["ORDERS: acme,", `${EXPECTED}: ORDERS has a missing tenant; * stands alone`],
  ["ORDERS: acme, *", `${EXPECTED}: ORDERS has "*"; * stands alone`],
  ["ORDERS: a b", `${EXPECTED}: ORDERS has "a b"; * stands alone`],
  ["ORDERS: a; ORDERS: b", "names ORDERS twice"],
  ["ORDERS: *, acme", `${EXPECTED}: ORDERS has "*"; * stands alone`],
  ["o".repeat(61), `${EXPECTED}, not "${"o".repeat(60)}"`],
  ["DELIVERIES: *", "names DELIVERIES, one of Breakwater's own queues"],
  ["DRAINS: *", "names DRAINS, one of Breakwater's own queues"],
  ["DEAD: *", "names DEAD, one of Breakwater's own queues"],
])("%j is refused, and the fault says what is expected", (text, fault) => {
  expect(bindingRules(text).faults).toEqual([fault]);
});

test("a binding may be used by the tenants that are named, or by all", () => {
  const may = (tenants: "*" | string[]) => ["acme", "globex"].map((tenant) => mayUse({ tenants }, tenant));
  expect(may(["acme"])).toEqual([true, false]);
  expect(may("*")).toEqual([true, true]);
  expect(may([])).toEqual([false, false]);
});

test("a tenant may use a binding only if the tenant or * is named, whatever else is written", () => {
  const text = fc.string({ unit: fc.constantFrom(..."AB:;,* ac") });
  fc.assert(
    fc.property(text, (given) => {
      const { rules, faults } = bindingRules(given);
      for (const rule of rules.filter((one) => mayUse(one, "ac"))) {
        const entry = given
          .split(";")
          .find((part) => part.trim().startsWith(`${rule.name}:`) || part.trim().startsWith(`${rule.name} `));
        expect(entry).toMatch(/[*]|ac/);
      }
      if (rules.length === 0 && given.replaceAll(/[; ]/g, "") !== "") expect(faults).not.toEqual([]);
    }),
  );
});
