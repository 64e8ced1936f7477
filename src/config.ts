/**
 * The deployment's configuration: variables and secrets, read and checked in one place, so that a misconfigured
 * Worker names every fault at once instead of failing at the first event.
 */
import { keptAttempts } from "./core/archive.ts";
import { databaseNamesFault, furtherDatabaseNames } from "./core/placement.ts";
import { brandShape, type PortalBranding } from "./core/portal-branding.ts";
import { type RoleRule, roleRules } from "./core/role-rules.ts";
import { readAs, type TextShape } from "./core/shape.ts";
import { toBase64 } from "./secrets/base64.ts";
import { type MasterKeys, parseMasterKeys } from "./secrets/vault.ts";

/** The value of a variable, or faults that follow its name. */
type Reading<T> = Readonly<{ value: T }> | Readonly<{ faults: readonly string[] }>;

/** Reads a variable, which is undefined if it is not set. */
type Read<T> = (given: unknown) => Reading<T>;

function fault(...faults: readonly string[]) {
  return { faults };
}

/** A text, converted further; one that is not set is the default. */
function text<T>(read: (text: string) => Reading<T>, otherwise: T): Read<T> {
  return (given) => {
    if (given === undefined) return { value: otherwise };
    return typeof given === "string" ? read(given) : fault("expected a text");
  };
}

function secret<T>(name: string, read: (text: string) => Reading<T>): Read<T> {
  return (given) =>
    typeof given === "string"
      ? read(given)
      : fault(`is missing: set it with \`wrangler secret put ${name}\``);
}

/** A text of this form, or an empty one. */
function matching(pattern: RegExp, expected: string): Read<string> {
  return text((given) => (given === "" || pattern.test(given) ? { value: given } : fault(expected)), "");
}

function oneOf<const T extends string>(words: readonly T[], expected: string, otherwise: T): Read<T> {
  return text((given) => {
    const value = words.find((word) => word === given);
    return value === undefined ? fault(`expected ${expected}`) : { value };
  }, otherwise);
}

/** One of these names, or nothing. */
function nameAmong<const T extends string>(names: readonly T[]): Read<T | ""> {
  return oneOf(["", ...names], `one of ${names.join(", ")}, or nothing`, "");
}

type Range = Readonly<{ min: number; max: number; unit: string; isWhole?: boolean }>;

/** A number, in a text or as one. */
function number<T extends number | undefined>(
  { min, max, unit, isWhole = false }: Range,
  otherwise: T,
): Read<number | T> {
  return (given) => {
    if (given === undefined) return { value: otherwise };
    const value = Number(given);
    const isUsable = value >= min && value <= max && (!isWhole || Number.isInteger(value));
    return isUsable ? { value } : fault(`expected ${unit}, ${min} to ${max}`);
  };
}

/** A text that the shape takes, or nothing. */
function shaped(shape: TextShape): Read<string> {
  return text(
    (given) =>
      given === "" || readAs(shape, given) !== undefined
        ? { value: given }
        : fault(`expected ${shape.expected}`),
    "",
  );
}

/** The secrets that examples of early versions had: everybody can read them in the repository's history. */
const PUBLIC_ADMIN_KEY = "dev-admin-key-change-me-in-production";
const PUBLIC_MASTER_KEY = "ZGV2ZWxvcG1lbnQta2V5LW5vdC1mb3ItcHJvZHVjdGk=";

function adminKey(key: string): Reading<string> {
  if (key.length < 16) return fault("is too short: at least 16 characters");
  if (key !== PUBLIC_ADMIN_KEY) return { value: key };
  return fault(
    "is public, the example of an early version: set another with `wrangler secret put ADMIN_KEY`",
  );
}

/** A public one that only opens is refused too: portal links that are signed with it would be valid. */
function masterKeys(given: string): Reading<MasterKeys> {
  const keys = parseMasterKeys(given);
  if ("fault" in keys) return fault(keys.fault);
  if (!keys.some(({ bytes }) => toBase64(bytes) === PUBLIC_MASTER_KEY)) return { value: keys };
  return fault(
    "has a public key, the example of an early version: rotate the master key with the version that accepted it",
  );
}

