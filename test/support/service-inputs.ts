/**
 * Inputs of every service that name a tenant's property: its ids and its name wherever an input takes one. Each works
 * for the operator, so a refusal is due to the stranger.
 */
import type { Application } from "../../src/features/applications/sql.ts";
import type { Destination } from "../../src/store/destination.ts";
import type { ListedEvent } from "../../src/store/event-list.ts";
import { NOW } from "./api.ts";
import type { Things } from "./operations.ts";
import { SECRET } from "./world.ts";

/** One of everything that a tenant has. */
export type Owned = Things &
  Readonly<{
    application: Application;
    destination: Destination;
    event: ListedEvent;
    /** A word that is only in this tenant's texts. */
    canary: string;
  }>;

type Inputs = (owned: Owned) => readonly unknown[];

const requestUrl = "https://breakwater.example/v1";
const url = "https://example.com/other";
const noticeChannel = { kind: "webhook", url, on: ["dead"], open_after_minutes: 10, language: "en" };
const page = { after: undefined, limit: 50 };
const since = NOW - 3_600_000;

const subscription = {
  name: "shared.by-all",
  arguments: {},
  delivery: { mode: "webhook", url: "https://example.com/agent", secret: SECRET },
};

const destinations: Inputs = ({ ids }) => [ids.destinations];
const deliveries: Inputs = ({ ids }) => [ids.deliveries];
const groups: Inputs = () => ["shared"];
const replays: Inputs = ({ ids }) => [ids.replays];
const atOnce: Inputs = ({ ids }) => [
  { destination_ids: [ids.destinations], since, until: NOW, include: "dead", rate_per_minute: 100 },
];
const attemptOf = ({ ids }: Owned) =>
  `atmpt_${ids.deliveries?.slice("dlv_".length)}_${Date.parse(ids.attempts ?? "").toString(36)}`;

const lists: Inputs = ({ tenant, ids, destination, canary }) => {
  const id = ids.destinations;
  const cursor = [{ destinationId: id, eventId: Number.MAX_SAFE_INTEGER }];
  return [
    { limit: 50 },
    { limit: 50, tenant },
    { limit: 50, destination_id: id },
    { limit: 50, destination },
    { limit: 50, tag: canary, destination_id: id },
    { limit: 50, order: "event", destination_id: id },
    { limit: 50, state: "queued", destination_id: id },
    { limit: 50, status: 599, cursor, withRange: true },
  ];
};

