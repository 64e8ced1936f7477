/**
 * The deployment's configuration: variables and secrets, read and checked in one place, so that a misconfigured
 * Worker names every fault at once instead of failing at the first event.
 */
import { z } from "zod";
import { keptAttempts } from "./core/archive.ts";
import { databaseNamesFault, furtherDatabaseNames } from "./core/placement.ts";
import { brandAccent, brandLogo, brandName, type PortalBranding } from "./core/portal-branding.ts";
import { type RoleRule, roleRules } from "./core/role-rules.ts";
import { toBase64 } from "./secrets/base64.ts";
import { type MasterKeys, parseMasterKeys } from "./secrets/vault.ts";

const flag = z
  .enum(["true", "false"], { error: 'expected "true" or "false"' })
  .transform((v) => v === "true");

/** The secrets that examples of early versions had: everybody can read them in the repository's history. */
const PUBLIC_ADMIN_KEY = "dev-admin-key-change-me-in-production";
const PUBLIC_MASTER_KEY = "ZGV2ZWxvcG1lbnQta2V5LW5vdC1mb3ItcHJvZHVjdGk=";

const adminKey = z
  .string({ error: "is missing: set it with `wrangler secret put ADMIN_KEY`" })
  .min(16, { error: "is too short: at least 16 characters" })
  .refine((key) => key !== PUBLIC_ADMIN_KEY, {
    error: "is public, the example of an early version: set another with `wrangler secret put ADMIN_KEY`",
  });

const masterKeys = z
  .string({ error: "is missing: set it with `wrangler secret put MASTER_KEYS`" })
  .transform((text, issues): MasterKeys => {
    const parsed = parseMasterKeys(text);
    const keys = "fault" in parsed ? parsed : privateOnly(parsed);
    if (!("fault" in keys)) return keys;
    issues.addIssue({ code: "custom", message: keys.fault });
    return z.NEVER;
  });

/** One that only opens is refused too: portal links that are signed with it would be valid. */
function privateOnly(keys: MasterKeys): MasterKeys | Readonly<{ fault: string }> {
  const fault =
    "has a public key, the example of an early version: rotate the master key with the version that took it";
  return keys.some(({ bytes }) => toBase64(bytes) === PUBLIC_MASTER_KEY) ? { fault } : keys;
}

/** The caps of a deployment whose variables do not set them. */
const DESTINATIONS_PER_TENANT = 1_000;
const DELIVERIES_PER_REQUEST = 100_000;

const atMost = (most: number) => {
  const error = `expected a whole number, 1 to ${most}`;
  return z.coerce.number({ error }).int({ error }).min(1, { error }).max(most, { error }).optional();
};

const DAYS_EXPECTED = "expected whole days, 1 to 3650";
const SHARDS_EXPECTED = "expected a whole number, 1 to 64";
const LINGER_EXPECTED = "expected milliseconds, 0 to 25";
/** Location hints of Durable Objects: https://developers.cloudflare.com/durable-objects/reference/data-location/ */
const locations = ["wnam", "enam", "sam", "weur", "eeur", "apac", "oc", "afr", "me"] as const;
/** https://developers.cloudflare.com/durable-objects/reference/data-location/; those that D1 has too. */
export const jurisdictions = ["eu", "us", "fedramp"] as const;
const location = z
  .enum(["", ...locations], { error: `expected one of ${locations.join(", ")}, or nothing` })
  .default("");
const address = z.string().regex(/^$|^[^\s@<>",;:]{1,64}@[^\s@<>",;:]{1,255}$/, {
  error: "expected a mail address, such as ops@example.com",
});

const QUEUES_EXPECTED =
  "expected the names of the queues of DELIVERIES, DRAINS, DEAD and UPKEEP, with commas between";
const HOSTS_EXPECTED =
  "expected host names with commas between, such as hooks.example.com, or * and what they end with";

/** Host names or what they end with, each with or without a port; an empty text has none. */
const hostList = z.string().transform((text, issues): string[] => {
  const hosts = text.split(",").map((host) => host.trim().toLowerCase());
  const named = hosts.filter((host) => host !== "");
  if (named.every(isHost)) return named;
  issues.addIssue({ code: "custom", message: HOSTS_EXPECTED });
  return z.NEVER;
});

const ORIGINS_EXPECTED =
  "expected https origins with commas between, such as https://app.example.com; in development also http://localhost:3000";
const LOOPBACK_ORIGIN = /^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/;

/** The pages that may show the portal in a frame. Exact ones: a message to the page needs its origin. */
const originList = z.string().transform((text, issues): string[] => {
  const origins = text.split(",").map((origin) => origin.trim().toLowerCase());
  const named = origins.filter((origin) => origin !== "");
  const wrong = named.find(
    (origin) =>
      !(/^https:\/\/[a-z0-9.-]+(:\d{1,5})?$/.test(origin) || LOOPBACK_ORIGIN.test(origin)) ||
      URL.parse(origin)?.origin !== origin,
  );
  if (wrong === undefined) return [...new Set(named)];
  issues.addIssue({ code: "custom", message: `has ${JSON.stringify(wrong)}; ${ORIGINS_EXPECTED}` });
  return z.NEVER;
});