/** The caps of a deployment whose variables do not set them. */
const DESTINATIONS_PER_TENANT = 1_000;
const DELIVERIES_PER_REQUEST = 100_000;

/** Location hints of Durable Objects: https://developers.cloudflare.com/durable-objects/reference/data-location/ */
const locations = ["wnam", "enam", "sam", "weur", "eeur", "apac", "oc", "afr", "me"] as const;
/** https://developers.cloudflare.com/durable-objects/reference/data-location/; those that D1 has too. */
export const jurisdictions = ["eu", "us", "fedramp"] as const;

const address = matching(
  /^[^\s@<>",;:]{1,64}@[^\s@<>",;:]{1,255}$/,
  "expected a mail address, such as ops@example.com",
);

/** The entries of a text with commas between, in lower case. */
function listIn(given: string): string[] {
  return given
    .toLowerCase()
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");
}

/** Host names or their ends, each with or without a port; an empty text has none. */
function hostList(given: string): Reading<readonly string[]> {
  const hosts = listIn(given);
  if (hosts.every(isHost)) return { value: hosts };
  return fault(
    "expected host names with commas between, such as hooks.example.com, or * and what they end with",
  );
}

type SharedHosts = readonly string[] | number;
const NO_HOSTS: SharedHosts = [];

/** Hosts, or how many destinations a host has at most without being shared. */
function sharedHosts(given: string): Reading<SharedHosts> {
  if (given.trim() === "") return { value: NO_HOSTS };
  if (!/^\s*\d+\s*$/.test(given)) return hostList(given);
  const most = Number(given);
  return most >= 1 && most <= 1_000_000
    ? { value: most }
    : fault("expected hosts, or a number from 1 to 1000000");
}

function isHost(host: string): boolean {
  if (!/^(\*[.-])?[a-z0-9_.-]+(:\d{1,5})?$/.test(host)) return false;
  return URL.canParse(`http://${host.replace(/^\*[.-]/, "")}`);
}

const ORIGINS_EXPECTED =
  "expected https origins with commas between, such as https://app.example.com; in development also http://localhost:3000";
const LOOPBACK_ORIGIN = /^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/;

/** The pages that may show the portal in a frame. Exact ones: a message to the page needs its origin. */
function originList(given: string): Reading<readonly string[]> {
  const origins = listIn(given);
  const wrong = origins.find(
    (origin) =>
      !(/^https:\/\/[a-z0-9.-]+(:\d{1,5})?$/.test(origin) || LOOPBACK_ORIGIN.test(origin)) ||
      URL.parse(origin)?.origin !== origin,
  );
  if (wrong === undefined) return { value: [...new Set(origins)] };
  return fault(`has ${JSON.stringify(wrong)}; ${ORIGINS_EXPECTED}`);
}

