/**
 * Conversions of versions, and destinations' transformations, before gates are called: a gate admits nothing that
 * cannot be sent. Destinations without a transformation cost nothing here, and the interpreter of templates
 * (core/transform/liquid.ts) is loaded with the first event that needs it. The result of code is stored before it is
 * sent (store/transform-results.ts).
 */
import { deliveryName, type EventVersion } from "../core/bundle.ts";
import { type FunctionCall, type FunctionOutcome, functionUnavailable } from "../core/transform/code.ts";
import {
  faultText,
  guardedRequest,
  type Transformed,
  type TransformedRequest,
  type TransformFault,
  type TransformOutput,
} from "../core/transform/result.ts";
import type { TransformTemplate } from "../core/transform/template.ts";
import {
  isFor,
  type TransformVersion,
  type Versioned,
  versionsFor,
  withOldest,
} from "../core/transform/versions.ts";
import { runFunction } from "../gate/functions-client.ts";
import { eventId } from "../ids.ts";
import type { Services } from "../services.ts";
import type { LoadedDelivery } from "../store/deliveries.ts";
import type { Destination } from "../store/destination.ts";
import { noteFailingConversion } from "../store/event-versions.ts";
import {
  hasFunctionsOff,
  readTransformResults,
  storeTransformResults,
  type TransformResult,
} from "../store/transform-results.ts";
import { currentTransform, formerTransforms } from "../store/transforms.ts";
import { isoTime } from "../time.ts";
import { converted, isConverted, templateFiller, versionsToConvert } from "./event-versions.ts";
import { bodyOfText, type EventRequest, textOf, transformedRequest } from "./http.ts";
import { countTransformFaults } from "./news.ts";
import { type PayloadForm, payloadOf } from "./payload.ts";

/** The parts of an event that a transformation reads. */
export type TransformedEvent = Readonly<{
  id: number;
  tenant: string;
  type: string;
  acceptedAt: number;
  body: Uint8Array<ArrayBuffer>;
  contentType?: string | undefined;
  /** The version of its type that its data has; absent: its type has only one. */
  version?: EventVersion | undefined;
}>;

type Transforming = Pick<Destination, "id" | "transform" | "createdAt" | "eventVersions"> & PayloadForm;

/**
 * `send`: the result of code is stored, and sent. `try`: code runs, and nothing is stored. `show`: only stored results
 * are shown.
 */
type Purpose = "send" | "try" | "show";

/** The deliveries with their payloads, whatever their destinations make of events. */
export async function withPayloads(
  services: Services,
  deliveries: readonly LoadedDelivery[],
): Promise<readonly LoadedDelivery[]> {
  return (await transformed(services, deliveries)).map((delivery) => {
    const { event, destination } = delivery;
    const { body } = event;
    if (delivery.transformed || !body) return delivery;
    return { ...delivery, payload: payloadOf({ ...event, body }, destination) };
  });
}

/** The deliveries with the requests that replace their events. Those without a body stay as they are. */
export async function transformed(
  services: Services,
  deliveries: readonly LoadedDelivery[],
): Promise<readonly LoadedDelivery[]> {
  const isPlain = ({ destination, event }: LoadedDelivery) =>
    !destination.transform && !isConverted(event, destination);
  if (deliveries.every(isPlain)) return deliveries;
  const open = deliveries.flatMap((delivery) => {
    const { event, destination, row } = delivery;
    const isOpen = (row?.endedAt ?? null) === null;
    if (isPlain(delivery) || !event.body || !isOpen) return [];
    return [{ delivery, event: { ...event, body: event.body }, destination }];
  });
  const versions = await versionsToConvert(services, open);
  const found = new Map<LoadedDelivery, Found>();
  const events = new Map<LoadedDelivery, LoadedDelivery["event"]>();
  const work: (typeof open)[number][] = [];
  for (const one of open) {
    const got = await converted(services, one.event, one.destination, versions);
    if (got.kind === "event") events.set(one.delivery, got.event);
    if (got.kind !== "event") found.set(one.delivery, { version: CONVERSION, result: got });
    else if (one.destination.transform) work.push({ ...one, event: got.event });
  }
  const made = await transformEach(services, work, "send");
  for (const [i, { delivery }] of work.entries()) found.set(delivery, made[i] ?? NONE);
  const faulty = open.flatMap(({ delivery }): Faulty[] => {
    const { version = 0, result, isFirstFault } = found.get(delivery) ?? {};
    return result?.kind === "fault" ? [{ delivery, version, isFirstFault, ...result }] : [];
  });
  for (const theirs of Map.groupBy(faulty, ({ delivery }) => delivery.destination.id).values())
    reportFaulty(services, theirs);
  return deliveries.map((delivery) => {
    const result = found.get(delivery)?.result;
    const got = { ...delivery, event: events.get(delivery) ?? delivery.event };
    return result ? { ...got, transformed: result } : got;
  });
}

