/** The output of an import: the plan, its outcome, and which id has become which. Contains no secrets. */
import type { Item, Outcomes } from "./apply.ts";
import type { ApplicationPlan, EndpointPlan, ImportPlan } from "./plan.ts";
import { counted, printable } from "./printable.ts";

/** The most lines of one section that are printed; the report's file has all. */
const MOST_LINES = 200;

const WORDS = {
  create: "to create",
  change: "to change",
  leave: "as they are",
  refuse: "not copied",
} as const;

function groupsOf({ eventTypes, applications }: ImportPlan): Readonly<Record<string, readonly Item[]>> {
  const endpoints = applications.flatMap((application) => application.endpoints);
  return { "event types": eventTypes, applications, endpoints };
}

export function partCount(plan: ImportPlan): number {
  return Object.values(groupsOf(plan)).flat().length;
}

function tableLines(plan: ImportPlan, countsOf: (items: readonly Item[]) => readonly string[]): string[] {
  return Object.entries(groupsOf(plan)).map(
    ([group, items]) => `  ${group.padEnd(12)}  ${countsOf(items).join(", ") || "none"}`,
  );
}

/** The plan for people: how many of each, what differs, what has no counterpart, and what could not be read. */
export function planLines(plan: ImportPlan): readonly string[] {
  const about = (textsOf: (item: Item) => readonly string[]) =>
    entriesOf(plan).flatMap(({ what, item }) => textsOf(item).map((text) => `${what}: ${text}`));
  return [
    ...tableLines(plan, (items) =>
      Object.entries(WORDS).flatMap(([kind, words]) => {
        const count = items.filter(({ action }) => action.kind === kind).length;
        return count > 0 ? [`${count} ${words}`] : [];
      }),
    ),
    ...section(
      "To change",
      about(({ action }) => (action.kind === "change" ? [action.differs.join(", ")] : [])),
    ),
    ...section(
      "Not copied",
      about(({ action }) => (action.kind === "refuse" ? [action.reason] : [])),
    ),
    ...section(
      "Without a counterpart",
      about(({ notes }) => notes),
    ),
    ...section(
      "Not read",
      plan.failures.map(({ what, reason }) => `${what}: ${reason}`),
    ),
    "",
    "Messages, their attempts and links to the portal are never copied.",
    ...(plan.operationalWebhooks > 0
      ? [
          `Nor are ${counted(plan.operationalWebhooks, "operational webhook")}: docs/reference.md has the operational events.`,
        ]
      : []),
  ];
}

/** The outcome: how many of each, and what has failed. */
export function outcomeLines(plan: ImportPlan, outcomes: Outcomes): readonly string[] {
  const kinds = ["created", "changed", "left", "failed"] as const;
  const counts = tableLines(plan, (items) => {
    const found = items.map((item) => outcomes.get(item)?.kind);
    const others = found.filter((kind) => kind === undefined).length;
    const shown = kinds.map((kind) => `${found.filter((one) => one === kind).length} ${kind}`);
    return others > 0 ? [...shown, `${others} not written`] : shown;
  });
  const failures = entriesOf(plan).flatMap(({ what, item }) => {
    const outcome = outcomes.get(item);
    return outcome?.kind === "failed" ? [`${what}: ${outcome.reason}`] : [];
  });
  return ["Done:", ...counts, ...section("Failed", failures)];
}

/** Whether everything at the source is now at the target. */
export function isComplete(plan: ImportPlan, outcomes: Outcomes): boolean {
  const isThere = (item: Item) => ["created", "changed", "left"].includes(outcomes.get(item)?.kind ?? "");
  return plan.failures.length === 0 && Object.values(groupsOf(plan)).flat().every(isThere);
}

type Entry = Readonly<{ what: string; item: Item }>;

function entriesOf({ eventTypes, applications }: ImportPlan): Entry[] {
  return [
    ...eventTypes.map((item) => ({ what: `event type ${printable(item.uid)}`, item })),
    ...applications.flatMap((application) => [
      { what: named("application", application), item: application },
      ...application.endpoints.map((endpoint) => ({
        what: `${named("endpoint", endpoint)} of ${printable(application.uid)}`,
        item: endpoint,
      })),
    ]),
  ];
}

function named(what: string, { id, uid }: ApplicationPlan | EndpointPlan): string {
  return id === uid ? `${what} ${id}` : `${what} ${uid} (${id})`;
}

function section(title: string, lines: readonly string[]): string[] {
  if (lines.length === 0) return [];
  const over = lines.length - MOST_LINES;
  const shown = lines.slice(0, MOST_LINES).map((line) => `  ${line}`);
  return ["", `${title}:`, ...shown, ...(over > 0 ? [`  and ${over} more: --report FILE has all`] : [])];
}

type Run = Readonly<{ from: URL; to: URL; at: number; applied: boolean }>;

/** The report as JSON: for every part of the source its id at the target, and what is missing. */
export function reportOf(plan: ImportPlan, outcomes: Outcomes, { from, to, at, applied }: Run): object {
  return {
    from: from.href,
    to: to.href,
    at: new Date(at).toISOString(),
    applied,
    complete: applied && isComplete(plan, outcomes),
    event_types: plan.eventTypes.map((item) => entryOf(item, outcomes)),
    applications: plan.applications.map((item) => ({
      ...entryOf(item, outcomes),
      endpoints: item.endpoints.map((endpoint) => entryOf(endpoint, outcomes)),
    })),
    operational_webhooks: plan.operationalWebhooks,
    not_read: plan.failures,
  };
}

function entryOf(item: Item, outcomes: Outcomes) {
  const { id, uid, action, notes } = item;
  const outcome = outcomes.get(item);
  const known = action.kind === "change" || action.kind === "leave" ? action.id : null;
  const reason =
    outcome?.kind === "failed" ? outcome.reason : action.kind === "refuse" ? action.reason : null;
  return {
    source_id: id,
    uid,
    target_id: outcome && outcome.kind !== "failed" ? outcome.id : known,
    planned: action.kind,
    ...(action.kind === "change" && { differs: action.differs }),
    outcome: outcome?.kind ?? null,
    reason,
    without_counterpart: notes,
  };
}
