/**
 * The cost of every service in a crowded database, for every caller: rows that D1 reports as read, and queries. The
 * list of services is that of all features, so that a new one needs a ceiling. What routes, pages and tools add is in
 * ceilings.test.ts.
 */
import { beforeAll, expect, test } from "vitest";
import { findEventsById } from "../../src/features/events/service.ts";
import { eventNumber } from "../../src/ids.ts";
import { findDestination } from "../../src/store/destinations.ts";
import { insertRow, NOW } from "../support/api.ts";
import { everyService } from "../support/every-service.ts";
import { CROWDED, inviteEveryone } from "../support/everyone-else.ts";
import { type Owned, serviceInputs } from "../support/service-inputs.ts";
import { type Cost, crowdedServices, things, visitors } from "../support/tour.ts";

type Ceiling = readonly [rowsRead: number, queries: number];

const ceilings: Readonly<Record<string, Ceiling>> = {
  getApplications: [65, 2],
  getAction: [10, 2],
  getActions: [65, 2],
  getAuditEntries: [65, 2],
  getAttempt: [10, 3],
  getDeliveryChoices: [7_300, 4],
  getDestinationsNamed: [1_400, 3],
  getBlockedKeys: [10, 5],
  previewRepair: [28_000, 19],
  findDeliveries: [4_400, 8],
  getDeliveries: [4_400, 8],
  getDeliveryLog: [28_000, 24],
  getDeliveriesNamed: [4_400, 10],
  findOneDelivery: [10, 2],
  getDelivery: [10, 2],
  getTransformFaults: [210, 3],
  getDeliveryNamed: [10, 3],
  getDeliveryInFull: [10, 3],
  getCertification: [10, 2],
  getDestinationHealth: [78, 3],
  previewDestination: [1_400, 6],
  getDestinations: [81, 2],
  getDestination: [10, 2],
  previewTransform: [1_400, 6],
  getTransformVersions: [10, 2],
  getErasures: [67, 2],
  getErasure: [10, 2],
  getEventTypes: [590, 2],
  getEventType: [10, 2],
  getTypesWithExamples: [650, 2],
  getEventVersions: [33, 3],
  getDeprecatedVersions: [10, 2],
  getVersionEndpoints: [200, 4],
  findOneEvent: [6_600, 4],
  getEvent: [6_600, 4],
  getEventInFull: [6_600, 4],
  findEvents: [1_400, 5],
  findEventsById: [10, 2],
  readEventData: [10, 2],
  getGroups: [10, 3],
  getGroupsWithState: [10, 3],
  getGroup: [10, 2],
  getKeys: [65, 2],
  getKey: [10, 2],
  getPollKeys: [10, 3],
  getNoticeChannel: [10, 2],
  readFromPosition: [120, 7],
  getConsumers: [10, 2],
  getReplays: [140, 2],
  getReplay: [10, 2],
  getStats: [55_000, 11],
  getFleet: [43_000, 10],
  getMetrics: [55_000, 13],
  listEventKinds: [550, 2],
  getTenants: [65, 2],
  getTenant: [10, 2],
  createApplication: [10, 3],
  updateApplication: [10, 3],
  requestAction: [25, 5],
  decideAction: [10, 4],
  exportAuditEntries: [650, 2],
  skipDelivery: [10, 3],
  repairDeliveries: [28_000, 128],
  retryDeliveries: [19, 5],
  retryDelivery: [12, 5],
  tryDeliveryNow: [10, 5],
  cancelOneDelivery: [13, 5],
  cancelWaiting: [540, 18],
  tailDeliveries: [230, 5],
  certifyDestination: [10, 4],
  clearHold: [10, 3],
  rotateMasterKey: [140, 3],
  rotateSecret: [10, 4],
  revealSecret: [10, 3],
  createDestination: [1_400, 5],
  updateDestination: [10, 4],
  updateHeaders: [10, 4],
  pauseDestination: [19, 8],
  resumeDestination: [20, 10],
  testDestination: [10, 3],
  restoreTransform: [10, 5],
  beginErasure: [62, 4],
  replaceEventType: [660, 3],
  importEventTypes: [2_800, 6],
  publishEventVersion: [670, 8],
  changePublishedVersion: [33, 6],
  checkEventVersion: [2_600, 60],
  postEvents: [2_700, 7],
  postEach: [15, 4],
  replaceGroup: [10, 3],
  restartGroup: [10, 3],
  createKey: [10, 4],
  createPollKey: [12, 5],
  setNoticeChannel: [10, 4],
  testNoticeChannel: [10, 3],
  pollDestination: [120, 7],
  pollInLoop: [120, 7],
  commitPoll: [10, 2],
  seekPoll: [26, 3],
  createPortalLink: [10, 3],
  startReplay: [98, 10],
  startReplays: [98, 10],
  estimateReplays: [93, 5],
  pauseReplay: [10, 4],
  resumeReplay: [10, 4],
  cancelReplay: [10, 4],
  search: [1_500, 11],
  pollEvents: [2_600, 6],
  subscribe: [1_400, 11],
  exportTenant: [1_400, 6],
  // One query is for an application of the Svix API with the tenant's name.
  importTenant: [1_400, 9],
  changeTenant: [10, 5],
  removeApplication: [9_400, 53],
  removeAttemptContent: [12, 4],
  removeDestination: [200, 5],
  deleteEventType: [10, 3],
  deleteGroup: [10, 3],
  removeKey: [16, 3],
  removePollKey: [12, 3],
  removeNoticeChannel: [10, 4],
  unsubscribe: [20, 6],
  removeTenant: [18_000, 11],
};