/** Replaces the version of a transformation if the conversion before it fails. Versions are positive. */
const CONVERSION = -1;

type Faulty = Readonly<{
  delivery: LoadedDelivery;
  version: number;
  isFirstFault: boolean | undefined;
  fault: TransformFault;
  passing?: true;
}>;

/**
 * One log line says what is wrong. Deliveries that waited for the same reason before are counted already, apart from those
 * whose code has not run until now.
 */
function reportFaulty(services: Services, faulty: readonly Faulty[]): void {
  const isNew = ({ delivery: { row }, isFirstFault }: Faulty) =>
    row?.reason !== "transform_failed" || isFirstFault;
  const added = faulty.filter(isNew);
  const [first] = added;
  if (!first) return;
  const { destination, event } = first.delivery;
  const about = { destination: destination.id, event: eventId(event.id), version: first.version };
  services.log({
    what: "transform_failed",
    ...about,
    fault: faultText(first.fault),
    deliveries: added.length,
  });
  const counted = added.filter(({ passing }) => !passing);
  const [{ version } = first] = counted;
  if (counted.length > 0)
    services.background(countTransformFaults(services, destination, version, counted.length));
  if (added.some(({ version }) => version === CONVERSION) && destination.eventVersions === null)
    services.background(noteFailingConversion(services.db, destination.id));
}

/** Applies the destination's transformation to the event, in the version that counts for it; undefined: it is sent as it is. */
export async function transform(
  services: Services,
  event: TransformedEvent,
  destination: Transforming,
  purpose: "try" | "show",
): Promise<Versioned> {
  const [made] = await transformEach(services, [{ event, destination }], purpose);
  return made ?? NONE;
}

const NONE: Versioned = { version: 0, result: undefined };

/** After an edit by hand that leaves no transformation, events must not be sent as they are. */
const UNREADABLE: Versioned = {
  version: 0,
  result: {
    kind: "fault",
    fault: { field: "transform", fault: "what is stored cannot be read; save it again" },
  },
};
const NO_TEXT: Transformed = {
  kind: "fault",
  fault: { field: "data", fault: "is content that is not UTF-8 text" },
};
const NOT_RUN: Versioned = {
  version: 0,
  result: passing({ field: "code", fault: "has not run for this event yet" }),
};
const WITHHELD = passing({ field: "code", fault: "has produced more than can be loaded at once" });

function passing(fault: TransformFault): Transformed {
  return { kind: "fault", fault, passing: true };
}

type Work = Readonly<{ event: TransformedEvent; destination: Transforming }>;

/** `isFirstFault`: a version of a transformation with code has failed for the event for the first time. */
type Found = Versioned & Readonly<{ isFirstFault?: boolean }>;

/** Work under way, with the versions that are left to try. */
type Task = Work & {
  versions: readonly TransformVersion[];
  /** Whether its result may be another one the next time. */
  readonly hasCode: boolean;
  /** The version that is known to have failed; 0: none. */
  failed: number;
  made: Versioned;
  /** The result that is to be stored. */
  found: TransformResult | undefined;
};

/** The results, in the order of the work. Without code only former versions are read, and nothing is stored. */
async function transformEach(
  services: Services,
  work: readonly Work[],
  purpose: Purpose,
): Promise<readonly Found[]> {
  const tasks: Task[] = [];
  const former = new Map<string, readonly TransformVersion[]>();
  // One after the other, because the first one's former versions are in memory for the others.
  for (const one of work) {
    const all = await storedVersions(services, one, former);
    tasks.push(all ? newTask(one, versionsFor(all, one.event)) : { ...newTask(one, []), made: UNREADABLE });
  }
  const coded = tasks.filter(({ hasCode }) => hasCode);
  if (coded.length > 0) await readStored(services, coded, purpose);
  await applyAll(services, tasks);
  const found = coded.flatMap((task) => task.found ?? []);
  if (purpose === "send" && found.length > 0) await keepFirst(services, coded, found);
  return tasks.map(({ made, found, failed }) => ({
    ...made,
    isFirstFault: found !== undefined && "fault" in found && found.version > failed,
  }));
}

