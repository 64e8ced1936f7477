/**
 * Every service of every feature, taken up as it is written: without its scope, or for a visitor of the portal without
 * rights, it refuses before it reads its input. The secrets of foreign tenants are tested in strangers.deep.test.ts.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { accessUnder, type PortalRules } from "../../src/core/portal-access.ts";
import { type Principal, refuseWithout, roleFor } from "../../src/core/principal.ts";
import { type Role, roles, scopesOfRole } from "../../src/core/roles.ts";
import { type Scope, scopes } from "../../src/core/scopes.ts";
import { everyService as services } from "../support/every-service.ts";
import { newWorld, type World } from "../support/world.ts";

const nothing: PortalRules = {
  may_edit_endpoints: false,
  may_rotate: false,
  may_resend: false,
  may_test: false,
  may_poll: false,
  may_see_payloads: false,
};

/** The services that need a higher role than look, by that role. */
const needed: Readonly<Record<Exclude<Role, "look">, readonly string[]>> = {
  repair: [
    "approvals/service.ts decideAction",
    "deliveries/ordering.ts skipDelivery",
    "deliveries/repairs.ts cancelOneDelivery",
    "deliveries/repairs.ts cancelWaiting",
    "deliveries/repairs.ts previewRepair",
    "deliveries/repairs.ts repairDeliveries",
    "deliveries/repairs.ts retryDeliveries",
    "deliveries/repairs.ts retryDelivery",
    "deliveries/repairs.ts tryDeliveryNow",
    "destinations/certification.ts certifyDestination",
    "destinations/health.ts clearHold",
    "destinations/service.ts pauseDestination",
    "destinations/service.ts resumeDestination",
    "destinations/service.ts testDestination",
    "groups/service.ts restartGroup",
    "notices/service.ts testNoticeChannel",
    "replays/service.ts cancelReplay",
    "replays/service.ts pauseReplay",
    "replays/service.ts resumeReplay",
    "replays/service.ts startReplay",
    "replays/service.ts startReplays",
  ],
  configure: [
    "destinations/secrets.ts revealSecret",
    "destinations/secrets.ts rotateSecret",
    "destinations/service.ts createDestination",
    "destinations/service.ts removeDestination",
    "destinations/service.ts updateDestination",
    "destinations/service.ts updateHeaders",
    "destinations/transforms.ts restoreTransform",
    "event-types/import.ts importEventTypes",
    "event-types/service.ts deleteEventType",
    "event-types/service.ts replaceEventType",
    "event-types/versions.ts changePublishedVersion",
    "event-types/versions.ts checkEventVersion",
    "event-types/versions.ts publishEventVersion",
    "groups/service.ts deleteGroup",
    "groups/service.ts replaceGroup",
    "notices/service.ts removeNoticeChannel",
    "notices/service.ts setNoticeChannel",
    "subscriptions/service.ts subscribe",
    "subscriptions/service.ts unsubscribe",
    "tenants/service.ts changeTenant",
  ],
  own: [
    "applications/service.ts createApplication",
    "applications/service.ts removeApplication",
    "applications/service.ts updateApplication",
    "approvals/service.ts requestAction",
    "audit/service.ts exportAuditEntries",
    "audit/service.ts getAuditEntries",
    "deliveries/attempts.ts removeAttemptContent",
    "destinations/master-key.ts rotateMasterKey",
    "erasures/service.ts beginErasure",
    "events/service.ts postEach",
    "events/service.ts postEvents",
    "keys/service.ts createKey",
    "keys/service.ts createPollKey",
    "keys/service.ts getKey",
    "keys/service.ts getKeys",
    "keys/service.ts getPollKeys",
    "keys/service.ts removeKey",
    "keys/service.ts removePollKey",
    "polling/service.ts commitPoll",
    "polling/service.ts pollDestination",
    "polling/service.ts pollInLoop",
    "polling/service.ts readFromPosition",
    "polling/service.ts seekPoll",
    "portal-links/service.ts createPortalLink",
    "tenants/config.ts exportTenant",
    "tenants/config.ts importTenant",
    "tenants/service.ts removeTenant",
  ],
};

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

test("services are found", () => {
  expect(services.length).toBeGreaterThan(50);
});

test.each(Object.entries(needed))("the role %s is the least for these services", (role, names) => {
  const found = services.filter(({ service }) => roleFor(service.permission) === role);
  expect(found.map(({ name }) => name).sort()).toEqual(names);
});

test("the role look permits exactly the services that a key with the scope read may use", () => {
  for (const { name, service } of services)
    expect([name, roleFor(service.permission) === "look"]).toEqual([
      name,
      service.permission.scope === "read",
    ]);
});

describe.each(services)("$name", ({ service }) => {
  const { scope, action } = service.permission;

  /** Calls it without an input: what it requires is checked first. */
  const call = (principal: Principal) => service({ services: world.services, principal }, undefined);

  test("is refused without its scope, before its input is read", async () => {
    const others = scopes.filter((one: Scope) => one !== scope);
    world.d1.used();
    expect(await call({ scopes: others, tenant: "acme" })).toMatchObject({ kind: "forbidden" });
    expect(await call({ scopes: [] })).toMatchObject({ kind: "forbidden" });
    expect(world.d1.used().queries).toBe(0);
  });

  const least = roleFor(service.permission);
  const personOf = (role: Role): Principal => ({
    person: { name: "ann@example.com", role },
    scopes: scopesOfRole(role),
    tenant: "acme",
  });

  const lower = roles.slice(0, roles.indexOf(least));
  if (lower.length > 0)
    test("is refused to a person of a lower role, with the role that it needs", async () => {
      world.d1.used();
      for (const role of lower)
        expect(await call(personOf(role))).toEqual({
          kind: "forbidden",
          detail: `Your role is ${role}, and this needs the role ${least}`,
        });
      expect(world.d1.used().queries).toBe(0);
    });

  test("is not refused for the role to a person of this role or a higher one", () => {
    const { operators: _, ...permission } = service.permission;
    for (const role of roles.slice(roles.indexOf(least)))
      expect(refuseWithout(permission, personOf(role))).toBeUndefined();
  });

  if (action !== "read")
    test("is refused to a visitor without any permission", async () => {
      const visit = accessUnder(nothing);
      world.d1.used();
      expect(await call({ scopes, tenant: "acme", visit })).toMatchObject({ kind: "forbidden" });
      expect(world.d1.used().queries).toBe(0);
    });
});
