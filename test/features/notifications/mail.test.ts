/** Mails to the operator: few, whatever happens, and nothing but text in them. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { visitIn } from "../../../src/core/portal-access.ts";
import { listAuditEntries } from "../../../src/features/audit/sql.ts";
import {
  deadEvent,
  stallEvent,
  statusEvent,
  thresholdEvent,
} from "../../../src/features/notifications/operational-events.ts";
import { publish, publishStatusChanges } from "../../../src/features/notifications/publish.ts";
import { changeTenantSettings } from "../../../src/features/tenants/settings.ts";
import { readToken } from "../../../src/secrets/tokens.ts";
import type { Services } from "../../../src/services.ts";
import type { StatusChange } from "../../../src/store/status-changes.ts";
import { newWorld, START, type World } from "../../support/world.ts";

const HOUR = 3_600_000;
const ADDRESSES = { from: "breakwater@example.com", to: "ops@example.com" };

type Mail = Readonly<{ from: string; to: string; subject: string; text: string }>;

let world: World;
let mails: Mail[];
let services: Services;
let broken: boolean;
beforeEach(async () => {
  world = await newWorld();
  mails = [];
  broken = false;
  const mailer = {
    send: async (mail: Mail) => {
      if (broken) throw new Error("E_SENDER_NOT_VERIFIED, as the test wants it");
      mails.push(mail);
      return { messageId: "1" };
    },
  } as unknown as SendEmail;
  services = { ...world.services, mailer, config: { ...world.services.config, alertEmail: ADDRESSES } };
});

const place = (id = "dst_one", more = {}) => ({
  id,
  tenant: "acme",
  url: "https://hooks.example/in",
  ...more,
});
const paused = (destination = place()) =>
  statusEvent({ ...destination, status: "paused", reason: "gone", changedAt: world.clock.now() });

test("an operational event is mailed too, with its facts", async () => {
  await publish(services, [paused()]);
  expect(mails).toMatchObject([
    { ...ADDRESSES, subject: "[Breakwater] Paused: hooks.example (dst_one)", text: expect.any(String) },
  ]);
  expect(mails[0]?.text).toContain("tenant: acme\nhost: hooks.example\nreason: gone");
});

test("a mail about a threshold names the destinations in one line", async () => {
  const crossing = { threshold: "retry_rate", value: 0.2, limit: 0.1, window: "1h" } as const;
  await publish(services, [thresholdEvent({ ...crossing, destinations: ["dst_one", "dst_two"] }, START)]);
  expect(mails[0]?.text).toContain("\ndestinations: dst_one, dst_two\n");
});

test("an event is mailed although no destination takes it", async () => {
  await publish(services, [stallEvent(START - HOUR, START)]);
  expect(mails).toMatchObject([{ subject: "[Breakwater] The sweep has stalled" }]);
});

describe("there is one mail an hour", () => {
  test("about the same subject", async () => {
    for (let i = 0; i < 10; i++) {
      await publish(services, [paused()]);
      world.clock.pass(1_000);
    }
    expect(mails).toHaveLength(1);
    world.clock.pass(HOUR);
    await publish(services, [paused()]);
    expect(mails).toHaveLength(2);
  });

  test("for each destination and kind", async () => {
    await publish(services, [paused(), paused(place("dst_two"))]);
    await publish(services, [deadEvent(place(), { dead: 3, since: START }, START)]);
    expect(mails.map(({ subject }) => subject)).toEqual([
      "[Breakwater] Paused: hooks.example (dst_one)",
      "[Breakwater] Paused: hooks.example (dst_two)",
      "[Breakwater] Deliveries ended dead: hooks.example (dst_one)",
    ]);
  });

  test("and twenty in all, whatever happens", async () => {
    const many = Array.from({ length: 100 }, (_, i) => paused(place(`dst_${i}`)));
    await publish(services, many);
    expect(mails).toHaveLength(20);
    world.clock.pass(HOUR);
    await publish(services, [paused(place("dst_99"))]);
    expect(mails).toHaveLength(21);
  });
});

describe("nothing is mailed", () => {
  test("without a binding", async () => {
    await publish({ ...services, mailer: undefined }, [paused()]);
    expect(mails).toEqual([]);
    expect(world.log).toEqual([]);
  });

  test("without addresses", async () => {
    await publish({ ...services, config: world.services.config }, [paused()]);
    expect(mails).toEqual([]);
  });
});

test("a mail that cannot be sent is logged, and prevents no other", async () => {
  broken = true;
  await publish(services, [paused()]);
  expect(world.logged("mail_failed")).toMatchObject([
    { type: "destination.paused", destination: "dst_one", error: expect.stringContaining("E_SENDER") },
  ]);
});

test("a name that contains line ends creates no header and no line", async () => {
  const hostile = place("dst_one", { tenant: "acme\r\nBcc: eve@example.com\u2028x\u0085y\0z" });
  const change = { ...hostile, status: "paused", reason: "gone\r\nSubject: no", changedAt: START } as const;
  await publish(services, [statusEvent(change)]);
  const [mail] = mails;
  expect(mail?.subject).toMatch(/^[\x20-\x7e]+$/);
  expect(mail?.text).toContain("tenant: acme Bcc: eve@example.com x y z\n");
  expect(mail?.text.split("\n").filter((line) => /^(Bcc|Subject):/.test(line))).toEqual([]);
});

describe("a tenant's contact", () => {
  const CONTACT = "ops@acme.example";
  const changed = (more = {}): StatusChange => ({
    ...{ ...place(), status: "paused", reason: "failing", changedAt: START },
    ...more,
  });
  const toContact = () => mails.filter(({ to }) => to === CONTACT);
  beforeEach(() => changeTenantSettings(env.DB, "acme", { contactEmail: CONTACT }, START));

  test("gets a mail about a destination that Breakwater has disabled, with the reason and the remedy", async () => {
    await publishStatusChanges(services, [changed()]);
    expect(toContact()).toMatchObject([
      { from: ADDRESSES.from, subject: "[Breakwater] Endpoint disabled: hooks.example" },
    ]);
    expect(toContact()[0]?.text).toContain("Nothing could be delivered to it for five days.");
    expect(mails).toHaveLength(2);
  });

  test("gets a link to its own portal, if the deployment's host is known", async () => {
    const config = { ...services.config, ownHosts: ["hooks.example.com"] };
    await publishStatusChanges({ ...services, config }, [changed()]);
    const token =
      /https:\/\/hooks\.example\.com\/portal\/enter\?token=(\S+)/.exec(toContact()[0]?.text ?? "")?.[1] ?? "";
    const claims = await readToken(config, "portal", token, world.clock.now());
    expect(claims).toMatchObject({ tenant: "acme", keyId: null, scopes: ["read", "admin"] });
    expect(visitIn(claims?.visit)).toBeDefined();
    expect(await readToken(config, "portal", token, world.clock.now() + 7 * 24 * HOUR)).toBeUndefined();
    const [entry] = await listAuditEntries(env.DB, {
      ...{
        tenant: "acme",
        subject: claims?.id,
        since: undefined,
        until: undefined,
        before: undefined,
        limit: 1,
      },
    });
    expect(entry).toMatchObject({ action: "portal_link.created", actor: { kind: "breakwater" } });
  });

  test.each([
    ["by hand", { reason: "manual" }],
    ["and resumed", { status: "active", reason: null }],
    ["of another tenant", { tenant: "globex" }],
    ["of the operator itself", { tenant: "operator" }],
  ])("gets no mail about one that was paused %s", async (_, more) => {
    await changeTenantSettings(env.DB, "operator", { contactEmail: CONTACT }, START);
    await publishStatusChanges(services, [changed(more)]);
    expect(toContact()).toEqual([]);
  });

  test("gets one mail, even when the same change is published again", async () => {
    await publishStatusChanges(services, [changed()]);
    await publishStatusChanges(services, [changed()]);
    expect(toContact()).toHaveLength(1);
  });

  test("gets its mail although other tenants and the operator have used up theirs", async () => {
    const many = Array.from({ length: 50 }, (_, i) => changed({ id: `dst_${i}`, tenant: "globex" }));
    await changeTenantSettings(env.DB, "globex", { contactEmail: "ops@globex.example" }, START);
    await publishStatusChanges(services, many);
    expect(mails.filter(({ to }) => to === "ops@globex.example")).toHaveLength(20);
    await publishStatusChanges(services, [changed()]);
    expect(toContact()).toHaveLength(1);
  });

  test("gets no mail at an address that was emptied in the database", async () => {
    await changeTenantSettings(env.DB, "acme", { contactEmail: "" }, START);
    await publishStatusChanges(services, [changed()]);
    expect(toContact()).toEqual([]);
  });
});