const TEAM_EXPECTED = "expected the name of a Zero Trust team, such as acme or acme.cloudflareaccess.com";
const AUDIENCE_EXPECTED = "expected the AUD tag of an Access application, 64 hexadecimal digits";

/** The team's origin, which issues its assertions; empty where nothing is set. */
const accessIssuer = z
  .string()
  .regex(/^$|^(https:\/\/)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.cloudflareaccess\.com\/?)?$/i, {
    error: TEAM_EXPECTED,
  })
  .transform((text) => {
    const team = /^(?:https:\/\/)?([^.]*)/.exec(text.toLowerCase())?.[1] ?? "";
    return team && `https://${team}.cloudflareaccess.com`;
  });

const accessRoles = z.string({ error: "expected a text" }).transform((text, issues): readonly RoleRule[] => {
  const { rules, faults } = roleRules(text);
  for (const message of faults) issues.addIssue({ code: "custom", message });
  return rules;
});

/** A text that a schema takes, or nothing. */
function textOrNothing(schema: z.ZodType<string>) {
  return z
    .string()
    .default("")
    .superRefine((text, issues) => {
      const parsed = schema.safeParse(text);
      if (text === "" || parsed.success) return;
      issues.addIssue({ code: "custom", message: parsed.error.issues[0]?.message ?? "" });
    });
}

const days = z.coerce
  .number({ error: DAYS_EXPECTED })
  .int({ error: DAYS_EXPECTED })
  .min(1, { error: DAYS_EXPECTED })
  .max(3650, { error: DAYS_EXPECTED });

function isHost(text: string): boolean {
  if (!/^(\*[.-])?[a-z0-9_.-]+(:\d{1,5})?$/.test(text)) return false;
  return URL.canParse(`http://${text.replace(/^\*[.-]/, "")}`);
}

const variables = z.object({
  ADMIN_KEY: adminKey,
  MASTER_KEYS: masterKeys,
  GRACE_SECONDS: z.coerce.number({ error: "expected seconds, 1 to 3600" }).min(1).max(3600).default(300),
  RETENTION_DAYS: days.default(30),
  AUDIT_DAYS: days.default(365),
  ALLOW_PRIVATE_DESTINATIONS: flag.default(false),
  OWN_HOSTS: hostList.default([]),
  EVENT_DATABASES: z.coerce.number({ error: "expected a number, 1 or more" }).int().min(1).optional(),
  MAX_DESTINATIONS_PER_TENANT: atMost(10_000),
  MAX_DELIVERIES_PER_REQUEST: atMost(1_000_000),
  DNS_RESOLVER: z
    .string()
    .refine((text) => text === "" || URL.parse(text)?.protocol === "https:", {
      error: "expected an https URL",
    })
    .default(""),
  INTAKE_SHARDS: z.coerce
    .number({ error: SHARDS_EXPECTED })
    .int({ error: SHARDS_EXPECTED })
    .min(1, { error: SHARDS_EXPECTED })
    .max(64, { error: SHARDS_EXPECTED })
    .default(1),
  INTAKE_LINGER_MS: z.coerce
    .number({ error: LINGER_EXPECTED })
    .min(0, { error: LINGER_EXPECTED })
    .max(25, { error: LINGER_EXPECTED })
    .default(0),
  INTAKE_LOCATION: location,
  GATE_LOCATION: location,
  JURISDICTION: z
    .enum(["", ...jurisdictions], { error: `expected one of ${jurisdictions.join(", ")}, or nothing` })
    .default(""),
  QUEUE_NAMES: z
    .string()
    .regex(/^$|^[a-z0-9-]+(,[a-z0-9-]+){2,3}$/, { error: QUEUES_EXPECTED })
    .default(""),
  LOG_ATTEMPTS: z.enum(["failed", "all"], { error: 'expected "failed" or "all"' }).default("failed"),
  BODIES_OF: z.enum(keptAttempts, { error: 'expected "failed" or "all"' }).default("failed"),
  ALERT_EMAIL_TO: address.default(""),
  ALERT_EMAIL_FROM: address.default(""),
  PORTAL_ORIGINS: originList.default([]),
  PORTAL_NAME: textOrNothing(brandName),
  PORTAL_LOGO: textOrNothing(brandLogo),
  PORTAL_ACCENT: textOrNothing(brandAccent),
  ACCESS_TEAM: accessIssuer.default(""),
  ACCESS_AUDIENCE: z
    .string()
    .regex(/^$|^[0-9a-f]{64}$/, { error: AUDIENCE_EXPECTED })
    .default(""),
  ACCESS_ROLES: accessRoles.default([]),
});

