/**
 * The world of a soak: the stack, which is killed and deployed, its receivers, and an operator's edits in D1. It reports
 * everything to the books.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { seededRandom } from "../../../src/core/seeded-random.ts";
import { type Hit, type ReceiverServer, startReceiver } from "../../../tools/receiver.ts";
import { type ApiClient, apiClient } from "../../../tools/stack.ts";
import { SecretPieces, secretsIn } from "../../support/secret-pieces.ts";
import { isMisreading, kindOf } from "../log-lines.ts";
import { type StackProcess, startStackProcess } from "../stack-process.ts";
import { currentVersion, FORMER, TABLES, temporaryDirectory, type Version, versionAt } from "../versions.ts";
import { type Customer, type Customers, customersOf, endpoints, GROUP, type SoakData } from "./customers.ts";
import { CLOCKS_DIFFER_MS, Ledger, type Open, type Repeat } from "./ledger.ts";
import { Load } from "./load.ts";
import { Poller } from "./poller.ts";
import type { Step } from "./timeline.ts";
import { bytesIn, rowsOf, type Sample } from "./vitals.ts";

const ADMIN_KEY = "soak-key-0123456789";
/** Seconds instead of production's minutes. */
const GRACE_SECONDS = "15";
/** How many missing deliveries are looked up at a time. */
const LOOK_UPS = 15;
/** How much longer an invocation of the former version may last. */
const FORMER_MS = 60_000;
/** The interval at which deliveries that may have ended are looked up. */
const DOUBT_MS = 20_000;
/** With so many deliveries that have not ended nothing is posted: the machine does not manage more. */
const MOST_OPEN = 5_000;
const ARRIVAL_MS = 420_000;
/** After everything has arrived: time for repeats to arrive. */
const REPEATS_MS = 5_000;
/** How often the log of a delivery that has come twice is requested, until its last attempt is in it. */
const ASKS = 20;
const ASK_MS = 3_000;
const DAY_MS = 86_400_000;

export type Progress = Readonly<{
  elapsedMs: number;
  accepted: number;
  requests: number;
  open: number;
  inFlight: number;
  kills: number;
  deploys: number;
  violations: number;
  memoryBytes: number;
  doing: string;
}>;

/** The used fields of a delivery in the API. */
type Shown = Readonly<{
  destination_id: string;
  state: string;
  reason?: string;
  attempts: number;
  log: readonly Readonly<{ error?: string }>[];
}>;

/** Keeps the data as they are. */
const TEMPLATE = { body: '{"data": "{{ data }}", "shape": "{{ type }} of {{ tenant }}"}' };

/** How many of each there are. */
export type Size = Readonly<{ tenants: number; databases: number; isolates: number }>;

type Given = Readonly<{ seed: number; totalMs: number; size: Size; steps: readonly Step[] }>;

/** Requests at once while the tenants are made. */
const MADE_AT_ONCE = 8;

export class World {
  readonly ledger: Ledger;
  readonly receivers: ReturnType<typeof endpoints>;
  readonly load: Load;
  readonly samples: Sample[] = [];
  readonly marks: { at: number; what: "kill" | "deploy" | "back" }[] = [];
  readonly logged = new Map<string, number>();
  kills = 0;
  deploys = 0;
  limitChanges = 0;
  doing = "";
  readonly #seed: number;
  readonly #directory: string;
  readonly #versions: Readonly<{ former: Version; current: Version }>;
  readonly #masterKey = `soak:${randomBytes(32).toString("base64")}`;
  readonly #customers: Customers;
  readonly #size: Size;
  readonly #steps: readonly Step[];
  readonly #pollers: Poller[] = [];
  #polling: Promise<unknown> = Promise.resolve();
  /** When the load began, epoch ms. */
  #startedAt = 0;
  readonly #destinations = new Map<string, string>();
  readonly #keys = new Map<string, string>();
  readonly #secrets = new SecretPieces();
  readonly #quietMs = new WeakMap<Hit, number>();
  readonly #data = new WeakMap<Hit, SoakData>();
  readonly #looked = new Map<string, number>();
  #receiver: ReceiverServer | undefined;
  #stack: StackProcess | undefined;
  #tables: readonly string[] = [];
  #up = Promise.withResolvers<StackProcess>();
  #lives = 0;
  /** Deliveries that have not ended, a second ago. */
  #open = 0;
  #objects: "former" | "current" = "current";
  #share = 1;
  /** When the former version got its last invocation. */
  #formerUntil = 0;