/** The team's origin, which issues its assertions; empty if nothing is set. */
function accessIssuer(given: string): Reading<string> {
  const team = /^(?:https:\/\/)?([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.cloudflareaccess\.com\/?)?$/i.exec(
    given,
  )?.[1];
  if (given === "") return { value: "" };
  return team === undefined
    ? fault("expected the name of a Zero Trust team, such as acme or acme.cloudflareaccess.com")
    : { value: `https://${team.toLowerCase()}.cloudflareaccess.com` };
}

function accessRoles(given: string): Reading<readonly RoleRule[]> {
  const { rules, faults } = roleRules(given);
  return faults.length > 0 ? { faults } : { value: rules };
}

function isSecureUrl(given: string): Reading<string> {
  const isUsable = given === "" || URL.parse(given)?.protocol === "https:";
  return isUsable ? { value: given } : fault("expected an https URL");
}

const days = { min: 1, max: 3650, unit: "whole days", isWhole: true };
const upTo = (max: number) => ({ min: 1, max, unit: "a whole number", isWhole: true });

const variables = {
  ADMIN_KEY: secret("ADMIN_KEY", adminKey),
  MASTER_KEYS: secret("MASTER_KEYS", masterKeys),
  GRACE_SECONDS: number({ min: 1, max: 3600, unit: "seconds" }, 300),
  RETENTION_DAYS: number(days, 30),
  AUDIT_DAYS: number(days, 365),
  POLL_LAG_MINUTES: number({ min: 15, max: 5_256_000, unit: "whole minutes", isWhole: true }, 1_500),
  ALLOW_PRIVATE_DESTINATIONS: oneOf(["true", "false"], '"true" or "false"', "false"),
  OWN_HOSTS: text(hostList, []),
  SHARED_HOSTS: text(sharedHosts, NO_HOSTS),
  EVENT_DATABASES: number(upTo(1_000), undefined),
  MAX_DESTINATIONS_PER_TENANT: number(upTo(10_000), undefined),
  MAX_DELIVERIES_PER_REQUEST: number(upTo(1_000_000), undefined),
  DNS_RESOLVER: text(isSecureUrl, ""),
  INTAKE_SHARDS: number(upTo(64), 1),
  INTAKE_LINGER_MS: number({ min: 0, max: 25, unit: "milliseconds" }, 0),
  INTAKE_LOCATION: nameAmong(locations),
  GATE_LOCATION: nameAmong(locations),
  JURISDICTION: nameAmong(jurisdictions),
  QUEUE_NAMES: matching(
    /^[a-z0-9-]+(,[a-z0-9-]+){2,3}$/,
    "expected the names of the queues of DELIVERIES, DRAINS, DEAD and UPKEEP, with commas between",
  ),
  LOG_ATTEMPTS: oneOf(["failed", "all"], '"failed" or "all"', "failed"),
  BODIES_OF: oneOf(keptAttempts, '"failed" or "all"', "failed"),
  ALERT_EMAIL_TO: address,
  ALERT_EMAIL_FROM: address,
  PORTAL_ORIGINS: text(originList, []),
  PORTAL_NAME: shaped(brandShape.fields.name),
  PORTAL_LOGO: shaped(brandShape.fields.logo),
  PORTAL_ACCENT: shaped(brandShape.fields.accent),
  ACCESS_TEAM: text(accessIssuer, ""),
  ACCESS_AUDIENCE: matching(
    /^[0-9a-f]{64}$/,
    "expected the AUD tag of an Access application, 64 hexadecimal digits",
  ),
  ACCESS_ROLES: text(accessRoles, []),
} satisfies Record<string, Read<unknown>>;

type Variables = {
  [K in keyof typeof variables]: (typeof variables)[K] extends Read<infer T> ? T : never;
};

export type Config = Readonly<{
  adminKey: string;
  /** Destinations' secrets are encrypted, and sessions signed, with the first; all of them decrypt and verify. */
  masterKeys: MasterKeys;
  /** After this long without an outcome, an accepted event or an overdue retry counts as lost. */
  graceMs: number;
  /** How long an event is kept; longer while one of its deliveries has not ended. */
  retentionMs: number;
  /** How long entries of the audit trail are kept. */
  auditMs: number;
  /** A consumer of a polled destination lags behind when it has not committed an event for longer. */
  pollLagMs: number;
  /** Destinations may be plain http and on private addresses: for development only. */
  allowPrivateDestinations: boolean;
  /**
   * Hosts under which this deployment is reached, or `*` and the end of their names: no destination may be on them;
   * absent: none is known.
   */
  ownHosts?: readonly string[];
  /**
   * Hosts whose destinations are in a group, or `*` and the end of their names; or a number: hosts with more
   * destinations than that. Absent: none.
   */
  sharedHosts?: SharedHosts;
  /** How many of the databases, from the first on, take new events; absent: all. */
  eventDatabases?: number;
  /** Destinations that a tenant may have, and deliveries that one request may plan; `capsOf` has the defaults. */
  maxDestinationsPerTenant?: number;
  maxDeliveriesPerRequest?: number;
  /** The DNS-over-HTTPS resolver that looks up host names before each send; absent: none are looked up. */
  dnsResolver?: string;
  /** Durable Objects that commit single events; each takes about a thousand requests a second. */
  intakeShards: number;
  /** How long they wait for more events to commit together, while several are pending. */
  intakeLingerMs: number;
  /** Their location hint, near the database; absent: near the first post. */
  intakeLocation?: (typeof locations)[number];
  /** The location hint of gates; absent: near the first delivery. */
  gateLocation?: (typeof locations)[number];
  /** Where the Durable Objects run and store; absent: anywhere. */
  jurisdiction?: (typeof jurisdictions)[number];
  /** Every attempt has a log line of its own; absent: only failed ones. */
  logAttempts?: "all";
  /** Every exchange is stored in R2, if that is bound; absent: those of failed attempts with a long answer. */
  bodiesOf?: "all";
  /** The addresses of mails to the operator; absent: none are sent. */
  alertEmail?: Readonly<{ from: string; to: string }>;
  /** The origins of pages that may show the portal in a frame; absent: none may. */
  portalOrigins?: readonly string[];
  /** The portal's appearance for tenants without settings for it. */
  portalBranding?: PortalBranding;
  /** How persons sign in to the dashboard by Cloudflare Access; absent: they do not. */
  access?: AccessConfig;
}>;

export type AccessConfig = Readonly<{
  /** The origin of the team, which issues assertions. */
  issuer: string;
  /** The AUD tag of the application that protects the dashboard. */
  audience: string;
  rules: readonly RoleRule[];
}>;

/** The configuration cannot be used. Its faults name the variables and what is expected, never a secret's value. */
export class Misconfiguration extends Error {
  override readonly name = "Misconfiguration";
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`Breakwater is misconfigured: ${faults.join("; ")}`);
    this.faults = faults;
  }
}