type Variables = z.infer<typeof variables>;

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
  /** Destinations may be plain http and on private addresses: for development only. */
  allowPrivateDestinations: boolean;
  /**
   * Hosts under which this deployment is reached, or `*` and what they end with: no destination may be on them; absent: none
   * is known.
   */
  ownHosts?: readonly string[];
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
  /** Their location hint, near the database; absent: near whoever posts first. */
  intakeLocation?: (typeof locations)[number];
  /** The location hint of gates; absent: near whoever delivers first. */
  gateLocation?: (typeof locations)[number];
  /** Where the Durable Objects run and store; absent: anywhere. */
  jurisdiction?: (typeof jurisdictions)[number];
  /** Every attempt has a log line of its own; absent: only failed ones. */
  logAttempts?: "all";
  /** Every exchange is kept in R2, where that is bound; absent: those of failed attempts with a long answer. */
  bodiesOf?: "all";
  /** The addresses of mails to the operator; absent: none are sent. */
  alertEmail?: Readonly<{ from: string; to: string }>;
  /** The origins of pages that may show the portal in a frame; absent: none may. */
  portalOrigins?: readonly string[];
  /** How the portal looks where nothing is set for the tenant. */
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

/** The host that links lead to; undefined where none is known. */
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
  if (data === undefined || data.ALLOW_PRIVATE_DESTINATIONS) return [];
  const wrong = data.PORTAL_ORIGINS.find((origin) => LOOPBACK_ORIGIN.test(origin));
  return wrong === undefined ? [] : [`PORTAL_ORIGINS has ${JSON.stringify(wrong)}; ${ORIGINS_EXPECTED}`];
}

/**
 * Reads the environment; throws a `Misconfiguration` that lists every fault when it cannot be used.
 * @param others faults that have been found elsewhere
 */
export function parseConfig(env: object, others: readonly string[] = []): Config {
  const parsed = variables.safeParse(env);
  const issues = parsed.error?.issues ?? [];
  const faults = [
    ...issues.map((issue) => `${issue.path.join(".")} ${issue.message}`),
    ...databaseFaults(env, parsed.data?.EVENT_DATABASES),
    ...originFaults(parsed.data),
    ...accessFaults(parsed.data),
    ...others,
  ];
  if (!parsed.success || faults.length > 0) throw new Misconfiguration(faults);
  const { ALERT_EMAIL_TO: to, ALERT_EMAIL_FROM: from } = parsed.data;
  return {
    adminKey: parsed.data.ADMIN_KEY,
    masterKeys: parsed.data.MASTER_KEYS,
    graceMs: parsed.data.GRACE_SECONDS * 1000,
    retentionMs: parsed.data.RETENTION_DAYS * 86_400_000,
    auditMs: parsed.data.AUDIT_DAYS * 86_400_000,
    allowPrivateDestinations: parsed.data.ALLOW_PRIVATE_DESTINATIONS,
    ...(parsed.data.OWN_HOSTS.length > 0 && { ownHosts: parsed.data.OWN_HOSTS }),
    ...(parsed.data.EVENT_DATABASES && { eventDatabases: parsed.data.EVENT_DATABASES }),
    ...(parsed.data.MAX_DESTINATIONS_PER_TENANT && {
      maxDestinationsPerTenant: parsed.data.MAX_DESTINATIONS_PER_TENANT,
    }),
    ...(parsed.data.MAX_DELIVERIES_PER_REQUEST && {
      maxDeliveriesPerRequest: parsed.data.MAX_DELIVERIES_PER_REQUEST,
    }),
    ...(parsed.data.DNS_RESOLVER && { dnsResolver: parsed.data.DNS_RESOLVER }),
    intakeShards: parsed.data.INTAKE_SHARDS,
    intakeLingerMs: parsed.data.INTAKE_LINGER_MS,
    ...(parsed.data.INTAKE_LOCATION && { intakeLocation: parsed.data.INTAKE_LOCATION }),
    ...(parsed.data.GATE_LOCATION && { gateLocation: parsed.data.GATE_LOCATION }),
    ...(parsed.data.JURISDICTION && { jurisdiction: parsed.data.JURISDICTION }),
    ...(parsed.data.LOG_ATTEMPTS === "all" && { logAttempts: "all" }),
    ...(parsed.data.BODIES_OF === "all" && { bodiesOf: "all" }),
    ...(to && from && { alertEmail: { to, from } }),
    ...(parsed.data.PORTAL_ORIGINS.length > 0 && { portalOrigins: parsed.data.PORTAL_ORIGINS }),
    ...brandingIn(parsed.data),
    ...accessIn(parsed.data),
  };
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
  const tooMany = `EVENT_DATABASES is ${taking}; expected at most ${bound}, as many as are bound`;
  return [...(misnamed ? [misnamed] : []), ...(taking > bound ? [tooMany] : [])];
}