const costs = new Map<string, Cost & { kinds: string }>();

/** Services that only read come first, and those that remove something last, a tenant after its objects. */
const turns = [
  /^(get|find|list|preview|read)/,
  /^(?!remove|delete|unsub)/,
  /^(?!.*(Tenant|Application)$)/,
  /./,
];
const turnOf = (name: string) => turns.findIndex((pattern) => pattern.test(name));

beforeAll(async () => {
  await inviteEveryone();
  await insertRow("event_types", { name: "shared.by-all", validates: 0, created_at: NOW, updated_at: NOW });
  const { services, measured } = await crowdedServices();
  const [, administrator, operator] = visitors;
  if (!administrator || !operator) throw new Error("There must be visitors");
  const number = eventNumber(things.ids.events) ?? 0;
  const found = await findEventsById({ services, principal: administrator }, [number]);
  const event = found.kind === "ok" ? found.value.get(number) : undefined;
  const destination = await findDestination(services.db, things.ids.destinations, CROWDED);
  if (!event || !destination) throw new Error("There must be an event and a destination");
  const application = {
    id: CROWDED,
    uid: "uid",
    name: "A name",
    metadata: null,
    ratePerSecond: 0,
    createdAt: 0,
    updatedAt: 0,
  };
  const owned = {
    ...things,
    ids: { ...things.ids, applications: CROWDED, pollKeys: things.ids.keys },
    application,
    event,
    destination,
    canary: "nowhere",
  } as unknown as Owned;
  for (const { exported, service } of everyService.toSorted(
    (a, b) => turnOf(a.exported) - turnOf(b.exported),
  ))
    for (const principal of [administrator, operator])
      for (const input of serviceInputs[exported]?.(owned) ?? []) {
        let kind = "";
        const cost = await measured(async () => {
          const result = await service({ services, principal }, input);
          kind = result.kind;
          return result.kind;
        });
        const other = costs.get(exported);
        costs.set(exported, {
          rowsRead: Math.max(cost.rowsRead, other?.rowsRead ?? 0),
          queries: Math.max(cost.queries, other?.queries ?? 0),
          status: "",
          kinds: `${other?.kinds ?? ""} ${kind}`,
        });
      }
  console.log(
    [...costs]
      .map(
        ([name, { rowsRead, queries, kinds }]) =>
          `${name} | ${rowsRead} | ${queries} | ${[...new Set(kinds.split(" "))].join(" ")}`,
      )
      .join("\n"),
  );
});

test("every service has a ceiling", () => {
  expect(Object.keys(ceilings).sort()).toEqual(everyService.map(({ exported }) => exported).sort());
});

test.each(Object.entries(ceilings))("%s stays below its ceiling of %j rows read and queries", (name, [
  rows,
  most,
]) => {
  const { rowsRead, queries } = costs.get(name) ?? { rowsRead: Number.NaN, queries: Number.NaN };
  expect(rowsRead).toBeLessThanOrEqual(rows);
  expect(queries).toBeLessThanOrEqual(most);
});