/** Inputs by the name of the service. */
export const serviceInputs: Readonly<Record<string, Inputs>> = {
  getApplications: ({ application }) => [page, { ...page, after: application.id.slice(0, -1) }],
  createApplication: ({ canary }) => [
    { uid: canary, name: "Another", metadata: null, ratePerSecond: 0, idempotencyKey: undefined },
  ],
  updateApplication: ({ application: before }) => [{ before, change: { name: "Another" } }],
  removeApplication: ({ application }) => [application.id],

  getAuditEntries: ({ tenant, ids }) => [
    { limit: 50 },
    { limit: 50, tenant },
    { limit: 50, subject: ids.destinations },
  ],
  exportAuditEntries: ({ tenant, ids }) => [{}, { tenant }, { subject: ids.destinations }],

  findDeliveries: lists,
  getDeliveries: lists,
  getDeliveriesNamed: lists,
  getDeliveryLog: lists,
  findOneDelivery: deliveries,
  getDelivery: deliveries,
  getTransformFaults: ({ destination }) => [destination],
  getDeliveryNamed: deliveries,
  getDeliveryInFull: deliveries,
  retryDeliveries: ({ ids }) => [[ids.deliveries]],
  retryDelivery: deliveries,
  cancelOneDelivery: deliveries,
  tryDeliveryNow: deliveries,
  skipDelivery: deliveries,
  getBlockedKeys: ({ ids }) => [{ id: ids.destinations }],
  repairDeliveries: (owned) => [
    ...["retry", "cancel"].map((action) => ({
      action,
      chosen: { kind: "selected", ids: [owned.ids.deliveries] },
    })),
    ...lists(owned).flatMap((query) =>
      ["retry", "cancel"].map((action) => ({ action, chosen: { kind: "found", query } })),
    ),
  ],
  previewRepair: (owned) =>
    lists(owned).flatMap((query) => ["retry", "cancel"].map((action) => ({ action, query }))),
  cancelWaiting: ({ ids }) => [{ destination: ids.destinations }],
  getAttempt: ({ ids }) => [{ delivery: ids.deliveries, at: ids.attempts }],
  removeAttemptContent: (owned) => [attemptOf(owned)],
  getDeliveryChoices: ({ tenant, ids }) => [
    { tenant: undefined },
    { tenant, destination_id: ids.destinations },
  ],
  getDestinationsNamed: ({ tenant, ids, canary }) =>
    [ids.destinations, `At ${canary}`].flatMap((name) => [
      { tenant, name },
      { tenant: undefined, name },
    ]),
  tailDeliveries: ({ tenant, ids }) =>
    [{}, { tenant }, { destinationId: ids.destinations }].map((filter) => ({
      ...filter,
      last: ids.events,
      render: (one: unknown) => JSON.stringify(one),
    })),

  createDestination: ({ tenant, ids }) => [
    { destination: { url, tenant }, requestUrl },
    { destination: { url, tenant }, key: ids.destinations, requestUrl },
  ],
  getDestinations: ({ tenant, ids }) => [
    page,
    { ...page, tenant },
    { ...page, after: ids.destinations?.slice(0, -1) },
  ],
  getDestination: destinations,
  updateDestination: ({ ids }) => [{ id: ids.destinations, change: { description: "Another" }, requestUrl }],
  updateHeaders: ({ ids }) => [{ id: ids.destinations, set: { "x-team": "a" }, remove: [] }],
  removeDestination: destinations,
  pauseDestination: destinations,
  resumeDestination: destinations,
  testDestination: ({ ids }) => [{ id: ids.destinations }],
  certifyDestination: ({ ids }) => [{ id: ids.destinations, consent: true }],
  getCertification: destinations,
  getNoticeChannel: destinations,
  removeNoticeChannel: destinations,
  testNoticeChannel: destinations,
  setNoticeChannel: ({ ids }) => [{ id: ids.destinations, channel: noticeChannel, requestUrl }],
  pollDestination: ({ ids }) => [
    { id: ids.inboxes, consumer: "default", limit: 10, visibility_s: 60, wait_s: 0 },
  ],
  commitPoll: ({ ids }) => [{ id: ids.inboxes, consumer: "default", iterator: "default.0" }],
  getConsumers: ({ ids }) => [ids.inboxes],
  pollInLoop: ({ ids }) => [{ id: ids.inboxes, consumer: "loop", limit: 10 }],
  readFromPosition: ({ ids }) => [{ id: ids.inboxes, limit: 10 }],
  seekPoll: ({ ids }) => [{ id: ids.inboxes, consumer: "default", since: null }],
  previewDestination: ({ ids }) => [{ id: ids.destinations }],
  previewTransform: ({ ids }) => [{ id: ids.destinations, template: "slack" }],
  getTransformVersions: ({ ids }) => [ids.destinations],
  restoreTransform: ({ ids }) => [{ id: ids.destinations, version: 1, requestUrl }],
  rotateSecret: ({ ids }) => [{ id: ids.destinations }],
  revealSecret: ({ ids, destination }) => [ids.destinations, destination],
  getDestinationHealth: destinations,
  clearHold: destinations,
  rotateMasterKey: ({ ids }) => ["", ids.destinations?.slice(0, -1)],

  beginErasure: ({ tenant, ids }) => [
    { tenant, event_id: ids.events },
    { tenant, everything: true },
  ],
  getErasures: ({ ids }) => [{ limit: 50 }, { limit: 50, before: `${ids.erasures}~` }],
  getErasure: ({ ids }) => [ids.erasures],

  getEventTypes: () => [page],
  getEventType: () => ["shared.by-all"],
  getTypesWithExamples: () => [undefined],
  replaceEventType: ({ canary }) => [{ name: canary, fields: {} }],
  deleteEventType: () => ["shared.by-all"],
  importEventTypes: ({ canary }) => [
    { document: { webhooks: { [canary]: { post: {} } } }, field: "spec", isDryRun: false, replaces: true },
  ],

  listEventKinds: () => [undefined],
  subscribe: () => [{ params: subscription, requestUrl }],
  unsubscribe: () => [subscription],
  pollEvents: () => [
    { name: "shared.by-all", arguments: {}, maxEvents: 100 },
    { name: "shared.by-all", arguments: {}, maxEvents: 100, cursor: "0" },
  ],
  getEventVersions: () => ["shared.by-all"],
  getDeprecatedVersions: () => [[{ name: "shared.by-all", version: 2 }]],
  getVersionEndpoints: () => [{ name: "shared.by-all", after: undefined, limit: 50 }],
  publishEventVersion: () => [{ name: "shared.by-all", version: 2, fields: { schema: true } }],
  changePublishedVersion: () => [{ name: "shared.by-all", version: 1, change: {} }],
  checkEventVersion: () => [{ name: "shared.by-all", fields: { schema: true } }],

  getGroups: () => [page],
  getGroupsWithState: () => [page],
  getGroup: groups,
  replaceGroup: () => [{ name: "shared", fields: {} }],
  deleteGroup: groups,
  restartGroup: groups,

  postEvents: ({ tenant, ids }) => [
    { events: [{ type: "order.paid", data: {}, tenant }] },
    { events: [{ type: "order.paid", data: {}, tenant, destination_ids: [ids.destinations] }] },
  ],
  postEach: ({ tenant }) => [[{ event: { type: "order.paid", data: {}, tenant }, id: "a", key: "a" }]],
  findOneEvent: ({ event }) => [event.id],
  getEvent: ({ ids }) => [{ id: ids.events, parse: JSON.parse }],
  getEventInFull: ({ ids }) => [ids.events],
  findEvents: ({ tenant, canary, event }) =>
    [{}, { tenant }, { tag: canary }, { cursor: [event.id + 1] }].map((filter) => ({
      ...filter,
      limit: 50,
      withData: true,
    })),
  findEventsById: ({ event }) => [[event.id]],
  readEventData: ({ event }) => [[event]],

  // The input is stored unchecked, whoever owns its ids.
  requestAction: () => [{ tool: "pause_destination", input: { destination_id: "dst_none" } }],
  getAction: ({ ids }) => [ids.actions],
  getActions: () => [50],
  decideAction: ({ ids }) => [
    { id: ids.actions, decision: "refused" },
    { id: ids.actions, decision: "approved" },
  ],
  createKey: ({ tenant }) => [{ name: "Another", tenant, scopes: ["read"] }],
  getKeys: ({ tenant, ids }) => [page, { ...page, tenant }, { ...page, after: ids.keys?.slice(0, -1) }],
  getPollKeys: ({ ids }) => [ids.inboxes],
  createPollKey: ({ ids }) => [{ destination: ids.inboxes, input: {} }],
  removePollKey: ({ ids }) => [{ destination: ids.inboxes, id: ids.pollKeys }],
  getKey: ({ ids }) => [ids.keys],
  removeKey: ({ ids }) => [ids.keys],

  createPortalLink: ({ tenant }) => [{ options: { tenant }, requestUrl }],

  startReplay: ({ ids }) => [
    { destination_id: ids.destinations, since, until: NOW, include: "dead", rate_per_minute: 100 },
  ],
  startReplays: atOnce,
  estimateReplays: atOnce,
  getReplays: ({ ids }) => [
    { limit: 50 },
    { limit: 50, destination: ids.destinations },
    { limit: 50, before: `${ids.replays}~` },
  ],
  getReplay: replays,
  pauseReplay: replays,
  resumeReplay: replays,
  cancelReplay: replays,

  search: (owned) => {
    const { tenant, ids, canary } = owned;
    const conditions = [`tenant:${tenant}`, `destination:${ids.destinations}`, `tag:${canary}`];
    return [...Object.values(ids), attemptOf(owned), canary, ...conditions].map((q) => ({ q, limit: 50 }));
  },

  getStats: ({ tenant, ids }) => [
    { window: "1h" },
    { window: "1h", tenant },
    { window: "1h", destination: ids.destinations },
  ],
  getFleet: ({ tenant }) => [
    { tenant: undefined, query: { windows: ["15m"], series: false } },
    { tenant, query: { windows: ["15m"], series: false } },
  ],
  getMetrics: () => [undefined],

  getTenants: ({ tenant }) => [page, { ...page, after: tenant.slice(0, -1) }],
  getTenant: ({ tenant }) => [tenant],
  changeTenant: ({ tenant }) => [{ tenant, change: { retention_days: 3 } }],
  removeTenant: ({ tenant }) => [tenant],
  exportTenant: ({ tenant }) => [
    { tenant, withSecrets: false },
    { tenant, withSecrets: true },
  ],
  importTenant: ({ tenant, ids }) => [
    {
      tenant,
      isDryRun: false,
      document: { version: 1, destinations: [{ id: ids.destinations, url }] },
      requestUrl,
    },
  ],
};
