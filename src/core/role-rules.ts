/**
 * The roles of people, as the operator writes them in `ACCESS_ROLES`: `ann@example.com: own; @example.com: look in
 * acme, globex`. Semicolons separate entries, commas tenants; without tenants an entry is for all of them. The first
 * entry that names a person applies. Pure.
 */
import { TENANT_NAME } from "./destination-fields.ts";
import { rulesOfEntries } from "./entries.ts";
import { OPERATOR } from "./principal.ts";
import { type Role, roles } from "./roles.ts";

/** The subject of a rule: a person by the email, by its domain or by a group, or a service token by its client id. */
type Who = Readonly<{ kind: "email" | "domain" | "group" | "service"; name: string }>;

export type RoleRule = Readonly<{
  who: Who;
  role: Role;
  /** Absent: all tenants. */
  tenants?: readonly string[];
}>;

const EXPECTED =
  'expected entries such as "ann@example.com: own; @example.com: look in acme, globex; group Support: repair; service 0a1b.access: look"';
const ENTRY = new RegExp(`^(.{1,300}?):\\s*(${roles.join("|")})(?:\\s+in\\s+(.+))?$`, "s");
const EMAIL = /^[^\s@;]{1,64}@[^\s@;]{1,255}$/;

/** The rules of `ACCESS_ROLES`, and what is wrong with the text, each fault to follow the variable's name. */
export function roleRules(text: string): { rules: readonly RoleRule[]; faults: readonly string[] } {
  const { rules, faults } = rulesOfEntries(text, ruleOf);
  const unreached = rules.flatMap(({ who }, i) => {
    const first = rules.slice(0, i).find((earlier) => covers(earlier.who, who));
    return first ? [`has ${textOf(who)} after ${textOf(first.who)}, which applies first`] : [];
  });
  return { rules, faults: [...faults, ...unreached] };
}

function ruleOf(entry: string): RoleRule | Readonly<{ fault: string }> {
  const shown = JSON.stringify(entry.slice(0, 100));
  const [, named = "", given, listed] = ENTRY.exec(entry) ?? [];
  const role = roles.find((one) => one === given);
  const who = whoOf(named.trim());
  if (role === undefined || who === undefined) return { fault: `${EXPECTED}, not ${shown}` };
  if (listed === undefined) return { who, role };
  const tenants = [...new Set(listed.split(",").map((tenant) => tenant.trim()))];
  const wrong = tenants.find((tenant) => !TENANT_NAME.test(tenant) || tenant === OPERATOR);
  if (wrong === undefined) return { who, role, tenants };
  const fault = wrong === OPERATOR ? "is reserved" : "is not a valid tenant name";
  return { fault: `has ${JSON.stringify(wrong.slice(0, 100))} in ${shown}, which ${fault}` };
}

function whoOf(named: string): Who | undefined {
  const [, kind, name = ""] = /^(group|service)\s+(\S.*)$/s.exec(named) ?? [];
  if (kind === "group" || kind === "service") return { kind, name };
  if (EMAIL.test(named)) return { kind: "email", name: lowerCased(named) };
  return EMAIL.test(`x${named}`) ? { kind: "domain", name: lowerCased(named.slice(1)) } : undefined;
}

function textOf({ kind, name }: Who): string {
  return kind === "email" ? name : kind === "domain" ? `@${name}` : `${kind} ${name}`;
}

/** Whether the first rule names everybody that the second names. */
function covers(first: Who, second: Who): boolean {
  if (first.kind === "domain" && second.kind === "email") return domainOf(second.name) === first.name;
  return first.kind === second.kind && first.name === second.name;
}

function domainOf(email: string): string {
  return email.slice(email.lastIndexOf("@") + 1);
}

/** Only in ASCII: Unicode has other letters, such as the Kelvin sign, whose lower case is one of these. */
function lowerCased(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** A signed-in identity: a person, or a program with a service token. */
export type Identity = Person | Readonly<{ kind: "service"; name: string }>;
type Person = Readonly<{ kind: "person"; email: string; groups: readonly string[] }>;

/** The first rule that names the identity. Undefined if none does: then it may do nothing. */
export function ruleFor(rules: readonly RoleRule[], identity: Identity): RoleRule | undefined {
  return rules.find(({ who: { kind, name } }) =>
    identity.kind === "service"
      ? kind === "service" && name === identity.name
      : namesOf(identity)[kind]?.includes(name),
  );
}

/** The names by which the kinds of rules name a person. */
function namesOf({ email: given, groups }: Person): Partial<Record<Who["kind"], readonly string[]>> {
  const email = lowerCased(given);
  return { email: [email], domain: [domainOf(email)], group: groups };
}

/** Whether the text has the form of an email that a rule can name. */
export function isEmail(text: string): boolean {
  return EMAIL.test(text);
}
