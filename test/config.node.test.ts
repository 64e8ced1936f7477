import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { version as clientVersion } from "../client/package.json" with { type: "json" };
import { version } from "../package.json" with { type: "json" };
import { parseConfig } from "../src/config.ts";
import { VERSION } from "../src/core/version.ts";
import { destinationBindings } from "../src/destination-bindings.ts";
import { USER_AGENT } from "../src/secrets/deployment-marker.ts";
import { furtherDatabases } from "../src/store/databases.ts";
import { projectRoot } from "../tools/wrangler.ts";
import { keysOf, MASTER_KEYS } from "./support/vault.ts";

const ADMIN_KEY = "a key of sixteen characters and more";
const masterKeys = keysOf(MASTER_KEYS);

test("reads the variables of the deployment", () => {
  const env = {
    ADMIN_KEY,
    MASTER_KEYS,
    GRACE_SECONDS: "20",
    RETENTION_DAYS: "7",
    ALLOW_PRIVATE_DESTINATIONS: "true",
    INTAKE_SHARDS: "4",
    INTAKE_LINGER_MS: "2.5",
    INTAKE_LOCATION: "weur",
    GATE_LOCATION: "eeur",
    JURISDICTION: "eu",
  };
  expect(parseConfig(env)).toEqual({
    adminKey: ADMIN_KEY,
    masterKeys,
    graceMs: 20_000,
    retentionMs: 7 * 86_400_000,
    auditMs: 365 * 86_400_000,
    pollLagMs: 1_500 * 60_000,
    allowPrivateDestinations: true,
    intakeShards: 4,
    intakeLingerMs: 2.5,
    intakeLocation: "weur",
    gateLocation: "eeur",
    jurisdiction: "eu",
  });
});

test("needs only the keys: everything else has safe defaults", () => {
  expect(parseConfig({ ADMIN_KEY, MASTER_KEYS })).toEqual({
    adminKey: ADMIN_KEY,
    masterKeys,
    graceMs: 300_000,
    retentionMs: 30 * 86_400_000,
    auditMs: 365 * 86_400_000,
    pollLagMs: 1_500 * 60_000,
    allowPrivateDestinations: false,
    intakeShards: 1,
    intakeLingerMs: 0,
  });
});

test("takes a resolver over https, and has none by default", () => {
  const read = (DNS_RESOLVER: string) => parseConfig({ ADMIN_KEY, MASTER_KEYS, DNS_RESOLVER });
  expect(read("https://dns.google/resolve").dnsResolver).toBe("https://dns.google/resolve");
  expect(read("")).not.toHaveProperty("dnsResolver");
  expect(() => read("http://dns.google/resolve")).toThrow("DNS_RESOLVER expected an https URL");
  expect(() => read("8.8.8.8")).toThrow("DNS_RESOLVER expected an https URL");
});

test("takes the hosts under which it is reached, and knows none by default", () => {
  const read = (OWN_HOSTS: string) => parseConfig({ ADMIN_KEY, MASTER_KEYS, OWN_HOSTS });
  expect(read("Hooks.example.com, localhost:8787,").ownHosts).toEqual([
    "hooks.example.com",
    "localhost:8787",
  ]);
  expect(read("*-hooks.acme.workers.dev,*.example.com").ownHosts).toHaveLength(2);
  expect(read("")).not.toHaveProperty("ownHosts");
  for (const wrong of [
    "*",
    "*example.com",
    "a.*.com",
    "https://hooks.example.com",
    "a b",
    "hooks.example.com/x",
    "a:99999",
  ])
    expect(() => read(wrong)).toThrow("OWN_HOSTS expected host names with commas between");
});

test("takes hosts that share a group, or a number from which hosts do, and has none by default", () => {
  const read = (SHARED_HOSTS: string) => parseConfig({ ADMIN_KEY, MASTER_KEYS, SHARED_HOSTS });
  expect(read("hooks.example.com,*.example.org").sharedHosts).toEqual(["hooks.example.com", "*.example.org"]);
  expect(read(" 20 ").sharedHosts).toBe(20);
  expect(read(" ")).not.toHaveProperty("sharedHosts");
  for (const wrong of ["0", "1000001"])
    expect(() => read(wrong)).toThrow("SHARED_HOSTS expected hosts, or a number");
  expect(() => read("20, a b")).toThrow("SHARED_HOSTS expected host names");
});

