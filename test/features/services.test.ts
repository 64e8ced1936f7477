/**
 * Every service of every feature, taken up as it is written: without its scope, or for a visitor of the portal whom nothing
 * is allowed, it refuses before it reads its input. What a foreign tenant may not see is held by each feature's own tests and by
 * the scan of all routes.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { accessUnder, type PortalRules } from "../../src/core/portal-access.ts";
import type { Principal } from "../../src/core/principal.ts";
import type { RefusalKind } from "../../src/core/result.ts";
import { type Scope, scopes } from "../../src/core/scopes.ts";
import type { Service } from "../../src/features/service.ts";
import { newWorld, type World } from "../support/world.ts";

const modules = import.meta.glob<Record<string, unknown>>("../../src/features/*/*.ts", { eager: true });

type AnyService = Service<unknown, unknown, RefusalKind>;

/** The value as a service, where it is one. */
function asService(value: unknown): AnyService[] {
  return typeof value === "function" && "permission" in value ? [value as AnyService] : [];
}

const services = Object.entries(modules).flatMap(([file, exported]) =>
  Object.entries(exported).flatMap(([name, value]) =>
    asService(value).map((service) => ({
      name: `${file.replace("../../src/features/", "")} ${name}`,
      service,
    })),
  ),
);

const nothing: PortalRules = {
  may_edit_endpoints: false,
  may_rotate: false,
  may_resend: false,
  may_test: false,
  may_see_payloads: false,
};

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

test("services are found", () => {
  expect(services.length).toBeGreaterThan(50);
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

  test.skipIf(action === "read")("is refused to a visitor whom nothing is allowed", async () => {
    const visit = accessUnder(nothing);
    world.d1.used();
    expect(await call({ scopes, tenant: "acme", visit })).toMatchObject({ kind: "forbidden" });
    expect(world.d1.used().queries).toBe(0);
  });
});