/** The results of the saved versions, or of a draft of the next one; results of code are neither stored nor sent. */
export async function tryTransform(
  services: Services,
  events: readonly TransformedEvent[],
  destination: Transforming,
  draft?: TransformVersion,
): Promise<readonly (Transformed | undefined)[]> {
  const work = events.map((event) => ({ event, destination }));
  if (!draft) return (await transformEach(services, work, "try")).map(({ result }) => result);
  const tasks = work.map((one) => newTask(one, [draft]));
  await applyAll(services, tasks);
  return tasks.map(({ made }) => made.result);
}

function newTask(work: Work, versions: readonly TransformVersion[]): Task {
  return {
    ...work,
    versions,
    hasCode: versions.some(({ code }) => code !== undefined),
    failed: 0,
    made: NONE,
    found: undefined,
  };
}

async function applyAll(services: Services, tasks: readonly Task[]): Promise<void> {
  const left = () => tasks.filter(({ versions }) => versions.length > 0);
  for (let open = left(); open.length > 0; open = left()) await applyFirst(services, open);
}

/** Reads the stored results of the tasks. */
async function readStored(services: Services, tasks: readonly Task[], purpose: Purpose): Promise<void> {
  const stored = await readTransformResults(services, tasks.map(keyOf));
  const byKey = new Map(stored.map((result) => [deliveryName(result), result]));
  for (const task of tasks) {
    const result = byKey.get(deliveryName(keyOf(task)));
    if (result) take(task, result);
    if (result && "fault" in result) task.failed = result.version;
    if (purpose === "show") end(task, task.made === NONE ? NOT_RUN : task.made);
  }
}

function take(task: Task, result: TransformResult): void {
  const { version } = result;
  if (!("fault" in result)) {
    end(task, { version, result: "made" in result ? guarded(task, result.made) : WITHHELD });
    return;
  }
  task.made = { version, result: { kind: "fault", fault: result.fault } };
  const isLeft = (one: TransformVersion) =>
    one.version > version || (result.stopped && one.version === version);
  task.versions = task.versions.filter(isLeft);
}

function end(task: Task, made: Versioned): void {
  task.made = made;
  task.versions = [];
}

/** Applies the first remaining version of each task: it is the last one unless it fails. */
async function applyFirst(services: Services, tasks: readonly Task[]): Promise<void> {
  const coded: Task[] = [];
  for (const task of tasks) {
    const [version] = task.versions;
    if (version?.code !== undefined) coded.push(task);
    else if (version) {
      const { template } = version;
      settle(task, version, template ? await applyTemplate(services, task, template) : { result: undefined });
    }
  }
  const groups = Map.groupBy(
    coded,
    ({ destination, versions: [version] }) => `${destination.id} ${version?.version}`,
  );
  await Promise.all([...groups.values()].map((group) => runGroup(services, group)));
}

/** Events of one destination and version, in one call. */
async function runGroup(services: Services, tasks: readonly Task[]): Promise<void> {
  const [first] = tasks;
  const version = first?.versions[0];
  if (first === undefined || version?.code === undefined) return;
  const readable = tasks.flatMap((task) => {
    const facts = factsOf(task.event);
    if (facts === undefined) settle(task, version, { result: NO_TEXT });
    return facts === undefined ? [] : [{ task, text: JSON.stringify(facts) }];
  });
  if (readable.length === 0) return;
  const { tenant } = first.event;
  const call = { tenant, code: version.code, events: readable.map(({ text }) => text) };
  const outcomes = await runTransformCode(services, call);
  for (const [i, { task }] of readable.entries()) {
    const outcome = outcomes[i];
    if (outcome) settle(task, version, codeOutcome(task, outcome));
  }
}

/** Runs a tenant's code, unless the operator has switched its functions off. */
export async function runTransformCode(
  services: Services,
  call: FunctionCall,
): Promise<readonly FunctionOutcome[]> {
  if (services.functions === undefined || !(await hasFunctionsOff(services, call.tenant)))
    return runFunction(services, call);
  return [...call.events, ""].map(() =>
    functionUnavailable("is not run: the operator has switched the tenant's functions off"),
  );
}

/** A version's result, with its output if that is to be stored. */
type Outcome = Readonly<{ result: Transformed | undefined; made?: TransformOutput; stopped?: boolean }>;

function codeOutcome(task: Task, outcome: FunctionOutcome): Outcome {
  if (outcome.kind === "unavailable") return { result: passing(outcome.fault) };
  if (outcome.kind === "fault")
    return { result: { kind: "fault", fault: outcome.fault }, stopped: outcome.stopped };
  return { result: guarded(task, outcome.made), made: outcome.made };
}