test.each([
  ["INTAKE_SHARDS", "0", "a whole number, 1 to 64"],
  ["INTAKE_SHARDS", "1.5", "a whole number, 1 to 64"],
  ["INTAKE_SHARDS", "65", "a whole number, 1 to 64"],
  ["INTAKE_SHARDS", "", "a whole number, 1 to 64"],
  ["INTAKE_LINGER_MS", "-1", "milliseconds, 0 to 25"],
  ["INTAKE_LINGER_MS", "26", "milliseconds, 0 to 25"],
  ["INTAKE_LINGER_MS", "soon", "milliseconds, 0 to 25"],
  ["INTAKE_LOCATION", "europe", "one of wnam, enam"],
  ["GATE_LOCATION", "eu", "one of wnam, enam"],
  ["JURISDICTION", "weur", "one of eu, us, fedramp, or nothing"],
  ["QUEUE_NAMES", "first,second", "the names of the queues of DELIVERIES, DRAINS, DEAD and UPKEEP"],
  ["JURISDICTION", "EU", "one of eu, us, fedramp, or nothing"],
])("takes no %s of %j", (name, value, expected) => {
  expect(() => parseConfig({ ADMIN_KEY, MASTER_KEYS, [name]: value })).toThrow(
    `${name} expected ${expected}`,
  );
});

test("places intake where the first event is posted, unless a place is named", () => {
  expect(parseConfig({ ADMIN_KEY, MASTER_KEYS, INTAKE_LOCATION: "" })).not.toHaveProperty("intakeLocation");
});

describe("sign-in by Cloudflare Access", () => {
  const ACCESS_AUDIENCE = "0a".repeat(32);
  const all = {
    ADMIN_KEY,
    MASTER_KEYS,
    ACCESS_TEAM: "acme",
    ACCESS_AUDIENCE,
    ACCESS_ROLES: "@acme.example: look",
  };

  test.each([
    "acme",
    "Acme.cloudflareaccess.com",
    "https://acme.cloudflareaccess.com/",
  ])("takes the team %s", (ACCESS_TEAM) => {
    expect(parseConfig({ ...all, ACCESS_TEAM }).access).toEqual({
      issuer: "https://acme.cloudflareaccess.com",
      audience: ACCESS_AUDIENCE,
      rules: [{ who: { kind: "domain", name: "acme.example" }, role: "look" }],
    });
  });

  test("is off by default", () => {
    const empty = { ACCESS_TEAM: "", ACCESS_AUDIENCE: "", ACCESS_ROLES: "" };
    expect(parseConfig({ ...all, ...empty })).not.toHaveProperty("access");
  });

  test.each(["ACCESS_TEAM", "ACCESS_AUDIENCE", "ACCESS_ROLES"])("needs %s with the others", (name) => {
    expect(() => parseConfig({ ...all, [name]: "" })).toThrow(
      `${name} is missing: sign-in by Cloudflare Access needs ACCESS_TEAM, ACCESS_AUDIENCE and ACCESS_ROLES`,
    );
  });

  test.each([
    ["ACCESS_TEAM", "acme.example.com", "expected the name of a Zero Trust team"],
    ["ACCESS_TEAM", "http://acme.cloudflareaccess.com", "expected the name of a Zero Trust team"],
    ["ACCESS_TEAM", "acme.cloudflareaccess.com.evil.example", "expected the name of a Zero Trust team"],
    ["ACCESS_TEAM", "evil.example/acme", "expected the name of a Zero Trust team"],
    ["ACCESS_AUDIENCE", "0a0a", "expected the AUD tag of an Access application, 64 hexadecimal digits"],
    ["ACCESS_ROLES", "ann: own", "expected entries such as"],
    ["ACCESS_ROLES", "ann@a.example: look in operator", 'has "operator" in'],
  ])("takes no %s of %j", (name, value, fault) => {
    expect(() => parseConfig({ ...all, [name]: value })).toThrow(`${name} ${fault}`);
  });
});

