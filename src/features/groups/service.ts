/**
 * Groups of destinations that share a receiver: their limits, and their state. They belong to the operator, because their
 * members are of many tenants, who do not learn of each other.
 */
import { GROUP_ID } from "../../core/group/name.ts";
import { invalidField, missing, ok, unavailable } from "../../core/result.ts";
import { atGroup } from "../../gate/group-client.ts";
import type { Services } from "../../services.ts";
import { breakerOf } from "../../store/destination.ts";
import { findGroup, type Group, groupLimitsOf, groupSettingsOf } from "../../store/group.ts";
import { listGroups, MOST_GROUPS, putGroup, removeGroup } from "../../store/groups.ts";
import { isoTime } from "../../time.ts";
import { service } from "../service.ts";
import type { GroupFields, GroupJson, GroupStateJson } from "./schema.ts";

const operators = "groups belong to the whole deployment";
const reading = { scope: "read", operators } as const;
const changing = { scope: "admin", role: "configure", operators } as const;

type Page = Parameters<typeof listGroups>[1];

/** Groups by name, at most `limit`. */
export const getGroups = service(reading, async ({ services }, page: Page) => {
  return ok((await listGroups(services.db, page)).map(({ name, row }) => groupView(name, row)));
});

/** The same, each with its state: a call for each. */
export const getGroupsWithState = service(reading, async ({ services }, page: Page) => {
  return ok(await groupsWithState(services, page));
});

/** The groups of a page, each with its state. */
export async function groupsWithState(services: Services, page: Page): Promise<GroupStateJson[]> {
  const found = await listGroups(services.db, page);
  return Promise.all(found.map(({ name, row }) => withState(services, name, row)));
}

/** A group that has no limits of its own has the defaults: any name may come to be a destination's. */
export const getGroup = service(reading, async ({ services }, name: string) => {
  if (!GROUP_ID.test(name)) return missing("group", name);
  return ok(await withState(services, name, await findGroup(services.db, name)));
});

/** Sets all limits of a group: what is left out has its default. They apply within ten seconds. */
export const replaceGroup = service(
  changing,
  async ({ services, changed }, { name, fields }: Readonly<{ name: string; fields: GroupFields }>) => {
    if (!GROUP_ID.test(name)) {
      const fault = `is ${JSON.stringify(name.slice(0, 60))}`;
      return invalidField("name", fault, "a name of letters, digits and _ . -, or host: and a host");
    }
    const { breaker } = fields;
    const input = {
      name,
      maxConcurrency: fields.max_concurrency ?? null,
      ratePerSecond: fields.rate_per_second ?? null,
      rateBurst: fields.rate_burst ?? null,
      breakerFailureRatio: breaker?.failure_ratio ?? null,
      breakerMinAttempts: breaker?.min_attempts ?? null,
      breakerWindowS: breaker?.window_s ?? null,
      breakerCooldownS: breaker?.cooldown_s ?? null,
      breakerMaxCooldownS: breaker?.max_cooldown_s ?? null,
    };
    const row = await putGroup(services.db, input, services.now());
    if (!row) {
      const fault = `is ${name}, for which there is no room`;
      return invalidField("name", fault, `at most ${MOST_GROUPS} groups with limits`);
    }
    services.memory.groupSettings.delete(name);
    changed("group.changed", { id: name, tenant: null });
    return ok(groupView(name, row));
  },
);

/** Removes the limits of a group: it has the defaults then. Its members stay in it. */
export const deleteGroup = service(changing, async ({ services, changed }, name: string) => {
  if (!(await removeGroup(services.db, name))) return missing("group", name);
  services.memory.groupSettings.delete(name);
  changed("group.deleted", { id: name, tenant: null });
  return ok(undefined);
});

/** Ends circuit and hold of a group: traffic restarts from one attempt at a time. Safe to repeat. */
export const restartGroup = service(
  { scope: "admin", role: "repair", operators },
  async ({ services, changed }, name: string) => {
    if (!GROUP_ID.test(name)) return missing("group", name);
    const row = await findGroup(services.db, name);
    if (!(await atGroup(services, name, "reset", groupSettingsOf(row))))
      return unavailable("The group cannot be reached at the moment");
    changed("group.reset", { id: name, tenant: null });
    return ok(await withState(services, name, row));
  },
);

function groupView(name: string, row: Group | undefined): GroupJson {
  return {
    name,
    ...groupLimitsOf(row),
    breaker: breakerOf(row ?? {}),
    created_at: isoTime(row?.createdAt ?? null),
    updated_at: isoTime(row?.updatedAt ?? null),
  };
}

async function withState(services: Services, name: string, row: Group | undefined): Promise<GroupStateJson> {
  const view = await atGroup(services, name, "view", groupSettingsOf(row));
  const state = view && {
    circuit: view.circuit,
    circuit_until: isoTime(view.circuitUntil),
    held_until: isoTime(view.heldUntil),
    window: view.window,
    in_flight: view.inFlight,
    waiting: view.waiting,
    tenants: view.tenants,
  };
  return { ...groupView(name, row), state: state ?? null };
}
