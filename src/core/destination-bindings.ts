/**
 * The bindings of the Worker that destinations may use, and for which tenants, as the operator writes them in
 * `DESTINATION_BINDINGS`: `ORDERS: acme, globex; AUDIT: *`. Semicolons separate entries, commas tenants, and `*` means
 * every tenant. The deployment's check reads it from wrangler.toml, the Worker from its variables.
 */
import { TENANT_NAME } from "./destination-fields.ts";
import { rulesOfEntries } from "./entries.ts";

type BindingRule = Readonly<{
  /** The binding's name in wrangler.toml. */
  name: string;
  tenants: "*" | readonly string[];
}>;

/** The name of a binding: an identifier of JavaScript, as wrangler requires. */
export const BINDING_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

/** Breakwater's queues: their consumers do not expect messages of others. */
const OWN_QUEUES: readonly string[] = ["DELIVERIES", "DRAINS", "DEAD", "UPKEEP"];

const EXPECTED = 'expected entries such as "ORDERS: acme, globex; AUDIT: *"';

/** The rules of a text, and what is wrong with it, each fault to follow the variable's name. */
export function bindingRules(text: string): { rules: readonly BindingRule[]; faults: readonly string[] } {
  const { rules, faults: unreadable } = rulesOfEntries(text, ruleOf);
  const names = rules.map(({ name }) => name);
  const faults = [
    ...unreadable,
    ...names
      .filter((name) => OWN_QUEUES.includes(name))
      .map((name) => `names ${name}, one of Breakwater's own queues`),
    ...[...new Set(names.filter((name, i) => names.indexOf(name) < i))].map((name) => `names ${name} twice`),
  ];
  return { rules, faults };
}

export function mayUse({ tenants }: Pick<BindingRule, "tenants">, tenant: string): boolean {
  return tenants === "*" || tenants.includes(tenant);
}

/** Tenants may have colons in their names: the first one of an entry ends the binding's. */
function ruleOf(entry: string): BindingRule | Readonly<{ fault: string }> {
  const colon = entry.indexOf(":");
  const name = entry.slice(0, Math.max(0, colon)).trim();
  const listed = entry
    .slice(colon + 1)
    .split(",")
    .map((tenant) => tenant.trim());
  if (!BINDING_NAME.test(name)) return { fault: `${EXPECTED}, not ${JSON.stringify(entry.slice(0, 60))}` };
  if (listed.length === 1 && listed[0] === "*") return { name, tenants: "*" };
  const wrong = listed.find((tenant) => !TENANT_NAME.test(tenant));
  if (wrong === undefined) return { name, tenants: listed };
  const given = wrong === "" ? "a missing tenant" : JSON.stringify(wrong.slice(0, 60));
  return { fault: `${EXPECTED}: ${name} has ${given}; * stands alone` };
}