test("ignores bindings", () => {
  expect(parseConfig({ ADMIN_KEY, MASTER_KEYS, DB: {}, DELIVERIES: {} }).adminKey).toBe(ADMIN_KEY);
});

test("takes an archive of all or of failed attempts, and refuses anything else", () => {
  for (const BODIES_OF of ["all", "failed"])
    expect(() => parseConfig({ ADMIN_KEY, MASTER_KEYS, BODIES_OF })).not.toThrow();
  expect(() => parseConfig({ ADMIN_KEY, MASTER_KEYS, BODIES_OF: "some" })).toThrow(/"failed" or "all"/);
});

test.each(["eu", "us", "fedramp"])("takes the jurisdiction %s for its objects", (JURISDICTION) => {
  expect(parseConfig({ ADMIN_KEY, MASTER_KEYS, JURISDICTION }).jurisdiction).toBe(JURISDICTION);
});

test("has objects anywhere by default", () => {
  const config = parseConfig({
    ADMIN_KEY,
    MASTER_KEYS,
    JURISDICTION: "",
    GATE_LOCATION: "",
    QUEUE_NAMES: "",
  });
  for (const name of ["jurisdiction", "gateLocation"]) expect(config).not.toHaveProperty(name);
});

test("names every fault at once, and what is expected", () => {
  const env = { ADMIN_KEY: "short", GRACE_SECONDS: "soon", ALLOW_PRIVATE_DESTINATIONS: "yes" };
  expect(() => parseConfig(env)).toThrow(
    /ADMIN_KEY is too short.*GRACE_SECONDS expected seconds.*ALLOW_PRIVATE_DESTINATIONS expected "true" or "false"/,
  );
});

test("says how missing keys are set", () => {
  expect(() => parseConfig({})).toThrow(
    "MASTER_KEYS is missing: set it with `wrangler secret put MASTER_KEYS`",
  );
  expect(() => parseConfig({})).toThrow("ADMIN_KEY is missing: set it with `wrangler secret put ADMIN_KEY`");
});

test.each(["0", "-1", "3601", ""])("takes no grace period of %j", (seconds) => {
  expect(() => parseConfig({ ADMIN_KEY, MASTER_KEYS, GRACE_SECONDS: seconds })).toThrow("GRACE_SECONDS");
});

test.each(["0", "-1", "0.5", "3651", "", "forever"])("keeps nothing for %j days", (days) => {
  const env = { ADMIN_KEY, MASTER_KEYS, RETENTION_DAYS: days };
  expect(() => parseConfig(env)).toThrow("RETENTION_DAYS expected whole days, 1 to 3650");
});

test("never repeats the key that it refuses", () => {
  expect(() => parseConfig({ ADMIN_KEY: "secret123" })).not.toThrow("secret123");
});

test.each([
  ["", "at least one"],
  ["k1", "key number 1"],
  ["k1:c2VjcmV0MTIz", "key number 1"],
  [`${MASTER_KEYS},k2:c2VjcmV0MTIz`, "key number 2"],
  [`k 2:${MASTER_KEYS.split(":")[1]}`, "key number 1"],
  [`${MASTER_KEYS},${MASTER_KEYS}`, "its own id"],
])("refuses the master keys %j without repeating them", (given, fault) => {
  const parse = () => parseConfig({ ADMIN_KEY, MASTER_KEYS: given });
  expect(parse).toThrow(`MASTER_KEYS expected`);
  expect(parse).toThrow(fault);
  expect(parse).not.toThrow(/c2Vj|dGhl/);
});