/** The host that links lead to; undefined if none is known. */
export function linkHostOf({ ownHosts = [] }: Pick<Config, "ownHosts">): string | undefined {
  return ownHosts.find((host) => !host.startsWith("*"));
}

/** How many destinations a tenant may have, and how many deliveries one request may plan. */
export function capsOf(config: Config) {
  return {
    destinations: config.maxDestinationsPerTenant ?? DESTINATIONS_PER_TENANT,
    deliveries: config.maxDeliveriesPerRequest ?? DELIVERIES_PER_REQUEST,
  };
}

/** Only in development may a page on the same machine, without https, show the portal in a frame. */
function originFaults(data: Variables | undefined): string[] {
  if (data === undefined || data.ALLOW_PRIVATE_DESTINATIONS === "true") return [];
  const wrong = data.PORTAL_ORIGINS.find((origin) => LOOPBACK_ORIGIN.test(origin));
  return wrong === undefined ? [] : [`PORTAL_ORIGINS has ${JSON.stringify(wrong)}; ${ORIGINS_EXPECTED}`];
}

/**
 * Reads the environment; throws a `Misconfiguration` that lists every fault when it cannot be used.
 * @param others faults that have been found elsewhere
 */
export function parseConfig(env: object, others: readonly string[] = []): Config {
  const read = readVariables(env);
  const data = "faults" in read ? undefined : read.value;
  const faults = [
    ...("faults" in read ? read.faults : []),
    ...databaseFaults(env, data?.EVENT_DATABASES),
    ...originFaults(data),
    ...accessFaults(data),
    ...others,
  ];
  if (data === undefined || faults.length > 0) throw new Misconfiguration(faults);
  const { ALERT_EMAIL_TO: to, ALERT_EMAIL_FROM: from } = data;
  return {
    adminKey: data.ADMIN_KEY,
    masterKeys: data.MASTER_KEYS,
    graceMs: data.GRACE_SECONDS * 1000,
    retentionMs: data.RETENTION_DAYS * 86_400_000,
    auditMs: data.AUDIT_DAYS * 86_400_000,
    pollLagMs: data.POLL_LAG_MINUTES * 60_000,
    allowPrivateDestinations: data.ALLOW_PRIVATE_DESTINATIONS === "true",
    ...(data.OWN_HOSTS.length > 0 && { ownHosts: data.OWN_HOSTS }),
    ...(data.SHARED_HOSTS !== NO_HOSTS && { sharedHosts: data.SHARED_HOSTS }),
    ...(data.EVENT_DATABASES && { eventDatabases: data.EVENT_DATABASES }),
    ...(data.MAX_DESTINATIONS_PER_TENANT && {
      maxDestinationsPerTenant: data.MAX_DESTINATIONS_PER_TENANT,
    }),
    ...(data.MAX_DELIVERIES_PER_REQUEST && {
      maxDeliveriesPerRequest: data.MAX_DELIVERIES_PER_REQUEST,
    }),
    ...(data.DNS_RESOLVER && { dnsResolver: data.DNS_RESOLVER }),
    intakeShards: data.INTAKE_SHARDS,
    intakeLingerMs: data.INTAKE_LINGER_MS,
    ...(data.INTAKE_LOCATION && { intakeLocation: data.INTAKE_LOCATION }),
    ...(data.GATE_LOCATION && { gateLocation: data.GATE_LOCATION }),
    ...(data.JURISDICTION && { jurisdiction: data.JURISDICTION }),
    ...(data.LOG_ATTEMPTS === "all" && { logAttempts: "all" }),
    ...(data.BODIES_OF === "all" && { bodiesOf: "all" }),
    ...(to && from && { alertEmail: { to, from } }),
    ...(data.PORTAL_ORIGINS.length > 0 && { portalOrigins: data.PORTAL_ORIGINS }),
    ...brandingIn(data),
    ...accessIn(data),
  };
}