  static async prepare(given: Given): Promise<World> {
    const directory = temporaryDirectory();
    const [former, current] = await Promise.all([
      versionAt(FORMER, directory, { strict: true }),
      currentVersion(directory, { strict: true }),
    ]);
    return new World(given, directory, { former, current });
  }

  constructor(
    { seed, totalMs, size, steps }: Given,
    directory: string,
    versions: Readonly<{ former: Version; current: Version }>,
  ) {
    this.#seed = seed;
    this.#size = size;
    this.#steps = steps;
    this.#directory = directory;
    this.#versions = versions;
    this.#customers = customersOf(size.tenants);
    this.ledger = new Ledger(this.#customers, undefined, (repeat) => this.#hasTimedOut(repeat));
    const most = Math.max(5_000, Math.min(45_000, totalMs / 12));
    this.receivers = endpoints(this.#customers, seed, { workingMs: most, failingMs: most / 2 });
    const access = {
      customers: this.#customers,
      url: async () => (await this.#up.promise).url,
      isCurrent: () => this.#isCurrent(),
      staysCurrent: (ms: number) => this.#isCurrent() && !this.#isDeployedWithin(ms),
      isFull: () => this.#open >= MOST_OPEN,
      adminKey: ADMIN_KEY,
      keyOf: (tenant: string) => this.#keys.get(tenant) ?? "",
      destinations: this.#destinations,
    };
    this.load = new Load(this.ledger, access, seededRandom(seed + 2), (path, at) =>
      this.receivers.mend(path, at),
    );
  }

  #isCurrent(): boolean {
    return this.#share === 1 && this.#objects === "current";
  }

  #isDeployedWithin(ms: number): boolean {
    const at = Date.now() - this.#startedAt;
    return this.#steps.some((step) => step.do === "deploy" && step.at >= at && step.at <= at + ms);
  }

  async start(): Promise<void> {
    this.#receiver = await startReceiver((hit) => this.#answer(hit), {
      recordsHits: false,
      onEnd: (hit) => {
        const data = this.#data.get(hit);
        if (data) this.ledger.answered(hit, data, this.#quietMs.get(hit) ?? 0);
      },
    });
    const stack = await this.#launch();
    for (const database of this.#databases())
      for (const sql of this.#versions.current.migrations.values()) await stack.execute(sql, database);
    this.#tables = (await stack.query<{ name: string }>(TABLES)).map(({ name }) => name);
    const api = apiClient(stack.url, ADMIN_KEY);
    await api.put(`/new/v1/groups/${GROUP.name}`, { max_concurrency: GROUP.maxConcurrency });
    await this.#forEach(this.#customers.all, (customer) => this.#make(api, customer));
    await this.#forEach(this.#customers.tenants, async (tenant) => {
      const given = { name: "soak", scopes: ["events:write", "read"], tenant };
      this.#keys.set(tenant, await this.#newKey(api, given));
    });
    this.#startedAt = Date.now();
    this.#polling = this.#poll(api);
  }

  #databases(): number[] {
    return Array.from({ length: this.#size.databases }, (_, database) => database);
  }

  async #forEach<T>(all: readonly T[], make: (one: T) => Promise<void>): Promise<void> {
    const left = all.values();
    const one = async () => {
      for (const next of left) await make(next);
    };
    await Promise.all(Array.from({ length: MADE_AT_ONCE }, one));
  }

  async #make(api: ApiClient, customer: Customer): Promise<void> {
    const { path, tenant, types, maxConcurrency, timeoutMs, ordering, isGrouped, isShaped, consumer } =
      customer;
    // The consumers of a tenant share an inbox.
    const first = this.#customers.all.find((one) => one.tenant === tenant && one.consumer !== undefined);
    if (consumer !== undefined && customer !== first) return;
    const pushed = {
      url: `${this.#receiver?.url}${path}`,
      max_concurrency: maxConcurrency,
      timeout_ms: timeoutMs,
      rate_per_second: 1_000,
      rate_burst: 1_000,
      retry: { schedule: [1, 2, 4, 8], jitter: "full", max_attempts: 100 },
      breaker: { cooldown_s: 2, max_cooldown_s: 5 },
      ...(ordering && { ordering }),
      ...(isGrouped && { group: GROUP.name }),
      ...(isShaped && { transform: { template: TEMPLATE } }),
    };
    const { id, secret } = await api.post<{ id: string; secret: string }>("/new/v1/destinations", {
      tenant,
      ...(types && { event_types: types }),
      ...(consumer === undefined ? pushed : { kind: "poll" }),
    });
    for (const one of this.#customers.all)
      if (one.path === path || (consumer !== undefined && one.tenant === tenant))
        this.#destinations.set(one.path, id);
    this.#receiver?.secrets.set(path, secret);
    this.#remember(secret);
  }