test("refuses the secrets that examples of early versions had", () => {
  const example = "ZGV2ZWxvcG1lbnQta2V5LW5vdC1mb3ItcHJvZHVjdGk=";
  const adminKey = "dev-admin-key-change-me-in-production";
  expect(() => parseConfig({ ADMIN_KEY: adminKey, MASTER_KEYS })).toThrow("ADMIN_KEY is public");
  // Also after another key: links to the portal that are signed with it would be valid.
  for (const keys of [`dev:${example}`, `k2:${example}`, `${MASTER_KEYS},dev:${example}`])
    expect(() => parseConfig({ ADMIN_KEY, MASTER_KEYS: keys })).toThrow("MASTER_KEYS has a public key");
});

test("takes several master keys, the first of which seals", () => {
  const second = `k2:${btoa("k".repeat(32))}`;
  const { masterKeys } = parseConfig({ ADMIN_KEY, MASTER_KEYS: `${second},\n${MASTER_KEYS}` });
  expect(masterKeys.map(({ id }) => id)).toEqual(["k2", "test"]);
});

test.each([
  [{ DB: {}, DB_2: {} }, "DB_2 is bound out of order"],
  [{ DB: {}, DB_0: {} }, "DB_0 is bound out of order"],
  [{ DB: {}, DB_1: {}, DB_3: {} }, "DB_3 is bound out of order"],
  [{ DB: {}, DB_01: {} }, "DB_01 is bound out of order"],
])("takes no databases with a gap in their numbers: %j", (bindings, fault) => {
  const parse = () => parseConfig({ ADMIN_KEY, MASTER_KEYS, ...bindings });
  expect(parse).toThrow(`${fault}; expected DB, DB_1, DB_2 and so on`);
});

/** As the Worker does it. */
const parse = (env: object) => parseConfig(env, destinationBindings(env).faults);
const queue = { send: () => {}, sendBatch: () => {} };
const service = { fetch: () => {} };

test("has destinations use the queues and services that it names, by tenant", () => {
  const env = { ADMIN_KEY, MASTER_KEYS, ORDERS: queue, BILLING: service };
  const DESTINATION_BINDINGS = "ORDERS: acme, globex; BILLING: *";
  expect(() => parse({ ...env, DESTINATION_BINDINGS })).not.toThrow();
  expect([...destinationBindings({ ...env, DESTINATION_BINDINGS }).bindings]).toEqual([
    ["ORDERS", { kind: "queue", queue, tenants: ["acme", "globex"] }],
    ["BILLING", { kind: "service", service, tenants: "*" }],
  ]);
  expect([...destinationBindings(env).bindings]).toEqual([]);
});

test.each([
  ["ORDER: *", "names ORDER, which is not bound: add it to [[queues.producers]] or [[services]]"],
  ["ADMIN_KEY: *", "names ADMIN_KEY, which is a variable and no binding of a queue or a service"],
  ["DB: *", "names DB, which is bound to neither a queue nor a service"],
  ["DEAD: *", "names DEAD, one of Breakwater's own queues"],
  ["ORDERS", 'expected entries such as "ORDERS: acme, globex; AUDIT: *", not "ORDERS"'],
  [{ ORDERS: "*" }, "expected a text"],
])("takes no DESTINATION_BINDINGS of %j", (DESTINATION_BINDINGS, fault) => {
  const env = { ADMIN_KEY, MASTER_KEYS, ORDERS: queue, DEAD: queue, DB: { prepare: () => {} } };
  expect(() => parse({ ...env, DESTINATION_BINDINGS })).toThrow(`DESTINATION_BINDINGS ${fault}`);
  // No secret is in it.
  expect(() => parse({ ...env, DESTINATION_BINDINGS })).not.toThrow(ADMIN_KEY);
});

test("takes events in as many databases as configured, at most in all that are bound", () => {
  const read = (EVENT_DATABASES: string) =>
    parseConfig({ ADMIN_KEY, MASTER_KEYS, DB: {}, DB_1: {}, EVENT_DATABASES });
  expect(read("1").eventDatabases).toBe(1);
  expect(read("2").eventDatabases).toBe(2);
  expect(() => read("3")).toThrow("EVENT_DATABASES is 3; expected at most 2, the number of bound databases");
  for (const nonsense of ["0", "-1", "1.5", "two", ""])
    expect(() => read(nonsense)).toThrow("EVENT_DATABASES");
});