function settle(
  task: Task,
  { version }: TransformVersion,
  { result, made = {}, stopped = false }: Outcome,
): void {
  const isFault = result?.kind === "fault";
  task.made = { version, result };
  task.versions = isFault && !result.passing ? task.versions.slice(1) : [];
  if (!task.hasCode || (isFault && result.passing)) return;
  task.found = { ...keyOf(task), version, ...(isFault ? { fault: result.fault, stopped } : { made }) };
}

/** Stores what code has made, before any of it is sent. If another isolate has stored a result first, that one counts. */
async function keepFirst(services: Services, tasks: readonly Task[], found: readonly TransformResult[]) {
  const others = await storeTransformResults(services, found);
  const byKey = new Map(others.map((result) => [deliveryName(result), result]));
  for (const task of tasks) {
    const other = task.found && byKey.get(deliveryName(task.found));
    if (other) take(task, other);
  }
}

function keyOf({ event, destination }: Work) {
  return { eventId: event.id, destinationId: destination.id };
}

function guarded({ event, destination }: Work, made: TransformOutput): Transformed {
  return guardedRequest(made, () => payloadOf(event, destination), bodyOfText);
}

/** Characters of former versions that are kept in memory for a destination. */
const MOST_KEPT = 200_000;

/** The versions of the destination, the oldest first, as far as the event may need them; undefined where they cannot be read. */
async function storedVersions(
  { db, memory }: Services,
  { event, destination }: Work,
  former: Map<string, readonly TransformVersion[]>,
): Promise<readonly TransformVersion[] | undefined> {
  const current = currentTransform(destination);
  if (current === undefined) return undefined;
  if (current === null) return [];
  if (isFor(current, event)) return [current];
  const known = memory.formerTransforms.get(destination.id);
  if (known?.before === current.version) return withOldest([...known.versions, current]);
  const versions = former.get(destination.id) ?? (await formerTransforms(db, destination.id));
  former.set(destination.id, versions);
  if (JSON.stringify(versions).length <= MOST_KEPT)
    memory.formerTransforms.set(destination.id, { before: current.version, versions });
  return withOldest([...versions, current]);
}

/** One event as the destination gets it before its transformation; or why that is impossible. */
export async function convertedFor<E extends TransformedEvent>(
  services: Services,
  event: E,
  destination: Transforming,
) {
  const versions = await versionsToConvert(services, [{ event, destination }]);
  return converted(services, event, destination, versions);
}

/** The fault of a conversion of its version, or of the destination's transformation, that keeps the event from being sent. */
export async function faultFor(
  services: Services,
  event: TransformedEvent,
  destination: Transforming,
): Promise<TransformFault | undefined> {
  const got = await convertedFor(services, event, destination);
  const result =
    got.kind === "event" ? (await transform(services, got.event, destination, "show")).result : got;
  return result?.kind === "fault" ? result.fault : undefined;
}

/** The request that an attempt would send for the event, or why there is none. */
export async function requestFor(
  services: Services,
  {
    headers,
    ...event
  }: TransformedEvent & Readonly<{ headers?: Readonly<Record<string, string>> | undefined }>,
  destination: Transforming,
  purpose: "try" | "show" = "show",
): Promise<EventRequest | Exclude<Transformed, TransformedRequest>> {
  const got = await convertedFor(services, { ...event, headers }, destination);
  if (got.kind !== "event") return got;
  const { headers: own } = got.event;
  const { result } = destination.transform
    ? await transform(services, got.event, destination, purpose)
    : NONE;
  if (result === undefined) return { payload: payloadOf(got.event, destination), headers: own };
  return result.kind === "request" ? transformedRequest(result, own) : result;
}

/** The event as a transformation sees it; undefined where its content is no text. */
function factsOf({ id, type, tenant, acceptedAt, body, contentType }: TransformedEvent) {
  const text = textOf(body);
  if (text === undefined) return undefined;
  const content =
    contentType === undefined ? JSON.parse(text) : { timestamp: isoTime(acceptedAt), data: text };
  return { ...content, id: eventId(id), type, tenant };
}

async function applyTemplate(services: Services, work: Work, template: TransformTemplate): Promise<Outcome> {
  const fill = await templateFiller(services);
  const facts = factsOf(work.event);
  if (facts === undefined) return { result: NO_TEXT };
  const filled = fill(template, facts);
  if (!("made" in filled)) return { result: { kind: "fault", fault: filled } };
  return { result: guarded(work, filled.made), made: filled.made };
}