/** The values of all variables; or the faults of all. */
function readVariables(env: object): Reading<Variables> {
  const given = env as Readonly<Record<string, unknown>>;
  const readings = Object.entries<Read<unknown>>(variables).map(
    ([name, read]) => [name, read(given[name])] as const,
  );
  const faults = readings.flatMap(([name, reading]) =>
    "faults" in reading ? reading.faults.map((one) => `${name} ${one}`) : [],
  );
  if (faults.length > 0) return { faults };
  const values = readings.flatMap(([name, reading]) => ("value" in reading ? [[name, reading.value]] : []));
  return { value: Object.fromEntries(values) };
}

/** All three variables are set, or none. */
function accessFaults(data: Variables | undefined): string[] {
  if (data === undefined) return [];
  const { ACCESS_TEAM, ACCESS_AUDIENCE, ACCESS_ROLES } = data;
  const all = { ACCESS_TEAM, ACCESS_AUDIENCE, ACCESS_ROLES };
  const missing = Object.entries(all).flatMap(([name, { length }]) => (length === 0 ? [name] : []));
  const why = "sign-in by Cloudflare Access needs ACCESS_TEAM, ACCESS_AUDIENCE and ACCESS_ROLES";
  return missing.length === 3 ? [] : missing.map((name) => `${name} is missing: ${why}`);
}

function accessIn({ ACCESS_TEAM: issuer, ACCESS_AUDIENCE: audience, ACCESS_ROLES: rules }: Variables) {
  return issuer ? { access: { issuer, audience, rules } } : {};
}

function brandingIn({ PORTAL_NAME, PORTAL_LOGO, PORTAL_ACCENT }: Variables) {
  const portalBranding = {
    ...(PORTAL_NAME && { name: PORTAL_NAME }),
    ...(PORTAL_LOGO && { logo: PORTAL_LOGO }),
    ...(PORTAL_ACCENT && { accent: PORTAL_ACCENT }),
  };
  return Object.keys(portalBranding).length > 0 ? { portalBranding } : {};
}

function databaseFaults(env: object, taking = 1): string[] {
  const further = furtherDatabaseNames(env);
  const misnamed = databaseNamesFault(further);
  const bound = further.length + 1;
  const tooMany = `EVENT_DATABASES is ${taking}; expected at most ${bound}, the number of bound databases`;
  return [...(misnamed ? [misnamed] : []), ...(taking > bound ? [tooMany] : [])];
}