  async #newKey(api: ApiClient, given: object): Promise<string> {
    const { key } = await api.post<{ key: string }>("/new/v1/keys", given);
    this.#remember(key);
    return key;
  }

  async #poll(api: ApiClient): Promise<void> {
    for (const customer of this.#customers.all.filter(({ consumer }) => consumer !== undefined)) {
      const destination = this.#destinations.get(customer.path) ?? "";
      const access = {
        client: this.load.client,
        ledger: this.ledger,
        isCurrent: () => this.#isCurrent(),
        destination,
        apiKey: await this.#newKey(api, { name: "poller", scopes: ["poll"], destination_id: destination }),
      };
      const random = seededRandom(this.#seed + 3 + this.#pollers.length);
      this.#pollers.push(new Poller(customer, access, random));
    }
    await Promise.all(this.#pollers.map((poller) => poller.run()));
  }

  #remember(token: string): void {
    for (const secret of secretsIn(token)) this.#secrets.add(secret);
  }

  #answer(hit: Hit) {
    const { data } = JSON.parse(hit.body) as { data: SoakData };
    this.#data.set(hit, data);
    this.ledger.arrived(hit, data);
    const reply = this.receivers.answer(
      hit.path,
      hit.at,
      data,
      this.ledger.endpoint(hit.path)?.inFlight ?? 1,
    );
    const seconds = Number(reply.headers?.["retry-after"] ?? 0);
    this.#quietMs.set(hit, seconds * 1_000);
    return reply;
  }

  async #launch(): Promise<StackProcess> {
    this.#lives += 1;
    const stack = await startStackProcess({
      ...this.#versions,
      ...{ isolates: this.#size.isolates, databases: this.#size.databases, skewMs: CLOCKS_DIFFER_MS / 2 },
      objects: this.#objects,
      share: this.#share,
      vars: {
        ADMIN_KEY,
        MASTER_KEYS: this.#masterKey,
        ALLOW_PRIVATE_DESTINATIONS: "true",
        GRACE_SECONDS,
        RETENTION_DAYS: "1",
        JURISDICTION: "",
      },
      latency: this.#seed,
      directory: this.#directory,
      onLog: (line) => this.#read(line),
    });
    this.#stack = stack;
    this.#up.resolve(stack);
    return stack;
  }

  #read(line: string): void {
    const { findings } = this.ledger;
    const kind = kindOf(line);
    this.logged.set(kind, (this.logged.get(kind) ?? 0) + 1);
    findings.observe("secrets", this.#secrets.in(line) === undefined, () => `a line of the kind ${kind}`);
    findings.observe("misread", !isMisreading(line), () => line.slice(0, 400));
    // 0.2.0 sometimes requests a seventh connection.
    if (this.#share === 1 && Date.now() > this.#formerUntil + FORMER_MS)
      findings.observe("quotas", !line.includes("QUOTA BREACH"), () => line.trim().slice(0, 400));
  }

  async perform(step: Step, at: number): Promise<void> {
    if (step.do === "kill") {
      this.doing = "killed";
      this.marks.push({ at, what: "kill" });
      this.kills += 1;
      await this.#restart();
      this.doing = "";
      return;
    }
    const isRestart = step.objects !== this.#objects;
    if (step.share === 0.5 && step.objects === "current" && this.#share === 1)
      this.marks.push({ at, what: "deploy" });
    this.doing = `${step.share * 100} % current, objects of the ${step.objects}`;
    if (this.#share < 1) this.#formerUntil = Date.now();
    this.#share = step.share;
    this.#objects = step.objects;
    this.ledger.gatesRun(step.objects);
    this.ledger.handledByFormer(step.isBack ? Date.now() + FORMER_MS : Number.POSITIVE_INFINITY);
    if (isRestart) await this.#restart();
    else await this.#stack?.share(step.share);
    if (!step.isBack) return;
    this.marks.push({ at, what: "back" });
    this.deploys += 1;
    this.doing = "";
  }

  async #restart(): Promise<void> {
    this.#up = Promise.withResolvers<StackProcess>();
    const from = Date.now();
    await this.#stack?.kill();
    this.ledger.killed(from, Date.now());
    await this.#launch();
  }

  /** A cron that fails, as one that a kill cuts off, is followed by the next. */
  async cron(): Promise<void> {
    const { url } = await this.#up.promise;
    await fetch(`${url}/cron`, { signal: AbortSignal.timeout(600_000) }).catch(() => {});
  }

  async sample(at: number): Promise<void> {
    const stack = await this.#up.promise;
    const life = this.#lives;
    const rows = await rowsOf(stack, this.#databases(), this.#tables);
    const memoryBytes = await stack.heap();
    this.samples.push({
      at,
      life,
      memoryBytes,
      rows,
      databaseBytes: bytesIn(this.#directory, "d1"),
      objectBytes: bytesIn(this.#directory, "do"),
      open: this.ledger.open().length,
      inFlight: this.ledger.inFlight(),
      accepted: this.ledger.counts.accepted,
    });
    this.ledger.forget(Date.now());
  }

  /** By hand, in the database. */
  async changeLimit(random: () => number): Promise<void> {
    const customer = this.#customers.one(random);
    if (customer.consumer !== undefined) return;
    const max = Math.max(1, Math.round(customer.maxConcurrency * (0.3 + random())));
    const stack = await this.#up.promise;
    const book = this.ledger.endpoint(customer.path);
    const former = book?.limit ?? 0;
    // The higher of both counts while it is not known which one holds.
    if (max > former) book?.limited(max, Date.now());
    const id = this.#destinations.get(customer.path);
    await stack.query(`UPDATE destinations SET max_concurrency = ${max} WHERE id = '${id}' RETURNING id`);
    if (max < former) book?.limited(max, Date.now());
    this.limitChanges += 1;
  }

  /**
   * Makes what is older than that a day older, and what has ended by then too, so that retention removes it. Open
   * deliveries, and those that a replay may select, stay: in production retries end long before retention.
   */
  async age(ageMs: number): Promise<void> {
    const stack = await this.#up.promise;
    const now = Date.now();
    const open = this.ledger.open().map(({ acceptedAt }) => acceptedAt - 1);
    const by = Math.min(now - ageMs, ...open);
    const recent = now - DAY_MS / 2;
    const [{ since = by } = {}] = await stack.query<{ since: number | null }>(
      "SELECT min(since) AS since FROM replays WHERE state IN ('running', 'paused')",
    );
    const endedBy = now - Math.min(ageMs, 60_000);
    const older = (column: string) => `${column} = ${column} - ${2 * DAY_MS}`;
    const isRecent = (column: string, until: number) => `${column} > ${recent} AND ${column} <= ${until}`;
    for (const database of this.#databases()) {
      const [{ id = 0 } = {}] = await stack.query<{ id: number }>(
        `SELECT coalesce(max(id), 0) AS id FROM bundles WHERE accepted_at < ${Math.min(by, since ?? by)}`,
        database,
      );
      await stack.execute(
        [
          `UPDATE bundles SET ${older("accepted_at")} WHERE id <= ${id} AND ${isRecent("accepted_at", by)}`,
          `UPDATE bundles SET ${older("deliver_at")} WHERE id <= ${id} AND ${isRecent("deliver_at", by)}`,
          `UPDATE packs SET ${older("ended_at")} WHERE bundle_id <= ${id} AND ${isRecent("ended_at", endedBy)}`,
          `UPDATE deliveries SET ${older("ended_at")} WHERE event_id < ${(id + 1) * 128} AND ${isRecent("ended_at", endedBy)}`,
        ].join("--> statement-breakpoint"),
        database,
      );
    }
  }

  /** Queries the API for some deliveries that have not arrived for so long. */
  async lookUp(olderThanMs: number): Promise<void> {
    const now = Date.now();
    if (!this.#isCurrent()) return;
    // For an inbox it shows the stored events, not the fetched ones.
    const isFetched = ({ path }: Open) => this.#customers.at(path)?.consumer !== undefined;
    const open = this.ledger.open(now - olderThanMs).filter((one) => !isFetched(one));
    // Deliveries that may have ended come first, again and again, because retention hides them some minutes later.
    const lookedAt = (event: string) => this.#looked.get(event) ?? 0;
    const isDoubtful = (event: string, [one]: readonly Open[]) =>
      one?.mayHaveEnded === true && lookedAt(event) < now - DOUBT_MS;
    const byEvent = [...Map.groupBy(open, ({ event }) => event)];
    const longestAgo = byEvent
      .toSorted(
        ([a, ofA], [b, ofB]) =>
          Number(isDoubtful(b, ofB)) - Number(isDoubtful(a, ofA)) || lookedAt(a) - lookedAt(b),
      )
      .slice(0, LOOK_UPS);
    for (const [event, deliveries] of longestAgo) {
      this.#looked.set(event, now);
      await this.#lookUpEvent(event, deliveries);
    }
  }

  async #lookUpEvent(event: string, open: readonly Open[]): Promise<void> {
    const deliveries = await this.#deliveriesOf(event);
    for (const one of open) {
      const shown = deliveries?.find(
        ({ destination_id }) => destination_id === this.#destinations.get(one.path),
      );
      if (deliveries) this.ledger.shown(one, shown?.state, shown?.reason, Date.now());
    }
  }

  /** Whether the API shows that the attempt before this one has timed out; queried again while the stack is down. */
  async #hasTimedOut({ event, path, attempt }: Repeat): Promise<boolean> {
    for (let ask = 0; ask < ASKS; ask++) {
      const deliveries = await this.#deliveriesOf(event).catch(() => undefined);
      const shown = deliveries?.find(({ destination_id }) => destination_id === this.#destinations.get(path));
      // This attempt is in the log when it has ended; the log of a delivery that was sent again has those before too.
      const before = shown?.log.at(attempt - 1 - shown.attempts - 1);
      if (shown && shown.attempts >= attempt) return before?.error === "timeout";
      await sleep(ASK_MS);
    }
    return false;
  }

  /** Undefined where the API does not say; none where it knows no such event. */
  async #deliveriesOf(event: string): Promise<readonly Shown[] | undefined> {
    const { url } = await this.#up.promise;
    const response = await fetch(`${url}/new/v1/events/${event}`, {
      headers: { authorization: `Bearer ${ADMIN_KEY}` },
      signal: AbortSignal.timeout(10_000),
    });
    const text = await response.text();
    if (response.status === 404) return [];
    return response.status === 200 ? (JSON.parse(text) as { deliveries: Shown[] }).deliveries : undefined;
  }

  /** From now on all receivers work: waits until everything has ended, or for some minutes. */
  async untilAllEnded(): Promise<void> {
    this.receivers.recover();
    const deadline = Date.now() + ARRIVAL_MS;
    while (this.ledger.open().length > 0 && Date.now() < deadline) {
      await sleep(1_000);
      await this.lookUp(10_000).catch(() => {});
    }
    await sleep(REPEATS_MS);
    const stack = await this.#up.promise;
    for (const poller of this.#pollers) poller.stop();
    await this.#polling;
    for (const database of this.#databases()) {
      const [left] = await stack.query<{ n: number }>(
        "SELECT count(*) AS n FROM delivery_states WHERE state IN ('waiting', 'retrying')",
        database,
      );
      const text = () => `${left?.n} deliveries wait in database ${database}`;
      this.ledger.findings.observe("ends", left?.n === 0, text);
    }
  }

  progress(elapsedMs: number): Progress {
    const { ledger } = this;
    this.#open = ledger.open().length;
    return {
      elapsedMs,
      accepted: ledger.counts.accepted,
      requests: ledger.counts.requests,
      open: this.#open,
      inFlight: ledger.inFlight(),
      kills: this.kills,
      deploys: this.deploys,
      violations: ledger.findings.total(),
      memoryBytes: this.samples.at(-1)?.memoryBytes ?? 0,
      doing: this.doing,
    };
  }

  async leave(): Promise<void> {
    await this.#stack?.kill();
    this.#receiver?.close();
  }
}