test("knows the databases beyond the first in the order of their numbers, however they are listed", () => {
  const named = Array.from({ length: 11 }, (_, i) => [`DB_${i + 1}`, i + 1]).reverse();
  const further = furtherDatabases(Object.fromEntries([["DB", 0], ["DBX_1", 0], ...named]));
  expect(further).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});

test("takes the origins of pages that may show the portal in a frame, https and exact, and has none by default", () => {
  const read = (PORTAL_ORIGINS: string) => parseConfig({ ADMIN_KEY, MASTER_KEYS, PORTAL_ORIGINS });
  expect(
    read("https://App.example.com, https://b.example:8443,https://b.example:8443").portalOrigins,
  ).toEqual(["https://app.example.com", "https://b.example:8443"]);
  expect(read("")).not.toHaveProperty("portalOrigins");
  for (const wrong of [
    "http://app.example.com",
    "https://*.example.com",
    "https://app.example.com/",
    "https://app.example.com/settings",
    "https://app.example.com:443",
    "https://user@app.example.com",
    "app.example.com",
    "*",
    "'self'",
    "https://a.example; script-src *",
    "null",
  ])
    expect(() => read(`https://ok.example,${wrong}`)).toThrow(
      /PORTAL_ORIGINS has ".*"; expected https origins with commas between, such as/,
    );
});

test("takes origins on the machine itself without https in development alone", () => {
  const read = (PORTAL_ORIGINS: string, development: boolean) =>
    parseConfig({
      ADMIN_KEY,
      MASTER_KEYS,
      PORTAL_ORIGINS,
      ALLOW_PRIVATE_DESTINATIONS: String(development),
    }).portalOrigins;
  const origins = ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:8080"];
  expect(read(origins.join(", "), true)).toEqual(origins);
  for (const origin of origins)
    expect(() => read(origin, false)).toThrow(/PORTAL_ORIGINS has "http:.*"; expected https origins/);
  for (const origin of ["http://app.example.com", "http://localhost.example.com", "http://localhost:3000/x"])
    expect(() => read(origin, true)).toThrow(/PORTAL_ORIGINS has/);
});

test("takes the portal's name, logo and colour, and names what is wrong with them", () => {
  const read = (env: object) => parseConfig({ ADMIN_KEY, MASTER_KEYS, ...env });
  const branding = { name: "Acme", logo: "https://cdn.acme.example/logo.svg", accent: "#0b6a72" };
  const variables = {
    PORTAL_NAME: branding.name,
    PORTAL_LOGO: branding.logo,
    PORTAL_ACCENT: branding.accent,
  };
  expect(read(variables).portalBranding).toEqual(branding);
  expect(read({ PORTAL_NAME: "", PORTAL_LOGO: "", PORTAL_ACCENT: "" })).not.toHaveProperty("portalBranding");
  expect(() => read({ PORTAL_LOGO: "http://a.example/x.png" })).toThrow("PORTAL_LOGO expected an https URL");
  expect(() => read({ PORTAL_ACCENT: "red" })).toThrow("PORTAL_ACCENT expected a colour as #rrggbb");
  expect(() => read({ PORTAL_NAME: "a\nb" })).toThrow("PORTAL_NAME expected 1 to 80 characters");
});

test("the release has one number, wherever it is named", () => {
  expect(VERSION).toBe(version);
  expect(clientVersion).toBe(version);
  expect(USER_AGENT).toBe(`Breakwater/${version.split(".").slice(0, 2).join(".")} (webhooks)`);
  for (const file of [".github/actions/publish-event-types/publish.sh", "examples/express/package.json"]) {
    const named = /breakwater-client(?:@|": ")([\d.]+)/.exec(readFileSync(join(projectRoot, file), "utf8"));
    expect(named?.[1], file).toBe(version);
  }
});
